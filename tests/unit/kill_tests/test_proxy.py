"""The proxy between processes: what is cut one way, both ways, delayed, closed and healed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress

import pytest

from kill_tests.proxy import HOST, FaultProxy

WAY, BACK = (0, 1), (1, 0)
SHORT_SECONDS = 0.2


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back whatever comes."""
    with closing(writer), suppress(ConnectionError):
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxied() -> AsyncIterator[FaultProxy]:
    """Two pairs, behind both of which one server stands."""
    server = await asyncio.start_server(echo, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    proxy = FaultProxy({WAY: port, BACK: port})
    try:
        yield proxy
    finally:
        proxy.stop()
        server.close()
        await asyncio.sleep(0.05)  # both ends hear of it


@asynccontextmanager
async def connected(
    proxy: FaultProxy, pair: tuple[int, int]
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection over one way."""
    reader, writer = await asyncio.open_connection(HOST, proxy.ports[pair])
    try:
        yield reader, writer
    finally:
        writer.close()


async def echoed(pipe: tuple[asyncio.StreamReader, asyncio.StreamWriter], data: bytes) -> None:
    """What is sent comes back."""
    pipe[1].write(data)
    assert await asyncio.wait_for(pipe[0].readexactly(len(data)), 5.0) == data


async def silent(pipe: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Nothing comes."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pipe[0].read(1), SHORT_SECONDS)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop a test."""
    with asyncio.Runner() as found:
        yield found


def test_traffic_cut_in_one_direction_is_held_and_delivered_later(runner: asyncio.Runner) -> None:
    """The other way goes on; nothing is lost and nothing changes its place."""

    async def go() -> None:
        async with proxied() as proxy, connected(proxy, WAY) as way, connected(proxy, BACK) as back:
            await echoed(way, b"before")
            proxy.cut([WAY])
            way[1].write(b"held")
            await silent(way)
            await echoed(back, b"goes on")
            way[1].write(b" and later")
            proxy.heal()
            assert await asyncio.wait_for(way[0].readexactly(14), 5.0) == b"held and later"

    runner.run(go())


def test_traffic_cut_in_both_directions_reaches_no_peer(runner: asyncio.Runner) -> None:
    """A connection that is opened meanwhile is carried when all is healed."""

    async def go() -> None:
        async with proxied() as proxy:
            proxy.cut([WAY, BACK])
            async with connected(proxy, WAY) as way, connected(proxy, BACK) as back:
                for pipe in (way, back):
                    pipe[1].write(b"x")
                    await silent(pipe)
                proxy.heal()
                for pipe in (way, back):
                    assert await asyncio.wait_for(pipe[0].readexactly(1), 5.0) == b"x"

    runner.run(go())


def test_a_cut_may_end_connections(runner: asyncio.Runner) -> None:
    """What was held is lost then, and a new connection is carried when all is healed."""

    async def go() -> None:
        async with proxied() as proxy, connected(proxy, WAY) as way:
            await echoed(way, b"before")
            proxy.cut([WAY], close=True)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(way[0].readexactly(1), 5.0)
            proxy.heal()
            async with connected(proxy, WAY) as later:
                await echoed(later, b"again")

    runner.run(go())


def test_a_delay_is_felt_both_there_and_back(runner: asyncio.Runner) -> None:
    """Answers on a connection go over the same way."""

    async def go() -> None:
        async with proxied() as proxy, connected(proxy, WAY) as way:
            await echoed(way, b"before")
            proxy.delay([WAY], SHORT_SECONDS)
            begun = time.monotonic()
            await echoed(way, b"slow")
            assert time.monotonic() - begun >= 2 * SHORT_SECONDS
            proxy.heal()
            await echoed(way, b"after")

    runner.run(go())


def test_a_stopped_node_is_not_reached(runner: asyncio.Runner) -> None:
    """The caller's connection ends, as it would without a proxy; stopping twice is fine."""

    async def go() -> None:
        server = await asyncio.start_server(echo, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        proxy = FaultProxy({WAY: port})
        async with connected(proxy, WAY) as way:
            assert await asyncio.wait_for(way[0].read(1), 5.0) == b""
        proxy.stop()
        proxy.stop()

    runner.run(go())
