"""Recorded load reports back out of the lake, as Pulsar's leader saw them: what replays are fed with.

Straight from the raw samples, by pyarrow alone: reports keep their order and every figure its bits. Nothing
is cleaned, but a report that cannot be one is left out.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.bundles.reports import (
    BROKER_RESOURCES,
    TRAFFIC,
    BrokerReport,
    BundleStats,
    ReportTick,
    ResourceUsage,
)
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import Row
from trimtab.observe.lake.lake import instant, microseconds
from trimtab.observe.lake.parquet import rows_of_files, sound_files

if TYPE_CHECKING:
    import pyarrow

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake

_USAGE: Final = tuple(f"{name}_{part}" for name in BROKER_RESOURCES for part in ("usage", "limit"))
_STATS: Final = {
    **{name: name for name in TRAFFIC},
    "topics": "topics",
    "consumers": "consumer_count",
    "producers": "producer_count",
    "cache_size_bytes": "cache_size",
}
"""Raw columns, and Pulsar's names of them."""

_COLUMNS: Final = (
    "cluster",
    "kind",
    "owner",
    "bundle",
    "sampled_at",
    "received_at",
    "broker_state",
    "position",
    "has_stats",
    "stats_position",
    *_USAGE,
    *_STATS,
)


def recent_ticks(
    lake: Lake, cluster: str | None = None, since: datetime.datetime | None = None
) -> Iterator[ReportTick]:
    """Every broker's report of every tick, as recorded.

    Brokers come in the order in which the cluster named them (`position`), or else by name; bundles and
    their statistics in the order of the report. Of a report that was landed twice the first counts. Left out
    are brokers that did not answer, brokers with a figure that cannot be (no number, negative), and the
    statistics of bundles with such a figure: they stay listed, as a bundle just gained is.

    Parameters
    ----------
    lake
        Seen from the balancer `bundles`.
    cluster
        May be left out where only one is recorded.
    since
        First tick wanted.

    Yields
    ------
    ReportTick
        In order of time; ticks at which nobody answered are passed over.

    Raises
    ------
    ObserveError
        If there are no samples, or of several clusters where none is named.
    """
    low = None if since is None else microseconds(since)
    # A day earlier: a file may lie under the day of its collection.
    day = None if since is None else (since - datetime.timedelta(days=1)).date()
    files = lake.raw_files(day)
    name = _the_cluster(lake, files, cluster)
    by_day: dict[str, list[Location]] = {}
    for path in files:
        by_day.setdefault(path.parent.name, []).append(path)
    # One day's files at a time: samples lie under the day of their tick.
    for paths in by_day.values():
        yield from _ticks_of(paths, name, low)


def _the_cluster(lake: Lake, files: list[Location], cluster: str | None) -> str:
    known: set[str] = set()
    # All files where none is named; else until it is found.
    for path in files:
        known |= {name for name in _read([path], ["cluster"])["cluster"].to_pylist() if name is not None}
        if cluster is not None and cluster in known:
            return cluster
    if cluster is None and len(known) == 1:
        return known.pop()
    if cluster is None and known:
        raise ObserveError(
            f"lake {lake.path} holds reports of {len(known)} clusters ({', '.join(sorted(known))}): say which"
        )
    asked = "any cluster" if cluster is None else f"cluster {cluster!r}"
    raise ObserveError(
        f"lake {lake.path} holds no load reports of {asked} in that period: run `trimtab collect` on a "
        "Pulsar cluster first, or name another lake"
    )


def _read(paths: list[Location], columns: list[str], context: Any = None) -> pyarrow.Table:
    import pyarrow

    sound = list(sound_files(paths))
    return rows_of_files(sound, columns, context) if sound else pyarrow.table({name: [] for name in columns})


def _ticks_of(paths: list[Location], cluster: str, low: int | None) -> Iterator[ReportTick]:
    import pyarrow
    import pyarrow.compute as pc

    where = (pc.field("cluster") == cluster) & pc.field("kind").isin(["pulsar_broker", "pulsar_bundle"])
    if low is not None:
        where &= pc.field("tick") >= pyarrow.scalar(low, pyarrow.timestamp("us", tz="UTC"))
    rows = _read(paths, ["tick", *_COLUMNS], where)
    if not rows.num_rows:
        return
    rows = rows.sort_by("tick")
    ticks = rows["tick"].cast("int64").to_numpy()
    begin = 0
    for end in [*((ticks[1:] != ticks[:-1]).nonzero()[0] + 1).tolist(), len(ticks)]:
        reports = reports_of(rows.slice(begin, end - begin).to_pylist())
        if reports:
            yield ReportTick(instant(int(ticks[begin])).timestamp(), reports)
        begin = end


def reports_of(rows: list[Row]) -> dict[str, BrokerReport]:
    """The reports of one tick, by broker.

    Parameters
    ----------
    rows
        Of the kinds `pulsar_broker` and `pulsar_bundle`, by column; others are passed over.
    """
    brokers: dict[str, list[Row]] = {}
    bundles: dict[tuple[str, object], list[Row]] = {}
    for row in rows:
        if row["kind"] == "pulsar_broker" and row["broker_state"] == "alive" and row["owner"] is not None:
            brokers.setdefault(row["owner"], []).append(row)
        elif row["kind"] == "pulsar_bundle" and row["bundle"] is not None:
            bundles.setdefault((row["owner"], row["received_at"]), []).append(row)
    # A report landed twice is two copies, each whole: one is taken, with the bundles that came with it.
    first = [min(copies, key=_written_rows) for copies in brokers.values()]
    first.sort(key=lambda row: (_place(row["position"]), row["owner"]))
    return {
        row["owner"]: _report(row, bundles.get((row["owner"], row["received_at"]), []))
        for row in first
        if all(_is_valid(row[name]) for name in (*_USAGE, *TRAFFIC))
    }


def _report(row: Row, bundles: list[Row]) -> BrokerReport:
    listed = sorted(bundles, key=lambda one: (_place(one["position"]), one["bundle"]))
    told = sorted(
        (one for one in bundles if one["has_stats"] and all(_is_valid(one[name]) for name in _STATS)),
        key=lambda one: (_place(one["stats_position"]), one["bundle"]),
    )
    figures: Row = {name: row[name] or 0.0 for name in TRAFFIC}
    figures |= {
        name: ResourceUsage(row[f"{name}_usage"] or 0.0, row[f"{name}_limit"] or 0.0)
        for name in BROKER_RESOURCES
    }
    return BrokerReport(
        **figures,
        bundles=tuple(one["bundle"] for one in listed if one["position"] is not None),
        last_stats={one["bundle"]: _stats(one) for one in told},
    )


def _stats(row: Row) -> BundleStats:
    return BundleStats(**{name: row[column] or 0 for column, name in _STATS.items()})


def _is_valid(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value >= 0)


def _place(position: int | None) -> float:
    return math.inf if position is None else position


def _written_rows(row: Row) -> tuple[float, float]:
    times = (row["received_at"], row["sampled_at"])
    received, sampled = (math.inf if at is None else at.timestamp() for at in times)
    return received, sampled
