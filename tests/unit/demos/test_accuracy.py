"""Attribution held against truth, on tables written by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from demos.accuracy import MeasureComparison, compare_measures, ticks_between
from hand_written_tables import lake_with
from trimtab.model.errors import ObserveError

if TYPE_CHECKING:
    from pathlib import Path

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
BEGIN = START.timestamp()


def tick(number: int) -> datetime.datetime:
    """Ticks of ten seconds."""
    return START + datetime.timedelta(seconds=10 * number)


def traffic(number: int, partition: int, leader: int, given: int, taken: int) -> dict[str, Any]:
    """One row of the table `traffic`."""
    return {
        "cluster": "c", "tick": tick(number), "topic": "t", "partition": partition, "leader": leader,
        "bytes_in": given, "bytes_out": taken, "size_bytes": 1000 * (partition + 1),
    }  # fmt: skip


def size(broker: int, partition: int, size_bytes: int) -> dict[str, Any]:
    """One replica in the table `rates`."""
    return {
        "cluster": "c", "tick": tick(2), "kind": "replica", "broker": broker, "topic": "t",
        "partition": partition, "size_bytes": size_bytes, "is_future": False,
    }  # fmt: skip


def test_errors_are_those_of_the_period(tmp_path: Path) -> None:
    """Two ticks count, the one that begins the period does not; shares are wrong by what went to the
    other.
    """
    rows = [traffic(number, part, part + 1, 50 + 100 * number, 0) for number in range(3) for part in range(2)]
    lake = lake_with(tmp_path, {"traffic": rows, "rates": [size(1, 0, 1000), size(2, 1, 1900)]})
    assert ticks_between(lake, None, BEGIN, BEGIN + 20) == [BEGIN, BEGIN + 10, BEGIN + 20]
    found = compare_measures(lake, "c", {("t", 0): 500.0, ("t", 1): 300.0}, {}, BEGIN, BEGIN + 20)
    by_name = {(one.measure, one.scope): one for one in found}
    bytes_in = by_name[("bytes_in", "partition")]
    np.testing.assert_array_equal(bytes_in.found, [400, 400])
    summary = bytes_in.summary()
    assert summary["bias"] == pytest.approx(0.0)
    assert summary["weighted_error"] == pytest.approx(200 / 800)
    assert summary["share_error"] == pytest.approx(0.125)
    disk = by_name[("disk", "broker")]
    np.testing.assert_array_equal(disk.truth, [1000, 1900])
    np.testing.assert_array_equal(disk.found, [1000, 2000])
    assert ("cpu", "broker") not in by_name, "no broker told its CPU"


def test_cpu_accuracy_is_measured_on_brokers_outside_the_fit(tmp_path: Path) -> None:
    """Five brokers cost the same per byte, the sixth twice as much: the other five cannot know, and it
    shows.
    """
    rng = np.random.default_rng(1)
    rows = []
    for number in range(1, 9):
        for broker in range(1, 7):
            carried = rng.uniform(1e5, 1e6, 3)
            cores = (0.05 + carried @ np.array([4e-8, 1e-8, 5e-9])) * (2.0 if broker == 6 else 1.0)
            rows.append(
                {"cluster": "c", "window_end": tick(number), "kind": "broker", "broker": broker,
                 "cpu": {"mean": float(cores)}, "network_out": {"mean": float(carried[1])},
                 "leader_in": float(carried[0]), "follower_in": float(carried[2])}
            )  # fmt: skip
    flow = [traffic(number, 0, 1, 100, 0) for number in range(9)]
    lake = lake_with(tmp_path, {"traffic": flow, "rates": [size(1, 0, 1000)], "windows": rows})
    cpu = next(
        one
        for one in compare_measures(lake, "c", {("t", 0): 800.0}, {}, BEGIN, BEGIN + 80)
        if one.measure == "cpu"
    )
    assert cpu.found[5] / cpu.truth[5] == pytest.approx(0.5, abs=0.02)


def test_period_without_tables_is_refused(tmp_path: Path) -> None:
    """A truth of yesterday against tables of today would be all error."""
    lake = lake_with(tmp_path, {"traffic": [traffic(0, 0, 1, 1, 1)]})
    with pytest.raises(ObserveError, match="no traffic of that period"):
        compare_measures(lake, "c", {}, {}, BEGIN + 100, BEGIN + 200)


def test_nothing_true_has_no_relative_error() -> None:
    """A group that read nothing gives no division by zero."""
    summary = MeasureComparison(
        "bytes_out", "partition", "bytes", ("t:0",), np.zeros(1), np.zeros(1)
    ).summary()
    assert summary["bias"] is None
    assert summary["share_error"] is None
