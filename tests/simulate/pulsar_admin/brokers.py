"""The brokers of a simulated admin API: each answers, is down, or is struck by a scripted fault."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from simulate.pulsar_admin.answers import Asked, Reply, answer, no, to
from simulate.pulsar_admin.cluster import AdminCluster
from simulate.pulsar_admin.faults import Fault, Trouble, struck

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
