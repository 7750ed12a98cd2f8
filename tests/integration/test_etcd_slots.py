"""Slots in a real etcd: it answers what the model of the simulation answers; and what a client meets."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest

from simulate.masters.store import SimulatedLogStore
from trimtab.lab.sandbox.masters.sandbox import etcd_program, member_command, wait_until_healthy
from trimtab.lab.sandbox.processes import SandboxProcess, free_ports, kill, spawn
from trimtab.model.errors import SandboxError
from trimtab_common.errors import ConnectError, InputError, NodeError
from trimtab_store.core.messages import (
    ENTRY_BYTES,
    NAME_BYTES,
    PAYLOAD_BYTES,
    AppendMessages,
    ClaimMastership,
    CreateEntries,
    EntriesRead,
    MessageRecord,
    ReadEntries,
    StoreEvent,
    StoreRequest,
    StoreSnapshot,
    entry_bytes,
)
from trimtab_store.node.etcd import CompactedError, EtcdClient, EtcdLog

A = AppendMessages(1, (MessageRecord("t", "p", 1, b"\x00\xff"),))
B, C = ClaimMastership(0, (1, 1), 0), AppendMessages(2, ())
STATE = ("much", bytes(1_300_000))
"""More than etcd takes in one value."""
STORY = (
    CreateEntries((1, 1), 1, (A, B)),  # the first of all
    CreateEntries((1, 2), 1, (C,)),  # taken
    CreateEntries((1, 3), 2, (C, C)),  # one of two is taken
    CreateEntries((1, 4), 9, (C,)),  # leaves slots out
    CreateEntries((1, 5), 3, (C, A, B)),
    ReadEntries(2),
    ReadEntries(6),  # nothing yet
    StoreSnapshot(4, 2, STATE),
    StoreSnapshot(3, 1, ("late",)),  # a later one is kept
    CreateEntries((1, 6), 1, (A,)),  # cut off, as is what follows
    CreateEntries((1, 7), 2, (A,)),
    CreateEntries((1, 8), 3, (A,)),  # there, and the one before is not
    CreateEntries((1, 9), 6, (A,)),
    ReadEntries(1),
    StoreSnapshot(6, 5, ("more",)),
    ReadEntries(5),
    ReadEntries(6),
)


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxProcess, str]]:
    """One member, and where it is."""
    try:
        program = etcd_program()
    except SandboxError as error:
        pytest.skip(f"no etcd can be had: {error}")
    folder, ports = tmp_path_factory.mktemp("etcd"), free_ports(2)
    command = member_command(program, 0, ports, folder, 1.0)
    process = spawn(command, folder, folder / "out.log", outlive=False)
    try:
        wait_until_healthy(ports[:1], 60.0, lambda: None)
        yield process, f"127.0.0.1:{ports[0]}"
    finally:
        kill([process])


def tried(endpoint: str, story: Callable[[EtcdClient], Awaitable[Any]]) -> Any:
    """What comes of a story that has a client."""

    async def run() -> Any:
        client = EtcdClient([endpoint], 0, 2.0)
        try:
            return await story(client)
        finally:
            await client.close()

    return asyncio.run(run())


def test_etcd_answers_as_its_model_does(member: tuple[SandboxProcess, str]) -> None:
    """The same requests give the same responses, and every watcher receives the same events."""

    async def story(client: EtcdClient) -> list[list[StoreEvent]]:
        found: list[list[StoreEvent]] = [[]]
        slots = EtcdLog(client, uuid4().hex, 1, lambda told: found[-1].append(told))
        assert await slots.start() == {-1: [], 0: []}
        watch = asyncio.create_task(slots.run())
        await asyncio.sleep(0.5)
        for asked in STORY:
            slots.submit(StoreRequest(0, asked))
            await asyncio.sleep(0.5)
            found.append([])
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        again = EtcdLog(client, slots._prefix.decode().split("/")[2], 1, found[-1].append)
        found.append([StoreEvent(0, one) for one in (await again.start())[0]])
        return found

    store = SimulatedLogStore()
    model = [[*chain(*store.request(StoreRequest(0, asked)))] for asked in STORY]
    model += [[], [StoreEvent(0, one) for one in store.read(0, 1)]]
    assert [parted(found) for found in tried(member[1], story)] == [parted(found) for found in model]


def parted(found: list[StoreEvent]) -> list[Any]:
    """What was told, slot by slot, in an order of its own: a watch tells each by itself."""
    told: list[Any] = []
    for _, one in found:
        if isinstance(one, EntriesRead):
            told += [("EntriesRead", slot, entry) for slot, entry in enumerate(one.entries, one.slot)]
        else:
            told.append((type(one).__name__, *one))
    return sorted(told, key=repr)


def test_a_watch_of_compacted_events_reports_that(member: tuple[SandboxProcess, str]) -> None:
    """What happened since is read then."""

    async def story(client: EtcdClient) -> None:
        key = f"/story/{uuid4().hex}".encode()
        for value in (b"1", b"2", b"3"):
            await client.put(key, value)
        revision, _ = await client.range(key, key + b"\0")
        found = await anext(client.watch(key, revision))
        assert (found.key, found.value, found.changed) == (key, b"3", revision)
        await client._clients[0].compact(revision)
        with pytest.raises(CompactedError, match="has forgotten"):
            await anext(client.watch(key, revision - 1))

    tried(member[1], story)


def test_a_member_that_does_not_answer_is_awaited_for_a_limited_time(
    member: tuple[SandboxProcess, str],
) -> None:
    """A stopped process keeps its connections; it is unknown whether it executed the request."""
    process, endpoint = member

    async def story(client: EtcdClient) -> None:
        key = f"/story/{uuid4().hex}".encode()
        await client.put(key, b"1")
        process.signal(signal.SIGSTOP)
        try:
            with pytest.raises(ConnectError, match="a majority of its members must run"):
                await client.put(key, b"2")
        finally:
            process.signal(signal.SIGCONT)
        for _ in range(50):
            try:
                _, found = await client.range(key, key + b"\0")
            except ConnectError:
                continue
            assert found[0].value in (b"1", b"2")
            return
        raise AssertionError("no answer any more")

    tried(endpoint, story)


def test_the_next_member_is_tried_if_one_is_unreachable(member: tuple[SandboxProcess, str]) -> None:
    """A connection that is refused costs one call."""

    async def story() -> None:
        client = EtcdClient([f"127.0.0.1:{free_ports(1)[0]}", member[1]], 0, 2.0)
        with pytest.raises(ConnectError):
            await client.put(b"/story/key", b"1")
        await client.put(b"/story/key", b"1")
        await client.close()

    asyncio.run(story())


def test_an_unreadable_slot_ends_the_node(member: tuple[SandboxProcess, str]) -> None:
    """A slot that cannot be read must not be passed over."""

    async def story(client: EtcdClient) -> None:
        name = uuid4().hex
        await client.put(b"/trimtab/%s/0/%020d" % (name.encode(), 1), b"another program's")
        with pytest.raises(NodeError, match="holds no entry that is known here"):
            await EtcdLog(client, name, 1, lambda told: None).start()

    tried(member[1], story)


def test_nodes_of_other_settings_do_not_use_the_same_logs(member: tuple[SandboxProcess, str]) -> None:
    """The first node to start stores the settings for all, also for unreachable nodes."""

    async def story(client: EtcdClient) -> None:
        name = uuid4().hex
        shared = (("groups", 1), ("lease_seconds", 10.0))
        for _ in range(2):
            await EtcdLog(client, name, 1, lambda told: None, shared).start()
        sentence = (
            r"cluster \w+ in etcd \(lease_seconds 7 instead of 10\): use the same on all nodes; "
            r".* /trimtab-settings/\w+, and"
        )
        with pytest.raises(InputError, match=sentence):
            await EtcdLog(client, name, 1, lambda told: None, (("lease_seconds", 7.0), ("new", 1))).start()

    tried(member[1], story)


@pytest.mark.parametrize("size", [0, PAYLOAD_BYTES])
@pytest.mark.parametrize("entries", [1, 8])
def test_the_largest_that_is_put_at_once_is_taken(
    member: tuple[SandboxProcess, str], entries: int, size: int
) -> None:
    """With etcd's default limits: a rejected value would be put again and again, and block the group."""
    one = MessageRecord("ä" * (NAME_BYTES // 2), "p" * NAME_BYTES, 1 << 62, bytes(size))
    most = ENTRY_BYTES // entries
    batch = AppendMessages(1 << 62, (one,) * (most // entry_bytes(AppendMessages(0, (one,)))))
    assert most - size - 1000 < entry_bytes(batch) <= most

    async def story(client: EtcdClient) -> list[StoreEvent]:
        told: list[StoreEvent] = []
        EtcdLog(client, "c" * 64, 1000, told.append).submit(
            StoreRequest(100 * entries + bool(size), CreateEntries((1 << 62, 1), 1, (batch,) * entries))
        )
        async with asyncio.timeout(10):
            while not told:
                await asyncio.sleep(0.01)
        return told

    (told,) = tried(member[1], story)
    assert type(told.event).__name__ == "EntriesCreated"


def test_pages_are_read_one_after_another(member: tuple[SandboxProcess, str]) -> None:
    """More slots than are read at once."""

    async def story(client: EtcdClient) -> list[Any]:
        told: list[StoreEvent] = []
        name = uuid4().hex
        slots = EtcdLog(client, name, 1, told.append)
        for slot in range(1, 200, 10):
            slots.submit(StoreRequest(0, CreateEntries((1, slot), slot, (C,) * 10)))
            while len(told) * 10 < slot:
                await asyncio.sleep(0.01)
        return (await EtcdLog(client, name, 1, told.append).start())[0]

    found = tried(member[1], story)
    assert [len(one.entries) for one in found] == [64, 64, 64, 8] and found[-1].slot == 193
