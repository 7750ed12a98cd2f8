"""What a link keeps while its node is slow or away, and how it finds out that the other machine is gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from trimtab_common.errors import InputError
from trimtab_store import connections
from trimtab_store.connections import (
    IDLE_TIMEOUT_SECONDS,
    PeerIdentity,
    PeerLink,
    message,
    messages_of,
    watch,
)
from trimtab_store.core.messages import NodeHeartbeat, Prepare
from trimtab_store.format.configuration import TransportSecurity
from trimtab_store.format.peer_authentication import FORMAT, HANDSHAKE_BYTES
from trimtab_store.format.wire import MAX_FRAME_BYTES, encoded

HOST = "127.0.0.1"


def link(port: int = 1) -> PeerLink:
    """A client's link to node 0."""
    return PeerLink(f"{HOST}:{port}", PeerIdentity("c", "client", TransportSecurity().opened()), 0)


def played(story: Coroutine[Any, Any, None]) -> None:
    """Play a story to its end."""
    asyncio.run(asyncio.wait_for(story, 20.0))


async def taken_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begin a connection, as a node does."""
    await message(reader, HANDSHAKE_BYTES)
    writer.write(encoded((FORMAT, b"n" * 32)))
    await message(reader, HANDSHAKE_BYTES)
    writer.write(encoded((b"",)))


@pytest.mark.parametrize("limit", ["frames", "bytes"])
def test_frames_beyond_the_limit_are_dropped(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """By count and by bytes, whichever is reached first; with free space, frames wait again, in order."""
    frames = [encoded((0, Prepare((number, 0), 1))) for number in range(12)]
    monkeypatch.setattr(connections, "WAITING_FRAMES", 5 if limit == "frames" else 1000)
    monkeypatch.setattr(connections, "WAITING_BYTES", 1 << 20 if limit == "frames" else 5 * len(frames[0]))

    async def story() -> None:
        found: list[Any] = []
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await taken_in(reader, writer)
            async for _, told in messages_of(reader):
                assert isinstance(told, Prepare)
                found.append(told.ballot[0])
                if len(found) == 5:
                    for frame in frames[6:]:
                        one.send(frame)
                if len(found) == 10:
                    done.set()
            writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        one = link(server.sockets[0].getsockname()[1])
        for frame in frames[:6]:
            one.send(frame)
        running = asyncio.create_task(one.run())
        with suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                await done.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
        assert found == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]

    played(story())


def test_a_frame_that_is_larger_than_the_bound_is_sent_if_it_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A snapshot would never come through otherwise; the next one is dropped while it waits."""
    monkeypatch.setattr(connections, "WAITING_BYTES", 10)

    async def story() -> None:
        one = link()
        one.send(bytes(5000))
        one.send(b"x")
        assert one._queue.qsize() == 1

    played(story())


def test_dropped_frames_of_an_absent_node_free_their_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is thrown away with every failed try, and so are its bytes."""
    monkeypatch.setattr(connections, "WAITING_BYTES", 10)
    monkeypatch.setattr(connections, "RECONNECT_SECONDS", 0.01)

    async def story() -> None:
        one = link()
        running = asyncio.create_task(one.run())
        for _ in range(3):
            one.send(bytes(20))
            while one._queue.qsize():
                await asyncio.sleep(0.01)
        one.send(bytes(20))
        assert one._queue.qsize() == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    played(story())


def test_a_connection_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system asks the other machine, and gives up what it has not confirmed for ten seconds."""

    async def story() -> None:
        watched = asyncio.get_running_loop().create_future()

        def watch_and_tell(writer: asyncio.StreamWriter) -> None:
            watch(writer)
            watched.set_result(writer.get_extra_info("socket"))

        monkeypatch.setattr(connections, "watch", watch_and_tell)
        server = await asyncio.start_server(taken_in, HOST, 0)
        running = asyncio.create_task(link(server.sockets[0].getsockname()[1]).run())
        line = await watched
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            idle, between, count, most = (
                line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names
            )
            assert idle + count * between == IDLE_TIMEOUT_SECONDS and most == IDLE_TIMEOUT_SECONDS * 1000
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()

    played(story())


def test_keepalive_uses_only_options_that_the_platform_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only SO_KEEPALIVE is everywhere."""
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name, raising=False)

    class Writer:
        def get_extra_info(self, _: str) -> socket.socket:
            return line

    with socket.socket() as line:
        watch(Writer())  # type: ignore[arg-type]
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_node_that_sends_no_handshake_is_disconnected_and_called_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After HANDSHAKE_SECONDS, and called again."""
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.1)

    async def story() -> None:
        calls = 0
        again = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                again.set()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        one = link(server.sockets[0].getsockname()[1])
        running = asyncio.create_task(one.run())
        await again.wait()
        assert one.trouble == "the node does not say who it is"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()

    played(story())


def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    """Its length alone suffices: no memory is reserved for the rest."""

    async def story() -> None:
        for most, length in ((MAX_FRAME_BYTES, MAX_FRAME_BYTES + 1), (100, 101)):
            reader = asyncio.StreamReader()
            reader.feed_data(length.to_bytes(4, "little") + bytes(4))
            with pytest.raises(InputError, match=f"a frame has {length:,} bytes, expected {most:,} or fewer"):
                await anext(messages_of(reader, most))
        reader = asyncio.StreamReader()
        frame = encoded((0, NodeHeartbeat((), 0, 0)))
        reader.feed_data(frame)
        assert await anext(messages_of(reader, len(frame) - 8)) == (0, NodeHeartbeat((), 0, 0))

    played(story())
