"""A node as a process: its log, its connections and its clock around the core."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trimtab.dataplane.masters.configuration import NodeConfiguration, read_configuration
from trimtab.dataplane.masters.etcd import EtcdClient
from trimtab.dataplane.masters.links import FORMAT, Link, messages_of, who_speaks
from trimtab.dataplane.masters.slots import EtcdSlots
from trimtab.files.masters.frames import TornError, encoded
from trimtab.files.masters.log import NodeLog
from trimtab.files.masters.map import MapFile
from trimtab.model.errors import InputError, NodeError
from trimtab.online.masters.engines import ENGINES
from trimtab.online.masters.messages import Due, MapSeen, Received, Send, Write
from trimtab.online.masters.node import Node
from trimtab.online.masters.slots import Ask, Fact, Order

CLIENT_BYTES: Final = 16 << 20
"""What waits for a client that reads nothing; answers beyond that are dropped, and asked for again."""
MAP_SECONDS: Final = 0.5
"""Between two looks at the file of the ideal map."""


class NodeProcess:
    """One node, until its process ends."""

    def __init__(self, configuration: NodeConfiguration) -> None:
        self._configuration, self._nodes = configuration, len(configuration.addresses)
        folder = Path(configuration.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._log = NodeLog(folder / "log", configuration.cluster, configuration.node)
        self._core = self._begun(self._log.recovered)
        self._log.recovered.clear()
        self._store: EtcdSlots | None = None
        if configuration.engine == "etcd":
            # Members are asked in turn, each node begins with another.
            seconds = configuration.settings.propose_seconds
            client = EtcdClient(configuration.etcd, configuration.node, seconds)
            self._store = EtcdSlots(client, configuration.cluster, configuration.groups, self._tell)
        hello = (FORMAT, configuration.cluster, configuration.node)
        self._links = {
            number: Link(address, hello)
            for number, address in enumerate(configuration.addresses)
            if number != configuration.node
        }
        self._clients: dict[str, asyncio.StreamWriter] = {}
        self._unsynced: list[Send] = []
        self._sync_wanted = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._failed = asyncio.Event()

    def _begun(self, written: Mapping[int, list[Any]]) -> Node:
        told = self._configuration
        return Node(
            told.node,
            self._nodes,
            told.groups,
            life=secrets.randbits(62),
            now=time.monotonic(),
            settings=told.settings,
            written=written,
            engine=ENGINES[told.engine],
        )

    async def run(self) -> None:
        """Serve until something fails or the task is cancelled.

        Raises
        ------
        NodeError
            If the log cannot be synced, or the address not be had.
        """
        try:
            await self._serve_all()
        except ExceptionGroup as group:
            raise self._ends(group.exceptions[0]) from group
        except OSError as error:
            raise self._ends(error) from error
        finally:
            if self._store is not None:
                await self._store.close()
            self._log.close()

    def _ends(self, error: Exception) -> NodeError:
        told = self._configuration
        return NodeError(
            f"node {told.node} of cluster {told.cluster} ends: {error}; what it has acknowledged stands in "
            f"{told.folder}: start it again when that is mended"
        )

    async def _serve_all(self) -> None:
        if self._store is not None:
            # What this node knows begins here, and so does the lease that it leaves to others.
            self._core = self._begun(await self._store.start())
        host, _, port = self._configuration.addresses[self._configuration.node].rpartition(":")
        server = await asyncio.start_server(self._serve, host, int(port))
        async with server, asyncio.TaskGroup() as tasks:
            for link in self._links.values():
                tasks.create_task(link.run())
            tasks.create_task(self._sync())
            if self._store is not None:
                tasks.create_task(self._store.run())
            tasks.create_task(self._until_failed())
            ideal = self._configuration.ideal
            self._tell(MapSeen(1, tuple(ideal)) if ideal else Due())
            if self._configuration.map:
                watch = MapFile(Path(self._configuration.map), self._nodes, self._configuration.groups)
                tasks.create_task(self._watch(watch))

    async def _until_failed(self) -> None:
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    async def _watch(self, file: MapFile) -> None:
        """See every new version of the ideal map."""
        while True:
            try:
                seen = file.changed()
                if seen is not None:
                    self._tell(seen)
            except InputError as error:
                print(f"the map stays as it was: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(MAP_SECONDS)

    def _tell(self, fact: Fact) -> None:
        """Have the core take a fact in, and carry out its orders; the node ends if that fails half-way."""
        try:
            self._handle(fact)
        except Exception as error:
            self._failure = self._failure or error
            self._failed.set()

    def _handle(self, fact: Fact) -> None:
        facts = [fact]
        while facts:
            for order in self._core.handle(time.monotonic(), facts.pop(0)):
                own = self._perform(order)
                if own is not None:
                    facts.append(own)
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, self._core.due() - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._tell, Due())

    def _perform(self, order: Order) -> Fact | None:
        if isinstance(order, Write):
            self._log.write(order.group, order.written)
        elif isinstance(order, Ask):
            assert self._store is not None
            self._store.ask(order)
        elif order.synced:
            self._unsynced.append(order)
            self._sync_wanted.set()
        else:
            return self._send(order)
        return None

    def _send(self, order: Send) -> Fact | None:
        if order.to == self._configuration.node:
            return Received(order.to, order.group, order.message)
        frame = encoded((order.group, order.message))
        if isinstance(order.to, int):
            self._links[order.to].send(frame)
        else:
            writer = self._clients.get(order.to)
            if writer is not None and writer.transport.get_write_buffer_size() < CLIENT_BYTES:
                writer.write(frame)
        return None

    async def _sync(self) -> None:
        """One sync for all that came while the last one ran."""
        while True:
            await self._sync_wanted.wait()
            self._sync_wanted.clear()
            sends, self._unsynced = self._unsynced, []
            # A disk that failed once may say yes next time, and have lost what came before: the node ends.
            putting = asyncio.create_task(asyncio.to_thread(self._log.put, self._log.take()))
            try:
                await asyncio.shield(putting)
            except asyncio.CancelledError:
                await putting  # the file is closed behind it
                raise
            for order in sends:
                own = self._send(order)
                if own is not None:
                    self._tell(own)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who: int | str | None = None
        try:
            async for message in messages_of(reader):
                if who is None:
                    who = who_speaks(message, self._configuration.cluster)
                    if isinstance(who, str):
                        self._clients[who] = writer
                else:
                    group, told = message
                    self._tell(Received(who, group, told))
        except (TornError, InputError, TypeError, ValueError) as error:
            print(f"a connection is closed: {error or 'what came is no frame'}", file=sys.stderr, flush=True)
        finally:
            if isinstance(who, str) and self._clients.get(who) is writer:
                del self._clients[who]
            writer.close()


def run_node(path: Path) -> None:
    """Run the node of a configuration until it is killed; errors as in `read_configuration` and `run`."""
    asyncio.run(NodeProcess(read_configuration(path)).run())
