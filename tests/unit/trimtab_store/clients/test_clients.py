"""Producer and consumer against a node in the same event loop, and against nobody."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from trimtab.lab.sandbox.masters.sandbox import settings_for
from trimtab.lab.sandbox.processes import free_ports
from trimtab_common.errors import ConnectError, InputError, NodeError
from trimtab_store.clients.cluster import StoreConfig, masters_of, query_group_status
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer
from trimtab_store.core.messages import PAYLOAD_BYTES, MapChanged
from trimtab_store.format import log
from trimtab_store.format.configuration import CONFIGURATION_FORMAT, NodeConfiguration, write_map
from trimtab_store.format.log import NodeLog
from trimtab_store.node import process
from trimtab_store.node.process import NodeProcess


def configuration(folder: Path) -> NodeConfiguration:
    """A cluster of one node and two groups, whose leases are short."""
    write_map(folder / "map.json", MapChanged(1, (0, 0)))
    return NodeConfiguration(
        format=CONFIGURATION_FORMAT,
        cluster="c",
        node=0,
        addresses=[f"127.0.0.1:{free_ports(1)[0]}"],
        folder=str(folder / "node"),
        groups=2,
        map=str(folder / "map.json"),
        settings=settings_for(1.0),
    )


@asynccontextmanager
async def running(given: NodeConfiguration) -> AsyncIterator[StoreConfig]:
    """The node, until the end."""
    node = asyncio.create_task(NodeProcess(given).run())
    try:
        yield StoreConfig(given.cluster, tuple(given.addresses), given.groups)
    finally:
        node.cancel()
        with suppress(asyncio.CancelledError):
            await node


def test_messages_are_stored_and_read_once_in_order_and_the_offset_stays(tmp_path: Path) -> None:
    """The next consumer of the name starts behind finished messages, also on a restarted node."""

    async def story() -> None:
        given = configuration(tmp_path)
        async with running(given) as cluster:
            async with Producer(cluster, "t") as producer:
                assert await producer.send(b"1") == 1
                futures = [await producer.post(b"%d" % number) for number in range(2, 1001)]
                await producer.flush()
                assert [one.result() for one in futures] == [*range(2, 1001)]
            async with Consumer(cluster, "t", "reader", max_messages=7) as consumer:
                found = [await consumer.receive() for _ in range(1000)]
                assert [(one.offset, int(one.payload)) for one in found] == [(n, n + 1) for n in range(1000)]
                consumer.done(found[400])
                await consumer.keep()
                assert consumer.committed_offset == 401
        async with running(given) as cluster, Consumer(cluster, "t", "reader") as consumer:
            assert (await consumer.receive()).offset == 401

    asyncio.run(story())


def test_a_closing_consumer_uploads_its_offsets_and_is_forgotten(tmp_path: Path) -> None:
    """Even after a short incarnation: no finished message is delivered again, and no transfer waits for it.
    Before, each close caused 38 repeated messages, and the next transfer waited for a second.
    """

    async def story() -> None:
        given = configuration(tmp_path)
        node = NodeProcess(given)
        task = asyncio.create_task(node.run())
        cluster = StoreConfig(given.cluster, tuple(given.addresses), given.groups)
        group = node._core.groups[cluster.group_of("t")]
        async with Producer(cluster, "t") as producer:
            for number in range(40):
                await producer.post(b"%d" % number)
            await producer.flush()
        for life in range(4):
            async with Consumer(cluster, "t", "reader") as consumer:
                for number in range(10 * life, 10 * life + 10):
                    message = await consumer.receive()
                    assert message.offset == number
                    consumer.done(message)
                assert group.consumer_sessions.consumers
            assert group.consumer_sessions.consumers == {} and consumer.committed_offset == 10 * life + 10
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())


def test_a_consumer_closes_although_no_node_answers(tmp_path: Path) -> None:
    """The node ends first: at once where no connection is left, else after `closing_seconds`."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(running(configuration(tmp_path)))
            async with Producer(cluster, "t") as producer:
                await producer.send(b"")
            async with asyncio.timeout(10), Consumer(cluster, "t", "reader", closing_seconds=0.2) as consumer:
                consumer.done(await consumer.receive())
                await stack.aclose()

    asyncio.run(story())


def test_each_topic_stands_in_its_group(tmp_path: Path) -> None:
    """A request to a node reports that."""

    async def story() -> None:
        async with running(configuration(tmp_path)) as cluster:
            topics = {cluster.group_of(f"topic-{number}"): f"topic-{number}" for number in range(20)}
            for group, topic in topics.items():
                async with Producer(cluster, topic) as producer:
                    for _ in range(group + 1):
                        await producer.send(b"")
            standings = await query_group_status(cluster)
            assert masters_of(standings, cluster.groups) == [0, 0]
            assert [standings[0][group].messages for group in range(2)] == [1, 2]

    asyncio.run(story())


def test_two_producers_of_a_topic_are_counted_apart(tmp_path: Path) -> None:
    """Each has a name of its own, though both count from one."""

    async def story() -> None:
        async with running(configuration(tmp_path)) as cluster:
            async with Producer(cluster, "t") as one, Producer(cluster, "t") as other:
                assert one.name != other.name
                for number in range(1, 4):
                    assert await one.send(b"one") == await other.send(b"other") == number
            async with Consumer(cluster, "t", "reader") as consumer:
                found = [await consumer.receive() for _ in range(6)]
            assert sorted(message.payload for message in found) == [b"one"] * 3 + [b"other"] * 3

    asyncio.run(story())


