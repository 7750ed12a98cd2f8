"""What clients and peers say wrongly or too much of: it ends their connection, never the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from support.masters_nodes import (
    cluster_of,
    free_addresses,
    lines_without_pauses,
    node_configuration,
    nodes_running,
    with_log,
)
from trimtab_common.errors import InputError
from trimtab_store import connections
from trimtab_store.clients import producer
from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer
from trimtab_store.connections import PeerIdentity, introduce
from trimtab_store.core.messages import (
    PAYLOAD_BYTES,
    UNFIT,
    Accept,
    Chosen,
    Commit,
    DescribeGroup,
    FetchRequest,
    FetchResponse,
    GroupSnapshot,
    MessageRecord,
    NodeHeartbeat,
    NoOp,
    Prepare,
    ProduceRequest,
    ProduceResponse,
    SendMessage,
)
from trimtab_store.format import wire
from trimtab_store.format.configuration import NodeConfiguration, TransportSecurity
from trimtab_store.format.wire import FRAME_HEAD, encoded
from trimtab_store.node import process
from trimtab_store.node.process import NodeProcess

HOST = "127.0.0.1"
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def configuration(folder: Path, node: int, addresses: list[str]) -> NodeConfiguration:
    """A node of one group, whose leases are short."""
    return node_configuration(folder, node, addresses, lease_seconds=1.0)


@asynccontextmanager
async def running(folder: Path, nodes: int = 1) -> AsyncIterator[StoreConfig]:
    """All nodes of a cluster but the last of several, which a test may play."""
    addresses = free_addresses(nodes)
    given = [with_log(configuration(folder, node, addresses)) for node in range(max(1, nodes - 1))]
    async with nodes_running(given) as tasks:
        await asyncio.sleep(0.1)
        yield cluster_of(given[0])
        assert not any(task.done() for task in tasks)


async def begun(cluster: StoreConfig, peer: int | str = "cl") -> Line:
    """A connection to node 0."""
    reader, writer = await asyncio.open_connection(HOST, int(cluster.addresses[0].rpartition(":")[2]))
    shared = configuration(Path(), 0, list(cluster.addresses)).shared
    await introduce(
        reader, writer, PeerIdentity("c", peer, TransportSecurity().opened(), incarnation=7, shared=shared), 0
    )
    return reader, writer


def played(story: Coroutine[Any, Any, None]) -> None:
    """Play a story to its end."""
    asyncio.run(asyncio.wait_for(story, 30.0))


def framed(body: bytes, crc: int | None = None) -> bytes:
    """A frame of any bytes."""
    return FRAME_HEAD.pack(len(body), crc32(body) if crc is None else crc) + body


def message_99() -> bytes:
    """A message that nobody knows."""
    return framed(msgspec.msgpack.encode((0, msgspec.msgpack.Ext(99, msgspec.msgpack.encode((1, 2))))))


async def stored(cluster: StoreConfig) -> None:
    """The cluster takes a message, and gives it out."""
    async with Producer(cluster, "t") as sender:
        await sender.send(b"x")
    async with Consumer(cluster, "t", "reader") as consumer:
        assert (await consumer.receive()).payload == b"x"


WRONG: list[tuple[Callable[[], bytes], str]] = [
    (lambda: encoded((0, ProduceRequest("cl", 5))), "message ProduceRequest has other fields here"),  # type: ignore[arg-type]
    (lambda: encoded((0, ProduceRequest(7, MessageRecord("t", "p", 1, b"")))), "message ProduceRequest has"),  # type: ignore[arg-type]
    (lambda: encoded((0, FetchRequest("cl", "c", "t", 1, -1, "all"))), "message FetchRequest has other"),  # type: ignore[arg-type]
    (
        lambda: encoded((0, FetchRequest("cl", "n" * 256, "t", 1, -1, 9))),
        "a consumer has 256 bytes, expected 255",
    ),
    (lambda: encoded(("0", DescribeGroup("cl"))), "what came is no number of a group with a message"),
    (lambda: encoded(5), "what came is no number of a group with a message"),
    (message_99, "message 99 is not known here"),
    (lambda: framed(b"\x91" * 5000), "a frame is whole, and no MessagePack"),
    (lambda: framed(encoded((0, DescribeGroup("cl")))[FRAME_HEAD.size :], 7), "what came is no frame"),
    (lambda: FRAME_HEAD.pack(8 << 20, 0), "a frame has 8,388,608 bytes, expected 1,048,576 or fewer"),
]


@pytest.mark.parametrize(("frame", "sentence"), WRONG)
def test_an_invalid_message_of_a_client_ends_its_connection_and_no_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], frame: Callable[[], bytes], sentence: str
) -> None:
    """One sentence that names it; the node serves on, that client's next connection too."""

    async def story() -> None:
        async with running(tmp_path) as cluster:
            for _ in range(2):
                reader, writer = await begun(cluster)
                writer.write(frame())
                assert await reader.read() == b""
                writer.close()
            await stored(cluster)

    played(story())
    lines = lines_without_pauses(capsys.readouterr().err)
    assert [line.startswith("a connection is closed: client 'cl': ") for line in lines] == [True, True]
    assert all(sentence in line for line in lines), lines


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (lambda: encoded((0, Accept((1, 2), "1", NoOp()))), "message Accept has other fields here"),  # type: ignore[arg-type]
        (lambda: encoded((0, Prepare((1 << 63, 2), 1))), "message Prepare has other fields here"),
        (lambda: encoded((0, Chosen(1, (5,)))), "message Chosen has other fields here"),  # type: ignore[arg-type]
        (lambda: encoded((0, GroupSnapshot(9, ("state",)))), "a snapshot of group 0 holds another state"),
        (lambda: encoded((-1, GroupSnapshot(9, ("state",)))), "a snapshot of group -1 holds another state"),
        (lambda: encoded((0, NoOp())), "what came is no number of a group with a message"),
        (message_99, "message 99 is not known here"),
        (lambda: framed(encoded((0, Commit((1, 2), 1, 1)))[FRAME_HEAD.size :], 7), "what came is no frame"),
    ],
)
def test_an_invalid_message_of_a_peer_ends_its_connection_and_no_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], frame: Callable[[], bytes], sentence: str
) -> None:
    """A node of another version, or with a broken memory: the others are a majority, and go on."""

    async def story() -> None:
        async with running(tmp_path, nodes=3) as cluster:
            reader, writer = await begun(cluster, peer=2)
            writer.write(frame())
            assert await reader.read() == b""
            writer.close()
            await stored(cluster)

    played(story())
    (line,) = lines_without_pauses(capsys.readouterr().err)
    assert line.startswith("a connection is closed: node 2: ") and sentence in line


