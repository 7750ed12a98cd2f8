"""Logs of groups in etcd: a slot is a key that is created once.

`EtcdClient` turns to another member when one fails. `EtcdLog` carries out requests of the core: it creates
entries, reads them, follows new ones, and stores snapshots.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from trimtab_common.errors import ConnectError, InputError, NodeError
from trimtab_common.extras import Extras
from trimtab_store.core.messages import (
    AppendConflict,
    AppendTimeout,
    CreateEntries,
    EntriesCreated,
    EntriesRead,
    GroupSnapshot,
    ReadEntries,
    SnapshotStored,
    StoreEvent,
    StoreRequest,
    StoreSnapshot,
)
from trimtab_store.format.configuration import Shared
from trimtab_store.format.peer_authentication import differences
from trimtab_store.format.wire import TornFrameError, encoded, frames
from trimtab_store.node.health_monitor import RateLimitedLogger

if TYPE_CHECKING:
    import aetcd

_EXTRAS: Final = Extras("trimtab-store", {"aetcd": "etcd"})
OPTIONS: Final = {
    # Pages of slots and of snapshots are larger than the 4 MiB that gRPC takes by itself.
    "grpc.max_receive_message_length": -1,
    # gRPC waits for up to two minutes before it tries a member again.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
}
_LARGER: Final = "set its --max-request-bytes to 1572864, the default, or more"
REMEDIES: Final = {
    "database space exceeded": "it is full, and takes nothing more: have it compact and defragment (etcdctl "
    "compact, etcdctl defrag) or raise its --quota-backend-bytes, then etcdctl alarm disarm",
    "request is too large": _LARGER,
    "received message larger than max": _LARGER,
}
"""Of what etcd says itself, in part, to what is to be done about it."""
DOWN: Final = "a majority of its members must run"
Answer = TypeVar("Answer")


class KeyValue(NamedTuple):
    """A key with its value, and the revisions of its creation and last change."""

    key: bytes
    value: bytes
    made: int
    changed: int


class CompactedError(ConnectError):
    """A watch cannot continue; the events since its end must be read."""


class EtcdClient:
    """Calls to the members of an etcd cluster, with a time limit, and watches.

    A failed call may have been carried out. The next call goes to the next member, and so does the watch: a
    member that is cut off from the others keeps its connections, and reports nothing.

    Parameters
    ----------
    endpoints
        All members, each `host:port`.
    first
        Index of the member that is called first.
    timeout_seconds
        Time limit of one call.

    Raises
    ------
    MissingExtraError
        If aetcd is not installed.
    """

    @_EXTRAS.missing_named()
    def __init__(self, endpoints: Sequence[str], first: int, timeout_seconds: float) -> None:
        import aetcd

        self._errors = (aetcd.ClientError, aetcd.rpc.BaseError, OSError, TimeoutError)
        # aetcd tells some compactions as a watch that did not begin in time.
        self._unreachable = aetcd.WatchTimeoutError
        self._lost = (aetcd.RevisionCompactedError, self._unreachable)
        self._puts_only = aetcd.rtypes.EventKind.PUT
        self._endpoints, self._at = list(endpoints), first % len(endpoints)
        self._timeout = timeout_seconds
        self._clients = [
            aetcd.Client(
                host=endpoint.rpartition(":")[0],
                port=int(endpoint.rpartition(":")[2]),
                timeout=timeout_seconds,
                options=OPTIONS,
            )
            for endpoint in self._endpoints
        ]
        self._watch: Any = None
        self._turning: set[asyncio.Task[None]] = set()
        self._reported = ""
        self._limited_log = RateLimitedLogger()
        self.does = self._clients[0].transactions
        """Comparisons and operations of transactions."""

    async def close(self) -> None:
        """Close the connections to all members."""
        for client in self._clients:
            with suppress(*self._errors):
                async with asyncio.timeout(self._timeout):
                    await client.close()

    # ------------------------------------------------------------ calls

    async def transact(
        self, compare: Sequence[object], success: Sequence[object], failure: Sequence[object] = ()
    ) -> tuple[bool, list[Any]]:
        """Whether all comparisons held, and the answer to each operation that was carried out.

        Raises
        ------
        ConnectError
            If no answer came in time. The transaction may have been carried out, or may be later.
        """
        # aetcd walks over both lists without asking whether there is one.
        found: tuple[bool, list[Any]] = await self._call(
            lambda client: client.transaction(list(compare), list(success), list(failure))
        )
        return found

    async def put(self, key: bytes, value: bytes) -> None:
        """Set a key; errors as in `transact`."""
        await self._call(lambda client: client.put(key, value))

    async def range(self, start: bytes, end: bytes) -> tuple[int, list[KeyValue]]:
        """The revision of the store, and the keys from `start` up to `end`, exclusive, in their order.

        The read is linearizable; errors as in `transact`.
        """
        found = await self._call(lambda client: client.get_range(start, end))
        return found.header.revision, [pair(one) for one in sorted(found.kvs, key=lambda one: one.key)]

    async def _call(self, do: Callable[[aetcd.Client], Awaitable[Answer]]) -> Answer:
        at = self._at
        try:
            # A connection that is being made counts too: aetcd's own limit begins behind it.
            async with asyncio.timeout(self._timeout):
                answer = await do(self._clients[at])
        except self._errors as error:
            raise ConnectError(self._turn(at, error)) from error
        self._reported = ""
        return answer

    def _turn(self, at: int, error: Exception) -> str:
        """Continue with the next member; the reason as a sentence."""
        what = str(error) or f"no answer in {self._timeout:g} s"
        remedy = next((then for said, then in REMEDIES.items() if said in what), DOWN)
        told = f"etcd at {self._endpoints[at]} fails ({what}): {remedy}"
        if at == self._at:
            self._at = (at + 1) % len(self._endpoints)
            if self._watch is not None and len(self._endpoints) > 1:
                task = asyncio.create_task(self._end(self._watch))
                self._turning.add(task)
                task.add_done_callback(self._turning.discard)
        if told != self._reported:
            self._reported = told
            # Reads go through while it is full, and each next write fails anew.
            self._limited_log.log(told)
        return told

    async def _end(self, watch: Any) -> None:
        with suppress(*self._errors):
            async with asyncio.timeout(self._timeout):
                await watch.cancel()

    # ------------------------------------------------------------ watches

    async def watch(self, prefix: bytes, revision: int) -> AsyncIterator[KeyValue]:
        """New values under a prefix from a revision on, until the watch breaks.

        Raises
        ------
        CompactedError
            If the store no longer has the events since that revision.
        ConnectError
            If the member cannot be reached.
        """
        at = self._at
        try:
            async with asyncio.timeout(2 * self._timeout):
                self._watch = watch = await self._clients[at].watch_prefix(
                    prefix, start_revision=revision, kind=self._puts_only
                )
            async for event in watch:
                yield pair(event.kv)
        except self._lost as error:
            if isinstance(error, self._unreachable):
                self._turn(at, error)
            raise CompactedError(f"etcd has forgotten what came after revision {revision}") from error
        except self._errors as error:
            raise ConnectError(self._turn(at, error)) from error
        finally:
            self._watch = None


def pair(found: Any) -> KeyValue:
    """The key and value of an answer of aetcd."""
    return KeyValue(bytes(found.key), bytes(found.value), found.create_revision, found.mod_revision)


StoreRead = EntriesRead | GroupSnapshot
"""A part of a log as it is read from etcd."""
PAGE_SLOTS: Final = 64
"""Number of slots of one read; a batch has about 128 KiB at most."""
CHUNK_BYTES: Final = 512 << 10
"""Size of a piece of a snapshot; etcd accepts 1.5 MiB."""
RETRY_SECONDS: Final = 0.2


class EtcdLog:
    """Carries out requests of the core to the store, and reports events.

    Slot N of group G is the key `/trimtab/CLUSTER/G/N`, N in 20 digits; G of the token is -1. The pieces of a
    snapshot are under `/trimtab-snapshots/CLUSTER/G/`, which has no watch. `/trimtab/CLUSTER/G/snapshot`
    names them. All values are frames with a CRC.

    Parameters
    ----------
    report
        Called with each event.
    shared
        The settings that all nodes must have in common. The first node writes them to
        `/trimtab-settings/CLUSTER`. Comparing settings between nodes is not enough: nodes that cannot reach
        each other write the same logs.
    """

    def __init__(
        self,
        client: EtcdClient,
        cluster: str,
        groups: int,
        report: Callable[[StoreEvent], None],
        shared: Shared = (),
    ) -> None:
        self._client, self._groups, self._report = client, range(-1, groups), report
        self._cluster, self._shared = cluster, shared
        self._prefix = f"/trimtab/{cluster}/".encode()
        self._states = f"/trimtab-snapshots/{cluster}/".encode()
        self._revision = 0
        self._last = dict.fromkeys(self._groups, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: set[int] = set()
        self._keeping = asyncio.Lock()

    async def start(self) -> dict[int, list[StoreRead]]:
        """The content of the log of each group. Waits for etcd as long as needed.

        Raises
        ------
        NodeError
            If a value is not of this format.
        InputError
            If the nodes that use these logs have other settings.
        """
        while True:
            try:
                await self._agree()
                self._revision = await self._now()
                return {group: await self._read(group, 1) for group in self._groups}
            except ConnectError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _agree(self) -> None:
        """Write the settings of this node, or compare them with those stored."""
        does, key = self._client.does, f"/trimtab-settings/{self._cluster}".encode()
        made, answers = await self._client.transact(
            [does.create(key) == 0], [does.put(key, encoded(self._shared))], [does.get(key)]
        )
        if made:
            return
        ((value, _),) = answers[0]
        theirs = _value(key, bytes(value))
        # What only one of two versions knows is not compared: it would have to be removed at each update.
        known = {name for name, _ in theirs} & {name for name, _ in self._shared}
        differs = differences(
            *({name: one for name, one in side if name in known} for side in (self._shared, theirs))
        )
        if differs:
            raise InputError(
                f"settings of this node differ from those stored for cluster {self._cluster} in etcd "
                f"({differs}): use the same on all nodes; to change them, stop all nodes, remove etcd's key "
                f"{key.decode()}, and start them again"
            )

    async def run(self) -> None:
        """Watch without end; errors as in `start`."""
        while True:
            try:
                async for found in self._client.watch(self._prefix, self._revision + 1):
                    self._see(found)
                    # All of a transaction has one revision: the next watch may begin behind it only when
                    # the next one has come.
                    self._revision = max(self._revision, found.changed - 1)
            except CompactedError:
                await self._read_all()
            except ConnectError:
                pass
            await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Cancel all requests in progress."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def submit(self, ask: StoreRequest) -> None:
        """Start a request; its result is reported later."""
        group, asked = ask
        match asked:
            case CreateEntries():
                self._begin(self._create(group, asked))
            case ReadEntries(slot):
                if group not in self._reading:
                    self._reading.add(group)
                    self._begin(self._read_and_report(group, slot))
            case StoreSnapshot():
                self._begin(self._keep(group, asked))

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"a question to etcd failed: {error!r}", file=sys.stderr, flush=True)

    # ------------------------------------------------------------ slots

    def _key(self, group: int, slot: int) -> bytes:
        return self._prefix + b"%d/%020d" % (group, slot)

    def _head(self, group: int) -> bytes:
        return self._prefix + b"%d/snapshot" % group

    async def _create(self, group: int, request: CreateEntries) -> None:
        does, (number, slot, entries) = self._client.does, request
        keys = [self._key(group, at) for at in range(slot, slot + len(entries))]
        compare = [does.create(key) == 0 for key in keys]
        # The slot before must be there: none is left out, and none that was cut off is filled again.
        compare.append(
            does.create(self._key(group, slot - 1)) > 0 if slot > 1 else does.create(self._head(group)) == 0
        )
        puts = [does.put(key, encoded(entry)) for key, entry in zip(keys, entries, strict=True)]
        there = does.get(keys[0], self._key(group, slot + len(entries)))
        try:
            done, answers = await self._client.transact(compare, puts, [there])
        except ConnectError:
            self._report(StoreEvent(group, AppendTimeout(number)))
            return
        if done:
            self._report(StoreEvent(group, EntriesCreated(number)))
            return
        found = sorted((bytes(one.key), bytes(value)) for value, one in answers[0])
        begins = bool(found) and found[0][0] == keys[0]
        taken = tuple(_value(*one) for one in found) if begins else ()
        self._report(StoreEvent(group, AppendConflict(number, slot, taken)))

    def _see(self, found: KeyValue) -> None:
        """Report a value that was put in etcd."""
        of, _, which = found.key.removeprefix(self._prefix).partition(b"/")
        group, value = int(of), _value(found.key, found.value)
        if group not in self._last:
            return
        if which == b"snapshot":
            self._report(StoreEvent(group, SnapshotStored(value[0])))
        else:
            slot = int(which)
            self._last[group] = max(self._last[group], slot)
            self._report(StoreEvent(group, EntriesRead(slot, (value,))))

    async def _now(self) -> int:
        """The revision of the store."""
        return (await self._client.range(self._prefix, self._prefix + b"\0"))[0]

    async def _read(self, group: int, since: int) -> list[StoreRead]:
        """The slots from one on, behind a snapshot if they are cut off."""
        told: list[StoreRead] = []
        while True:
            until = self._key(group, since + PAGE_SLOTS)
            _, page = await self._client.range(self._key(group, since), until)
            if not page or page[0].key != self._key(group, since):
                snapshot = await self._snapshot(group, since)
                if snapshot is None:
                    return told
                told = [snapshot]
                since = snapshot.slot + 1
                continue
            told.append(EntriesRead(since, tuple(_value(one.key, one.value) for one in page)))
            since += len(page)
            self._last[group] = max(self._last[group], since - 1)

    async def _read_and_report(self, group: int, since: int) -> None:
        try:
            for told in await self._read(group, since) or [EntriesRead(since, ())]:
                self._report(StoreEvent(group, told))
        except ConnectError:
            pass  # whoever misses something asks again
        finally:
            self._reading.discard(group)

    async def _read_all(self) -> None:
        """Read the events that a watch has missed."""
        try:
            revision = await self._now()
            for group in self._groups:
                for told in await self._read(group, self._last[group] + 1):
                    self._report(StoreEvent(group, told))
            self._revision = revision
        except ConnectError:
            pass

    # ------------------------------------------------------------ snapshots

    async def _snapshot(self, group: int, since: int) -> GroupSnapshot | None:
        """The stored snapshot of a group, if it reaches a slot."""
        while True:
            head = self._head(group)
            _, found = await self._client.range(head, head + b"\0")
            if not found:
                return None
            slot, name, pieces = _value(head, found[0].value)
            if slot < since:
                return None
            data = b""
            for piece in range(pieces):
                key = self._read_chunk(group, name, piece)
                _, part = await self._client.range(key, key + b"\0")
                if not part:
                    break  # a later one has taken its place meanwhile
                data += part[0].value
            else:
                kept = _value(head, data)
                assert isinstance(kept, GroupSnapshot)
                return kept

    def _read_chunk(self, group: int, name: str, part: int) -> bytes:
        return self._states + f"{group}/{name}/{part:06d}".encode()

    async def _keep(self, group: int, request: StoreSnapshot) -> None:
        """Store the pieces of a snapshot; then name them, cut off slots and remove older pieces in one
        transaction.
        """
        async with self._keeping:
            # Pieces that are left go with the next ones; the core has it kept again.
            with suppress(ConnectError):
                await self._put_state(group, request)

    async def _put_state(self, group: int, request: StoreSnapshot) -> None:
        does, head = self._client.does, self._head(group)
        _, found = await self._client.range(head, head + b"\0")
        if found and _value(head, found[0].value)[0] >= request.slot:
            return
        # A name of its own: whoever keeps the same slot at the same time must not mix its pieces with these.
        name, data = (
            f"{request.slot:020d}-{secrets.token_hex(4)}",
            encoded(GroupSnapshot(request.slot, request.state)),
        )
        pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        for number, piece in enumerate(pieces):
            await self._client.put(self._read_chunk(group, name, number), piece)
        states = self._states + b"%d/" % group
        own = states + name.encode()
        await self._client.transact(
            [does.mod(head) == (found[0].changed if found else 0)],
            [
                does.put(head, encoded((request.slot, name, len(pieces)))),
                does.delete(self._key(group, 0), self._key(group, request.cut + 1)),
                does.delete(states, own),
                does.delete(own + b"0", states[:-1] + b"0"),
            ],
        )


def _value(key: bytes, value: bytes) -> Any:
    """The message of a frame.

    Raises
    ------
    NodeError
        If it is no frame, or its message is unknown.
    """
    try:
        _, message = next(frames(memoryview(value)))
    except (TornFrameError, InputError, StopIteration) as error:
        raise NodeError(
            f"etcd's key {key.decode(errors='replace')} holds no entry that is known here ({error}): give "
            "this cluster a name of its own, or update this node"
        ) from None
    return message
