"""The HTTP server: start, stop, TLS, and errors of its address."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.authority import Authority
from support.fake_service import FakeService
from support.http_calls import served
from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.documents import PlanRecord, TargetStatus
from trimtab.serve.http.app import create_app
from trimtab.serve.http.server import HttpServer
from trimtab_common.errors import NodeError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FREE_PORT = ServeSettings(listen="127.0.0.1:0")


def test_a_free_port_is_chosen_and_closed_again() -> None:
    """Port 0 is the choice of the system; after the stop nothing listens."""
    with served(create_app(FakeService())) as server:
        host, port = server.address
        assert (host, port > 0) == ("127.0.0.1", True)
        assert httpx.get(f"{server.url}/livez").status_code == 200
    with pytest.raises(OSError):
        socket.create_connection((host, port), 2)


def test_the_caller_may_serve_in_its_own_thread() -> None:
    """`run` returns after `stop`, and changes no signal handler."""
    handler = signal.getsignal(signal.SIGTERM)
    server = HttpServer(create_app(FakeService()), FREE_PORT)
    found: list[object] = []

    def client() -> None:
        server.ready.wait(30)
        found.append(signal.getsignal(signal.SIGTERM))
        found.append(httpx.get(f"{server.url}/livez").status_code)
        server.stop()

    thread = threading.Thread(target=client)
    thread.start()
    server.run()
    thread.join()
    assert found == [handler, 200]


def test_a_request_in_progress_is_answered_before_the_stop() -> None:
    """A client that has changed something learns of it."""
    entered, release = threading.Event(), threading.Event()

    class SlowService(FakeService):
        def targets(self) -> Sequence[TargetStatus]:
            entered.set()
            assert release.wait(30)
            return super().targets()

    answers: list[int] = []
    with served(create_app(SlowService())) as server:
        url = f"{server.url}/api/v1/clusters"
        thread = threading.Thread(target=lambda: answers.append(httpx.get(url).status_code))
        thread.start()
        assert entered.wait(30)
        stop = threading.Thread(target=server.stop)
        stop.start()
        release.set()
        thread.join()
        stop.join()
    assert answers == [200]


def test_a_port_in_use_is_named() -> None:
    """The remedy is another port."""
    with served(create_app(FakeService())) as server:
        listen = "{}:{}".format(*server.address)
        with pytest.raises(NodeError, match=rf"serve.listen {listen} cannot be used"):
            HttpServer(create_app(FakeService()), ServeSettings(listen=listen))


def test_an_address_of_another_machine_is_named() -> None:
    """A name that nothing resolves is a wrong setting."""
    with pytest.raises(SettingsError, match=r"serve.listen no\.such\.host\.invalid:1"):
        HttpServer(create_app(FakeService()), ServeSettings(listen="no.such.host.invalid:1"))


def test_tls_is_served_with_the_files_of_the_settings(tmp_path: Path) -> None:
    """A client that knows the authority is answered; plain HTTP is not."""
    authority = Authority(tmp_path)
    certificate, key = authority.signed("localhost", "127.0.0.1", "localhost")
    settings = replace(FREE_PORT, tls_certificate_file=str(certificate), tls_key_file=str(key))
    with served(create_app(FakeService()), settings) as server:
        assert server.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(authority.ca))
        assert httpx.get(f"{server.url}/livez", verify=trusted).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(server.url.replace("https", "http") + "/livez")
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/livez")


def test_unusable_tls_files_are_named(tmp_path: Path) -> None:
    """A missing file, and one that is no certificate."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for path in (wrong, tmp_path / "none.pem"):
        settings = replace(FREE_PORT, tls_certificate_file=str(path), tls_key_file=str(path))
        with pytest.raises(SettingsError, match=r"tls_certificate_file .* cannot be used"):
            HttpServer(create_app(FakeService()), settings)


def test_a_stop_does_not_wait_for_slow_plans() -> None:
    """A plan may take minutes; the process has to end within seconds."""
    entered, release = threading.Event(), threading.Event()

    class SlowService(FakeService):
        def make_plan(self, *arguments: Any) -> PlanRecord:
            entered.set()
            assert release.wait(60)
            return super().make_plan(*arguments)

    body = {"cluster": "payments", "balancer": "replicas"}
    with served(create_app(SlowService())) as server:
        url = f"{server.url}/api/v1/plans"

        def client() -> None:
            with suppress(httpx.TransportError):
                httpx.post(url, json=body, timeout=60)

        thread = threading.Thread(target=client)
        thread.start()
        try:
            assert entered.wait(30)
            server.stop(5)
            assert not server.is_running
        finally:
            release.set()
            thread.join()
