"""Requests to the web services of a Pulsar cluster: brokers asked in turn, redirects, deadlines, errors.

Brokers redirect (307) to whoever is responsible: to the leader for an unload with a destination, else to
the bundle's owner. We follow by ourselves, since a general client drops the token on the way to another
port and would carry it to whatever host an answer names. Each error says whether to try again.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from trimtab.model.bundles.policies import IsolationPolicy
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab_common.errors import ConnectError

if TYPE_CHECKING:
    import httpx


TRANSIENT_STATUSES = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Answers that the same request may not get a moment later; 500 is none of them: Pulsar gives it for good to
what a load manager does not support."""

_REMEDIES = {
    HTTPStatus.UNAUTHORIZED: "set the cluster's token_file (or TRIMTAB_PULSAR_TOKEN, or a certificate) to "
    "one that the brokers know",
    HTTPStatus.FORBIDDEN: "give our role the rights of a superuser, or use the token of one that has them",
    HTTPStatus.NOT_FOUND: "check that it exists, and that the address is a broker's web address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this Pulsar is older or newer than the request; 4.0 and 4.2 are tried",
    HTTPStatus.CONFLICT: "look at the cluster as it is now, and ask again",
    HTTPStatus.PRECONDITION_FAILED: "look at the cluster as it is now, and ask again",
}
_LONGEST_REASON = 300