def test_a_message_for_a_nonexistent_node_is_dropped(tmp_path: Path) -> None:
    """A peer may have named it: as master, or as the one to whom messages are forwarded."""

    async def story() -> None:
        node = NodeProcess(configuration(tmp_path, 0, [f"{HOST}:1", f"{HOST}:2"]))
        assert node._send(SendMessage(99, 0, NodeHeartbeat((), 0, 0), synced=False)) is None
        assert node._send(SendMessage(-1, 0, NodeHeartbeat((), 0, 0), synced=False)) is None

    played(story())


async def answer(reader: asyncio.StreamReader) -> Any:
    """The next message."""
    async for _, message in connections.messages_of(reader):
        return message
    raise AssertionError("the node closed the connection")


def test_a_message_above_the_limit_is_refused_by_the_node(tmp_path: Path) -> None:
    """By a verdict; the connection stays, and what fits is stored."""

    async def story() -> None:
        async with running(tmp_path) as cluster:
            await stored(cluster)
            reader, writer = await begun(cluster)
            for size in (PAYLOAD_BYTES + 1, 1_000_000):
                writer.write(encoded((0, ProduceRequest("cl", MessageRecord("t", "p", 1, bytes(size))))))
                assert await answer(reader) == ProduceResponse("t", "p", 1, UNFIT, 0)
            writer.write(encoded((0, ProduceRequest("cl", MessageRecord("t", "p", 1, bytes(PAYLOAD_BYTES))))))
            assert await answer(reader) == ProduceResponse("t", "p", 1, "stored", 0)
            writer.close()

    played(story())


