"""Decisions as server-sent events, over a real connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from support.fake_service import FakeService
from support.http_calls import HttpCalls, served
from trimtab.serve.http import events
from trimtab.serve.http.app import create_app

PATH = "/api/v1/events"


@contextmanager
def _stream(url: str, **more: Any) -> Iterator[Iterator[str]]:
    with httpx.stream("GET", url + PATH, timeout=20, **more) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield answer.iter_lines()


def _events(lines: Iterator[str], number: int) -> list[tuple[int, dict[str, Any]]]:
    """The next events: id and document."""
    found: list[tuple[int, dict[str, Any]]] = []
    for line in lines:
        if line.startswith("id: "):
            identity = int(line[4:])
        if line.startswith("data: "):
            found.append((identity, json.loads(line[6:])))
            if len(found) == number:
                return found
    raise AssertionError("the stream has ended")


def test_a_stream_has_decisions_from_now_on() -> None:
    """The id is the number of the decision, and the document that of the list."""
    service = FakeService()
    with served(create_app(service)) as server, _stream(server.url) as lines:
        assert next(lines) == ": connected"
        service.approve(service.plans()[0].digest, "bob")
        (number, document), *_ = _events(lines, 1)
        assert document["kind"] == "approved"
        assert document == httpx.get(f"{server.url}/api/v1/decisions?after={number - 1}").json()[0]


@pytest.mark.parametrize("more", [{"headers": {"Last-Event-ID": "2"}}, {"params": {"after": 2}}])
def test_a_stream_resumes_without_a_gap(more: dict[str, Any]) -> None:
    """All decisions after the last one that the client has come first."""
    service = FakeService()
    with served(create_app(service)) as server:
        before = [one.number for one in service.decisions(2)]
        with _stream(server.url, **more) as lines:
            assert [number for number, _ in _events(lines, len(before))] == before
            service.resume("orders", "replicas", "bob")
            assert _events(lines, 1)[0][0] == before[-1] + 1


def test_an_idle_stream_has_heartbeats() -> None:
    """Comments show proxies that the connection lives."""
    with served(create_app(FakeService(), heartbeat_seconds=0.05)) as server, _stream(server.url) as lines:
        assert [next(lines), next(lines), next(lines), next(lines), next(lines)] == [
            ": connected",
            "",
            ": heartbeat",
            "",
            ": heartbeat",
        ]


def test_a_stop_of_the_server_ends_streams() -> None:
    """A client sees the end of the stream, not a broken connection."""
    with served(create_app(FakeService())) as server, _stream(server.url) as lines:
        assert next(lines) == ": connected"
        threading.Thread(target=server.stop).start()
        assert list(lines) == [""]


def test_streams_end_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client has to show its token again."""
    monkeypatch.setattr(events, "STREAM_SECONDS", 0.1)
    app = create_app(FakeService(), heartbeat_seconds=0.05)
    with served(app) as server, _stream(server.url) as lines:
        assert ": heartbeat" in list(lines)


def test_the_number_of_streams_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed stream makes room for another."""
    monkeypatch.setattr(events, "MAX_STREAMS", 1)
    app = create_app(FakeService(), heartbeat_seconds=0.05)
    with served(app) as server:
        with _stream(server.url) as lines:
            next(lines)
            assert httpx.get(server.url + PATH).status_code == 503
        for _ in range(200):
            if not app.state.streams.number:
                break
            threading.Event().wait(0.02)
        with _stream(server.url) as lines:
            assert next(lines) == ": connected"


def test_errors_of_the_service_do_not_end_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that waits for decisions tries again."""

    class FailingService(FakeService):
        failures = 0

        def wait_for_decisions(self, after: int, seconds: float) -> Any:
            if self.failures < 2:
                self.failures += 1
                raise OSError("the journal is busy")
            return super().wait_for_decisions(after, seconds)

    monkeypatch.setattr(events, "WAIT_SECONDS", 0.05)
    service = FailingService()
    with served(create_app(service)) as server, _stream(server.url) as lines:
        next(lines)
        while service.failures < 2:
            threading.Event().wait(0.02)
        service.resume("orders", "replicas", "bob")
        assert _events(lines, 1)[0][1]["kind"] == "resumed"


@pytest.mark.parametrize("number", ["x", "-1", "1.5", ""])
def test_a_wrong_last_event_id_is_refused(number: str) -> None:
    """A client must not silently begin elsewhere."""
    calls = HttpCalls(create_app(FakeService()))
    assert calls.get(PATH, headers={"Last-Event-ID": number}).status_code == 400
