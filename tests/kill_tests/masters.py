"""Nodes killed with signal 9 at random moments, also during transfers, with clients at work.

The network between nodes can be cut as well. `scripts/kill-test masters --kills 200` runs it
at length.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from kill_tests.proxy import FaultProxy, ProxiedSandbox
from trimtab.lab.sandbox import processes
from trimtab.lab.sandbox.masters.clients import StoreClients, StoreViolation
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab_common.errors import ConnectError
from trimtab_store.clients.cluster import GroupStatusByNode, masters_of, query_group_status
from trimtab_store.core.messages import MapChanged
from trimtab_store.core.node import EMBEDDED, ENGINES


class ReportedMasterships:
    """What nodes say of their own masterships, in one round of questions after another.

    A version names one master, and a later master has a higher one. So no node may hold a version that
    another one holds, nor, in a later round, one that is not above what another node held in a round before.

    Attributes
    ----------
    answers
        How many were compared.
    """

    def __init__(self) -> None:
        self.answers = 0
        self._last: dict[int, tuple[int, int]] = {}

    def check_round(self, statuses: GroupStatusByNode) -> None:
        """Compare the answers of a round, each of which came after all those of the rounds before.

        Raises
        ------
        Violation
            If two nodes are master of one group.
        """
        found: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for node, groups in statuses.items():
            self.answers += len(groups)
            for group, standing in groups.items():
                if standing.holds:
                    found[group][node] = standing.version
        for group, versions in found.items():
            before = self._last.get(group)
            if before is not None:
                for node, version in versions.items():
                    if node != before[1] and version <= before[0]:
                        raise StoreViolation(
                            f"node {node} is master of group {group} by version {version}, after node "
                            f"{before[1]} was by version {before[0]}"
                        )
            if len(set(versions.values())) < len(versions):
                raise StoreViolation(f"several nodes are master of group {group} by one version: {versions}")
            newest = max((version, node) for node, version in versions.items())
            self._last[group] = newest if before is None else max(before, newest)


NODES: Final = 3
GROUPS: Final = 3
LEASE_SECONDS: Final = 4.0
"""With 2 s a run stood still for two minutes, on two cores with a load of 40: see the balancer's page."""
PRODUCERS: Final = 2
RATE: Final = 30.0
"""Messages a second of each producer."""
PROGRESS: Final = 20
"""Messages that every topic has acknowledged before the next strike, most of the times."""
TIMEOUT_SECONDS: Final = 120.0
"""Once a majority runs every group has a master again, and everything is acknowledged."""
STRIKES: Final = ("master", "preferred", "both", "all")
CUTS: Final = ("one way", "both ways", "mute", "deaf", "alone", "slow")
"""One node to another, and back; one node to all, all to it, and both; and everything late."""
CUT_SHARE: Final = 0.7
"""Of strikes, in a network that may be cut."""
SLOW_SECONDS: Final = 0.1
SETTLE_SECONDS: Final = LEASE_SECONDS
"""Nodes that were all killed know again after R which map was published last."""
POLL_SECONDS: Final = 0.1
"""Between two rounds of questions to all nodes whether they are master."""


@dataclass
class StoreKillResult:
    """What a run came to.

    Attributes
    ----------
    strikes
        How often, by kind.
    cuts
        How often, by kind.
    killed
        Processes.
    maps
        Published meanwhile: each moves the masterships of some groups.
    unpublished
        Maps of which the publisher was told that they may not be published, as no majority ran.
    acknowledged, logged
        Messages.
    again
        Messages that a later consumer of a name got again: none that was kept.
    longest_wait
        Seconds until a message was acknowledged, at most.
    answers
        Of nodes whether they are master of a group, compared with one another.
    """

    strikes: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    maps: int = 0
    unpublished: int = 0
    acknowledged: int = 0
    logged: int = 0
    again: int = 0
    longest_wait: float = 0.0
    answers: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        strikes = ", ".join(f"{self.strikes[kind]} {kind}" for kind in STRIKES)
        cuts = ", ".join(f"{self.cuts[kind]} {kind}" for kind in CUTS)
        cut = f"the network cut {self.cuts.total()} times ({cuts}), " if self.cuts else ""
        unpublished = f" ({self.unpublished} of them in vain)" if self.unpublished else ""
        return (
            f"{self.killed} processes killed ({strikes}), {cut}{self.maps} maps{unpublished}, "
            f"{self.acknowledged:,} messages acknowledged, {self.logged:,} in the logs, {self.again:,} "
            f"handed out again to later consumers, longest wait {self.longest_wait:.1f} s, "
            f"{self.answers:,} answers on masterships compared, {self.seconds:.0f} s in all: 0 violations"
        )


