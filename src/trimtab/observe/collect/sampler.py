"""Collectors of a system as a value, and the engine that samples a cluster at every aligned instant.

Collectors belong to a system, not to a balancer: every balancer on the system reads the same samples. A
failed tick is reported, and the next one is tried.
"""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from trimtab.files.store import Location
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.collect.sinks import Columns, LakeSink, RowBatch, SampleSink
from trimtab.observe.lake.columns import SECOND, Row
from trimtab_common.errors import SettingsError


class RequestError(ObserveError):
    """A broker did not answer a request, or answered that it will not."""


@dataclass(frozen=True)
class TickSample:
    """The samples of one tick.

    Attributes
    ----------
    cluster
        The name the samples are filed under.
    answered, brokers
        Brokers that answered, of those registered.
    scraped, endpoints
        Metrics endpoints that answered, of those asked.
    dropped_values
        Metric values that were NaN, infinite, negative or unreadable.
    problems
        What is missing and why, one sentence each.
    """

    cluster: str
    batches: tuple[RowBatch, ...]
    answered: int
    brokers: int
    scraped: int
    endpoints: int
    dropped_values: int
    problems: tuple[str, ...]
    seconds: float

    @property
    def rows(self) -> int:
        """Number of rows in all."""
        return sum(len(batch) for batch in self.batches)

    def rows_of(self, kind: str) -> Iterator[Row]:
        """Rows of one kind, values that are not there left out."""
        return (row for batch in self.batches if batch.kind == kind for row in batch.rows())


class Sampler(Protocol):
    """A collector of any system, connected to one cluster."""

    def sample(self) -> TickSample:
        """Ask everything once.

        Raises
        ------
        Unanswered
            If no broker at all tells what the cluster is; one broker's failure is a row, not an error.
        """
        ...


@dataclass(frozen=True)
class SystemSampler:
    """The collectors of a system.

    Attributes
    ----------
    columns
        Name and type of each column of its raw rows.
    open
        A connection of the system, and how to sample, to a collector while the block lasts. Raises
        `ConnectError` if no broker can be reached now.
    warnings
        Sentences for people when collecting begins: what these settings leave out.
    recorder
        A landing that adds samples to a file as well, in a form that replays read; None where a system has
        no such form.
    """

    columns: Columns
    open: Callable[[Any, CollectSettings, CapacitySettings], AbstractContextManager[Sampler]]
    warnings: Callable[[CollectSettings], tuple[str, ...]] = lambda _: ()
    recorder: Callable[[SampleSink, Path], SampleSink] | None = None

    @contextmanager
    def recording(self, sink: SampleSink, path: Path | None) -> Iterator[SampleSink]:
        """Record samples as well, where a file is given.

        Raises
        ------
        SettingsError
            If the system's samples cannot be recorded.
        InputError
            If the file is there and is no recording.
        ObserveError
            If it cannot be written.
        """
        if path is None:
            yield sink
            return
        if self.recorder is None:
            raise SettingsError(f"samples of this system cannot be recorded in {path}: leave --record out")
        with closing(self.recorder(sink, path)) as both:
            yield both


@dataclass(frozen=True)
class Tick:
    """One instant.

    Attributes
    ----------
    microseconds
        Since the epoch; a multiple of the interval.
    missed
        How many instants passed by since the tick before, because sampling took longer than the interval or
        the machine slept.
    """

    microseconds: int
    missed: int = 0


def tick_of(seconds: float, interval_seconds: float) -> int:
    """The newest aligned instant that is not after `seconds`, in microseconds since the epoch."""
    interval = round(interval_seconds * SECOND)
    return math.floor(seconds * SECOND) // interval * interval


def ticks(interval_seconds: float, now: Callable[[], float], wait: Callable[[float], bool]) -> Iterator[Tick]:
    """Wait for one aligned instant after the other, without drift.

    Parameters
    ----------
    interval_seconds
        Distance of two instants.
    now
        Seconds since the epoch, UTC.
    wait
        Waits so many seconds, or returns True at once when it is time to stop.

    Yields
    ------
    Tick
        Strictly later than the one before, unless the clock was set back by more than two intervals.
    """
    interval = round(interval_seconds * SECOND)
    last: int | None = None
    while True:
        following = tick_of(now(), interval_seconds) + interval
        if last is not None and last >= following and last - following <= interval:
            # The clock was set back a little: name no instant twice.
            following = last + interval
        while (delay := following / SECOND - now()) > 0:
            if wait(delay):
                return
        # A machine that slept wakes up in a later tick: samples belong to the one they are taken in.
        following = max(following, tick_of(now(), interval_seconds))
        missed = 0 if last is None else max(0, (following - last) // interval - 1)
        yield Tick(following, missed)
        last = following


@dataclass(frozen=True)
class TickResult:
    """The outcome of one tick.

    Attributes
    ----------
    missed
        Ticks that passed by before this one.
    sample
        None where the cluster did not answer at all.
    problem
        Why nothing was landed; None if something was.
    write_seconds
        Time spent keeping the samples.
    """

    tick: datetime.datetime
    missed: int
    sample: TickSample | None
    problem: str | None
    write_seconds: float = 0.0


@contextmanager
def lake_sink(raw: Location, columns: Columns) -> Iterator[SampleSink]:
    """Land in the raw folder of a lake; `columns` are those of the system."""
    yield LakeSink(raw, columns)


def collect(
    collector: Sampler,
    sink: SampleSink,
    interval_seconds: float,
    stop: threading.Event,
    count: int | None = None,
) -> Iterator[TickResult]:
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
        instant = datetime.datetime.fromtimestamp(tick.microseconds / SECOND, datetime.UTC)
        sample = None
        try:
            sample = collector.sample()
            begun = time.perf_counter()
            sink.write(sample.batches, sample.cluster, instant)
        except ObserveError as error:
            yield TickResult(instant, tick.missed, sample, str(error))
        else:
            yield TickResult(instant, tick.missed, sample, None, time.perf_counter() - begun)
