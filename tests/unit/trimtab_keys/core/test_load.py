"""Backlogs, rates and capacities out of offsets, and a view that is kept up to date by them, by hand."""

from __future__ import annotations

from math import exp, inf

import pytest

from trimtab_keys.core import load as module
from trimtab_keys.core.load import (
    LoadEstimate,
    PartitionContent,
    PartitionLoadView,
    SentRecordCounts,
    TopicLoad,
)


def estimate(capacity: float | None = None, commit_seconds: float = 5.0) -> LoadEstimate:
    """Rates smoothed over ten seconds."""
    return LoadEstimate(capacity, 10.0, commit_seconds)


def test_a_backlog_is_updated_at_commits_only() -> None:
    """A consumer that commits every three seconds is not behind by what it did in between."""
    found = estimate()
    found.read(0.0, [100], {0: 100})
    assert found.backlog == [0]
    for at, end, done, waiting in (
        (1.0, 150, 100, 0),
        (2.0, 200, 100, 0),
        (3.0, 250, 240, 10),
        (4.0, 300, 240, 10),
    ):
        found.read(at, [end], {0: done})
        assert found.backlog == [waiting]


def test_without_recent_commits_all_new_records_wait() -> None:
    """Up to 4.0 s it had done everything, whenever it committed last; 9.0 is five seconds later."""
    found = estimate()
    found.read(0.0, [100], {0: 90})
    found.read(2.0, [120], {0: 120})
    found.read(4.0, [120], {0: 120})
    found.read(8.9, [200], {0: 120})
    assert found.backlog == [0]
    found.read(9.0, [210], {0: 120})
    assert found.backlog == [90]


def test_without_a_commit_records_since_the_first_reading_wait() -> None:
    """What lay there before may be anything; of a partition that is added later everything has come since."""
    found = estimate(commit_seconds=1.0)
    found.read(0.0, [1000], {})
    found.read(1.0, [1030, 7], {})
    assert found.backlog == [30, 7]


def test_rates_are_smoothed() -> None:
    """50 in two seconds are 25 a second, of which 1 - exp(-0.2) counts; then no further records."""
    found = estimate()
    found.read(0.0, [0], {})
    found.read(2.0, [50], {})
    assert found.rate == pytest.approx([25 * (1 - exp(-0.2))])
    found.read(3.0, [50], {})
    assert found.rate == pytest.approx([25 * (1 - exp(-0.2)) * exp(-0.1)])


def test_a_reading_at_the_same_time_changes_nothing() -> None:
    """A clock may stand still."""
    found = estimate()
    found.read(1.0, [0], {0: 0})
    found.read(1.0, [50], {0: 0})
    assert (found.rate, found.backlog) == ([0.0], [0.0])


def test_a_capacity_is_declared_or_measured_while_more_waits_than_is_done() -> None:
    """Partition 0 does 80 in two seconds and had 100; 1 keeps up, and is taken for the measured mean."""
    assert estimate(50.0).capacity == []
    found = estimate()
    found.read(0.0, [100, 0], {0: 0, 1: 0})
    assert found.capacity == [inf, inf]
    found.read(2.0, [200, 60], {0: 80, 1: 60})
    assert found.capacity == pytest.approx([40.0, 40.0])
    declared = estimate(50.0)
    declared.read(0.0, [100, 0], {0: 0, 1: 0})
    assert declared.capacity == [50.0, 50.0]


def test_a_consumer_that_may_have_been_idle_shows_no_capacity() -> None:
    """Of the 80 that it did only 70 lay there at the beginning: it may have waited for the others."""
    found = estimate()
    found.read(0.0, [70], {0: 0})
    found.read(2.0, [200], {0: 80})
    assert found.capacity == [inf]


def test_capacity_needs_a_second_of_work_and_old_work_fades() -> None:
    """Half a second shows nothing; 20 a second, then 10, weighed by time and by age."""
    found = estimate()
    found.read(0.0, [1000], {0: 0})
    found.read(0.5, [1000], {0: 10})
    assert found.capacity == [inf]
    found.read(1.0, [1000], {0: 20})
    found.read(11.0, [1000], {0: 120})
    kept, half = exp(-10 / module.CAPACITY_SECONDS), exp(-0.5 / module.CAPACITY_SECONDS)
    assert found.capacity == pytest.approx(
        [(kept * (half * 10 + 10) + 100) / (kept * (half * 0.5 + 0.5) + 10)]
    )


def observation(backlog: list[float], in_use: int = 3, capacity: float = 100.0) -> TopicLoad:
    """Of a topic whose hash divides by three."""
    rate = [one / 10 for one in backlog]
    return TopicLoad("id", 3, in_use, backlog, rate, [capacity] * len(backlog))


def test_an_observation_replaces_counted_records() -> None:
    """What the producer sent since the last one is in it."""
    view = PartitionLoadView(3)
    view.load[:] = [9.0, 9.0, 9.0]
    view.observe(observation([10.0, 20.0, 30.0]), 3)
    assert (view.load, view.rate, view.capacity) == ([10, 20, 30], [1, 2, 3], [100] * 3)
    assert (view.observations, view.spare) == (1, 0)


def test_partitions_beyond_the_base_are_spare_until_they_hold_records() -> None:
    """The fourth is assigned to a member; the fifth is offered to every requester."""
    view = PartitionLoadView(3)
    view.observe(observation([1.0, 2.0, 3.0, 4.0, 0.0], in_use=4), 5)
    assert (len(view), view.spare, view.load[3], view.requested_partitions) == (4, 1, 4.0, 0)
    assert view.add() == 4
    view.observe(observation([1.0, 2.0, 3.0, 4.0, 7.0], in_use=5), 5)
    assert (len(view), view.spare, view.load[4]) == (5, 0, 7.0)


def test_partitions_that_the_client_does_not_know_yet_are_not_used() -> None:
    """It knows three of five; later all; a broker that is behind takes none away."""
    view = PartitionLoadView(3)
    view.observe(observation([1.0] * 5, in_use=5), 3)
    assert (len(view), view.spare) == (3, 0)
    view.observe(observation([1.0] * 5, in_use=5), 5)
    assert len(view) == 5
    view.observe(observation([2.0] * 4, in_use=4), 3)
    assert (len(view), view.spare, view.load) == (5, 0, [2.0, 2.0, 2.0, 2.0, 1.0])


def test_contents_are_shares_of_key_groups_and_distinct_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes 1, 5 and 5 in partition 1: of four groups all are in the second; nothing lies in the others."""
    monkeypatch.setattr(module, "MAX_KEYS", 2)
    counted = SentRecordCounts(4, with_keys=True)
    for h in (1, 5, 5, 2):
        counted.count(1, h)
    assert counted.histograms(3) == [
        PartitionContent(),
        PartitionContent([0.0, 0.75, 0.25, 0.0], (1.0,)),
        PartitionContent(),
    ]
    assert counted.keys(3) == [0, 2, 0], "not more than are remembered"
    assert SentRecordCounts(4).keys(2) == [0, 0]
