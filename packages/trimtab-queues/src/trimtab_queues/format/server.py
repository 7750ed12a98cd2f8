"""The server of queues: its address, and the Lua scripts that change queues on it.

Each script does all of its change or nothing.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

from trimtab_common.errors import InputError

CLUSTER: Final = "redis+cluster"
"""Scheme of an address of nodes: redis+cluster://host:port,host:port."""


def full_address(url: str, password: str | None = None, **tls: object) -> str:
    """An address that clients take as it is: with password and TLS files, as far as they are given.

    Parameters
    ----------
    tls
        Of the client's own options (`ssl_ca_certs`, ...); None is left out.
    """
    parts = urlsplit(url)
    if password is not None and parts.password is None:
        place = parts.netloc.rpartition("@")[2]
        parts = parts._replace(
            netloc=f"{quote(parts.username or '', safe='')}:{quote(password, safe='')}@{place}"
        )
    more = {name: str(value) for name, value in tls.items() if value is not None}
    query = "&".join(part for part in (parts.query, urlencode(more)) if part)
    return urlunsplit(parts._replace(query=query))


def without_password(url: str) -> str:
    """An address as messages show it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def is_cluster(url: str) -> bool:
    """Whether an address names nodes of a cluster."""
    return urlsplit(url).scheme == CLUSTER


def nodes_of(url: str) -> list[tuple[str, int]]:
    """Host and port of each node that an address names.

    Raises
    ------
    InputError
        If it is not redis+cluster://host:port,host:port.
    """
    found = []
    for one in urlsplit(url).netloc.rpartition("@")[2].split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(
                f"address of a cluster is {without_password(url)!r}, expected {CLUSTER}://host:port,host:port"
            )
        found.append((host, int(port)))
    return found


def credentials_of(url: str) -> dict[str, Any]:
    """User and password in the address of a cluster, as clients name them; empty for none."""
    parts = urlsplit(url)
    told = {"username": parts.username, "password": parts.password}
    return {name: unquote(one) for name, one in told.items() if one}


SCRIPTS: Final = (
    "arrive", "beat", "beside", "claim", "cross_out", "finish", "grace", "lease", "look", "mark", "move",
    "opened", "put", "release", "requeue", "start", "take",
)  # fmt: skip


ON_A_FULL_SERVER: Final = ("beat", "claim", "finish", "release", "start", "take")
"""What must go on there, or the server would never have room again; Redis has words for it since 7.0."""


@cache
def script_source(name: str, on_a_full_server: bool = False) -> str:
    """The text of a script, with what all of them share before it."""
    folder = files(__package__) / "lua"
    texts = [(folder / f"{one}.lua").read_text(encoding="utf-8") for one in ("common", name)]
    return "\n".join(["#!lua flags=allow-oom", *texts] if on_a_full_server else texts)