class StoreKillTest:
    """One cluster, struck again and again; its network is cut as well if it goes through a proxy.

    Parameters
    ----------
    seed
        Of victims, moments and maps; processes themselves go as they go.
    """

    def __init__(self, sandbox: MastersSandbox, seed: int) -> None:
        self.result = StoreKillResult()
        self._sandbox, self._chance = sandbox, random.Random(seed)
        self._clients = StoreClients(sandbox.state.cluster, seed)
        self._masterships = ReportedMasterships()
        self._preferred = [group % NODES for group in range(GROUPS)]
        self._published = MapChanged(0, ())

    def run(self, kills: int) -> StoreKillResult:
        """Strike until so many processes are killed, let all settle, and read everything back.

        Raises
        ------
        Violation
            With what was promised and did not hold.
        """
        begun = time.monotonic()
        asyncio.run(self._run(kills))
        told, ledgers = self.result, self._clients.ledgers.values()
        told.acknowledged = sum(sum(ledger.acknowledged.values()) for ledger in ledgers)
        told.logged = sum(ledger.audit() for ledger in ledgers)
        told.again = sum(ledger.again for ledger in ledgers)
        told.longest_wait = max(self._clients.waits)
        told.answers = self._masterships.answers
        told.seconds = time.monotonic() - begun
        return told

    async def _run(self, kills: int) -> None:
        clients = self._clients
        work = [
            asyncio.create_task(clients.produce(topic, RATE), name=f"a producer of {topic}")
            for topic in clients.ledgers
            for _ in range(PRODUCERS)
        ]
        work += [
            asyncio.create_task(clients.consume(topic, 8.0), name=f"a consumer of {topic}")
            for topic in clients.ledgers
        ]
        work.append(asyncio.create_task(self._compare_masters(), name="the look at masterships"))
        try:
            await self._progress(work)
            while self.result.killed < kills:
                await self._inject_fault()
                if self._chance.random() < 0.7:
                    await self._progress(work)
                else:
                    await asyncio.sleep(self._chance.uniform(0.0, 1.0))
            await self._progress(work)
            clients.stopping.set()
            _, late = await asyncio.wait(work, timeout=TIMEOUT_SECONDS)
            self._check_masterships(work)
            if late:
                names = ", ".join(sorted(task.get_name() for task in late))
                raise StoreViolation(f"not done {TIMEOUT_SECONDS:g} s after the last message: {names}")
            for topic in clients.ledgers:
                await clients.read_all(topic, TIMEOUT_SECONDS)
            await asyncio.to_thread(self._audit_map)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _compare_masters(self) -> None:
        """Poll all nodes, also during kills; raise `StoreViolation` where two are master of one group."""
        while not self._clients.stopping.is_set():
            self._masterships.check_round(
                await query_group_status(self._sandbox.state.cluster, LEASE_SECONDS / 8)
            )
            await asyncio.sleep(POLL_SECONDS)

    async def _inject_fault(self) -> None:
        """Kill, now and then just after a transfer was asked for, and start again what was killed."""
        chance, sandbox = self._chance, self._sandbox
        cut = self._proxy is not None and chance.random() < CUT_SHARE
        if cut:
            self._cut()
        group, publishing = chance.randrange(GROUPS), None
        if chance.random() < 0.6:
            self._preferred[group] = (self._preferred[group] + chance.randrange(1, NODES)) % NODES
            publishing = asyncio.create_task(asyncio.to_thread(self._publish, tuple(self._preferred)))
            self.result.maps += 1
            await asyncio.sleep(chance.uniform(0.0, 1.5))
        kind = chance.choices(STRIKES, (4, 3, 2, 1))[0]
        victims = await self._victims(kind, group)
        if sandbox.state.members and chance.random() < 0.3:
            # One of the members of etcd too: the others are a majority.
            victims.add(chance.choice(sandbox.state.members).id)
        self.result.strikes[kind] += 1
        self.result.killed += len(victims)
        await asyncio.to_thread(self._kill, victims)
        await asyncio.sleep(chance.choice((0.0, 0.5, LEASE_SECONDS)) * chance.random())
        for node in chance.sample(sorted(victims), len(victims)):
            await asyncio.to_thread(sandbox.restart, node)
        if cut and self._proxy is not None:
            # Now and then for longer than a lease, so that the others choose another master meanwhile.
            await asyncio.sleep(chance.uniform(0.0, 1.5 * LEASE_SECONDS))
            self._proxy.heal()
        if publishing is not None:
            await publishing

    @property
    def _proxy(self) -> FaultProxy | None:
        return self._sandbox.proxy if isinstance(self._sandbox, ProxiedSandbox) else None

    def _publish(self, preferred: tuple[int, ...]) -> None:
        """Publish a map; where it is in the store, no majority of it may run just then."""
        try:
            self._published = MapChanged(self._sandbox.publish(preferred), preferred)
        except ConnectError:
            self.result.unpublished += 1

    def _audit_map(self) -> None:
        """Compare the map with the last one of which the publisher was told that it is published.

        Raises
        ------
        Violation
            If that is lost, or another one has its version.
        """
        end, published = time.monotonic() + SETTLE_SECONDS, self._published
        while (
            found := self._sandbox.paxos.preferred_map()
        ) != published and found.version <= published.version:
            if time.monotonic() < end:
                time.sleep(0.1)
                continue
            raise StoreViolation(
                f"version {published.version} of the map was published as {list(published.preferred)}, and "
                "the "
                f"nodes have version {found.version}, {list(found.preferred)}"
            )

    def _cut(self) -> None:
        """Cut the network somewhere, or make all of it slow."""
        chance, proxy = self._chance, self._proxy
        assert proxy is not None
        pairs = sorted(proxy.ports)
        kind = chance.choice(CUTS)
        self.result.cuts[kind] += 1
        if kind == "slow":
            return proxy.delay(pairs, chance.uniform(0.0, SLOW_SECONDS))
        way, node = chance.choice(pairs), chance.randrange(NODES)
        chosen = {
            "one way": [way],
            "both ways": [way, way[::-1]],
            "mute": [pair for pair in pairs if pair[0] == node],
            "deaf": [pair for pair in pairs if pair[1] == node],
            "alone": [pair for pair in pairs if node in pair],
        }[kind]
        # Members of etcd call nobody.
        proxy.cut([pair for pair in chosen if pair in proxy.ports], close=chance.random() < 0.5)
        return None

    async def _victims(self, kind: str, group: int) -> set[int]:
        if kind == "all":
            return set(range(NODES))
        master = masters_of(await query_group_status(self._sandbox.state.cluster), GROUPS)[group]
        master = self._chance.randrange(NODES) if master < 0 else master
        # Where the master is the preferred node already, a follower takes that one's part.
        preferred = self._preferred[group] if self._preferred[group] != master else (master + 1) % NODES
        return {"master": {master}, "preferred": {preferred}, "both": {master, preferred}}[kind]

    def _kill(self, victims: Collection[int]) -> None:
        """Kill all at the same time."""
        running = self._sandbox.state.processes
        processes.kill([running[node] for node in victims])

    async def _progress(self, work: Collection[asyncio.Task[None]]) -> None:
        """Wait until every topic has more messages acknowledged, and what was acknowledged before is read.

        Raises
        ------
        Violation
            If that is not so in time, or a client was told what must not be.
        """
        ledgers = self._clients.ledgers.values()
        before = {ledger.topic: sum(ledger.acknowledged.values()) for ledger in ledgers}
        until = time.monotonic() + TIMEOUT_SECONDS
        while missing := [
            ledger.topic
            for ledger in ledgers
            if sum(ledger.acknowledged.values()) < before[ledger.topic] + PROGRESS
            or len(ledger.log) < before[ledger.topic]
        ]:
            self._check_masterships(work)
            self._sandbox.require_running()
            if time.monotonic() > until:
                raise StoreViolation(f"{missing} went neither in nor out for {TIMEOUT_SECONDS:g} s")
            await asyncio.sleep(0.1)

    def _check_masterships(self, work: Collection[asyncio.Task[None]]) -> None:
        for task in work:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error


def main() -> int:
    """Start nodes, run, and say what came of it."""
    parser = argparse.ArgumentParser(prog="scripts/kill-test masters", description="Kill nodes by number.")
    parser.add_argument("--kills", type=int, default=50, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=1, help="of moments, victims and maps")
    parser.add_argument("--engine", choices=sorted(ENGINES), default=EMBEDDED.name, help="what chooses")
    parser.add_argument(
        "--cuts", action="store_true", help="also cut the network between processes, by a proxy"
    )
    parser.add_argument(
        "--map-in-store", action="store_true", help="publish maps in the store, not in a file"
    )
    given = parser.parse_args()
    kind = ProxiedSandbox if given.cuts else MastersSandbox
    with kind.start(
        NODES,
        GROUPS,
        lease_seconds=LEASE_SECONDS,
        engine=given.engine,
        map_in_store=given.map_in_store,
    ) as sandbox:
        try:
            told = StoreKillTest(sandbox, given.seed).run(given.kills)
        except StoreViolation as error:
            print(f"seed {given.seed}: {error}")
            return 1
    print(f"seed {given.seed}: {told}")
    return 0