def test_a_rejected_producer_reports_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knows a higher limit; what is behind that message can never be stored, so it fails too."""
    monkeypatch.setattr(producer, "PAYLOAD_BYTES", 1 << 20)

    async def story() -> None:
        async with running(tmp_path) as cluster, Producer(cluster, "t") as sender:
            await sender.send(b"x")
            futures = [await sender.post(bytes(size)) for size in (PAYLOAD_BYTES + 1, 1)]
            sentence = (
                "message 2 of topic t has 65,537 bytes, and node 0 refuses it for good: send it in parts"
            )
            for future in futures:
                with pytest.raises(InputError, match=sentence):
                    await future
            with pytest.raises(InputError, match=sentence):
                await sender.send(b"y")

    played(story())


def test_clients_reject_messages_beyond_the_limits_immediately() -> None:
    """Names that are too long, and payloads that are no bytes."""
    cluster, long = StoreConfig("c", (f"{HOST}:1",), 1), "ä" * 128
    with pytest.raises(InputError, match="the name of a topic has 256 bytes, expected 255 or fewer"):
        Producer(cluster, long)
    with pytest.raises(InputError, match="the name of a topic has 256 bytes"):
        Consumer(cluster, long, "c")
    with pytest.raises(InputError, match="the name of a consumer has 256 bytes"):
        Consumer(cluster, "t", long)
    with pytest.raises(InputError, match="a message for topic n+ is a str, expected bytes: encode it"):
        asyncio.run(Producer(cluster, "n" * 255).post("text"))  # type: ignore[arg-type]


def test_a_client_that_reads_nothing_takes_no_more_memory_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers beyond CLIENT_BYTES are dropped; the reader requests them again."""
    monkeypatch.setattr(process, "CLIENT_BYTES", 300_000)

    async def story() -> None:
        async with running(tmp_path) as cluster:
            async with Producer(cluster, "t") as sender:
                for _ in range(4):
                    await sender.send(bytes(PAYLOAD_BYTES))
            reader, writer = await begun(cluster)
            asked = 400
            for number in range(asked):
                writer.write(encoded((0, FetchRequest("cl", "c", "t", number, 0, 4))))
                await asyncio.sleep(0)
            await asyncio.sleep(1.0)
            found = 0
            with suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(1.0):
                        assert isinstance(await answer(reader), FetchResponse)
                    found += 1
            assert 0 < found < asked
            writer.write(encoded((0, FetchRequest("cl", "c", "t", asked, 0, 4))))
            assert (await answer(reader)).number == asked
            writer.close()

    played(story())


def test_a_node_enables_keepalive_on_incoming_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it knows who that is."""
    watched: list[Any] = []
    monkeypatch.setattr(process, "watch", watched.append)

    async def story() -> None:
        async with running(tmp_path) as cluster:
            _, writer = await begun(cluster)
            writer.close()

    played(story())
    assert len(watched) == 1


def test_a_caller_without_a_handshake_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After HANDSHAKE_SECONDS the connection is closed; an identified one stays."""
    monkeypatch.setattr(process, "HANDSHAKE_SECONDS", 0.2)

    async def story() -> None:
        async with running(tmp_path) as cluster:
            known, known_writer = await begun(cluster)
            reader, writer = await asyncio.open_connection(HOST, int(cluster.addresses[0].rpartition(":")[2]))
            assert await reader.read() == b""
            known_writer.write(encoded((0, DescribeGroup("cl"))))
            assert (await answer(known)).applied >= 0
            for one in (writer, known_writer):
                one.close()

    played(story())


def test_an_answer_that_fits_into_no_frame_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is logged, and the node continues: the network may lose it as well."""

    async def story() -> None:
        async with running(tmp_path) as cluster:
            async with Producer(cluster, "t") as sender:
                await sender.send(bytes(5000))
            reader, writer = await begun(cluster)
            writer.write(encoded((0, FetchRequest("cl", "c", "t", 1, 0, 4))))
            assert len((await answer(reader)).records) == 1
            monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 3000)
            writer.write(encoded((0, FetchRequest("cl", "c", "t", 2, 0, 4))))
            writer.write(encoded((0, DescribeGroup("cl"))))
            assert (await answer(reader)).messages == 1
            writer.close()

    played(story())
    assert "a message of group 0 to cl is left out: a message has 5,0" in capsys.readouterr().err
