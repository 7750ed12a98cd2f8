"""How calls of Pulsar's admin API are made and their answers read: what all groups of calls share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from trimtab.connect.pulsar_errors import PulsarAdminError
from trimtab.connect.pulsar_http import Answer, PulsarHttp
from trimtab.connect.pulsar_settings import PulsarConnection
from trimtab.connect.pulsar_wire import Request

if TYPE_CHECKING:
    import httpx

ADMIN = "/admin/v2"

T = TypeVar("T")


class PulsarCalls:
    """Requests below `/admin/v2` and their typed answers; may be used from many threads.

    Parameters
    ----------
    connection
        Where and as whom.
    transport
        Instead of the network, for tests.

    Raises
    ------
    SettingsError
        If a TLS file cannot be used.
    """

    def __init__(self, connection: PulsarConnection, transport: httpx.BaseTransport | None = None) -> None:
        self.connection = connection
        self._http = PulsarHttp(connection, transport)
        self._cluster = connection.cluster
        self._web_urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def ask(self, request: Request, base: str | None = None) -> Answer:
        """Send any request (`trimtab.connect.pulsar_http.PulsarHttp.ask`)."""
        return self._http.ask(request, base)

    def get(self, path: str, query: tuple[tuple[str, str], ...] = (), base: str | None = None) -> Answer:
        """Ask a path below `/admin/v2`."""
        return self.ask(Request("GET", f"{ADMIN}/{path}", query), base)

    def get_json(self, path: str, kind: type[T], query: tuple[tuple[str, str], ...] = ()) -> T:
        """Ask a path, and read the JSON that comes back as a type."""
        return self.decoded(self.get(path, query), path, kind)

    def change(
        self,
        method: str,
        path: str,
        query: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
    ) -> None:
        """Ask for a change, which comes back without a word."""
        self.ask(Request(method, f"{ADMIN}/{path}", query, body, changes=True))

    def decoded(self, answer: Answer, path: str, kind: type[T]) -> T:
        """An answer's JSON as a type."""
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self.unreadable(answer, path, str(error)) from error

    def unreadable(self, answer: Answer, path: str, why: str) -> PulsarAdminError:
        """The error for an answer that says yes and makes no sense."""
        call = f"GET {path}"
        return PulsarAdminError(
            f"Pulsar at {answer.base} answers {call} with something else than expected ({why}): check that "
            "pulsar.admin is a broker's web address; Pulsar 4.0 and 4.2 are tried",
            call=call,
            url=answer.base,
            reason=why,
            status=200,
        )


def range_of(bundle: str) -> str:
    """`0xLOW_0xHIGH` of a bundle's key."""
    return bundle.rpartition("/")[2]


def path_part(text: str) -> str:
    """One step of a path: a name, or `host:port`."""
    return quote(text, safe=":")


def namespace_path(namespace: str) -> str:
    """`tenant/namespace` as two steps of a path."""
    return quote(namespace, safe="/:")


def bundle_path(bundle: str) -> str:
    """`tenant/namespace/0xLOW_0xHIGH` as three steps of a path."""
    return quote(bundle, safe="/:")


def topic_path(topic: str) -> str:
    """`persistent/tenant/namespace/topic`; a topic's own name may hold slashes."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, name = [*rest.split("/", 2), "", ""][:3]
    return f"{domain}/{path_part(tenant)}/{path_part(namespace)}/{quote(name, safe='')}"
