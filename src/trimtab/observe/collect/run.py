"""Collecting tick after tick: what is wrong at one tick is said, and the next one is tried."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from trimtab.connect.kafka import admin_client, producer
from trimtab.connect.pulsar import PulsarAdmin, PulsarConnection
from trimtab.connect.settings import KafkaConnection
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.asking import AdminAsker
from trimtab.observe.collect.capacity import CapacitySettings
from trimtab.observe.collect.collector import Collector, TickSample
from trimtab.observe.collect.landing import Columns, LakeLanding, Landing
from trimtab.observe.collect.pulsar.collector import PulsarCollector
from trimtab.observe.collect.pulsar.recording import RecordingLanding
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.collect.ticks import MICROSECONDS, ticks
from trimtab.observe.collect.topic_landing import TopicLanding
from trimtab.observe.raw import COLUMNS


class Sampler(Protocol):
    """A collector of any system."""

    def sample(self) -> TickSample:
        """Ask everything once.

        Raises
        ------
        ObserveError
            If nobody at all tells what the cluster is.
        """
        ...


@dataclass(frozen=True)
class Collected:
    """How one tick went.

    Attributes
    ----------
    missed
        Ticks that passed by before this one.
    sample
        None where the cluster did not answer at all.
    problem
        Why nothing was landed; None if something was.
    landing_seconds
        Time spent keeping the samples.
    """

    tick: datetime.datetime
    missed: int
    sample: TickSample | None
    problem: str | None
    landing_seconds: float = 0.0


@contextmanager
def open_collector(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Collector]:
    """A collector on a connection of its own.

    Raises
    ------
    ConnectError
        If the cluster cannot be reached now.
    """
    # The client's default would leave a broker that comes back unasked for up to 30 s.
    admin = admin_client(connection, reconnect_backoff_max_ms=1000)
    collector = Collector(AdminAsker(admin), settings, capacity)
    try:
        yield collector
    finally:
        collector.close()
        admin.close()


@contextmanager
def open_pulsar_collector(
    connection: PulsarConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[PulsarCollector]:
    """A collector of a Pulsar cluster.

    Raises
    ------
    ConnectError
        If no broker can be reached now, or they refuse us.
    """
    patient = replace(connection, timeout_seconds=settings.patience_seconds)
    with PulsarAdmin(patient) as admin, closing(PulsarCollector(admin, settings, capacity)) as collector:
        admin.brokers()
        yield collector


@contextmanager
def lake_landing(raw: Path, columns: Columns = COLUMNS) -> Iterator[Landing]:
    """Land in the raw folder of a lake; `columns` are those of the level that the samples are of."""
    yield LakeLanding(raw, columns)


@contextmanager
def recording(landing: Landing, path: Path | None) -> Iterator[Landing]:
    """Record load reports as well, where a file is given.

    Raises
    ------
    InputError
        If the file is there and is no recording.
    ObserveError
        If it cannot be written.
    """
    if path is None:
        yield landing
        return
    with closing(RecordingLanding(landing, path)) as both:
        yield both


@contextmanager
def topic_landing(connection: KafkaConnection, topic: str, settings: CollectSettings) -> Iterator[Landing]:
    """Land in a topic.

    Raises
    ------
    ConnectError
        If its cluster cannot be reached.
    """
    patience_ms = int(max(5.0, settings.interval_seconds) * 1000)
    client: Any = producer(
        connection,
        linger_ms=20,
        acks="all",
        max_block_ms=patience_ms,
        request_timeout_ms=patience_ms - 1000,
        delivery_timeout_ms=patience_ms,
    )
    landing = TopicLanding(client, topic, patience_ms / 1000)
    try:
        yield landing
    finally:
        landing.close()


def collect(
    collector: Sampler,
    landing: Landing,
    interval_seconds: float,
    stop: threading.Event,
    count: int | None = None,
) -> Iterator[Collected]:
    """Sample at every aligned instant until told to stop.

    Parameters
    ----------
    stop
        Ends the wait for the next tick at once; a tick that has begun is finished.
    count
        How many ticks to try; None for no end.
    """
    with suppress(ObserveError):
        # Opens the connections, so that the first tick is as quick as the others.
        collector.sample()
    for tick in islice(ticks(interval_seconds, time.time, stop.wait), count):
        instant = datetime.datetime.fromtimestamp(tick.microseconds / MICROSECONDS, datetime.UTC)
        sample = None
        try:
            sample = collector.sample()
            begun = time.perf_counter()
            landing.land(sample.batches, sample.cluster, instant)
        except ObserveError as error:
            yield Collected(instant, tick.missed, sample, str(error))
        else:
            yield Collected(instant, tick.missed, sample, None, time.perf_counter() - begun)
