"""The balancer `masters` in Spark: what nodes report to loads of groups and nodes, worked out by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from trimtab.observe.lake.columns import SampleFlag, ddl
from trimtab.observe.masters.pipeline import FORM, MastersPipelineSettings
from trimtab.observe.masters.stages import brokers, groups, imbalance, shares
from trimtab.observe.spark.expressions import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime.datetime(2026, 11, 24, 15, tzinfo=datetime.UTC)
NAMES = [name for name, _ in FORM.cleaned]


def group(tick: int, node: int, number: int, **told: Any) -> dict[str, Any]:
    """What a node reports of a group at a tick, ten seconds after the one before."""
    totals = dict.fromkeys(
        ("stored", "stored_bytes", "pulls", "pulled", "pulled_bytes", "proposals", "proposed_seconds"), 0
    )
    return {
        "cluster": "store", "tick": START + datetime.timedelta(seconds=10 * tick), "kind": "paxos_group",
        "node": node, "group_number": number, "incarnation": 1, "holds": False, "applied": 100,
        "accepted": True,
        "flags": 0,
        **{f"{name}_total": value for name, value in totals.items()}, **told,
    }  # fmt: skip


def node(tick: int, number: int, *, alive: bool = True) -> dict[str, Any]:
    """Whether a node answered at a tick."""
    return {
        "cluster": "store", "tick": START + datetime.timedelta(seconds=10 * tick), "kind": "paxos_node",
        "node": number, "alive": alive, "accepted": True, "flags": 0,
    }  # fmt: skip


def cleaned(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Samples as the pipeline has them."""
    return frame_of(spark, [tuple(row.get(name) for name in NAMES) for row in rows], ddl(FORM.cleaned))


@pytest.mark.spark
def test_loads_of_groups_and_nodes(spark: SparkSession) -> None:
    """Ten seconds: group 0 moves from node 0 to node 1 in between, group 1 stays with node 1; node 2 is dead.
    Group 0: 100 messages at node 0 and 50 at node 1, 50 fetches each: 25 queries a second. Proposals: 10
    of 0.02 s in all at node 0, 10 of 0.06 at node 1: 4 ms each.
    """
    rows = [node(tick, number, alive=number < 2) for tick in (0, 1) for number in range(3)]
    rows += [
        group(0, 0, 0, holds=True, held_seconds=30.0),
        group(1, 0, 0, stored_total=100, stored_bytes_total=1000, pulls_total=50, pulled_bytes_total=500,
              proposals_total=10, proposed_seconds_total=0.02, applied=90),
        group(0, 1, 0),
        group(1, 1, 0, holds=True, held_seconds=4.0, stored_total=50, stored_bytes_total=500, pulls_total=50,
              pulled_bytes_total=500, proposals_total=10, proposed_seconds_total=0.06),
        group(0, 0, 1),
        group(1, 0, 1),
        group(0, 1, 1, holds=True),
        group(1, 1, 1, holds=True, stored_total=50, stored_bytes_total=2500),
    ]  # fmt: skip
    samples = cleaned(spark, *rows)
    parts = shares(samples, MastersPipelineSettings())
    found = {
        (row["tick"], row["group_number"]): row
        for row in groups(parts).collect()
        if row["elapsed_us"] is not None
    }
    first, second = (found[key] for key in sorted(found))
    assert (first["master"], first["held_seconds"], first["elapsed_us"]) == (1, 4.0, 10_000_000)
    assert (first["messages_per_second"], first["queries_per_second"]) == (15.0, 25.0)
    assert first["bytes_per_second"] == 250.0
    assert first["propose_seconds"] == pytest.approx(0.004)
    assert (second["master"], second["queries_per_second"], second["propose_seconds"]) == (1, 5.0, None)
    nodes = sorted(
        brokers(samples, parts).where("tick > '2026-11-24 15:00:05'").collect(), key=lambda row: row["node"]
    )
    assert [row["masters"] for row in nodes] == [0, 2, None]
    assert [row["broker_state"] for row in nodes] == ["alive", "alive", "dead"]
    assert [row["queries_load"] for row in nodes] == [15.0, 15.0, None]
    # 30 queries a second over two that answer; node 0 is 10 slots behind in group 0.
    assert {row["queries_capacity"] for row in nodes} == {15.0}
    assert [row["max_lag_entries"] for row in nodes] == [10, 0, None]
    measured = imbalance(brokers(samples, parts)).where("tick > '2026-11-24 15:00:05'")
    by_resource = {row["resource"]: row for row in measured.collect()}
    assert by_resource["queries"]["worst_deviation"] == 0.0
    assert by_resource["queries"]["brokers"] == 2
    # 150 and 350 bytes a second: 40 % off the mean.
    assert by_resource["bytes"]["worst_deviation"] == pytest.approx(0.4)


@pytest.mark.spark
def test_a_node_that_was_started_again_counts_from_nothing(spark: SparkSession) -> None:
    """Another incarnation: no rate across the restart, though its counters are higher than before; later
    rates as usual.
    """
    samples = cleaned(
        spark,
        group(0, 0, 0, stored_total=10),
        group(1, 0, 0, stored_total=400, incarnation=2),
        group(2, 0, 0, stored_total=500, incarnation=2),
    )
    rows = sorted(shares(samples, MastersPipelineSettings()).collect(), key=lambda row: row["tick"])
    assert [row["queries_per_second"] for row in rows] == [None, None, 10.0]
    assert [row["flags"] for row in rows] == [SampleFlag.GAP, SampleFlag.RESET, 0]
