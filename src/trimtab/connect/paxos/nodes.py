"""The nodes of a store of Paxos groups, asked side by side; and the file of its ideal map."""

from __future__ import annotations

import fcntl
import json
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from trimtab.connect.paxos.settings import PaxosConnection
from trimtab.files.atomic import write_atomically
from trimtab.files.masters.configuration import NodeConfiguration, read_configuration
from trimtab.files.masters.envelope import opened
from trimtab.files.masters.frames import HEAD, MOST_BYTES, TornError, decoded, encoded
from trimtab.files.masters.greeting import HANDSHAKE_BYTES, answer_to, hello_of, judged
from trimtab.files.masters.map import read_map, write_map
from trimtab.model.errors import ConnectError, InputError, SettingsError
from trimtab.online.masters.messages import AskReport, MapSeen, Report

_T = TypeVar("_T")
NOTHING_YET: Final = 0
"""Version of the map before any was published."""


class PaxosNodes:
    """One store, as its nodes' configuration tells of it.

    Parameters
    ----------
    connection
        Where that configuration is; its files for TLS and the secret are used as they stand there.

    Attributes
    ----------
    configuration
        What all nodes have in common stands in any of theirs.

    Raises
    ------
    ConnectError
        If the configuration cannot be read.
    """

    def __init__(self, connection: PaxosConnection) -> None:
        try:
            self.configuration: NodeConfiguration = read_configuration(connection.node)
            self._keys = self.configuration.guard.opened()
        except (InputError, SettingsError) as error:
            raise ConnectError(f"{error}; --paxos names the configuration of a node") from error
        self._timeout_seconds = connection.timeout_seconds

    @property
    def cluster(self) -> str:
        """Its name."""
        return self.configuration.cluster

    def reports(self) -> dict[int, dict[int, Report]]:
        """Node to group to its report, of those nodes that answer in time.

        Raises
        ------
        ConnectError
            If none does.
        """
        addresses = self.configuration.addresses
        with ThreadPoolExecutor(len(addresses)) as pool:
            told = list(pool.map(self._ask, range(len(addresses))))
        found = {node: one for node, one in enumerate(told) if isinstance(one, dict)}
        if not found:
            why = "; ".join(f"{address}: {one}" for address, one in zip(addresses, told, strict=True))
            raise ConnectError(f"no node of store {self.cluster} answers ({why}): start them")
        return found

    def _ask(self, node: int) -> dict[int, Report] | str:
        """The reports of one node, or why there are none."""
        host, _, port = self.configuration.addresses[node].rpartition(":")
        client, groups = secrets.token_hex(8), self.configuration.groups
        until, found = time.monotonic() + self._timeout_seconds, dict[int, Report]()
        try:
            with (
                socket.create_connection((host, int(port)), self._timeout_seconds) as plain,
                self._guarded(plain, host) as line,
            ):
                self._introduce(line, client, node, until)
                line.sendall(b"".join(encoded((group, AskReport(client))) for group in range(groups)))
                while len(found) < groups:
                    group, message = opened(_message(line, MOST_BYTES, until))
                    if isinstance(message, Report):
                        found[group] = message
        except (OSError, TornError, InputError) as error:
            return str(error) or "what it sent is no frame"
        return found

    def _guarded(self, line: socket.socket, host: str) -> socket.socket:
        """The line itself, or TLS over it."""
        return (
            line if self._keys.calling is None else self._keys.calling.wrap_socket(line, server_hostname=host)
        )

    def _introduce(self, line: socket.socket, client: str, node: int, until: float) -> None:
        """Begin the connection, as clients do."""
        hello = hello_of(self.cluster, client, node)
        line.sendall(encoded(hello))
        challenge = _message(line, HANDSHAKE_BYTES, until)
        line.sendall(answer_to(hello, challenge, self._keys.secret, node))
        judged(_message(line, HANDSHAKE_BYTES, until), hello, challenge, self._keys.secret, node)

    # ------------------------------------------------------------ the ideal map

    def ideal(self) -> MapSeen:
        """The map as it is published, or else that of the configuration; version 0 where there is none.

        Raises
        ------
        ConnectError
            If the file is no map.
        """
        told, groups = self.configuration, self.configuration.groups
        path = Path(told.map)
        if told.map and path.exists():
            return self._file(lambda: read_map(path, len(told.addresses), groups))
        if told.ideal:
            return MapSeen(1, tuple(told.ideal))
        return MapSeen(NOTHING_YET, (-1,) * groups)

    def publish(self, base: int, ideal: tuple[int, ...]) -> int | None:
        """Publish the next map; its version, or None where version `base` is the newest no more.

        Raises
        ------
        ConnectError
            If the configuration names no file for maps, or it cannot be written.
        """
        with self._locked() as path:
            if self.ideal().version != base:
                return None
            seen = MapSeen(base + 1, ideal)
            self._file(lambda: write_map(path, seen))
            return seen.version

    # ------------------------------------------------------------ claims

    def claims(self) -> frozenset[str]:
        """Texts that trimtabs left beside the map."""
        path = self._path("claims")
        return frozenset(json.loads(self._file(path.read_text))) if path.exists() else frozenset()

    def change_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Leave some and remove others."""
        with self._locked():
            left = sorted((self.claims() | set(added)) - set(removed))
            self._file(lambda: write_atomically(self._path("claims"), json.dumps(left).encode()))

    def _path(self, kind: str) -> Path:
        if not self.configuration.map:
            raise ConnectError(
                f"the nodes of store {self.cluster} watch no map: name a file that all of them see under "
                '"map" in each node.json, and start them anew'
            )
        return Path(f"{self.configuration.map}.{kind}")

    @contextmanager
    def _locked(self) -> Iterator[Path]:
        """The map's file, which nobody else changes meanwhile."""
        path = self._path("lock")
        with self._file(lambda: path.open("a")) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(self.configuration.map)

    def _file(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except (OSError, InputError, ValueError) as error:
            raise ConnectError(f"the ideal map of store {self.cluster}: {error}") from error


def _message(line: socket.socket, most_bytes: int, until: float) -> Any:
    length, crc = HEAD.unpack(_bytes(line, HEAD.size, until))
    if length > most_bytes:
        raise TornError
    return decoded(_bytes(line, length, until), crc)


def _bytes(line: socket.socket, count: int, until: float) -> bytes:
    parts: list[bytes] = []
    while count:
        line.settimeout(max(0.001, until - time.monotonic()))
        part = line.recv(min(count, 1 << 16))
        if not part:
            raise OSError("it closed the connection: another name of the store, or another version")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
