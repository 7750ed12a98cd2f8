"""Aligned instants, without drift."""

from itertools import islice

from trimtab.observe.collect.sampler import Tick, tick_of, ticks


class Clock:
    """A clock that waiting moves; sampling takes as long as a test says."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.stopped = False

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        if not self.stopped:
            self.now += seconds
        return self.stopped


def test_ticks_are_multiples_of_the_interval() -> None:
    """Two collectors started at different moments name the same instants."""
    for start in (100.1, 119.9):
        clock = Clock(start)
        found = [tick.microseconds for tick in islice(ticks(30, clock, clock.wait), 3)]
        assert found == [120_000_000, 150_000_000, 180_000_000]


def test_a_tick_belongs_to_the_interval_that_begins_with_it() -> None:
    """floor(now / interval) * interval, also for intervals of parts of a second."""
    assert tick_of(119.999, 30) == 90_000_000
    assert tick_of(120.0, 30) == 120_000_000
    assert tick_of(1_795_237_200.3, 0.1) == 1_795_237_200_300_000


def test_slow_sampling_neither_drifts_nor_hides_missed_ticks() -> None:
    """Sampling that takes 70 s at an interval of 30 s misses two ticks and reports them."""
    clock = Clock(95.0)
    found = []
    for tick in islice(ticks(30, clock, clock.wait), 3):
        found.append(tick)
        clock.now += 70 if len(found) == 1 else 1
    assert found == [Tick(120_000_000), Tick(210_000_000, missed=2), Tick(240_000_000)]


def test_a_machine_that_slept_samples_into_the_tick_it_wakes_in() -> None:
    """A wait that took an hour too long belongs to the tick of its end."""
    clock = Clock(95.0)

    def oversleep(seconds: float) -> bool:
        clock.now += seconds + 3600.0
        return False

    assert next(ticks(30, clock, oversleep)) == Tick(3_720_000_000)


def test_no_instant_is_named_twice_when_the_clock_is_set_back_a_little() -> None:
    """Time synchronisation moves the clock back by a second just after a tick."""
    clock = Clock(95.0)
    found = []
    for tick in islice(ticks(30, clock, clock.wait), 2):
        found.append(tick.microseconds)
        clock.now -= 1.0
    assert found == [120_000_000, 150_000_000]


def test_waiting_ends_when_it_is_time_to_stop() -> None:
    """A signal between two ticks ends the schedule at once."""
    clock = Clock(95.0)
    clock.stopped = True
    assert list(ticks(30, clock, clock.wait)) == []
