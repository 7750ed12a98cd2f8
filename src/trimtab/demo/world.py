"""A loaded sandbox cluster that is sampled tick after tick into a lake of its own."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.model.errors import ObserveError
from trimtab.observe.collect.capacity import CapacitySettings
from trimtab.observe.collect.run import Collected, collect, lake_landing, open_collector
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.lake import Lake

if TYPE_CHECKING:
    from trimtab.sandbox.kafka import KafkaSandbox
    from trimtab.sandbox.kafka.load import Load
    from trimtab.sandbox.kafka.workload import Workload

CLUSTER = "sandbox"
PATIENCE_TICKS = 5
"""This many ticks in a row without any sample, and the collector is given up."""


@dataclass
class World:
    """What `open_world` opens.

    Attributes
    ----------
    sandbox, load, lake
        The cluster, its clients, and where its samples land.
    interval_seconds
        Distance of two ticks.
    """

    sandbox: KafkaSandbox
    load: Load
    lake: Lake
    interval_seconds: float
    _landed: list[datetime.datetime]
    _problems: list[str]

    @property
    def hosts(self) -> dict[int, str]:
        """Host of each broker."""
        return self.sandbox.hosts

    @property
    def problems(self) -> tuple[str, ...]:
        """What the collector had to say, each sentence once."""
        return tuple(dict.fromkeys(self._problems))

    def sample(self, ticks: int, watch: Callable[[int, int], None] | None = None) -> Period:
        """Wait for so many whole intervals from now on, and name them.

        Parameters
        ----------
        ticks
            Intervals; one more sample than that is waited for, since a rate needs two.
        watch
            Told after each how many of how many there are.

        Raises
        ------
        ObserveError
            If no samples come any more.
        SandboxError
            If a client of the load has ended.
        """
        begun = datetime.datetime.now(datetime.UTC)
        deadline = time.monotonic() + (ticks + 1 + PATIENCE_TICKS) * self.interval_seconds
        seen = 0
        while True:
            got = [tick for tick in self._landed if tick >= begun]
            if len(got) > ticks:
                return Period(got[1], got[ticks], ticks)
            if len(got) > seen:
                seen = len(got)
                if watch is not None:
                    watch(seen - 1, ticks)
            self.load.require_running()
            if time.monotonic() > deadline:
                raise ObserveError(
                    f"only {len(got)} of {ticks + 1} samples came in time: "
                    f"{self._problems[-1] if self._problems else 'this machine may be too busy'}"
                )
            time.sleep(0.05)


@dataclass(frozen=True)
class Period:
    """A stretch of measured ticks, both ends included."""

    first: datetime.datetime
    last: datetime.datetime
    ticks: int

    def begin(self, interval_seconds: float) -> float:
        """When the first interval began, seconds since the epoch."""
        return self.first.timestamp() - interval_seconds

    @property
    def end(self) -> float:
        """When the last interval ended, seconds since the epoch."""
        return self.last.timestamp()


@contextlib.contextmanager
def watched(
    sandbox: KafkaSandbox,
    load: Load,
    lake: Lake,
    interval_seconds: float,
    capacity: CapacitySettings,
    truth: Path,
) -> Iterator[World]:
    """Sample a loaded cluster in a thread until the block is left.

    Parameters
    ----------
    capacity
        What brokers can carry, declared.
    truth
        Folder where the load's clients write what they did.
    """
    settings = CollectSettings(
        interval_seconds=interval_seconds,
        cluster=CLUSTER,
        prometheus={str(broker): url for broker, url in sandbox.prometheus_endpoints.items()},
        hosts={str(broker): host for broker, host in sandbox.hosts.items()},
        client_samples=(truth / "*.truth.jsonl",),
    )
    world = World(sandbox, load, lake, interval_seconds, [], [])
    stop = threading.Event()

    def run() -> None:
        try:
            with (
                open_collector(sandbox.connection, settings, capacity) as collector,
                lake_landing(lake.raw) as landing,
            ):
                for collected in collect(collector, landing, interval_seconds, stop):
                    _take(world, collected)
        except Exception as error:
            world._problems.append(f"collecting ended: {error}")

    thread = threading.Thread(target=run, name="collect", daemon=True)
    thread.start()
    try:
        yield world
    finally:
        stop.set()
        thread.join(interval_seconds + 10)


def _take(world: World, collected: Collected) -> None:
    if collected.problem is not None:
        world._problems.append(collected.problem)
        return
    assert collected.sample is not None
    world._problems.extend(collected.sample.problems)
    world._landed.append(collected.tick)


def level_capacity(workload: Workload, brokers: int, cpu_cores: float) -> CapacitySettings:
    """Capacities under which this load fills a level cluster to about half.

    All brokers share one machine, so that what each can carry is declared, not found: bytes in with their
    replicas, bytes out, and the disk that the load's data need, each twice the mean broker's share.

    Parameters
    ----------
    workload
        Its rates and preloaded bytes.
    brokers
        Over how many it is spread.
    cpu_cores
        Of each broker.
    """
    inward = sum(sum(topic.bytes_per_second) * topic.replication_factor for topic in workload.topics)
    held = sum(sum(topic.preload_bytes) * topic.replication_factor for topic in workload.topics)
    return CapacitySettings(
        cpu_cores=cpu_cores,
        network_in_bytes_per_second=2 * inward / brokers,
        network_out_bytes_per_second=2 * workload.bytes_out_per_second / brokers,
        disk_bytes=2 * held / brokers,
    )


def with_capacity(capacity: CapacitySettings, **changed: float) -> CapacitySettings:
    """The same with some values replaced."""
    return replace(capacity, **changed)  # type: ignore[arg-type]