def test_a_message_that_is_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    """And the producer goes on; the largest that is allowed is stored and read."""

    async def story() -> None:
        async with running(configuration(tmp_path)) as cluster:
            async with Producer(cluster, "t") as producer:
                with pytest.raises(InputError, match="has 65,537 bytes, expected 65,536 or fewer"):
                    await producer.send(b"x" * (PAYLOAD_BYTES + 1))
                futures = [await producer.post(b"x" * PAYLOAD_BYTES) for _ in range(40)]
                assert await asyncio.gather(*futures) == [*range(1, 41)]
            async with Consumer(cluster, "t", "reader") as consumer:
                found = [await consumer.receive() for _ in range(40)]
                assert [len(one.payload) for one in found] == [PAYLOAD_BYTES] * 40

    asyncio.run(story())


def test_an_unreachable_cluster_is_reported_with_its_addresses() -> None:
    """A failed producer stays failed: the result of its messages is unknown."""

    async def story() -> None:
        cluster = StoreConfig("c", (f"127.0.0.1:{free_ports(1)[0]}",), 1)
        async with Producer(cluster, "t", timeout_seconds=0.3) as producer:
            for _ in range(2):
                with pytest.raises(ConnectError, match=f"not answered in 0.3 s .*{cluster.addresses[0]}"):
                    await producer.send(b"")
        async with Consumer(cluster, "t", "reader", timeout_seconds=0.3) as consumer:
            with pytest.raises(ConnectError, match="a question of consumer reader of topic t"):
                await consumer.receive()

    asyncio.run(story())


def test_nodes_of_another_cluster_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They close the connection, with the reason on both sides."""

    async def story() -> None:
        async with running(configuration(tmp_path)) as cluster:
            other = StoreConfig("other", cluster.addresses, 2)
            async with Producer(other, "t", timeout_seconds=0.5) as producer:
                sentence = "node 0 refuses: client .* is of cluster 'other', expected 'c': refused"
                with pytest.raises(ConnectError, match=sentence):
                    await producer.send(b"")

    asyncio.run(story())
    assert "is of cluster 'other', expected 'c': refused" in capsys.readouterr().err


def test_a_second_process_of_a_node_is_refused(tmp_path: Path) -> None:
    """By its log, and if it has another one by its address."""

    async def story() -> None:
        given = configuration(tmp_path)
        async with running(given) as cluster:
            while not await query_group_status(cluster, 0.5):
                await asyncio.sleep(0.05)
            with pytest.raises(InputError, match="is in use by another process: this node runs already"):
                NodeProcess(given)
            elsewhere = replace(given, folder=str(tmp_path / "elsewhere"))
            with pytest.raises(NodeError, match="node 0 of cluster c ends: .*address already in use"):
                await NodeProcess(elsewhere).run()

    asyncio.run(story())


def test_an_invalid_map_is_reported_and_the_previous_one_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence; the node goes on."""

    async def story() -> None:
        given = configuration(tmp_path)
        async with running(given) as cluster, Producer(cluster, "t") as producer:
            await producer.send(b"")
            write_map(Path(given.map), MapChanged(2, (0, 7)))
            told = ""
            while "the map stays as it was" not in told:
                await asyncio.sleep(0.1)
                told += capsys.readouterr().err
            assert "names node 7 as preferred for group 1" in told
            await producer.send(b"")

    asyncio.run(story())


def test_a_client_that_is_closed_while_it_connects_is_closed() -> None:
    """At whichever step of the event loop: its connections must not outlive it."""

    async def story() -> None:
        cluster = StoreConfig("c", (f"127.0.0.1:{free_ports(1)[0]}",), 1)
        for steps in range(20):
            consumer = await Consumer(cluster, "t", "reader").__aenter__()
            for _ in range(steps):
                await asyncio.sleep(0)
            closing = asyncio.create_task(consumer.__aexit__(None, None, None))
            assert (await asyncio.wait([closing], timeout=10))[0] == {closing}, f"not closed at step {steps}"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(errno.ENOSPC, "is full: free space there"), (errno.EROFS, "is read-only: see why")],
)
def test_a_node_whose_disk_rejects_writes_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str
) -> None:
    """In one sentence, and answers nothing that it could not keep; what it acknowledged is there again."""

    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    async def story() -> None:
        given = configuration(tmp_path)
        node = asyncio.create_task(NodeProcess(given).run())
        cluster = StoreConfig(given.cluster, tuple(given.addresses), given.groups)
        async with Producer(cluster, "t", timeout_seconds=4.0) as producer:
            await producer.send(b"kept")
            with monkeypatch.context() as patch:
                patch.setattr(log, "write_all", fails)
                lost = await producer.post(b"lost")
                with pytest.raises(
                    NodeError, match=f"^node 0 of cluster c ends: the disk of .* {sentence}.*again"
                ):
                    await node
            with pytest.raises(ConnectError):
                await lost
        async with running(given), Consumer(cluster, "t", "reader") as consumer:
            assert (await consumer.receive()).payload == b"kept"

    asyncio.run(story())


def test_a_running_node_keeps_its_log_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it serves; the remaining log contains every message after a restart."""
    monkeypatch.setattr(process, "NodeLog", partial(NodeLog, segment_bytes=100_000))
    given = replace(configuration(tmp_path), settings=replace(settings_for(1.0), snapshot_entries=20))

    async def story() -> None:
        async with running(given) as cluster, Producer(cluster, "t") as producer:
            for number in range(1000):
                await producer.post(b"%d" % number + b" " * 100)
            await producer.flush()
            while log.segments(tmp_path / "node" / "log")[0] == 1:
                await producer.send(b"0")
        async with running(given) as cluster, Consumer(cluster, "t", "reader") as consumer:
            found = [await consumer.receive() for _ in range(1000)]
            assert [int(one.payload) for one in found] == [*range(1000)]

    asyncio.run(story())
