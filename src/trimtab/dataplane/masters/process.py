"""A node as a process: its log, its connections and its clock around the core."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trimtab.dataplane.masters import clock
from trimtab.dataplane.masters.complaints import Complaints
from trimtab.dataplane.masters.etcd import EtcdClient
from trimtab.dataplane.masters.handshake import HANDSHAKE_SECONDS, Speaker, meet
from trimtab.dataplane.masters.links import Link, messages_of, watch
from trimtab.dataplane.masters.lives import Lives
from trimtab.dataplane.masters.notices import Notices
from trimtab.dataplane.masters.slots import EtcdSlots
from trimtab.dataplane.masters.terms import outlast
from trimtab.files.masters.configuration import NodeConfiguration, read_configuration
from trimtab.files.masters.frames import MOST_BYTES, TornError, encoded
from trimtab.files.masters.greeting import called
from trimtab.files.masters.log import NodeLog
from trimtab.files.masters.map import MapFile
from trimtab.files.masters.segments import DiskError
from trimtab.model.errors import InputError, NodeError
from trimtab.online.masters.engines import ENGINES
from trimtab.online.masters.messages import Due, Gone, MapSeen, Received, Send, Write
from trimtab.online.masters.node import Node
from trimtab.online.masters.slots import Ask, Fact, Order

CLIENT_BYTES: Final = 16 << 20
"""What waits for a client that reads nothing; answers beyond that are dropped, and asked for again."""
CLIENT_FRAME_BYTES: Final = 1 << 20
"""Of what a client says at once: a message that is too large by less is refused by a verdict of its own."""
REJOIN_SECONDS: Final = 0.2
"""Between two looks whether a node without a vote has one."""
MAP_SECONDS: Final = 0.5
"""Between two looks at the file of the ideal map."""


class NodeProcess:
    """One node, until its process ends."""

    def __init__(self, configuration: NodeConfiguration) -> None:
        self._configuration, self._nodes = configuration, len(configuration.addresses)
        self._complaints = Complaints()
        self._notices = Notices(configuration.node, configuration.settings)
        self._speaker = Speaker(
            configuration.cluster,
            configuration.node,
            configuration.guard.opened(),
            life=secrets.randbits(62),
            shared=configuration.shared,
        )
        self._lives = Lives(2 * configuration.settings.renewal_seconds)
        self._speaker.keys.tell_failures(self._closed)
        self._map: MapFile | None = None
        if configuration.map and not configuration.map_in_store:
            self._map = MapFile(Path(configuration.map), self._nodes, configuration.groups)
        # A path that leads nowhere is a mistake: the node would go by no map, and hold up all others.
        self._first_map = None if self._map is None else self._map.changed()
        self._log = NodeLog(Path(configuration.folder) / "log", configuration.cluster, configuration.node)
        outlast(Path(configuration.folder), configuration.settings)
        self._core = self._begun(self._log.recovered)
        self._log.recovered.clear()
        self._store: EtcdSlots | None = None
        if configuration.engine == "etcd":
            # Members are asked in turn, each node begins with another.
            seconds = configuration.settings.propose_seconds
            client = EtcdClient(configuration.etcd, configuration.node, seconds)
            cluster, groups, shared = configuration.cluster, configuration.groups, configuration.shared
            self._store = EtcdSlots(client, cluster, groups, self._tell, shared)
        self._links = {
            number: Link(address, self._speaker, number, refused=self._refused)
            for number, address in enumerate(configuration.addresses)
            if number != configuration.node
        }
        self._clients: dict[str, asyncio.StreamWriter] = {}
        self._unsynced: list[Send] = []
        self._sync_wanted = asyncio.Event()
        self._compact_wanted = asyncio.Event()
        if self._log.compaction_due:
            self._compact_wanted.set()
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
            now=clock.lease_clock(),
            settings=told.settings,
            written=written,
            engine=ENGINES[told.engine],
            map_in_store=told.map_in_store,
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
        tls = self._speaker.keys.serving
        within = None if tls is None else HANDSHAKE_SECONDS
        server = await asyncio.start_server(
            self._serve, host, int(port), ssl=tls, ssl_handshake_timeout=within
        )
        async with server, asyncio.TaskGroup() as tasks:
            for link in self._links.values():
                tasks.create_task(link.run())
            tasks.create_task(self._sync())
            tasks.create_task(self._compact())
            if self._store is not None:
                tasks.create_task(self._store.run())
            tasks.create_task(self._until_failed())
            tasks.create_task(self._rejoin())
            ideal = self._configuration.ideal
            if ideal:
                self._tell(MapSeen(1, tuple(ideal)))
            if self._map is not None and self._first_map is not None:
                self._tell(self._first_map)
                tasks.create_task(self._watch(self._map))
            if self._configuration.map_in_store:
                tasks.create_task(self._expect_map())
            self._tell(Due())

    async def _until_failed(self) -> None:
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    async def _rejoin(self) -> None:
        """Say when a node that began without a vote has one; and after a lease without one, why."""
        until = clock.lease_clock() + self._configuration.settings.lease_seconds
        told: list[str] = []
        without_vote = self._core.without_vote
        while without_vote:
            if clock.lease_clock() >= until and without_vote != told:
                self._notices.rejoins(without_vote)
                told = without_vote
            await asyncio.sleep(REJOIN_SECONDS)
            without_vote = self._core.without_vote
            if not without_vote:
                self._notices.rejoins(without_vote)

    async def _expect_map(self) -> None:
        """Say after a lease that no map is published: until then the node may be about to learn it."""
        await asyncio.sleep(self._configuration.settings.lease_seconds)
        if not self._core.maps.seen.version:
            self._notices.lacks_map()

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
        self._notices.looked(clock.lease_clock())
        facts = [fact]
        while facts:
            for order in self._core.handle(clock.lease_clock(), facts.pop(0)):
                own = self._perform(order)
                if own is not None:
                    facts.append(own)
        self._notices.compared(self._core)
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, self._core.due() - clock.lease_clock())
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
        try:
            frame = encoded((order.group, order.message))
        except InputError as error:
            self._complaints.tell(f"a message of group {order.group} to {order.to} is left out: {error}")
            return None
        if isinstance(order.to, int):
            if order.to in self._links:  # a peer may have named a node that there is not
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
            if self._log.compaction_due:
                self._compact_wanted.set()
            for order in sends:
                own = self._send(order)
                if own is not None:
                    self._tell(own)

    def _closed(self, why: str) -> None:
        self._complaints.tell(f"a connection is closed: {why}")

    def _refused(self, why: str) -> None:
        self._complaints.tell(f"this node does not take part everywhere: {why}")

    async def _compact(self) -> None:
        """Keep the log bounded, beside everything else."""
        while True:
            await self._compact_wanted.wait()
            self._compact_wanted.clear()
            compacting = asyncio.create_task(asyncio.to_thread(self._log.compact))
            try:
                await asyncio.shield(compacting)
            except asyncio.CancelledError:
                self._log.stop()
                await asyncio.gather(compacting, return_exceptions=True)
                raise
            except DiskError as error:
                if not error.full:
                    raise
                print(f"the log is not compacted, and grows on: {error}", file=sys.stderr, flush=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who: int | str | None = None
        try:
            watch(writer)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                addresses = self._configuration.addresses
                who = await meet(reader, writer, self._speaker, addresses, self._lives)
            if isinstance(who, str):
                self._clients[who] = writer
            most = CLIENT_FRAME_BYTES if isinstance(who, str) else MOST_BYTES
            async for group, told in messages_of(reader, most):
                self._lives.heard(who)
                self._tell(Received(who, group, told))
        except (asyncio.IncompleteReadError, OSError):
            pass  # whoever called has gone, or said nothing for long
        except (TornError, InputError, TypeError, ValueError) as error:
            whose = "" if who is None else f"{called(who)}: "
            self._closed(whose + (str(error) or "what came is no frame"))
        finally:
            if isinstance(who, str) and self._clients.get(who) is writer:
                del self._clients[who]
                self._tell(Gone(who))
            self._lives.left(who, writer)
            writer.close()


def run_node(path: Path) -> None:
    """Run the node of a configuration until it is killed; errors as in `read_configuration` and `run`."""
    asyncio.run(NodeProcess(read_configuration(path)).run())
