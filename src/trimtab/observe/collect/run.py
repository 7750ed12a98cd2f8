"""The engine of collectors, tick after tick: what is wrong at one tick is said, and the next one is tried."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from trimtab.connect.kafka.client import producer
from trimtab.connect.kafka.settings import KafkaConnection
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.collecting import Sampler, TickSample
from trimtab.observe.collect.landing import Columns, LakeLanding, Landing
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.collect.ticks import MICROSECONDS, ticks
from trimtab.observe.collect.topic_landing import TopicLanding


@dataclass(frozen=True)
class Collected:
    """The outcome of one tick.

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
def lake_landing(raw: Path, columns: Columns) -> Iterator[Landing]:
    """Land in the raw folder of a lake; `columns` are those of the system."""
    yield LakeLanding(raw, columns)


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
