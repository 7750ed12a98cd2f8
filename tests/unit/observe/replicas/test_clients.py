"""When the traffic of clients counts as collapsed: served less than half of the usual, offered not less."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from trimtab.observe.lake.columns import SampleFlag, ddl
from trimtab.observe.replicas.brokers import clients
from trimtab.observe.replicas.pipeline import RATES, ReplicasPipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
SECONDS = 10
USUAL = (1000, 1000)
SETTINGS = ReplicasPipelineSettings(traffic_baseline_seconds=30)
"""The usual is what the last three ticks of ten seconds had."""


def told(spark: SparkSession, *runs: list[tuple[int, int]], flags: dict[int, int] | None = None) -> list[Any]:
    """Tick after tick what the rule says; each run is a client's bytes offered and served at every tick."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        for tick, (offered, served) in enumerate(run):
            at = START + datetime.timedelta(seconds=SECONDS * tick)
            rows.append(
                {
                    "cluster": "c",
                    "kind": "client",
                    "tick": at,
                    "previous_tick": at - datetime.timedelta(seconds=SECONDS),
                    "elapsed_us": SECONDS * 1_000_000,
                    "flags": (flags or {}).get(tick, 0),
                    "client": f"load-{number}",
                    "offered_bytes": offered,
                    "served_bytes": served,
                }
            )
    full = [tuple(row.get(name) for name, _ in RATES) for row in rows]
    return clients(spark.createDataFrame(full, ddl(RATES)), SETTINGS).orderBy("tick").collect()


def collapsed(spark: SparkSession, *runs: list[tuple[int, int]], **more: Any) -> list[bool]:
    """The rule's verdicts alone."""
    return [row.traffic_collapse for row in told(spark, *runs, **more)]


def test_served_below_half_of_the_usual_is_a_collapse_and_half_is_none(spark: SparkSession) -> None:
    """A hundred bytes a second are normal: 50 is no collapse. Then the mean of the last three ticks is 83.3,
    half of it 41.7: 42 is none, and 41 is one by the same mean.
    """
    for last, verdict in ((420, False), (410, True)):
        assert collapsed(spark, [USUAL] * 3 + [(1000, 500), (1000, last)]) == [False] * 4 + [verdict]


def test_the_first_ticks_have_no_usual(spark: SparkSession) -> None:
    """A client that starts unserved has not collapsed: its normal rate is unknown."""
    assert collapsed(spark, [(1000, 0)]) == [False]


def test_clients_that_want_less_get_less_without_a_collapse(spark: SparkSession) -> None:
    """Served falls to a tenth: a collapse if half of the usual is still offered, none if a byte less is."""
    assert collapsed(spark, [USUAL] * 3 + [(500, 100)])[-1]
    assert not collapsed(spark, [USUAL] * 3 + [(499, 100)])[-1]


def test_the_usual_is_of_the_ticks_before_and_is_forgotten(spark: SparkSession) -> None:
    """Served falls to 30 bytes a second and stays there. The usual is 100, 76.7, 53.3 and then 30 itself:
    what has lasted for thirty seconds is no collapse any more. With the tick itself in it the first
    mean would be 82.5.
    """
    found = told(spark, [USUAL] * 3 + [(1000, 300)] * 5)
    assert [row.traffic_collapse for row in found] == [False] * 3 + [True, True, False, False, False]
    usual = [row.usual_served_bytes_per_second for row in found[3:]]
    assert usual == pytest.approx([100, 230 / 3, 160 / 3, 30, 30])


def test_all_clients_count_together(spark: SparkSession) -> None:
    """One of two clients is served nothing: a half of all is still served, and that is no collapse. When the
    other gets a little less too, it is.
    """
    steady, hit = [USUAL] * 4, [USUAL] * 3 + [(1000, 0)]
    found = told(spark, steady, hit)
    assert (found[-1].clients, found[-1].served_bytes_per_second) == (2, 100)
    assert not found[-1].traffic_collapse
    assert collapsed(spark, [*steady[:3], (1000, 990)], hit)[-1]


def test_a_tick_without_a_rate_is_neither_usual_nor_collapsed(spark: SparkSession) -> None:
    """The client restarts at the fourth tick: nothing is known of that interval, and the fifth is compared
    with the two before it.
    """
    found = told(spark, [USUAL] * 3 + [(0, 0), (1000, 490)], flags={3: int(SampleFlag.RESET)})
    assert [row.traffic_collapse for row in found] == [False] * 4 + [True]
    assert found[-1].usual_served_bytes_per_second == 100
