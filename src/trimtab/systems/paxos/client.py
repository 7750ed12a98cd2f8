"""The nodes of a store of Paxos groups, called concurrently, and its preferred map.

The address of a store names the configuration of any node.
"""

from __future__ import annotations

import fcntl
import json
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from trimtab.systems.connection import ClusterTable, connection_of
from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_common.files import write_atomically
from trimtab_store.core.messages import (
    CLAIM_BYTES,
    AskMap,
    Change,
    ChangeClaims,
    ChangeMap,
    GroupReport,
    MapChanged,
    MapIs,
    PublishMap,
    ReadGroupMetrics,
    claims_bytes,
)
from trimtab_store.core.token import CLUSTER
from trimtab_store.format.configuration import (
    STORE,
    NodeConfiguration,
    read_configuration,
    read_map,
    write_map,
)
from trimtab_store.format.peer_authentication import HANDSHAKE_BYTES, answer_to, hello_of, verify_proof
from trimtab_store.format.wire import (
    FRAME_HEAD,
    MAX_FRAME_BYTES,
    TornFrameError,
    checked_message,
    decoded,
    encoded,
)


@dataclass(frozen=True)
class PaxosConnection:
    """Connection to the nodes of one store.

    Parameters
    ----------
    node
        Configuration file of any node. It has all addresses, the groups, the location of the preferred map,
        and TLS and the secret.
    timeout_seconds
        Time-out of one node's responses.
    """

    node: Path
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        if not 0 < self.timeout_seconds < float("inf"):
            raise SettingsError(f"timeout_seconds is {self.timeout_seconds}: it must be above 0")


def paxos_connection(cluster: ClusterTable) -> PaxosConnection:
    """The connection that the keys of a store describe; errors as in `connection_of`."""
    return connection_of(cluster, PaxosConnection, system="paxos")


