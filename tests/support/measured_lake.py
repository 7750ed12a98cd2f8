"""A lake's table `imbalance` of any balancer, out of loads by hand, and an execution between its ticks."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.local_paths import local
from trimtab.act.execution.state import ExecutionStatus
from trimtab.balancers import Balancer
from trimtab.executions import open_store
from trimtab.files.machine import state_folder
from trimtab.model.load import imbalance
from trimtab.observe.lake.lake import Lake, microseconds
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest

Loads = Mapping[str, Sequence[float | None]]
"""Load of each broker by resource; None is not told."""


def rows_at(
    level: Balancer, tick: datetime.datetime, brokers: Sequence[Any], loads: Loads, capacity: float | None
) -> list[dict[str, object]]:
    """The rows of a tick, by equations 1 to 5."""
    rows: list[dict[str, object]] = []
    for name in level.pipeline().resources:
        load = loads.get(name, [None] * len(brokers))
        complete = None not in load
        values = np.array([[np.nan if one is None else one] for one in load])
        known = np.ones(len(brokers), dtype=np.bool_)
        found = imbalance(values, np.full(values.shape, capacity or 1.0), known, (name,))
        rows.append(
            {
                "cluster": "orders",
                "tick": tick,
                "resource": name,
                "brokers": len(brokers),
                "complete": complete,
                "measured": complete,
                "traffic_collapse": None,
                "mean": float(found.mean[0]) if complete else None,
                "sigma": float(found.sigma[0]) if complete else None,
                "by_broker": [
                    {
                        "broker": broker,
                        "load": one,
                        "capacity": capacity,
                        "usage": None if one is None or capacity is None else one / capacity,
                        "share": float(found.share[place, 0]) if complete else None,
                        "deviation": float(found.deviation[place, 0]) if complete else None,
                    }
                    for place, (broker, one) in enumerate(zip(brokers, load, strict=True))
                ],
            }
        )
    return rows


def publish(path: Path, level: Balancer, rows: list[dict[str, object]]) -> None:
    """Write the table as the pipeline would."""
    lake = Lake(path, level.pipeline())
    folder = local(lake.tables) / "imbalance" / "part-0"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    at = [microseconds(row["tick"]) for row in rows]  # type: ignore[arg-type]
    entry = ManifestEntry("imbalance/part-0", min(at), max(at) + 1, min(at), max(at))
    publish_manifest(lake.tables, Manifest(tables={"imbalance": (entry,)}))


def journal(level: Balancer, plan: Any, begun: float, ended: float | None) -> int:
    """An execution of a plan without steps, from `begun` to `ended`, or still running; its id."""
    acting = level.executor()
    plan = replace(plan, snapshot=replace(plan.snapshot, cluster="orders"))
    with open_store(state_folder()) as store:
        state = acting.new_execution("id", (), acting.settings(), begun)
        number = store.journal.create(
            state, "orders", level.plan().to_bytes(plan).decode(), "test@here, process 0", {}
        )
        if ended is not None:
            after = replace(state, status=ExecutionStatus.FINISHED, now=ended)
            store.journal.write(number, state, after, "Ended", "")
    return number
