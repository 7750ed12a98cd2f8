"""Clients and samples of the demo, each in a thread of its own, with when everything came."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trimtab.lab.sandbox.masters.clients import StoreClients
from trimtab.observe.collect.run import lake_sink
from trimtab.observe.collect.sampler import RequestError
from trimtab.observe.collect.settings import CollectSettings
from trimtab.systems.paxos.collector import COLLECTING, PaxosCollector

if TYPE_CHECKING:
    from trimtab.lab.sandbox.masters.state import MastersSandboxState
    from trimtab.observe.lake import Lake
    from trimtab.systems.paxos.nodes import PaxosNodes


class StoreLoad:
    """Producers and consumers of every group, until they are told to stop.

    Attributes
    ----------
    acknowledged
        When each message was acknowledged (seconds since 1970), and how long it had waited for that.
    """

    def __init__(self, state: MastersSandboxState, seed: int, rate: float) -> None:
        self._clients, self._rate = StoreClients(state.cluster, seed), rate
        self.acknowledged: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        """Stop, and read everything back; messages acknowledged, and messages in the logs.

        Raises
        ------
        Violation
            If one is missing, or stands twice or out of its producer's order.
        """
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        ledgers = self._clients.ledgers.values()
        return sum(sum(one.acknowledged.values()) for one in ledgers), sum(one.audit() for one in ledgers)

    def longest(self, started: float, ended: float) -> float:
        """The longest that a message waited which was acknowledged in a period."""
        return max((wait for at, wait in self.acknowledged if started <= at <= ended), default=0.0)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._failure = error

    async def _work(self) -> None:
        clients = self._clients

        def summary() -> None:
            self.acknowledged.append((time.time(), clients.waits[-1]))

        async with asyncio.TaskGroup() as tasks:
            for topic in clients.ledgers:
                tasks.create_task(clients.produce(topic, self._rate, summary))
                tasks.create_task(clients.consume(topic, 60.0))
            await asyncio.to_thread(self._ended.wait)
            clients.stopping.set()
        for topic in clients.ledgers:
            await clients.read_all(topic, 60.0)


class StoreSampling:
    """Samples of a store, landed in a lake and kept for a picture.

    Attributes
    ----------
    masters
        When each tick was (seconds since 1970), and of how many groups each node was master.
    queries
        The same for the queries that each node has answered since its process began.
    """

    def __init__(self, nodes: PaxosNodes, lake: Lake, interval_seconds: float) -> None:
        self._collector, self._lake = PaxosCollector(nodes, CollectSettings()), lake
        self._nodes, self._interval = len(nodes.configuration.addresses), interval_seconds
        self.masters: list[tuple[float, list[int]]] = []
        self.queries: list[tuple[float, list[int]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more samples."""
        self._ended.set()
        self._thread.join()

    def until(self, holds: Callable[[list[int]], bool], timeout_seconds: float) -> float | None:
        """Wait until masters by node are so; when they were seen so, or None if they were not in time."""
        end = time.time() + timeout_seconds
        while time.time() < end:
            if self.masters and holds(self.masters[-1][1]):
                return self.masters[-1][0]
            time.sleep(0.05)
        return None

    def _run(self) -> None:
        with lake_sink(self._lake.raw, COLLECTING.columns) as landing:
            while not self._ended.is_set():
                tick = time.time()
                try:
                    sample = self._collector.sample()
                except RequestError:
                    pass
                else:
                    landing.write(sample.batches, sample.cluster, datetime.fromtimestamp(tick, UTC))
                    self._note(tick, list(sample.rows_of("paxos_group")))
                self._ended.wait(max(0.0, tick + self._interval - time.time()))

    def _note(self, tick: float, rows: list[dict[str, Any]]) -> None:
        masters, queries = [0] * self._nodes, [0] * self._nodes
        for row in rows:
            masters[row["node"]] += row["holds"]
            queries[row["node"]] += row["stored_total"] + row["pulls_total"]
        self.masters.append((tick, masters))
        self.queries.append((tick, queries))
