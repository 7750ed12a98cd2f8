"""Real node processes on a real etcd of three members: transfers and kills under producers and consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kill_tests.masters import GROUPS, LEASE_SECONDS, NODES, StoreKillTest
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox, etcd_program
from trimtab.model.errors import SandboxError
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer
from trimtab_store.core.node import ETCD

KILLS = 4


@pytest.fixture(scope="module", autouse=True)
def program() -> str:
    """An etcd, from PATH or out of Debian's package; without one there is nothing to try."""
    try:
        return etcd_program()
    except SandboxError as error:
        pytest.skip(f"no etcd can be had: {error}")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[MastersSandbox]:
    """Three nodes with one group."""
    with MastersSandbox.start(
        NODES, 1, lease_seconds=LEASE_SECONDS, engine=ETCD.name, folder=tmp_path / "one"
    ) as running:
        yield running


def test_clients_continue_through_a_transfer_and_the_death_of_master_and_member(
    sandbox: MastersSandbox,
) -> None:
    """The producer gets no error; every message is read once, in its order."""
    asyncio.run(_struck(sandbox))


async def _struck(sandbox: MastersSandbox) -> None:
    cluster, sent = sandbox.state.cluster, 0
    async with Producer(cluster, "t") as producer, Consumer(cluster, "t", "reader") as consumer:

        async def send(messages: int) -> None:
            nonlocal sent
            for _ in range(messages):
                sent += 1
                assert await producer.send(b"%d" % sent) == sent

        await send(10)
        target = ((await asyncio.to_thread(sandbox.masters))[0] + 1) % NODES
        sandbox.publish([target])
        while await asyncio.to_thread(sandbox.masters) != [target]:
            await send(1)
        await send(10)
        await asyncio.to_thread(sandbox.kill, target)
        await send(10)
        (now,) = await asyncio.to_thread(sandbox.masters)
        assert now != target
        await asyncio.to_thread(sandbox.restart, target)
        member = sandbox.state.members[0].id
        await asyncio.to_thread(sandbox.kill, member)
        await send(10)
        await asyncio.to_thread(sandbox.restart, member)
        found = [await consumer.receive() for _ in range(sent)]
        assert [int(one.payload) for one in found] == [*range(1, sent + 1)]
        consumer.done(found[-2])
        await consumer.keep()
    async with Consumer(cluster, "t", "reader") as later:
        assert await later.receive() == found[-1]


@pytest.mark.long
def test_all_nodes_restart_from_etcd(sandbox: MastersSandbox) -> None:
    """They keep nothing themselves."""
    asyncio.run(_send(sandbox, 5))
    for node in range(NODES):
        sandbox.kill(node)
    for node in range(NODES):
        sandbox.restart(node)
    sandbox.wait_until_serving()
    assert asyncio.run(_read(sandbox, 5)) == [b"0", b"1", b"2", b"3", b"4"]


async def _send(sandbox: MastersSandbox, messages: int) -> None:
    async with Producer(sandbox.state.cluster, "t") as producer:
        for number in range(messages):
            await producer.send(b"%d" % number)


async def _read(sandbox: MastersSandbox, messages: int) -> list[bytes]:
    async with Consumer(sandbox.state.cluster, "t", "reader") as consumer:
        return [(await consumer.receive()).payload for _ in range(messages)]


@pytest.mark.long
def test_no_acknowledged_message_is_lost_by_kills(tmp_path: Path) -> None:
    """Masters, preferred nodes, both, all, and members of etcd: the ledger of every topic holds."""
    with MastersSandbox.start(
        NODES, GROUPS, lease_seconds=LEASE_SECONDS, engine=ETCD.name, folder=tmp_path / "kills"
    ) as sandbox:
        told = StoreKillTest(sandbox, seed=5).run(KILLS)
    assert told.killed >= KILLS
    assert told.logged >= told.acknowledged > 100 * GROUPS
