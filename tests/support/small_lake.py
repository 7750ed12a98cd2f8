"""A lake with published tables, written by pyarrow, as the pipeline would."""

import datetime
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.local_paths import local
from trimtab.model.replicas.settings import RESOURCES
from trimtab.observe.lake.columns import arrow_schema
from trimtab.observe.lake.lake import Lake, microseconds
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
STEP = datetime.timedelta(seconds=30)

BY_BROKER = pa.list_(
    pa.struct([("broker", pa.int32()), *((name, pa.float64()) for name in ("share", "usage", "deviation"))])
)


def imbalance_rows(
    tick: datetime.datetime,
    usage: Mapping[int, tuple[float | None, ...]],
    cluster: str = "orders",
    limited: bool = True,
    collapse: bool | None = None,
) -> list[dict[str, object]]:
    """Four rows of the table `imbalance`; CPU None makes that resource incomplete."""
    rows: list[dict[str, object]] = []
    for place, resource in enumerate(RESOURCES):
        loads = {broker: values[place] for broker, values in usage.items()}
        known = {broker: load for broker, load in loads.items() if load is not None}
        complete = len(known) == len(loads)
        total, number = sum(known.values()), len(loads)
        shares = {broker: known[broker] / total if complete else None for broker in known}
        sigma = (sum((s - 1 / number) ** 2 for s in shares.values()) / number) ** 0.5 if complete else None  # type: ignore[misc, operator]
        rows.append(
            {
                "cluster": cluster,
                "tick": tick,
                "resource": resource,
                "brokers": number,
                "complete": complete,
                "measured": complete,
                "mean": total / number if complete else None,
                "sigma": sigma,
                "worst_deviation": max(
                    (abs(one * number - 1) for one in shares.values() if one is not None), default=None
                ),
                "peak_usage": max(known.values()) if complete and limited else None,
                "traffic_collapse": collapse,
                "by_broker": [
                    {
                        "broker": broker,
                        "share": shares.get(broker),
                        "usage": loads[broker] if limited else None,
                        "deviation": abs(shares[broker] * number - 1) if complete else None,  # type: ignore[operator]
                    }
                    for broker in loads
                ],
            }
        )
    return rows


def broker_rows(
    tick: datetime.datetime, states: dict[int, str], cluster: str = "orders"
) -> list[dict[str, object]]:
    """Rows of the table `brokers`."""
    return [
        {"cluster": cluster, "tick": tick, "broker": b, "host": f"h{b}", "rack": "r1", "broker_state": state}
        for b, state in states.items()
    ]


def publish(path: Path, tables: dict[str, list[list[dict[str, object]]]]) -> Lake:
    """Publish tables, each made of parts; a part is an entry from its first tick to just after its last."""
    lake = Lake(path, REPLICAS)
    entries: dict[str, tuple[ManifestEntry, ...]] = {}
    for name, parts in tables.items():
        made = []
        for number, rows in enumerate(parts):
            folder = local(lake.tables) / name / f"part-{number}"
            folder.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, schema=_schema(name)), folder / "rows.parquet")
            at = [microseconds(row["tick"]) for row in rows]  # type: ignore[arg-type]
            made.append(ManifestEntry(f"{name}/part-{number}", min(at), max(at) + 1, min(at), max(at)))
        entries[name] = tuple(made)
    publish_manifest(lake.tables, Manifest(tables=entries))
    return lake


def snapshot_folder(lake: Lake, cluster: str = "orders", quality: str = "{}") -> Path:
    """A snapshot folder as far as `status` looks at it."""
    folder = local(lake.snapshots) / cluster / "2026-11-21T12:00:00.000000Z"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text('{"quality": ' + quality + "}")
    return folder


def _schema(name: str) -> pa.Schema:
    if name == "cleaned":
        return arrow_schema(REPLICAS.tables[name])
    common = [("cluster", pa.string()), ("tick", pa.timestamp("us", tz="UTC"))]
    if name == "brokers":
        texts = [(column, pa.string()) for column in ("host", "rack", "broker_state")]
        return pa.schema([*common, ("broker", pa.int32()), *texts])
    if name == "quality":
        return pa.schema([*common, *((column, pa.int64()) for column in ("entities", "gap", "reset"))])
    return pa.schema(
        [
            *common,
            ("resource", pa.string()),
            ("brokers", pa.int32()),
            ("complete", pa.bool_()),
            ("measured", pa.bool_()),
            ("mean", pa.float64()),
            ("sigma", pa.float64()),
            ("worst_deviation", pa.float64()),
            ("peak_usage", pa.float64()),
            ("traffic_collapse", pa.bool_()),
            ("by_broker", BY_BROKER),
        ]
    )
