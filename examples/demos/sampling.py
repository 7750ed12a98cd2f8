"""A loaded sandbox cluster that is sampled into a lake of its own, and the figures of its samples."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from demos.machine import check_samples
from trimtab.model.errors import ObserveError
from trimtab.model.replicas.settings import RESOURCES
from trimtab.observe.collect.sampler import Sampler, TickResult, collect
from trimtab.report.measured import MeasuredLoad, complete_ticks, measured_at, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demos.machine import MachineLog, SampleValidity
    from trimtab.lab.sandbox.load import SandboxLoad
    from trimtab.observe.collect.sinks import SampleSink
    from trimtab.observe.lake.lake import Lake


MAX_TICKS = 3
"""Samples that may be taken for each that is wanted, where samples are checked."""
MAX_IDLE_TICKS = 5
"""This many ticks in a row without any sample, and the collector is given up."""


SandboxT = TypeVar("SandboxT")


@dataclass
class SampledSandbox(Generic[SandboxT]):
    """A loaded sandbox and its samples.

    Attributes
    ----------
    sandbox, load, lake
        The cluster, its clients, and where its samples land.
    interval_seconds
        Distance of two ticks.
    """

    sandbox: SandboxT
    load: SandboxLoad
    lake: Lake
    interval_seconds: float
    _written_at: list[datetime.datetime] = field(default_factory=list)
    _problems: list[str] = field(default_factory=list)

    @property
    def problems(self) -> tuple[str, ...]:
        """Complaints of the collector, each sentence once."""
        return tuple(dict.fromkeys(self._problems))

    def sample(
        self,
        ticks: int,
        watch: Callable[[int, int, str], None] | None = None,
        machine: MachineLog | None = None,
    ) -> MeasuredPeriod:
        """Wait for so many whole intervals from now on, and name them.

        Parameters
        ----------
        ticks
            Intervals; one more sample than that is waited for, since a rate needs two.
        watch
            Told after each how many of how many there are, and why the last one does not count.
        machine
            Its log, if samples are to be checked: those that are not valid are taken again, up to `MAX_TICKS`
            times as many in all.

        Raises
        ------
        ObserveError
            If no samples come any more.
        SandboxError
            If a client of the load has ended.
        """
        begun = datetime.datetime.now(datetime.UTC)
        deadline, seen = self._deadline(), 0
        checks: list[SampleValidity] = []
        while True:
            got = [tick for tick in self._written_at if tick >= begun]
            if len(got) > seen:
                deadline, seen = self._deadline(), len(got)
                if machine is not None:
                    checks = check_samples(self.load.ticks(), machine, [tick.timestamp() for tick in got])
                sound = seen - 1 if machine is None else sum(one.valid for one in checks)
                if watch is not None:
                    watch(min(sound, ticks), ticks, checks[-1].reason if checks else "")
                if sound >= ticks or seen > MAX_TICKS * ticks:
                    return MeasuredPeriod(got[1], got[-1], seen - 1, tuple(got[1:]), tuple(checks), ticks)
            self.load.require_running()
            if time.monotonic() > deadline:
                raise ObserveError(
                    f"only {len(got)} of {ticks + 1} samples came in time: "
                    f"{self._problems[-1] if self._problems else 'this machine may be too busy'}"
                )
            time.sleep(0.05)

    def _deadline(self) -> float:
        return time.monotonic() + (1 + MAX_IDLE_TICKS) * self.interval_seconds

    def record_tick(self, collected: TickResult) -> None:
        """Remember how a tick went."""
        if collected.problem is not None:
            self._problems.append(collected.problem)
            return
        assert collected.sample is not None
        self._problems.extend(collected.sample.problems)
        self._written_at.append(collected.tick)

    def end(self, error: Exception) -> None:
        """Remember why there will be no more samples."""
        self._problems.append(f"collecting ended: {error}")


@dataclass(frozen=True)
class MeasuredPeriod:
    """A stretch of measured ticks, both ends included.

    Attributes
    ----------
    first, last, ticks
        Its ends, and how many.
    each, checks
        Every tick with its check, where samples were checked.
    required
        The number of sound ones that were waited for.
    """

    first: datetime.datetime
    last: datetime.datetime
    ticks: int
    each: tuple[datetime.datetime, ...] = ()
    checks: tuple[SampleValidity, ...] = ()
    required: int = 0

    @property
    def disturbed(self) -> dict[datetime.datetime, str]:
        """Ticks that do not count, and why."""
        return {tick: one.reason for tick, one in zip(self.each, self.checks, strict=False) if not one.valid}

    @property
    def too_busy(self) -> bool:
        """Whether fewer samples are sound than were wanted."""
        return self.ticks - len(self.disturbed) < self.required

    @property
    def left_out(self) -> Collection[datetime.datetime]:
        """Ticks for no figure: the disturbed ones, unless too few others are left."""
        return () if self.too_busy else self.disturbed

    @property
    def warning(self) -> str:
        """A sentence on disturbed samples; empty without any."""
        if not self.disturbed:
            return ""
        why = next(iter(self.disturbed.values()))
        if self.too_busy:
            sound = self.ticks - len(self.disturbed)
            return f"this machine is too busy: {sound} of {self.ticks} samples are sound ({why})"
        return f"{len(self.disturbed)} of {self.ticks} samples were disturbed ({why}) and taken again"

    def begin(self, interval_seconds: float) -> float:
        """The begin of the first interval, seconds since the epoch."""
        return self.first.timestamp() - interval_seconds

    @property
    def end(self) -> float:
        """The end of the last interval, seconds since the epoch."""
        return self.last.timestamp()


@contextlib.contextmanager
def sampled(
    sandbox: SandboxT,
    load: SandboxLoad,
    lake: Lake,
    interval_seconds: float,
    open_collector: Callable[[], AbstractContextManager[Sampler]],
    open_sink: Callable[[], AbstractContextManager[SampleSink]],
) -> Iterator[SampledSandbox[SandboxT]]:
    """Sample a loaded cluster in a thread until the block is left.

    Parameters
    ----------
    sandbox, load, lake, interval_seconds
        As in `SampledSandbox`.
    open_collector, open_sink
        Called in the thread.
    """
    sampling = SampledSandbox(sandbox, load, lake, interval_seconds)
    stop = threading.Event()

    def run() -> None:
        try:
            with open_collector() as collector, open_sink() as landing:
                for collected in collect(collector, landing, sampling.interval_seconds, stop):
                    sampling.record_tick(collected)
        except Exception as error:
            sampling.end(error)

    thread = threading.Thread(target=run, name="collect", daemon=True)
    thread.start()
    try:
        yield sampling
    finally:
        stop.set()
        thread.join(sampling.interval_seconds + 10)


MICROSECOND = datetime.timedelta(microseconds=1)


def measured_load(
    lake: Lake,
    period: MeasuredPeriod,
    hosts: Mapping[int, str] | None = None,
    resources: tuple[str, ...] = RESOURCES,
) -> MeasuredLoad:
    """The table's figures at the undisturbed ticks of a period at which every live broker was sampled.

    Parameters
    ----------
    lake
        Its table `imbalance` must reach to the period's end.
    period
        Which ticks.
    hosts
        Host of each broker; empty where a broker's name tells it.
    resources
        Those of the balancer.

    Raises
    ------
    ObserveError
        If no tick of the period is complete.
    """
    table = lake.table("imbalance", since=period.first, until=period.last + MICROSECOND)
    rows = rows_of(table.to_pylist())
    ticks, known = complete_ticks(rows, resources)
    # Where most were disturbed, figures of all are better than those of a few; the period says so.
    ticks = [tick for tick in ticks if tick not in period.left_out] or ticks
    if not ticks:
        raise ObserveError(
            f"none of the {period.ticks} ticks up to {period.last:%H:%M:%S} UTC has samples of all brokers: "
            "this machine may be too busy; try again, or with longer ticks"
        )
    return measured_at(rows, ticks, known, resources, hosts)
