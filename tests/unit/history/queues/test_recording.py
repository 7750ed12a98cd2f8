"""Arrivals out of the counters that a lake holds."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.history.queues.recording import lake_arrivals
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.sampler import lake_sink
from trimtab.observe.collect.sinks import RowBatchBuilder
from trimtab.observe.lake.lake import Lake
from trimtab.observe.queues.pipeline import PIPELINE
from trimtab.systems.redis.collector import COLLECTING

BEGUN = datetime.datetime(2026, 11, 21, 5, tzinfo=datetime.UTC)
TOTALS = ("accepted_total", "processed_total", "busy_seconds_total", "busy_squares_total")


def land(folder: Path, *ticks: dict[tuple[str, str], tuple[float, ...]], cluster: str = "queues") -> Path:
    """A lake of ticks ten seconds apart: by process and class, the totals that were told."""
    with lake_sink(Lake(folder, PIPELINE).raw, COLLECTING.columns) as landing:
        for number, tick in enumerate(ticks):
            at = BEGUN + datetime.timedelta(seconds=10 * number)
            queues = RowBatchBuilder("queue", "queue", "capacity", sampled_at=at)
            for queue in range(3):
                queues.add(queue, 500)
            batches: list[Any] = [queues.batch()]
            for (process, name), totals in tick.items():
                writer = RowBatchBuilder(
                    "queue_class", "message_class", "weight", *TOTALS, process=process, sampled_at=at
                )
                writer.add(name, 0.25, *totals)
                batches.append(writer.batch())
            landing.write(tuple(batches), cluster, at)
    return folder


def test_counters_become_messages(tmp_path: Path) -> None:
    """5 votes in the first ten seconds, 2 in the next and 3 of a process that started then."""
    lake = land(
        tmp_path,
        {("a", "vote"): (100, 50, 10.0, 2.0)},
        {("a", "vote"): (105, 52, 10.4, 2.08)},
        {
            ("a", "vote"): (107, 54, 10.8, 2.16),
            ("b", "vote"): (3, 0, 0.0, 0.0),
            ("b", "quiz"): (2, 2, 8.0, 32.0),
        },
    )
    found = lake_arrivals(lake, None, None, None, 1)
    begun = BEGUN.timestamp()
    votes = found.at[found.of_class == 1] - begun
    assert found.classes == ("quiz", "vote")
    assert (((votes > 0) & (votes <= 10)).sum(), ((votes > 10) & (votes <= 20)).sum()) == (5, 5)
    quizzes = found.of_class == 0
    assert ((found.at[quizzes] - begun > 10).all(), quizzes.sum()) == (True, 2)
    assert found.seconds[quizzes].tolist() == [4.0, 4.0]
    assert found.seconds[~quizzes] == pytest.approx(0.2)
    assert (np.diff(found.at) >= 0).all()
    assert (found.queues, found.capacity, found.weights) == (3, 500, {"quiz": 0.25, "vote": 0.25})
    again, other = (lake_arrivals(lake, "queues", None, None, seed) for seed in (1, 2))
    assert again.at.tolist() == found.at.tolist()
    assert other.at.tolist() != found.at.tolist()


def test_processing_times_have_the_mean_and_the_spread_of_their_class(tmp_path: Path) -> None:
    """20,000 messages, half of them of 1 s and half of 3: mean 2, variance 1."""
    lake = land(tmp_path, {("a", "vote"): (0, 0, 0, 0)}, {("a", "vote"): (20_000, 20_000, 40_000, 100_000)})
    found = lake_arrivals(lake, None, None, None, 1)
    assert found.seconds.mean() == pytest.approx(2.0, abs=0.05)
    assert found.seconds.var() == pytest.approx(1.0, abs=0.08)


def test_a_period_resets_the_counters(tmp_path: Path) -> None:
    """From the second tick on: what was sent until then is past."""
    ticks: list[dict[tuple[str, str], tuple[float, ...]]] = [
        {("a", "vote"): (10.0 * number, number, number, number)} for number in range(4)
    ]
    lake = land(tmp_path, *ticks)
    since = BEGUN + datetime.timedelta(seconds=10)
    assert len(lake_arrivals(lake, None, None, None, 1)) == 30
    assert len(lake_arrivals(lake, None, since, None, 1)) == 20
    assert len(lake_arrivals(lake, None, None, since + datetime.timedelta(seconds=5), 1)) == 10


def test_a_missing_recording_is_reported(tmp_path: Path) -> None:
    """An empty lake, a name that it does not hold, several sets, a single tick."""
    with pytest.raises(ObserveError, match="holds no samples of queues in that period"):
        lake_arrivals(tmp_path, None, None, None, 1)
    lake = land(tmp_path, {("a", "vote"): (1, 1, 1, 1)})
    with pytest.raises(ObserveError, match="no message between two ticks of 'queues'"):
        lake_arrivals(lake, None, None, None, 1)
    with pytest.raises(ObserveError, match="no samples of queues named 'other'"):
        lake_arrivals(lake, "other", None, None, 1)
    land(tmp_path, {("a", "vote"): (1, 1, 1, 1)}, cluster="more")
    with pytest.raises(ObserveError, match=r"2 sets of queues \(more, queues\): say which"):
        lake_arrivals(lake, None, None, None, 1)
