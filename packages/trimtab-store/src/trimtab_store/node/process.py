"""The process of a node: one event loop that feeds the core and carries out its effects.

Effects are writes to the log on disk, messages over TCP, and timers. A node that starts with shorter terms
than before first waits until the promises of its last process have expired.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from trimtab_common.errors import InputError, NodeError
from trimtab_common.files import write_atomically
from trimtab_store.connections import (
    HANDSHAKE_SECONDS,
    PeerIdentity,
    PeerLink,
    PeerRegistry,
    meet,
    messages_of,
    watch,
)
from trimtab_store.core.messages import (
    ClientDisconnected,
    Effect,
    Event,
    MapChanged,
    Received,
    SendMessage,
    StoreRequest,
    TimerExpired,
    WriteLog,
)
from trimtab_store.core.node import ENGINES, StoreNode
from trimtab_store.core.settings import StoreSettings
from trimtab_store.format.configuration import NodeConfiguration, PreferredMapFile, read_configuration
from trimtab_store.format.log import DiskError, NodeLog
from trimtab_store.format.peer_authentication import called
from trimtab_store.format.wire import MAX_FRAME_BYTES, TornFrameError, encoded
from trimtab_store.node.etcd import EtcdClient, EtcdLog
from trimtab_store.node.health_monitor import HealthMonitor, RateLimitedLogger


def chosen_clock() -> Callable[[], float]:
    """Seconds since the start of the machine, including sleep where the system counts it.

    On Linux, `time.monotonic` stops while a machine is suspended. Its node would still count itself as master
    after others have taken over.
    """
    try:
        boottime = time.CLOCK_BOOTTIME
        time.clock_gettime(boottime)
    except (AttributeError, OSError):
        return time.monotonic
    return lambda: time.clock_gettime(boottime)


lease_clock: Final = chosen_clock()
"""Chosen once: seconds of two clocks must never be compared."""


TERMS_FILE: Final = "terms.json"


def wait_for_old_terms(
    folder: Path, settings: StoreSettings, wait: Callable[[float], None] = time.sleep
) -> None:
    """Wait until the terms of the last process have expired, and write down the terms of this process.

    A node that starts makes nobody master for one term, since it may have helped a master shortly before.
    With shorter terms this wait would end while the old term still runs. If a majority restarts node by node,
    there would be a second master.

    Parameters
    ----------
    folder
        Folder of the node's log, which this process has locked.
    wait
        Called with the seconds to wait.

    Raises
    ------
    InputError
        If the file of terms cannot be read.
    """
    path, own = (
        folder / TERMS_FILE,
        {"lease_seconds": settings.lease_seconds, "cycle_seconds": settings.cycle_seconds},
    )
    if path.exists():
        try:
            last = msgspec.json.decode(path.read_bytes(), type=dict[str, float])
        except msgspec.DecodeError as error:
            raise InputError(
                f"{path} cannot be read as the terms of this node's last process ({error}): remove it once "
                "all nodes have been stopped for longer than a lease"
            ) from None
        if last == own:
            return
        longer = max(last.get(name, 0.0) - seconds for name, seconds in own.items())
        if longer > 0:
            print(
                f"this node was last run with longer terms, and waits {longer:g} s more before it begins",
                file=sys.stderr,
                flush=True,
            )
            wait(longer)
    write_atomically(path, msgspec.json.encode(own))


CLIENT_BYTES: Final = 16 << 20
"""What waits for a client that reads nothing; answers beyond that are dropped, and asked for again."""
CLIENT_FRAME_BYTES: Final = 1 << 20
"""Of what a client says at once: a message that is too large by less is refused by a verdict of its own."""
REJOIN_SECONDS: Final = 0.2
"""Between two looks whether a node without a vote has one."""
MAP_SECONDS: Final = 0.5
"""Between two looks at the file of the preferred map."""


class NodeProcess:
    """One node, until its process ends."""

    def __init__(self, configuration: NodeConfiguration) -> None:
        self._configuration, self._nodes = configuration, len(configuration.addresses)
        self._limited_log = RateLimitedLogger()
        self._health = HealthMonitor(configuration.node, configuration.settings)
        self._speaker = PeerIdentity(
            configuration.cluster,
            configuration.node,
            configuration.guard.opened(),
            incarnation=secrets.randbits(62),
            shared=configuration.shared,
        )
        self._peers = PeerRegistry(2 * configuration.settings.renewal_seconds)
        self._speaker.keys.report_tls_errors(self._closed)
        self._map: PreferredMapFile | None = None
        if configuration.map and not configuration.map_in_store:
            self._map = PreferredMapFile(Path(configuration.map), self._nodes, configuration.groups)
        # A path that leads nowhere is a mistake: the node would go by no map, and hold up all others.
        self._first_map = None if self._map is None else self._map.changed()
        self._log = NodeLog(Path(configuration.folder) / "log", configuration.cluster, configuration.node)
        wait_for_old_terms(Path(configuration.folder), configuration.settings)
        self._core = self._started(self._log.recovered)
        self._log.recovered.clear()
        self._store: EtcdLog | None = None
        if configuration.engine == "etcd":
            # Members are asked in turn, each node begins with another.
            seconds = configuration.settings.propose_seconds
            client = EtcdClient(configuration.etcd, configuration.node, seconds)
            cluster, groups, shared = configuration.cluster, configuration.groups, configuration.shared
            self._store = EtcdLog(client, cluster, groups, self._process_event, shared)
        self._links = {
            number: PeerLink(address, self._speaker, number, refused=self._refused)
            for number, address in enumerate(configuration.addresses)
            if number != configuration.node
        }
        self._clients: dict[str, asyncio.StreamWriter] = {}
        self._unsynced: list[SendMessage] = []
        self._sync_requested = asyncio.Event()
        self._compaction_requested = asyncio.Event()
        if self._log.needs_compaction:
            self._compaction_requested.set()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._failed = asyncio.Event()

    def _started(self, written: Mapping[int, Sequence[object]]) -> StoreNode:
        told = self._configuration
        return StoreNode(
            told.node,
            self._nodes,
            told.groups,
            incarnation=secrets.randbits(62),
            now=lease_clock(),
            settings=told.settings,
            written=written,
            engine=ENGINES[told.engine],
            map_in_store=told.map_in_store,
        )

    async def run(self) -> None:
        """Serve until an error or a cancellation.

        Raises
        ------
        NodeError
            If the log cannot be synced, or the address is in use.
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
            self._core = self._started(await self._store.start())
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
            preferred = self._configuration.preferred_nodes
            if preferred:
                self._process_event(MapChanged(1, tuple(preferred)))
            if self._map is not None and self._first_map is not None:
                self._process_event(self._first_map)
                tasks.create_task(self._watch(self._map))
            if self._configuration.map_in_store:
                tasks.create_task(self._expect_map())
            self._process_event(TimerExpired())

    async def _until_failed(self) -> None:
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    async def _rejoin(self) -> None:
        """Report when a node that started without a vote has one; and why not, after a lease without one."""
        until = lease_clock() + self._configuration.settings.lease_seconds
        told: list[str] = []
        without_vote = self._core.without_vote
        while without_vote:
            if lease_clock() >= until and without_vote != told:
                self._health.rejoins(without_vote)
                told = without_vote
            await asyncio.sleep(REJOIN_SECONDS)
            without_vote = self._core.without_vote
            if not without_vote:
                self._health.rejoins(without_vote)

    async def _expect_map(self) -> None:
        """Report after a lease that no map is published; before that the node may still learn it."""
        await asyncio.sleep(self._configuration.settings.lease_seconds)
        if not self._core.maps.newest.version:
            self._health.lacks_map()

    async def _watch(self, file: PreferredMapFile) -> None:
        """Read every new version of the preferred map."""
        while True:
            try:
                seen = file.changed()
                if seen is not None:
                    self._process_event(seen)
            except InputError as error:
                print(f"the map stays as it was: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(MAP_SECONDS)

    def _process_event(self, fact: Event) -> None:
        """Pass an event to the core and carry out its effects. The node ends if that fails in between."""
        try:
            self._handle(fact)
        except Exception as error:
            self._failure = self._failure or error
            self._failed.set()

    def _handle(self, fact: Event) -> None:
        self._health.record_progress(lease_clock())
        facts = [fact]
        while facts:
            for order in self._core.handle(lease_clock(), facts.pop(0)):
                own = self._perform(order)
                if own is not None:
                    facts.append(own)
        self._health.compared(self._core)
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, self._core.next_deadline() - lease_clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self._process_event, TimerExpired())

    def _perform(self, order: Effect) -> Event | None:
        if isinstance(order, WriteLog):
            self._log.write(order.group, order.written)
        elif isinstance(order, StoreRequest):
            assert self._store is not None
            self._store.submit(order)
        elif order.synced:
            self._unsynced.append(order)
            self._sync_requested.set()
        else:
            return self._send(order)
        return None

    def _send(self, order: SendMessage) -> Event | None:
        if order.to == self._configuration.node:
            return Received(order.to, order.group, order.message)
        try:
            frame = encoded((order.group, order.message))
        except InputError as error:
            self._limited_log.log(f"a message of group {order.group} to {order.to} is left out: {error}")
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
        """Sync once for all writes that came during the last sync."""
        while True:
            await self._sync_requested.wait()
            self._sync_requested.clear()
            sends, self._unsynced = self._unsynced, []
            # A disk that failed once may say yes next time, and have lost what came before: the node ends.
            putting = asyncio.create_task(asyncio.to_thread(self._log.put, self._log.next_flush()))
            try:
                await asyncio.shield(putting)
            except asyncio.CancelledError:
                await putting  # the file is closed behind it
                raise
            if self._log.needs_compaction:
                self._compaction_requested.set()
            for order in sends:
                own = self._send(order)
                if own is not None:
                    self._process_event(own)

    def _closed(self, why: str) -> None:
        self._limited_log.log(f"a connection is closed: {why}")

    def _refused(self, why: str) -> None:
        self._limited_log.log(f"this node does not take part everywhere: {why}")

    async def _compact(self) -> None:
        """Keep the log bounded while the node runs."""
        while True:
            await self._compaction_requested.wait()
            self._compaction_requested.clear()
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
                who = await meet(reader, writer, self._speaker, addresses, self._peers)
            if isinstance(who, str):
                self._clients[who] = writer
            most = CLIENT_FRAME_BYTES if isinstance(who, str) else MAX_FRAME_BYTES
            async for group, told in messages_of(reader, most):
                self._peers.record_activity(who)
                self._process_event(Received(who, group, told))
        except (asyncio.IncompleteReadError, OSError):
            pass  # whoever called has gone, or said nothing for long
        except (TornFrameError, InputError, TypeError, ValueError) as error:
            whose = "" if who is None else f"{called(who)}: "
            self._closed(whose + (str(error) or "what came is no frame"))
        finally:
            if isinstance(who, str) and self._clients.get(who) is writer:
                del self._clients[who]
                self._process_event(ClientDisconnected(who))
            self._peers.left(who, writer)
            writer.close()


def run_node(path: Path) -> None:
    """Run the node of a configuration until it is killed; errors as in `read_configuration` and `run`."""
    asyncio.run(NodeProcess(read_configuration(path)).run())
