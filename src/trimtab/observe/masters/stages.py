"""Transformations of the balancer `masters`: from raw samples to tables, and to a snapshot."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.files.masters.formats import SNAPSHOT_FORMAT
from trimtab.model.documents import Quality
from trimtab.model.masters import (
    NO_MASTER,
    RESOURCES,
    MasterGroupLoad,
    MastersSnapshot,
    NodeLoad,
    NodeState,
    group_name,
)
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import SECOND, Row, SampleFlag
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots
from trimtab.observe.masters.pipeline import BROKERS, GROUPS, SHARES, MastersPipelineSettings
from trimtab.observe.spark.expressions import conform, flag_if, is_valid_interval
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps.imbalance import imbalance_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest


TOTALS: Final = {
    "stored": "bigint",
    "stored_bytes": "bigint",
    "pulls": "bigint",
    "pulled_bytes": "bigint",
    "proposals": "bigint",
    "proposed_seconds": "double",
}


def shares(cleaned: DataFrame, settings: MastersPipelineSettings) -> DataFrame:
    """What each node did for each group since the tick before, as rates.

    Counters begin anew with a node's process: what another life counted says nothing of this one's interval.
    """
    rows = cleaned.where(
        "accepted and kind = 'paxos_group' and node is not null and group_number is not null"
    )
    history = Window.partitionBy("cluster", "node", "group_number").orderBy("tick")
    names = ("tick", "incarnation", *(f"{name}_total" for name in TOTALS))
    paired = rows.withColumns({f"_{name}": F.lag(name).over(history) for name in names})
    elapsed = F.unix_micros("tick") - F.unix_micros("_tick")
    near = F.coalesce(elapsed <= settings.gap, F.lit(False))
    anew = near & F.coalesce(F.col("incarnation") != F.col("_incarnation"), F.lit(True))
    flags = (
        F.col("flags").bitwiseOR(flag_if(~near, SampleFlag.GAP)).bitwiseOR(flag_if(anew, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, elapsed)).withColumn("flags", flags)

    def grown(name: str) -> Column:
        return F.when(
            is_valid_interval(), (F.col(f"{name}_total") - F.col(f"_{name}_total")).cast(TOTALS[name])
        )

    seconds = F.col("elapsed_us") / SECOND
    return conform(
        judged.withColumns(
            {
                "messages_per_second": grown("stored") / seconds,
                "queries_per_second": (grown("stored") + grown("pulls")) / seconds,
                "bytes_per_second": (grown("stored_bytes") + grown("pulled_bytes")) / seconds,
                "proposals": grown("proposals"),
                "proposed_seconds": grown("proposed_seconds"),
            }
        ),
        SHARES,
    )


def groups(shares: DataFrame) -> DataFrame:
    """What each group costs, over all nodes, and who is its master."""

    def exact(name: str) -> Column:
        """A sum of doubles that does not depend on the order of rows."""
        return F.sum(F.col(name).cast("decimal(28,6)")).cast("double").alias(name)

    held = F.when(F.col("holds"), F.col("node"))
    summed = shares.groupBy("cluster", "tick", "group_number").agg(
        F.max(held).alias("master"),
        F.max(F.when(F.col("holds"), F.col("held_seconds"))).alias("held_seconds"),
        *(exact(name) for name in ("messages_per_second", "queries_per_second", "bytes_per_second")),
        (exact("proposed_seconds") / F.sum("proposals")).alias("propose_seconds"),
        F.max("elapsed_us").alias("elapsed_us"),
    )
    return conform(summed, GROUPS)


def brokers(cleaned: DataFrame, shares: DataFrame) -> DataFrame:
    """What each node carries, of how many groups it is master, and how many slots it is behind in all."""
    newest = Window.partitionBy("cluster", "tick", "group_number")
    behind = shares.withColumn("_behind", F.max("applied").over(newest) - F.col("applied"))
    by_node = behind.groupBy("cluster", "tick", "node").agg(
        F.sum(F.col("holds").cast("int")).cast("int").alias("masters"),
        F.sum("_behind").alias("max_lag_entries"),
        *(
            F.sum(F.col(f"{name}_per_second").cast("decimal(28,6)")).cast("double").alias(f"{name}_load")
            for name in RESOURCES
        ),
    )
    nodes = cleaned.where("accepted and kind = 'paxos_node' and node is not null")
    told = nodes.select("cluster", "tick", "node", "alive")
    tick = Window.partitionBy("cluster", "tick")
    alive = F.sum(F.col("alive").cast("int")).over(tick)
    joined = told.join(by_node, on=["cluster", "tick", "node"], how="left")
    return conform(
        joined.withColumns(
            {
                "broker": F.concat(F.lit("node "), F.col("node").cast("string")),
                "broker_state": F.when(F.col("alive"), F.lit("alive")).otherwise(F.lit("dead")),
                **{
                    f"{name}_capacity": F.greatest(
                        F.lit(1e-9), F.sum(f"{name}_load").over(tick) / F.greatest(alive, F.lit(1))
                    )
                    for name in RESOURCES
                },
            }
        ),
        BROKERS,
    )


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick) of the nodes that answer; `traffic_collapse` is null."""
    return imbalance_table(brokers.where("broker_state = 'alive'"), RESOURCES)


