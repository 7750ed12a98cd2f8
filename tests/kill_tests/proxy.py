"""A network between processes that can be cut: a TCP proxy with a port for each ordered pair of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox

Pair = tuple[int, int]
"""The process that calls, and the process that is called."""
HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16


class ProxiedConnection:
    """All connections that one process opens to another one, with what they carry both ways.

    Nodes speak on connections of their own alone, so a cut of this way leaves what the other one says.

    Attributes
    ----------
    open
        Set unless it is cut: what comes meanwhile is held, as by a network that sends again and again.
    delay_seconds
        Of everything that comes.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.open = asyncio.Event()
        self.open.set()
        self.delay_seconds = 0.0
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it."""
        ends = [writer]
        self._writers.add(writer)
        try:
            # Nobody is called over a way that is cut.
            await self.open.wait()
            far_reader, far = await asyncio.open_connection(HOST, self._port)
            ends.append(far)
            self._writers.add(far)
            pumps = [asyncio.create_task(self._pump(reader, far)),
                     asyncio.create_task(self._pump(far_reader, writer))]  # fmt: skip
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # whoever is called does not run
        finally:
            for end in ends:
                self._writers.discard(end)
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                await self.open.wait()
                writer.write(data)
                await writer.drain()

    def abort(self) -> None:
        """End all connections; what was held is lost."""
        for writer in list(self._writers):
            writer.transport.abort()


class FaultProxy:
    """Ways between processes on this machine, run by a thread until `stop`.

    Parameters
    ----------
    ports
        For each pair, where the one that is called listens on 127.0.0.1.

    Attributes
    ----------
    ports
        For each pair, where the one that calls finds it instead.
    """

    def __init__(self, ports: Mapping[Pair, int]) -> None:
        self._behind = dict(ports)
        self.ports: dict[Pair, int] = {}
        self._connections: dict[Pair, ProxiedConnection] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()

    def cut(self, pairs: Iterable[Pair], *, close: bool = False) -> None:
        """Let nothing through from now on.

        Parameters
        ----------
        close
            Also end what is connected, so that what is on its way is lost; else it comes when all is healed.
        """
        asyncio.run_coroutine_threadsafe(self._cut(list(pairs), close), self._loop).result()

    def delay(self, pairs: Iterable[Pair], seconds: float) -> None:
        """Let everything come later by so much, or by a little more."""
        asyncio.run_coroutine_threadsafe(self._delay(list(pairs), seconds), self._loop).result()

    def heal(self) -> None:
        """Let everything through again, at once."""
        asyncio.run_coroutine_threadsafe(self._heal(), self._loop).result()

    def stop(self) -> None:
        """End all connections, and the thread; may be called again."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _begin(self) -> None:
        for pair, port in self._behind.items():
            self._connections[pair] = way = ProxiedConnection(port)
            server = await asyncio.start_server(way.serve, HOST, 0)
            self._servers.append(server)
            self.ports[pair] = server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for way in self._connections.values():
            way.abort()
        # Sockets are closed in the next turn of the loop.
        await asyncio.sleep(0.01)

    async def _cut(self, pairs: list[Pair], close: bool) -> None:
        for pair in pairs:
            self._connections[pair].open.clear()
            if close:
                self._connections[pair].abort()

    async def _delay(self, pairs: list[Pair], seconds: float) -> None:
        for pair in pairs:
            self._connections[pair].delay_seconds = seconds

    async def _heal(self) -> None:
        for way in self._connections.values():
            way.delay_seconds = 0.0
            way.open.set()


class ProxiedSandbox(MastersSandbox):
    """Nodes that reach one another, and members of etcd, through a proxy of this process.

    Clients do not use the proxy, nor do members among themselves.
    """

    proxy: FaultProxy

    def stop(self) -> None:
        """Stop everything, the proxy last; may be called again."""
        super().stop()
        if hasattr(self, "proxy"):
            self.proxy.stop()

    def _connect(self) -> None:
        state = self.state
        called = dict(enumerate(state.ports)) | {
            member.id: port for member, port in zip(state.members, state.etcd_ports[::2], strict=True)
        }
        nodes = [node.id for node in state.nodes]
        pairs = {(node, other): port for node in nodes for other, port in called.items() if node != other}
        self.proxy = FaultProxy(pairs)

    def _address(self, node: int, other: int, port: int) -> str:
        return super()._address(node, other, self.proxy.ports.get((node, other), port))
