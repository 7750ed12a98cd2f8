"""The simulated admin API behind real sockets on 127.0.0.1, a port for each broker."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np

from simulate.pulsar_admin.answers import Asked
from simulate.pulsar_admin.brokers import AdminBrokers, BrokenError, RefusedError
from simulate.pulsar_admin.cluster import AdminCluster
from simulate.pulsar_admin.faults import Fault


class PulsarAdminServer:
    """A cluster of so many brokers; leaving its `with` block closes all ports.

    Parameters
    ----------
    brokers
        How many.
    extensible
        Whether the extensible load manager is in charge.
    token
        What every request must show; None lets everybody in.
    settings
        Passed to `AdminCluster`.
    """

    def __init__(
        self, brokers: int = 3, *, extensible: bool = False, token: str | None = None, **settings: float
    ) -> None:
        self._listeners = [_Listener() for _ in range(brokers)]
        ids = [listener.id for listener in self._listeners]
        self.cluster = AdminCluster(
            ids,
            time.monotonic,
            np.random.default_rng(0),
            extensible=extensible,
            token=token,
            **settings,  # type: ignore[arg-type]
        )
        self.brokers = AdminBrokers(self.cluster, pass_time=time.sleep)
        for listener in self._listeners:
            listener.start(self.brokers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ids(self) -> tuple[str, ...]:
        """The brokers' ids, `127.0.0.1:port`, the leader first."""
        return tuple(listener.id for listener in self._listeners)

    @property
    def urls(self) -> tuple[str, ...]:
        """The brokers' web addresses."""
        return tuple(f"http://{one}" for one in self.ids)

    @property
    def faults(self) -> list[Fault]:
        """The script; add to it."""
        return self.brokers.faults

    def kill(self, broker: str) -> None:
        """A broker dies: its port refuses, and its session goes on for a while."""
        self.cluster.kill(broker)
        next(listener for listener in self._listeners if listener.id == broker).close()

    def close(self) -> None:
        """Close all ports."""
        for listener in self._listeners:
            listener.close()


class _Listener:
    """One broker's port; it answers once it is started."""

    def __init__(self) -> None:
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self.id = f"127.0.0.1:{self._http.server_port}"
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._open = True

    def start(self, brokers: AdminBrokers) -> None:
        """Answer from now on."""
        self._http.brokers = brokers
        self._thread.start()

    def close(self) -> None:
        """Refuse from now on."""
        if self._open:
            self._open = False
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    brokers: AdminBrokers


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        asked = Asked(
            f"127.0.0.1:{self.server.server_port}",
            self.command,
            unquote(parts.path),
            dict(parse_qsl(parts.query)),
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
            (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None,
        )
        try:
            reply = self.server.brokers.ask(asked)
        except (RefusedError, BrokenError):
            return  # the connection closes without an answer
        self.send_response(reply.status)
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.location is not None:
            self.send_header("Location", reply.location)
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is written to standard error."""