def quality(cleaned: DataFrame, shares: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    return counts.quality(
        cleaned, (shares.withColumn("kind", F.lit("paxos_group")), (SampleFlag.GAP, SampleFlag.RESET))
    )


STAGES: Final = (
    TableStage(shares, {"cleaned": lambda s: s.gap}, nearest=True),
    TableStage(groups, {"shares": here}),
    TableStage(brokers, {"cleaned": here, "shares": here}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(quality, {"cleaned": here, "shares": here}),
)


FIGURES = ("queries_per_second", "bytes_per_second", "messages_per_second", "propose_seconds")


def write_newest_snapshots(
    lake: Lake, manifest: Manifest, settings: MastersPipelineSettings
) -> list[Location]:
    """A snapshot of every store at its newest tick; returns a folder per cluster."""

    def write(inputs: SnapshotInputs[MastersPipelineSettings], path: Path) -> None:
        SNAPSHOT_FORMAT.write(snapshot_at(inputs), path)

    return write_snapshots(lake, manifest, settings, "brokers", write)


def snapshot_at(inputs: SnapshotInputs[MastersPipelineSettings]) -> MastersSnapshot:
    """The snapshot of one store at one tick, with how far it can be trusted in `quality`."""
    tick, settings = inputs.tick, inputs.settings
    nodes = inputs.rows("brokers", tick).sort_by("node").to_pylist()
    told = inputs.rows("cleaned", tick, context=pc.field("kind") == "paxos_map").to_pylist()
    published: Row = told[0] if told else {}
    asked = inputs.rows("cleaned", tick, context=(pc.field("kind") == "paxos_node") & pc.field("accepted"))
    address = {row["node"]: row["address"] for row in asked.to_pylist()}
    shares = inputs.rows("shares", tick).to_pylist()
    history = inputs.rows("groups", tick - settings.history).to_pylist()
    now = [row for row in history if microseconds(row["tick"]) == tick]
    by_group: dict[int, list[Row]] = {}
    for row in history:
        by_group.setdefault(row["group_number"], []).append(row)
    alive = {row["node"] for row in nodes if row["broker_state"] == NodeState.ALIVE}
    preferred = published.get("preferred") or []
    rated = sum(row["queries_per_second"] is not None for row in now)
    return MastersSnapshot(
        reference=inputs.reference,
        quality=Quality(
            valid_share=rated / max(1, len(now)),
            cpu="absent",
            extra=(
                ("x_history_seconds", _covered(history)),
                ("x_nominal_capacity", ["queries", "bytes"]),
            ),
        ),
        system="paxos",
        version=published.get("version") or 0,
        scheme=published.get("scheme") or "",
        nodes=tuple(
            NodeLoad(str(row["node"]), address.get(row["node"]) or "", NodeState(row["broker_state"]))
            for row in nodes
        ),
        groups=tuple(
            _group(
                row,
                by_group[row["group_number"]],
                [one for one in shares if one["group_number"] == row["group_number"]],
                alive,
                preferred[row["group_number"]] if row["group_number"] < len(preferred) else NO_MASTER,
                settings.max_lag_entries,
            )
            for row in sorted(now, key=lambda row: int(row["group_number"]))
        ),
    )


def _group(
    now: Row,
    history: Sequence[Row],
    shares: Sequence[Row],
    alive: set[int],
    preferred: int,
    max_lag_entries: int,
) -> MasterGroupLoad:
    newest = max((one["applied"] or 0 for one in shares), default=0)
    able = [
        one["node"]
        for one in shares
        if one["node"] in alive and one["votes"] and newest - (one["applied"] or 0) <= max_lag_entries
    ]
    figures = {name: _mean(history, name) for name in FIGURES}
    return MasterGroupLoad(
        group=group_name(now["group_number"]),
        master=NO_MASTER if now["master"] is None else now["master"],
        preferred=preferred,
        able=tuple(sorted(able)),
        queries_per_second=figures["queries_per_second"] or 0.0,
        bytes_per_second=figures["bytes_per_second"] or 0.0,
        messages_per_second=figures["messages_per_second"] or 0.0,
        propose_seconds=figures["propose_seconds"],
        held_seconds=now["held_seconds"],
    )


def _mean(rows: Sequence[Row], name: str) -> float | None:
    """The mean over intervals, by how long each is; None where none tells."""
    known = [(row[name], row["elapsed_us"]) for row in rows if row[name] is not None and row["elapsed_us"]]
    # Rounded once, so the same in any order of the rows.
    weight = fsum(elapsed for _, elapsed in known)
    return fsum(value * elapsed for value, elapsed in known) / weight if weight else None


def _covered(rows: Sequence[Row]) -> float:
    """Seconds of history that loads were taken from."""
    spans = {microseconds(row["tick"]): row["elapsed_us"] or 0 for row in rows}
    return sum(spans.values()) / SECOND
