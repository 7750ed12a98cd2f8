"""The engine of collectors, tick after tick: what is wrong at one tick is said, and the next one is tried."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from trimtab.files.store import Location
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.sampler import Sampler, TickSample
from trimtab.observe.collect.sinks import Columns, LakeSink, SampleSink
from trimtab.observe.columns import SECOND


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
