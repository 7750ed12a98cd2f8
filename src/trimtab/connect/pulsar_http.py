"""Requests to the web services of a Pulsar cluster: who is asked, which redirects are followed, how long.

Brokers redirect (307) to whoever is responsible: to the leader for an unload with a destination, else to the
bundle's owner. We follow by ourselves, since a general client drops the token on the way to another port and
would carry it to whatever host an answer names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import msgspec

from trimtab.connect.pulsar_errors import PulsarAdminError, refusal
from trimtab.connect.pulsar_settings import PulsarConnection
from trimtab.connect.pulsar_wire import NoAnswerError, PulsarWire, Request

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTS = 5
"""Two are usual at most (to the leader, to the owner)."""
_REDIRECTS = (301, 302, 307, 308)


@dataclass(frozen=True)
class Answer:
    """What came back; `base` is the web address of the broker that answered."""

    base: str
    body: bytes


class PulsarHttp:
    """Sends requests; may be used from many threads.

    Parameters
    ----------
    transport
        Instead of the network, for tests.

    Raises
    ------
    SettingsError
        If a TLS file cannot be used.
    """

    def __init__(self, connection: PulsarConnection, transport: httpx.BaseTransport | None = None) -> None:
        self._wire = PulsarWire(connection, transport)
        self._connection = connection
        self._admins = list(connection.admin)
        self._lock = threading.Lock()
        self._known: frozenset[str] = frozenset()

    def close(self) -> None:
        """Let go of connections."""
        self._wire.close()

    def ask(self, request: Request, base: str | None = None) -> Answer:
        """The answer of one broker, or of the first that answers.

        Parameters
        ----------
        base
            The web address to ask; None: those of `pulsar.admin`, the last one that answered first.

        Raises
        ------
        PulsarAdminError
            Whatever goes wrong.
        """
        asked = self._in_order() if base is None else [base]
        failures: list[tuple[str, NoAnswerError]] = []
        for one in asked:
            try:
                answer = self._follow(request, one)
            except NoAnswerError as failure:
                failures.append((one, failure))
                if request.changes and failure.sent:
                    break
                continue
            if base is None:
                self._prefer(one)
            return answer
        raise _silent(request, failures, named=base is not None)

    def _in_order(self) -> list[str]:
        with self._lock:
            return list(self._admins)

    def _prefer(self, base: str) -> None:
        with self._lock:
            if self._admins[0] != base:
                self._admins.remove(base)
                self._admins.insert(0, base)

    def _follow(self, request: Request, base: str) -> Answer:
        """Ask, and go where we are sent."""
        connection = self._connection
        patience = connection.change_timeout_seconds if request.changes else connection.timeout_seconds
        deadline = time.monotonic() + patience
        url, query = base + request.path, request.query
        visited: list[str] = []
        while True:
            visited.append(url)
            try:
                got = self._wire.send(request, url, query, deadline, patience)
            except NoAnswerError as failure:
                if len(visited) == 1:
                    raise
                raise _dead_end(request, visited, failure) from failure
            if got.status not in _REDIRECTS or got.location is None:
                break
            url, query = urljoin(url, got.location), ()
            self._check_redirect(request, visited, url, base)
        answered = _base_of(url)
        if not 200 <= got.status < 300:
            raise refusal(request.call, answered, got.status, got.body)
        return Answer(answered, got.body)

    def _check_redirect(self, request: Request, visited: Sequence[str], url: str, base: str) -> None:
        if url in visited or len(visited) > MOST_REDIRECTS:
            raise PulsarAdminError(
                f"Pulsar sends {request.call} round in circles, {len(visited)} redirects so far, the last to "
                f"{_base_of(url)}: brokers disagree about who leads or owns; try again when a leader is "
                "elected",
                call=request.call,
                url=_base_of(url),
                reason="redirected in circles",
                status=307,
                transient=True,
            )
        if not self._trusted(url, base):
            raise PulsarAdminError(
                f"Pulsar at {_base_of(visited[-1])} redirects {request.call} to {_base_of(url)}, which is no "
                "broker of this cluster: not followed, since our token would go there; check the address "
                "that this broker advertises",
                call=request.call,
                url=_base_of(url),
                reason="redirected to a stranger",
                status=307,
            )

    def _trusted(self, url: str, base: str) -> bool:
        """Whether a redirect stays among the brokers, and does not leave TLS.

        Brokers are listed by one address each, that of plain HTTP where they have both: with TLS the host
        decides.
        """
        parts = urlsplit(url)
        if parts.scheme != urlsplit(base).scheme or parts.username:
            return False

        def known() -> bool:
            if parts.scheme == "https":
                return parts.hostname in {urlsplit(f"//{netloc}").hostname for netloc in self._known}
            return parts.netloc in self._known

        if not known():
            self._known |= {urlsplit(one).netloc for one in self._connection.admin} | self._listed(base)
        return known()

    def _listed(self, base: str) -> set[str]:
        """Ids of the brokers, which are their addresses; none if they cannot be told."""
        request = Request("GET", "/admin/v2/brokers")
        patience = self._connection.timeout_seconds
        try:
            got = self._wire.send(request, base + request.path, (), time.monotonic() + patience, patience)
            return set(msgspec.json.decode(got.body, type=list[str])) if got.status == 200 else set()
        except (NoAnswerError, msgspec.MsgspecError):
            return set()


def _silent(
    request: Request, failures: Sequence[tuple[str, NoAnswerError]], *, named: bool
) -> PulsarAdminError:
    told = "; ".join(f"{base}: {failure.reason}" for base, failure in failures)
    transient = any(failure.transient for _, failure in failures)
    base, last = failures[-1]
    if request.changes and last.sent:
        remedy = "whether it was carried out is not known; look at the cluster before asking again"
    elif named:
        remedy = "check that this broker runs, and that its address can be reached from here"
    else:
        remedy = "check that it runs, and that pulsar.admin is right"
    return PulsarAdminError(
        f"no Pulsar broker answers {request.call} ({told}): {remedy}",
        call=request.call,
        url=base,
        reason=last.reason,
        transient=transient,
    )


def _dead_end(request: Request, visited: Sequence[str], failure: NoAnswerError) -> PulsarAdminError:
    base = _base_of(visited[-1])
    return PulsarAdminError(
        f"Pulsar sends {request.call} on to {base}, which does not answer ({failure.reason}): the owner or "
        "the leader seems to be down; another takes over when its session times out, 30 s by default",
        call=request.call,
        url=base,
        reason=failure.reason,
        status=307,
        transient=True,
    )


def _base_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