_T = TypeVar("_T")
_NO_ANSWER: Final = (OSError, TornFrameError, InputError)
AGAIN_SECONDS: Final = 0.05
"""Between two looks whether a change is chosen."""
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
            self._node_json = connection.node
        except (InputError, SettingsError) as error:
            raise ConnectError(
                f"{error}; the address of a store names the configuration of a node, like paxos:node.json"
            ) from error
        self._timeout_seconds = connection.timeout_seconds

    @property
    def cluster(self) -> str:
        """Name of the store's cluster."""
        return self.configuration.cluster

    def reports(self) -> dict[int, dict[int, GroupReport]]:
        """Node to group to its report, of those nodes that answer in time.

        Raises
        ------
        ConnectError
            If none does.
        """
        return self._each(self._reports_of)

    def _each(self, ask: Callable[[int], _T]) -> dict[int, _T]:
        """What nodes answer, asked side by side; errors as in `reports`."""
        addresses, why = self.configuration.addresses, []
        with ThreadPoolExecutor(len(addresses)) as pool:
            answers = [pool.submit(ask, node) for node in range(len(addresses))]
        found = {}
        for node, answer in enumerate(answers):
            try:
                found[node] = answer.result()
            except _NO_ANSWER as error:
                why.append(f"{addresses[node]}: {_error_text(error)}")
        if not found:
            raise ConnectError(f"no node of store {self.cluster} answers ({'; '.join(why)}): start them")
        return found

    def _reports_of(self, node: int) -> dict[int, GroupReport]:
        """The reports of one node."""
        groups, found = self.configuration.groups, dict[int, GroupReport]()
        with self._connected(node) as line:
            line.send(*((group, ReadGroupMetrics(line.client)) for group in range(groups)))
            while len(found) < groups:
                group, message = line.poll()
                if isinstance(message, GroupReport):
                    found[group] = message
        return found

    @contextmanager
    def _connected(self, node: int) -> Iterator[_Line]:
        """A connection to one node, begun as clients begin it."""
        host, _, port = self.configuration.addresses[node].rpartition(":")
        until = time.monotonic() + self._timeout_seconds
        with (
            socket.create_connection((host, int(port)), self._timeout_seconds) as plain,
            self._guarded(plain, host) as guarded,
        ):
            line = _Line(guarded, secrets.token_hex(8), until)
            hello = hello_of(self.cluster, line.client, node)
            guarded.sendall(encoded(hello))
            challenge = line.message(HANDSHAKE_BYTES)
            guarded.sendall(answer_to(hello, challenge, self._keys.secret, node))
            verify_proof(line.message(HANDSHAKE_BYTES), hello, challenge, self._keys.secret, node)
            yield line

    def _guarded(self, line: socket.socket, host: str) -> socket.socket:
        """The line itself, or TLS over it."""
        return (
            line if self._keys.calling is None else self._keys.calling.wrap_socket(line, server_hostname=host)
        )

    # ------------------------------------------------------------ the preferred map

    def preferred_map(self) -> MapChanged:
        """The map as it is published, or else that of the configuration; version 0 where there is none.

        Raises
        ------
        ConnectError
            If the file is no map, or no node tells the one in the store.
        """
        told, groups = self.configuration, self.configuration.groups
        if told.map_in_store:
            return next(iter(self._published().values())).map
        path = Path(told.map)
        if told.map and path.exists():
            return self._file(lambda: read_map(path, len(told.addresses), groups))
        if told.preferred_nodes:
            return MapChanged(1, tuple(told.preferred_nodes))
        return MapChanged(NOTHING_YET, (-1,) * groups)

    def publish(self, base: int, preferred: tuple[int, ...], version: int | None = None) -> int | None:
        """Publish a map; its version, or None where version `base` is the newest no more.

        Parameters
        ----------
        version
            Above `base`; the next one if None.

        Raises
        ------
        ConnectError
            If the configuration names no place for maps, or it cannot be written. A map in the store may be
            published nevertheless, later too.
        """
        seen = MapChanged(base + 1 if version is None else version, preferred)
        if self.configuration.map_in_store:
            return self._publish_in_store(base, seen)
        with self._locked() as path:
            if self.preferred_map().version != base:
                return None
            self._file(lambda: write_map(path, seen))
            return seen.version

    def publish_file(self, path: Path) -> int:
        """Publish the map of a file, in the version that stands there; that version.

        Raises
        ------
        InputError
            If it cannot be read, or is no newer than what is published.
        ConnectError
            As in `publish`, or if another map is published at the same moment.
        """
        newest = self.preferred_map().version
        seen = read_map(path, len(self.configuration.addresses), self.configuration.groups)
        if seen.version <= newest:
            raise InputError(
                f"{path} has version {seen.version}, and version {newest} is published in store "
                f"{self.cluster}: build on that one, and give the new map version {newest + 1} or higher"
            )
        if self.publish(newest, seen.preferred, seen.version) is None:
            raise ConnectError(
                f"another map was published in store {self.cluster} over version {newest}: look at it with "
                "`trimtab status --live`, build on it, and publish again"
            )
        return seen.version

    # ------------------------------------------------------------ claims

    def claims(self) -> frozenset[str]:
        """Texts that trimtabs left beside the map."""
        if self.configuration.map_in_store:
            return frozenset(next(iter(self._published().values())).claims)
        path = self._path("claims")
        return frozenset(json.loads(self._file(path.read_text))) if path.exists() else frozenset()

    def change_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Leave some and remove others."""
        if self.configuration.map_in_store:
            return self._change_claims_in_store(frozenset(added), frozenset(removed))
        with self._locked():
            left = sorted((self.claims() | set(added)) - set(removed))
            self._file(lambda: write_atomically(self._path("claims"), json.dumps(left).encode()))
        return None

    def _path(self, kind: str) -> Path:
        if not self.configuration.map:
            raise ConnectError(
                f'the nodes of store {self.cluster} watch no map: set "map" in each node.json to '
                f'"{STORE}", or to a file that all of them see, and start them anew'
            )
        return Path(f"{self.configuration.map}.{kind}")

    @contextmanager
    def _locked(self) -> Iterator[Path]:
        """The map's file, which nobody else changes meanwhile."""
        path = self._path("lock")
        with self._file(lambda: path.open("a")) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(self.configuration.map)

    # ------------------------------------------------------------ in the store

    def _published(self) -> dict[int, MapIs]:
        """What nodes know of what is published in the store, those first that know most.

        Raises
        ------
        ConnectError
            If no node answers, or one does not read its map there.
        """
        answers = self._each(self._map_of)
        for node, told in answers.items():
            reads = "reads its map in the store" if told.in_store else "does not read its map in the store"
            if not told.in_store or len(told.preferred) != self.configuration.groups:
                raise ConnectError(
                    f"node {node} of store {self.cluster} {reads} and has {len(told.preferred)} groups, "
                    "expected "
                    f'"map": "{STORE}" and {self.configuration.groups} groups as in {self._node_json}: give '
                    "all nodes the same, and start them again"
                )
        return dict(sorted(answers.items(), key=lambda one: (-one[1].applied, -one[1].version, one[0])))

    def _map_of(self, node: int) -> MapIs:
        """What one node knows of it."""
        with self._connected(node) as line:
            return line.map()

    def _publish_in_store(self, base: int, observation: MapChanged) -> int | None:
        """Publish a preferred map to the built-in store; see `publish`."""
        before = self._published()
        newest = next(iter(before.values()))
        if newest.version != base:
            return None
        change = PublishMap(newest.published, *observation)
        told = self._change(change, before, lambda status: status.published > newest.published)
        return observation.version if told.map == observation else None

    def _change_claims_in_store(self, added: frozenset[str], removed: frozenset[str]) -> None:
        """Add and remove claims in the built-in store."""
        before = self._published()
        size = claims_bytes((added | set(next(iter(before.values())).claims)) - removed)
        if size > CLAIM_BYTES:
            raise ConnectError(
                f"the claims of store {self.cluster} would take {size:,} bytes (limit {CLAIM_BYTES:,}): wait "
                "until other trimtabs have ended"
            )

        def is_done(text: MapIs) -> bool:
            return added - removed <= set(text.claims) and not removed & set(text.claims)

        self._change(ChangeClaims(tuple(sorted(added)), tuple(sorted(removed))), before, is_done)

    def _change(self, change: Change, before: dict[int, MapIs], is_done: Callable[[MapIs], bool]) -> MapIs:
        """Ask one node after another for a change, until one has applied it; what is published then.

        Any of them may be asked twice: a map counts over one version only, and claims are a set.

        Parameters
        ----------
        before
            As nodes have answered until now, the one that knows most first.

        Raises
        ------
        ConnectError
            If none has in time: it may be chosen still.
        """
        addresses, why = self.configuration.addresses, []
        newest = max(told.applied for told in before.values())
        for node in before:
            try:
                with self._connected(node) as line:
                    line.send((CLUSTER, ChangeMap(change)))
                    while (told := line.map()).applied <= newest or not is_done(told):
                        line.wait()
                    return told
            except _NO_ANSWER as error:
                why.append(f"{addresses[node]}: {_error_text(error)}")
        needed = f"a majority of the {len(addresses)} nodes must run and reach one another"
        if self.configuration.etcd:
            needed = "a majority of the members of etcd must run, and nodes must reach them"
        raise ConnectError(
            f"the map of store {self.cluster} was not changed within {self._timeout_seconds:g} s by any node "
            f"({'; '.join(why)}): {needed}; the change may still come, so look at the map before a repetition"
        )

    def _file(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except (OSError, InputError, ValueError) as error:
            raise ConnectError(f"the preferred map of store {self.cluster}: {error}") from error


class _Line:
    """A connection to a node, good until a moment.

    Attributes
    ----------
    client
        As whom the node knows this side.
    """

    def __init__(self, line: socket.socket, client: str, until: float) -> None:
        self._line, self._until, self.client = line, until, client

    def send(self, *text: tuple[int, Any]) -> None:
        """Send messages, each for a group."""
        self._line.sendall(b"".join(map(encoded, text)))

    def poll(self) -> tuple[int, Any]:
        """Wait for the next message."""
        return checked_message(self.message(MAX_FRAME_BYTES))

    def message(self, most_bytes: int) -> Any:
        """What the next frame holds."""
        return _message(self._line, most_bytes, self._until)

    def map(self) -> MapIs:
        """What the node knows of the map now."""
        self.send((CLUSTER, AskMap(self.client)))
        while not isinstance(told := self.poll()[1], MapIs):
            pass
        return told

    def wait(self) -> None:
        """Wait a moment, if there is time left."""
        if time.monotonic() + AGAIN_SECONDS >= self._until:
            raise TimeoutError("it answers, and nothing was chosen")
        time.sleep(AGAIN_SECONDS)


def _error_text(error: Exception) -> str:
    return str(error) or "what it sent is no frame"


def _message(line: socket.socket, most_bytes: int, until: float) -> Any:
    length, crc = FRAME_HEAD.unpack(_bytes(line, FRAME_HEAD.size, until))
    if length > most_bytes:
        raise TornFrameError
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
