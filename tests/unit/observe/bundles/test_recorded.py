"""Recorded reports come back as the brokers said them."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING

import pytest

from synthetic_bundles import SyntheticPulsar, table_of
from synthetic_telemetry import land, land_by_tick
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.recorded import recent_ticks
from trimtab.observe.lake.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.model.bundles.reports import ReportTick


def told(tick: ReportTick) -> object:
    """Everything of a tick, its orders too: mappings compare equal in any order."""
    return tick.at, [(name, report, [*report.last_stats]) for name, report in tick.brokers.items()]


def test_reports_come_back_to_the_bit_and_in_their_order(tmp_path: Path) -> None:
    """Brokers, lists of bundles and figures each have an order of their own, and ties are decided by it."""
    cluster = SyntheticPulsar(moves=((2, 3, 1), (3, 4, None)))
    lake = Lake(tmp_path, BUNDLES)
    rows = cluster.rows(5)
    random.Random(1).shuffle(rows)
    land_by_tick(table_of(rows), lake.raw)
    assert [told(one) for one in recent_ticks(lake)] == [told(one) for one in cluster.reports(5)]


def test_since_begins_later(tmp_path: Path) -> None:
    """Only the requested period is read back; it includes its first tick."""
    cluster = SyntheticPulsar()
    lake = Lake(tmp_path, BUNDLES)
    land(cluster.raw(5), lake.raw, "all")
    found = [tick.at for tick in recent_ticks(lake, cluster.name, cluster.at(3))]
    assert found == [cluster.at(3).timestamp(), cluster.at(4).timestamp()]


def test_a_report_written_twice_is_one(tmp_path: Path) -> None:
    """Two collectors watch one cluster; the second one's copies are late and have other figures."""
    cluster = SyntheticPulsar()
    lake = Lake(tmp_path, BUNDLES)
    rows = cluster.rows(2)
    again = [
        dict(row, received_at=row["received_at"] + datetime.timedelta(seconds=1), msg_rate_in=1.0)
        for row in rows
    ]
    land(table_of(again + rows), lake.raw, "both")
    assert [told(one) for one in recent_ticks(lake)] == [told(one) for one in cluster.reports(2)]


def test_impossible_values_are_left_out(tmp_path: Path) -> None:
    """A broker with an impossible figure is missing at that tick; a bundle with one keeps only its owner."""
    cluster = SyntheticPulsar()
    lake = Lake(tmp_path, BUNDLES)
    rows = cluster.rows(2)
    first = cluster.at(0)
    broken = next(row for row in rows if row["kind"] == "pulsar_broker" and row["tick"] == first)
    broken["cpu_usage"] = float("nan")
    silent = next(
        row
        for row in rows
        if row["kind"] == "pulsar_broker" and row["tick"] == first and row["owner"] != broken["owner"]
    )
    silent["broker_state"] = "unreachable"
    negative = next(
        row
        for row in rows
        if row["kind"] == "pulsar_bundle" and row["owner"] not in (broken["owner"], silent["owner"])
    )
    negative["msg_rate_out"] = -1.0
    land(table_of(rows), lake.raw, "all")
    one, other = recent_ticks(lake)
    assert set(one.brokers) == set(cluster.names) - {broken["owner"], silent["owner"]}
    report = one.brokers[negative["owner"]]
    assert negative["bundle"] in report.bundles
    assert negative["bundle"] not in report.last_stats
    assert set(other.brokers) == set(cluster.names)


def test_an_empty_recording_names_the_command_to_run(tmp_path: Path) -> None:
    """A replay is requested before anything was collected, or for an unknown cluster."""
    lake = Lake(tmp_path, BUNDLES)
    with pytest.raises(ObserveError, match="no load reports of any cluster.*trimtab collect"):
        next(recent_ticks(lake))
    for name in ("a", "b"):
        land(SyntheticPulsar(name=name).raw(1), lake.raw, name)
    with pytest.raises(ObserveError, match=r"2 clusters \(a, b\): say which"):
        next(recent_ticks(lake))
    with pytest.raises(ObserveError, match="no load reports of cluster 'c'"):
        next(recent_ticks(lake, "c"))