class NoAnswerError(Exception):
    """A broker gave no answer.

    Attributes
    ----------
    reason
        In the words of the operating system or of TLS.
    sent
        Whether it may have got the request.
    transient
        Whether a later try may succeed.
    """

    def __init__(self, reason: str, *, sent: bool, transient: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.transient = transient


class PulsarAdminError(ConnectError):
    """A request that was not answered, or not as asked.

    Attributes
    ----------
    reason
        In the broker's words, or in ours where it said nothing.
    status
        Of HTTP; None where there was no answer.
    transient
        Whether the same request may well succeed a little later: nobody answered, a broker that is gone is
        still believed in, the cluster is busy.
    """

    def __init__(
        self, message: str, *, reason: str, status: int | None = None, transient: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.transient = transient


def request_error(call: str, url: str, status: int, body: bytes) -> PulsarAdminError:
    """The error for an answer that says no."""
    known = HTTPStatus(status) if status in set(HTTPStatus) else None
    reason = response_reason(body) or (known.phrase if known is not None else "no reason given")
    remedy = _REMEDIES.get(known) if known is not None else None
    if remedy is None:
        remedy = "try again in a moment" if status in TRANSIENT_STATUSES else "the broker's log tells more"
    return PulsarAdminError(
        f"Pulsar at {url} answers {call} with {status} ({reason}): {remedy}",
        reason=reason,
        status=status,
        transient=status in TRANSIENT_STATUSES,
    )


def response_reason(body: bytes) -> str:
    """The words of a broker that refuses: the field `reason` of a JSON object, or text without its markup."""
    text = body.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict):
        text = str(told.get("reason") or told.get("message") or "")
    elif text.startswith("<"):
        text = re.sub(r"<style.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    # A broker may send its stack trace along; what happened stands in front of it.
    first = " ".join(line for line in lines[:6] if line and not line.startswith(("at ", "---", "Stacktrace")))
    return first if len(first) <= _LONGEST_REASON else f"{first[:_LONGEST_REASON]}..."


def unconnected(error: BaseException) -> NoAnswerError:
    """The error where there is no connection, in the words of the operating system or of TLS."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NoAnswerError(
            f"its certificate is not trusted ({cause.verify_message}); name the authority that signed it "
            "with tls_ca",
            sent=False,
            transient=False,
        )
    if isinstance(cause, ssl.SSLError):
        return NoAnswerError(
            f"it does not speak TLS as we do ({cause.reason or cause}); check scheme and port in "
            "the address, and tls_certificate",
            sent=False,
            transient=False,
        )
    text = getattr(cause, "strerror", None) or str(cause or error) or type(error).__name__
    return NoAnswerError(text, sent=False)


T = TypeVar("T")


@dataclass(frozen=True)
class Response:
    """The body that came back; `base` is the web address of the broker that answered."""

    base: str
    body: bytes

    @property
    def text(self) -> str:
        """A bare word or sentence, quoted or not."""
        return self.body.decode("utf-8", "replace").strip().strip('"')

    def decoded(self, path: str, kind: type[T]) -> T:
        """The JSON as a type.

        Raises
        ------
        PulsarAdminError
            If it is something else.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self.unreadable(path, str(error)) from error

    def statistics(self, path: str) -> dict[str, Any]:
        """An object of unknown soundness: brokers may write NaN, which JSON does not have."""
        try:
            found = msgspec.json.decode(self.body)
        except msgspec.MsgspecError:
            try:
                found = json.loads(self.body)
            except (ValueError, RecursionError) as error:
                raise self.unreadable(path, str(error)) from error
        if not isinstance(found, dict):
            raise self.unreadable(path, f"a {type(found).__name__} in place of an object")
        return found

    def unreadable(self, path: str, why: str) -> PulsarAdminError:
        """The error for an answer that says yes and makes no sense."""
        return PulsarAdminError(
            f"Pulsar at {self.base} answers GET {path} with something else than expected ({why}): check that "
            "the address is a broker's web address; Pulsar 4.0 and 4.2 are tried",
            reason=why,
            status=200,
        )


class OwnedBundle(msgspec.Struct):
    """One entry of the response to `ownedNamespaces`."""

    is_active: bool = True


class BundleBoundaries(msgspec.Struct):
    """The response to `namespaces/.../bundles`: boundaries of bundles."""

    boundaries: list[str]


class LeaderBroker(msgspec.Struct, rename="camel"):
    """The answer to `brokers/leaderBroker`; Pulsar 3 gave no id."""

    service_url: str
    broker_id: str | None = None


class Lookup(msgspec.Struct, rename="camel"):
    """The response to `lookup/v2/topic`: addresses of the owner."""

    http_url: str | None = None
    http_url_tls: str | None = None


class FailureDomain(msgspec.Struct):
    """The brokers of a failure domain."""

    brokers: list[str] = []


class IsolationPolicyData(msgspec.Struct):
    """The brokers that serve the namespaces of an isolation policy."""

    namespaces: list[str] = []
    primary: list[str] = []
    secondary: list[str] = []
    auto_failover_policy: dict[str, Any] = {}

    def policy(self) -> IsolationPolicy:
        """The planners' own value; a limit that is no number counts as 1."""
        parameters: Mapping[str, Any] = self.auto_failover_policy.get("parameters") or {}
        try:
            fewest = int(parameters.get("min_limit", 1))
        except ValueError:
            fewest = 1
        return IsolationPolicy(tuple(self.namespaces), tuple(self.primary), tuple(self.secondary), fewest)


MAX_REDIRECTS = 5
"""Two are usual at most (to the leader, to the owner)."""
_REDIRECTS = (301, 302, 307, 308)
LARGEST_BYTES = 2**30
"""More than the statistics of the topics that one broker can hold."""

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PulsarRequest:
    """One request, whoever is asked.

    Attributes
    ----------
    path
        Below the web address, with its first slash.
    query
        Pairs of name and value.
    body
        JSON, already encoded.
    changes
        Whether it changes something: it is then sent to another broker only if the first cannot have got it.
    """

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    changes: bool = False

    @property
    def call(self) -> str:
        """Method and path, as messages quote the call."""
        return f"{self.method} {self.path.removeprefix('/').removeprefix('admin/v2/')}"


@dataclass(frozen=True)
class PulsarResponse:
    """One answer as it came back; `location` is where a redirect points."""

    status: int
    body: bytes
    location: str | None


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
        import httpx

        headers = {"Accept": "*/*", "User-Agent": "trimtab"}
        if connection.token is not None:
            headers["Authorization"] = f"Bearer {connection.token}"
        self._client = httpx.Client(
            verify=connection.tls_context() if connection.uses_tls else False,
            headers=headers,
            transport=transport,
            # A proxy for the outside world does not know the brokers.
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
        )
        self._connection = connection
        self._admins = list(connection.admin)
        self._lock = threading.Lock()
        self._known: frozenset[str] = frozenset()

    def close(self) -> None:
        """Close all connections to brokers."""
        self._client.close()

    def request(self, request: PulsarRequest, base: str | None = None) -> Response:
        """The answer of one broker, or of the first that answers.

        Parameters
        ----------
        base
            The web address to ask; None: those of the connection, the last one that answered first.

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
        raise _is_timeout(request, failures, named=base is not None)

    def _in_order(self) -> list[str]:
        with self._lock:
            return list(self._admins)

    def _prefer(self, base: str) -> None:
        with self._lock:
            if self._admins[0] != base:
                self._admins.remove(base)
                self._admins.insert(0, base)

    def _follow(self, request: PulsarRequest, base: str) -> Response:
        """Ask, and go where we are sent."""
        deadline = time.monotonic() + self._timeout(request)
        url, query = base + request.path, request.query
        visited: list[str] = []
        while True:
            visited.append(url)
            try:
                got = self._send(request, url, query, deadline)
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
            raise request_error(request.call, answered, got.status, got.body)
        return Response(answered, got.body)

    def _check_redirect(self, request: PulsarRequest, visited: Sequence[str], url: str, base: str) -> None:
        if url in visited or len(visited) > MAX_REDIRECTS:
            raise PulsarAdminError(
                f"Pulsar sends {request.call} round in circles, {len(visited)} redirects so far, the last to "
                f"{_base_of(url)}: brokers disagree about who leads or owns; try again when a leader is "
                "elected",
                reason="redirected in circles",
                status=307,
                transient=True,
            )
        if not self._trusted(url, base):
            raise PulsarAdminError(
                f"Pulsar at {_base_of(visited[-1])} redirects {request.call} to {_base_of(url)}, which is no "
                "broker of this cluster: not followed, since our token would go there; check the address "
                "that this broker advertises",
                reason="redirected to a stranger",
                status=307,
            )

    def _trusted(self, url: str, base: str) -> bool:
        """True if a redirect stays among the brokers, and does not leave TLS.

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
        request = PulsarRequest("GET", "/admin/v2/brokers")
        try:
            got = self._send(request, base + request.path, (), time.monotonic() + self._timeout(request))
            return set(msgspec.json.decode(got.body, type=list[str])) if got.status == 200 else set()
        except (NoAnswerError, msgspec.MsgspecError):
            return set()

    def _timeout(self, request: PulsarRequest) -> float:
        """Seconds that an answer may take."""
        return (
            self._connection.change_timeout_seconds if request.changes else self._connection.timeout_seconds
        )

    def _send(self, request: PulsarRequest, url: str, query: Query, deadline: float) -> PulsarResponse:
        """Ask one broker, and follow nothing.

        Parameters
        ----------
        deadline
            On the monotonic clock.

        Raises
        ------
        NoAnswerError
            If there is no answer in time.
        """
        import httpx

        again, patience = not request.changes, self._timeout(request)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoAnswerError(f"no answer in {patience:g} s", sent=True)
            try:
                return self._exchange(request, url, query, deadline, left)
            except (httpx.ConnectTimeout, httpx.PoolTimeout):
                raise NoAnswerError(f"no connection in {patience:g} s", sent=False) from None
            except httpx.TimeoutException:
                raise NoAnswerError(f"no answer in {patience:g} s", sent=True) from None
            except httpx.ConnectError as error:
                raise unconnected(error) from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                # A kept connection may be closed by the broker just when we use it again.
                if again and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
                    again = False
                    continue
                raise NoAnswerError(str(error) or type(error).__name__, sent=True) from error

    def _exchange(
        self, request: PulsarRequest, url: str, query: Query, deadline: float, left: float
    ) -> PulsarResponse:
        headers = {} if request.body is None else {"Content-Type": "application/json"}
        parts, size = [], 0
        with self._client.stream(
            request.method,
            url,
            params=query or None,
            content=request.body,
            headers=headers,
            timeout=left,
            follow_redirects=False,
        ) as response:
            # The client's time-outs are for one piece each, however slowly the pieces dribble in.
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if time.monotonic() > deadline:
                    raise NoAnswerError(
                        f"{size} bytes in {self._timeout(request):g} s and not done", sent=True
                    )
                if size > LARGEST_BYTES:
                    raise NoAnswerError(f"an answer of more than {LARGEST_BYTES} bytes", sent=True)
            return PulsarResponse(response.status_code, b"".join(parts), response.headers.get("Location"))


def _is_timeout(
    request: PulsarRequest, failures: Sequence[tuple[str, NoAnswerError]], *, named: bool
) -> PulsarAdminError:
    told = "; ".join(f"{base}: {failure.reason}" for base, failure in failures)
    transient = any(failure.transient for _, failure in failures)
    last = failures[-1][1]
    if request.changes and last.sent:
        remedy = "whether it was carried out is not known; look at the cluster before asking again"
    elif named:
        remedy = "check that this broker runs, and that its address can be reached from here"
    else:
        remedy = "check that it runs, and that its address is right"
    return PulsarAdminError(
        f"no Pulsar broker answers {request.call} ({told}): {remedy}",
        reason=last.reason,
        transient=transient,
    )


def _dead_end(request: PulsarRequest, visited: Sequence[str], failure: NoAnswerError) -> PulsarAdminError:
    base = _base_of(visited[-1])
    return PulsarAdminError(
        f"Pulsar sends {request.call} on to {base}, which does not answer ({failure.reason}): the owner or "
        "the leader seems to be down; another takes over when its session times out, 30 s by default",
        reason=failure.reason,
        status=307,
        transient=True,
    )


def _base_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def path_part(text: str) -> str:
    """One step of a path: a name, or `host:port`."""
    return quote(text, safe=":")


def path_parts(text: str) -> str:
    """`tenant/namespace` as two steps of a path, a bundle's key as three."""
    return quote(text, safe="/:")


def topic_path(topic: str) -> str:
    """`persistent/tenant/namespace/topic`; a topic's own name may hold slashes."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, name = [*rest.split("/", 2), "", ""][:3]
    return f"{domain}/{path_part(tenant)}/{path_part(namespace)}/{quote(name, safe='')}"
