"""What a partition costs the broker that leads it, and each that follows it, by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from trimtab.observe.lake.columns import ddl
from trimtab.observe.replicas.pipeline import CPU_MODEL, WINDOWS
from trimtab.observe.replicas.windows import attributed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

END = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
MODEL = {
    "cluster": "c",
    "window_end": END,
    "method": "measured",
    "leader_in": 0.001,
    "leader_out": 0.0002,
    "follower_in": 0.0005,
}
"""Cores for each byte per second: a byte produced costs twice a byte replicated, a byte read a fifth."""


def window(**values: Any) -> dict[str, Any]:
    """A window of partition t:0 on brokers 1 to 3: 1,000 B/s in, compressed to 800 on arrival, 3,000 B/s out,
    5 MB held at its end (4 on average).
    """
    return {
        "cluster": "c",
        "window_end": END,
        "kind": "partition",
        "topic": "t",
        "partition": 0,
        "leader": 1,
        "replicas": [1, 2, 3],
        "in_sync": [1, 2, 3],
        "disk": (4e6, 5e6, None, None, None, None),
        "network_in": (1000.0, 900.0, None, None, None, None),
        "network_out": (3000.0, 100.0, None, None, None, None),
        "leader_in": 1000.0,
        "follower_in": 800.0,
        **values,
    }


def roles(spark: SparkSession, row: dict[str, Any], *models: dict[str, Any]) -> Any:
    """The one row that comes of it."""
    windows = spark.createDataFrame([tuple(row.get(name) for name, _ in WINDOWS)], ddl(WINDOWS))
    rows = [tuple(model.get(name) for name, _ in CPU_MODEL) for model in models]
    (found,) = attributed(windows, spark.createDataFrame(rows, ddl(CPU_MODEL))).collect()
    return found


def test_a_leader_pays_for_producers_and_consumers_a_follower_for_its_copy(spark: SparkSession) -> None:
    """Leader: 1,000 × .001 + 3,000 × .0002 = 1.6 cores, all of the traffic. Follower: 800 × .0005 = .4 cores,
    what arrives compressed, and nothing out. Disk is the newest size, in both roles.
    """
    found = roles(spark, window(), MODEL)
    assert tuple(found.leader_load) == pytest.approx((1.6, 5e6, 1000, 3000))
    assert tuple(found.follower_load) == pytest.approx((0.4, 5e6, 800, 0))
    assert found.cpu_method == "measured"


def test_traffic_from_leaders_to_followers_is_separate(spark: SparkSession) -> None:
    """Two followers in sync take 800 B/s each; one that lags is not counted; a leader alone sends nothing."""
    for in_sync, sent in (([1, 2, 3], 1600), ([1, 3], 800), ([1], 0), ([], 0)):
        assert roles(spark, window(in_sync=in_sync), MODEL).replication_out == sent


def test_without_a_model_cpu_is_absent_and_the_rest_is_there(spark: SparkSession) -> None:
    """An invented CPU figure would decide the leader: there is none, and this is reported."""
    for models in ((), ({**MODEL, "window_end": END + datetime.timedelta(seconds=10)},)):
        found = roles(spark, window(), *models)
        assert (found.leader_load.cpu, found.follower_load.cpu, found.cpu_method) == (None, None, "absent")
        assert found.leader_load.network_out == 3000


def test_unknown_reads_are_not_taken_for_none(spark: SparkSession) -> None:
    """Unknown reads stay unknown, with CPU for produced bytes alone. For unknown partitions nothing is
    attributed.
    """
    unread = roles(spark, window(network_out=None), MODEL).leader_load
    assert (unread.network_out, unread.cpu) == (None, pytest.approx(1.0))
    unknown = roles(spark, window(network_out=None, leader_in=None, follower_in=None), MODEL)
    assert unknown.leader_load[2:] == (None, None)
    assert unknown.follower_load[2:] == (None, None)
