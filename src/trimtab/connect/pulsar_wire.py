"""One exchange with the web service of one broker: a request, and what came back in time."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.connect.pulsar_settings import PulsarConnection
from trimtab.connect.tls import tls_context_of

if TYPE_CHECKING:
    import httpx

LARGEST_BYTES = 2**30
"""More than the statistics of the topics that one broker can hold."""


@dataclass(frozen=True)
class Request:
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
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    changes: bool = False

    @property
    def call(self) -> str:
        """How messages name it."""
        return f"{self.method} {self.path.removeprefix('/').removeprefix('admin/v2/')}"


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


@dataclass(frozen=True)
class Exchange:
    """What came back; `location` is where a redirect points."""

    status: int
    body: bytes
    location: str | None


class PulsarWire:
    """Connections to brokers' web services; may be used from many threads.

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

        verify: ssl.SSLContext | bool = False
        if connection.uses_tls:
            verify = tls_context_of(
                connection.tls_ca,
                connection.tls_certificate,
                connection.tls_key,
                verify_hostname=connection.tls_verify_hostname,
            )
        headers = {"Accept": "*/*", "User-Agent": "trimtab"}
        if connection.token is not None:
            headers["Authorization"] = f"Bearer {connection.token}"
        self._client = httpx.Client(
            verify=verify,
            headers=headers,
            transport=transport,
            # A proxy for the outside world does not know the brokers.
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
        )

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def send(
        self,
        request: Request,
        url: str,
        query: tuple[tuple[str, str], ...],
        deadline: float,
        patience: float,
    ) -> Exchange:
        """Ask one broker, and follow nothing.

        Parameters
        ----------
        deadline
            On the monotonic clock; `patience` is how long that was from the start, for messages.

        Raises
        ------
        NoAnswerError
            If there is no answer in time.
        """
        import httpx

        again = not request.changes
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoAnswerError(f"no answer in {patience:g} s", sent=True)
            try:
                return self._exchange(request, url, query, deadline, patience, left)
            except (httpx.ConnectTimeout, httpx.PoolTimeout):
                raise NoAnswerError(f"no connection in {patience:g} s", sent=False) from None
            except httpx.TimeoutException:
                raise NoAnswerError(f"no answer in {patience:g} s", sent=True) from None
            except httpx.ConnectError as error:
                raise _unconnected(error) from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                # A kept connection may be closed by the broker just when we use it again.
                if again and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
                    again = False
                    continue
                raise NoAnswerError(str(error) or type(error).__name__, sent=True) from error

    def _exchange(
        self,
        request: Request,
        url: str,
        query: tuple[tuple[str, str], ...],
        deadline: float,
        patience: float,
        left: float,
    ) -> Exchange:
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
                    raise NoAnswerError(f"{size} bytes in {patience:g} s and not done", sent=True)
                if size > LARGEST_BYTES:
                    raise NoAnswerError(f"an answer of more than {LARGEST_BYTES} bytes", sent=True)
            return Exchange(response.status_code, b"".join(parts), response.headers.get("Location"))


def _unconnected(error: BaseException) -> NoAnswerError:
    """Why there is no connection, in the words of the operating system or of TLS."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NoAnswerError(
            f"its certificate is not trusted ({cause.verify_message}); name the authority that signed it "
            "with pulsar.tls_ca",
            sent=False,
            transient=False,
        )
    if isinstance(cause, ssl.SSLError):
        return NoAnswerError(
            f"it does not speak TLS as we do ({cause.reason or cause}); check scheme and port in "
            "pulsar.admin, and pulsar.tls_certificate",
            sent=False,
            transient=False,
        )
    text = getattr(cause, "strerror", None) or str(cause or error) or type(error).__name__
    return NoAnswerError(text, sent=False)
