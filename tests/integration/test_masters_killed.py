"""Real node processes, killed with -9 under producers and consumers: a slice of the kills of the sandbox."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kill_tests.masters import GROUPS, LEASE_SECONDS, NODES, STRIKES, StoreKillTest
from kill_tests.proxy import ProxiedSandbox
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.lab.sandbox.masters.system import describe
from trimtab.model.errors import SandboxError
from trimtab.systems.paxos.collector import store_problems
from trimtab_store.clients.cluster import StoreConfig, query_group_status, voters_of
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer

KILLS, KILLS_CUT = 5, 4


def test_no_acknowledged_message_is_lost_by_kills(tmp_path: Path) -> None:
    """Masters, preferred nodes, both, all: every producer's messages are there once, in order; offsets stay.

    So does the last map that was published, in the store itself, while nodes were killed.
    """
    with MastersSandbox.start(
        NODES, GROUPS, lease_seconds=LEASE_SECONDS, map_in_store=True, folder=tmp_path / "kills"
    ) as sandbox:
        told = StoreKillTest(sandbox, seed=3).run(KILLS)
    assert told.killed >= KILLS and told.strikes.keys() <= set(STRIKES)
    # Strikes between which nothing is acknowledged would find nothing.
    assert told.logged >= told.acknowledged > 100 * GROUPS


def test_nothing_acknowledged_is_lost_whatever_is_cut(tmp_path: Path) -> None:
    """The same while nodes reach one another through a proxy that is cut one way, both ways, or slow."""
    with ProxiedSandbox.start(
        NODES, GROUPS, lease_seconds=LEASE_SECONDS, folder=tmp_path / "cuts"
    ) as sandbox:
        told = StoreKillTest(sandbox, seed=2).run(KILLS_CUT)
    assert told.killed >= KILLS_CUT and told.cuts.total() >= 1
    assert told.logged >= told.acknowledged > 100 * GROUPS


def test_messages_in_flight_are_not_multiplied_without_a_master(tmp_path: Path) -> None:
    """256 messages of 16 KB, a master that is killed, a lease without one: each is sent twice at most.

    Before, each was sent 63 times, 258 MB for 4.
    """
    with MastersSandbox.start(NODES, 1, lease_seconds=2.0, folder=tmp_path / "storm") as sandbox:
        given, sent = asyncio.run(_failed_over(sandbox))
    assert given == 257 and given < sent <= 2 * given + 40


async def _failed_over(sandbox: MastersSandbox) -> tuple[int, int]:
    async with Producer(sandbox.state.cluster, "t") as producer:
        await producer.send(b"")
        (master,) = await asyncio.to_thread(sandbox.masters)
        acknowledged = [await producer.post(bytes(16384)) for _ in range(200)]
        await asyncio.to_thread(sandbox.kill, master)
        acknowledged += [await producer.post(bytes(16384)) for _ in range(56)]
        await asyncio.gather(*acknowledged)
        return producer.counts


def test_a_lost_disk_loses_nothing(tmp_path: Path) -> None:
    """The folder of a follower is emptied while it and another are down. All messages are there again before
    it votes, and until then it counts as down: status and sandbox report that. Then the master may be killed.
    """
    with MastersSandbox.start(NODES, 1, lease_seconds=LEASE_SECONDS, folder=tmp_path / "disk") as sandbox:
        master = sandbox.masters()[0]
        lost, silent = (node for node in range(NODES) if node != master)
        cluster = sandbox.state.cluster
        asyncio.run(_sent(cluster, 20))
        sandbox.kill(lost)
        sandbox.kill(silent)
        for file in sandbox.state.node_folder(lost).glob("log*"):
            file.unlink()
        sandbox.restart(lost)
        while _messages(cluster, lost) < 20 or sandbox.masters() != [-1]:
            time.sleep(0.2)
        (problem,) = store_problems(sandbox.paxos.reports())
        assert problem.startswith(f"node {lost} started without its log and has no vote in 1 of 1 groups: ")
        with pytest.raises(SandboxError, match=rf"no master \(node {lost} has no vote"):
            sandbox.wait_until_serving(0.0)
        assert describe(sandbox.state).count("no vote yet") == 1
        sandbox.restart(silent)
        while lost not in voters_of(asyncio.run(query_group_status(cluster))):
            time.sleep(0.2)
        sandbox.kill(master)
        sandbox.wait_until_serving()
        assert asyncio.run(_read(cluster, 20)) == list(range(20))


def _messages(cluster: StoreConfig, node: int) -> int:
    """Of group 0, on a node; 0 while it does not answer."""
    there = asyncio.run(query_group_status(cluster)).get(node, {})
    return there[0].messages if 0 in there else 0


async def _sent(cluster: StoreConfig, number: int) -> None:
    async with Producer(cluster, "t") as producer:
        for one in range(number):
            await producer.send(b"%d" % one)


async def _read(cluster: StoreConfig, number: int) -> list[int]:
    async with Consumer(cluster, "t", "reader") as consumer:
        return [int((await consumer.receive()).payload) for _ in range(number)]


def test_a_mastership_changes_hands_and_clients_go_on(tmp_path: Path) -> None:
    """A producer gets no error, a consumer gets each message once, the next one of its name goes on there."""
    with MastersSandbox.start(NODES, 1, lease_seconds=LEASE_SECONDS, folder=tmp_path / "move") as sandbox:
        target = (sandbox.masters()[0] + 1) % NODES
        asyncio.run(_moved(sandbox, target))
        assert sandbox.masters() == [target]


async def _moved(sandbox: MastersSandbox, target: int) -> None:
    cluster = sandbox.state.cluster
    async with Producer(cluster, "t") as producer, Consumer(cluster, "t", "reader") as consumer:
        await producer.send(b"1")
        sandbox.publish([target])
        sent = 1
        while sent < 10 or await asyncio.to_thread(sandbox.masters) != [target]:
            sent += 1
            assert await producer.send(b"%d" % sent) == sent
        found = [await consumer.receive() for _ in range(sent)]
        assert [int(one.payload) for one in found] == [*range(1, sent + 1)]
        consumer.done(found[-2])
        await consumer.keep()
    async with Consumer(cluster, "t", "reader") as later:
        assert await later.receive() == found[-1]
