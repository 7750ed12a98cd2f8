"""A server with the simulated admin API of Pulsar: its brokers, and the faults that strike their answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np

from simulate.pulsar_admin.answers import Asked, Reply, answer, no, to
from simulate.pulsar_admin.cluster import AdminCluster


class Trouble(StrEnum):
    """The fate of a request."""

    REFUSED = "refused"
    """Answered with `Fault.status`; nothing is done."""
    EMPTY_YES = "empty yes"
    """Answered with yes; nothing is done."""
    CIRCLE = "circle"
    """Redirected to the next broker, as often as the fault says."""
    LOST = "lost"
    """The connection breaks before anything is done."""
    UNHEARD = "unheard"
    """It is done, and the connection breaks before the answer."""
    LATE = "late"
    """Answered after `Fault.seconds`; it is done."""
    MEANWHILE = "meanwhile"
    """Somebody else does something first (`Fault.deed`); then it goes its way."""
    LOST_HINT = "lost hint"
    """An unload's destination is forgotten."""


@dataclass
class Fault:
    """A rule for requests.

    Attributes
    ----------
    method, path
        Which requests: the method, and a regular expression that is searched in the path.
    times
        How often it strikes; it is used up then.
    skip
        How many matching requests go well before.
    broker
        Only at this broker, if any is named.
    """

    method: str
    path: str
    trouble: Trouble
    times: int = 1
    skip: int = 0
    status: int = 500
    seconds: float = 0.0
    deed: Callable[[], None] | None = None
    broker: str | None = None

    def strikes(self, method: str, path: str, broker: str) -> bool:
        """True if it strikes this request; one that it strikes is counted."""
        matches = (
            self.times > 0
            and method == self.method
            and self.broker in (None, broker)
            and re.search(self.path, path) is not None
        )
        if not matches:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


def struck(faults: list[Fault], method: str, path: str, broker: str) -> Fault | None:
    """The first fault that strikes a request."""
    return next((fault for fault in faults if fault.strikes(method, path, broker)), None)


YES: Final = Reply(204)


class RefusedError(Exception):
    """Nobody listens at that address."""


class BrokenError(Exception):
    """The connection broke before an answer came."""


@dataclass
class AdminBrokers:
    """All brokers of one cluster, whatever brings the requests.

    Attributes
    ----------
    faults
        Scripted; looked through in order for every request.
    pass_time
        Told the seconds that a late answer takes.
    requests
        (broker, method, path) of all requests so far.
    """

    cluster: AdminCluster
    faults: list[Fault] = field(default_factory=list)
    pass_time: Callable[[float], None] = lambda seconds: None
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    _lock: RLock = field(default_factory=RLock)

    def ask(self, asked: Asked) -> Reply:
        """The answer of a broker.

        Raises
        ------
        RefusedError
            If it is down.
        BrokenError
            If the connection breaks.
        """
        with self._lock:
            broker = self.cluster.brokers.get(asked.broker)
            if broker is None or not broker.up:
                raise RefusedError(asked.broker)
            self.requests.append((asked.broker, asked.method, asked.path))
            fault = struck(self.faults, asked.method, asked.path, asked.broker)
            if fault is not None and fault.trouble is not Trouble.LATE:
                return self._struck(asked, fault)
        if fault is not None:
            self.pass_time(fault.seconds)
        with self._lock:
            return answer(self.cluster, asked)

    def _struck(self, asked: Asked, fault: Fault) -> Reply:
        match fault.trouble:
            case Trouble.REFUSED:
                return no(fault.status, f"scripted {fault.status}")
            case Trouble.EMPTY_YES:
                return YES
            case Trouble.CIRCLE:
                return self._circle(asked)
            case Trouble.LOST:
                raise BrokenError(asked.path)
            case Trouble.UNHEARD:
                self._to_the_end(asked)
                raise BrokenError(asked.path)
            case Trouble.MEANWHILE:
                assert fault.deed is not None
                fault.deed()
            case Trouble.LOST_HINT:
                kept = {name: value for name, value in asked.query.items() if name != "destinationBroker"}
                asked = replace(asked, query=kept)
        return answer(self.cluster, asked)

    def _circle(self, asked: Asked) -> Reply:
        names = sorted(self.cluster.brokers)
        following = names[(names.index(asked.broker) + 1) % len(names)]
        return to(following, asked, **dict(asked.query))

    def _to_the_end(self, asked: Asked) -> None:
        """The answer to a request, over whatever redirects."""
        reply = answer(self.cluster, asked)
        for _ in range(3):
            if reply.location is None:
                return
            parts = urlsplit(reply.location)
            if not self.cluster.brokers[parts.netloc].up:
                return
            asked = Asked(
                parts.netloc, asked.method, parts.path, dict(parse_qsl(parts.query)), asked.body, asked.token
            )
            reply = answer(self.cluster, asked)


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
