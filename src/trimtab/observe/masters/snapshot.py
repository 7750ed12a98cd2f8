"""The newest tables to snapshots of the balancer `masters`, by pyarrow alone."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from trimtab.files.masters.formats import SNAPSHOT_FORMAT
from trimtab.model.documents import Quality
from trimtab.model.masters.snapshot import (
    NO_MASTER,
    MasterGroupLoad,
    MastersSnapshot,
    NodeLoad,
    NodeState,
    group_name,
)
from trimtab.observe.lake.columns import SECOND, Row
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest
    from trimtab.observe.masters.pipeline import MastersPipelineSettings

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
        if one["node"] in alive and newest - (one["applied"] or 0) <= max_lag_entries
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
