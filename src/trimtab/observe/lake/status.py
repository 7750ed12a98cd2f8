"""The newest usage of brokers, read from the published table `imbalance` in a fraction of a second.

Neither Spark nor pyarrow's dataset module nor any conversion of Python values into Arrow happens here: the
latter two make pyarrow load pandas, which takes longer than all of `trimtab status` may.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.errors import ObserveError
from trimtab.model.load import FloatArray
from trimtab.observe.lake.columns import Row
from trimtab.observe.lake.lake import instant, microseconds
from trimtab.observe.lake.parquet import finished_files, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow
    from numpy.typing import NDArray

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import ManifestEntry


def newest_rows(
    lake: Lake,
    entries: tuple[ManifestEntry, ...],
    columns: tuple[str, ...],
    cluster: str,
    ticks: int,
    last: datetime.datetime | None = None,
) -> dict[int, list[Row]]:
    """A cluster's rows of its newest `ticks` at most, by tick (microseconds since the epoch), ascending.

    The entries are those of a table that has the columns `cluster` and `tick`; rows hold `columns`. Ticks
    after `last` do not count.
    """
    found: dict[int, list[Row]] = {}
    if last is not None:
        end = microseconds(last) + 1
        entries = tuple(replace(one, end=min(one.end, end)) for one in entries if one.begin < end)
    for entry in sorted(entries, key=lambda entry: entry.end, reverse=True):
        for path in finished_files(lake.tables / entry.path):
            for tick, row in _newest_of(path, entry, columns, cluster, ticks):
                found.setdefault(tick, []).append(row)
        # Entries do not overlap: older ones cannot hold newer ticks.
        if len(found) >= ticks:
            break
    return {tick: found[tick] for tick in sorted(found)[-ticks:]}


def _newest_of(
    path: Location, entry: ManifestEntry, columns: tuple[str, ...], cluster: str, ticks: int
) -> Iterator[tuple[int, Row]]:
    import pyarrow.parquet

    seen: set[int] = set()
    with pyarrow.parquet.ParquetFile(source_of(path)) as file:
        for newest, group in _groups(file):
            # A compacted file may hold a month: the groups of rows at its end are enough.
            if len(seen) >= ticks and newest < sorted(seen)[-ticks]:
                break
            # Starting threads costs more than they save on what a part holds.
            table = file.read_row_group(group, columns=["cluster", "tick", *columns], use_threads=False)
            at = _microseconds(table["tick"])
            ours = np.array([name == cluster for name in table["cluster"].to_pylist()], dtype=np.bool_)
            ours &= (at >= entry.begin) & (at < entry.end)
            if ours.any():
                seen |= set(at[ours].tolist())
                oldest = sorted(seen)[-ticks:][0]
                # Tables of an earlier version lack columns that came later.
                plain = table.select([name for name in columns if name in table.column_names])
                for row in np.flatnonzero(ours & (at >= oldest)).tolist():
                    # A slice at a time: taking rows by index would convert the indices.
                    yield int(at[row]), plain.slice(row, 1).to_pylist()[0]


def _groups(file: Any) -> list[tuple[float, int]]:
    """The newest tick, microseconds, and number of each group of rows, newest first."""
    footer = file.metadata
    place = next(at for at in range(footer.num_columns) if footer.schema.column(at).path == "tick")
    found = []
    for number in range(footer.num_row_groups):
        told = footer.row_group(number).column(place).statistics
        # As it is stored: making instants of it would load what is slow to load.
        known = told is not None and told.has_min_max and told.physical_type == "INT64"
        found.append((told.max_raw if known else float("inf"), number))
    return sorted(found, reverse=True)


def _microseconds(instants: pyarrow.ChunkedArray) -> NDArray[np.int64]:
    # Straight from the buffers, because pyarrow's own conversion asks pandas first.
    parts = [
        np.frombuffer(chunk.buffers()[1], dtype=np.int64)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in instants.chunks
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


TICKS = 10
"""As many as the experiment of the source looks at."""
OBSERVED_TICKS = 15
"""A few more are read, because some may lack a broker."""

_MEASURES = ("resource", "brokers", "complete", "measured", "traffic_collapse", "by_broker")
_BROKER = ("broker", "host", "rack", "broker_state")
"""Columns of the table `brokers`, as far as a balancer has them."""


@dataclass(frozen=True)
class BrokerStatus:
    """One broker at the newest tick; `state` as in raw samples, a number (Kafka) or a name (Pulsar) as id."""

    id: int | str
    host: str | None
    rack: str | None
    state: str


@dataclass(frozen=True, eq=False)
class ClusterStatus:
    """One cluster over its newest ticks at which all live brokers were sampled.

    Attributes
    ----------
    balancer, resources
        Whose figures they are; the names of the last axis of every array.
    last_tick, newest_tick
        The newest of those ticks, and the newest of all.
    ticks
        How many there are, at most `TICKS`.
    brokers
        By id, also those that are dead.
    usage
        Mean B over the ticks, shape (brokers, resources), fractions; NaN where unknown or without capacity.
    deviation
        Mean signed γ over the ticks, shape (brokers, resources), fractions of the mean; NaN where unknown.
    traffic_collapse
        Whether clients were served less than half of what they offered at the last tick; None: not known.
    quality
        That of the newest snapshot, as in its file; empty without one.
    """

    balancer: str
    resources: tuple[str, ...]
    cluster: str
    last_tick: datetime.datetime
    newest_tick: datetime.datetime
    ticks: int
    brokers: tuple[BrokerStatus, ...]
    usage: FloatArray
    deviation: FloatArray
    traffic_collapse: bool | None
    quality: Row


def read_status(lake: Lake, cluster: str | None = None) -> ClusterStatus:
    """The newest state of a cluster, which may be left out where the lake holds one only.

    Raises
    ------
    ObserveError
        If there is nothing to read, or several clusters to choose from.
    """
    tables = lake.manifest().tables
    name = lake.the_only_cluster() if cluster is None else cluster
    last = rightly_stamped(lake, name) if name else None
    rows = (
        newest_rows(lake, tables.get("imbalance", ()), _MEASURES, name, OBSERVED_TICKS, last) if name else {}
    )
    if not name or not rows:
        asked = f"cluster {name!r}" if name else "any cluster"
        raise ObserveError(
            f"lake {lake.path} holds no load of {asked}: collect samples (`trimtab collect`), "
            "then run `trimtab pipeline run` or `trimtab pipeline stream`"
        )
    found = {tick: {row["resource"]: row for row in at_once} for tick, at_once in rows.items()}
    ticks, known = _complete(found, lake.balancer.resources)
    if not ticks:
        raise ObserveError(
            f"none of the newest {len(found)} ticks of lake {lake.path} has two samples in a row of every "
            "broker: let `trimtab collect` run for a few ticks more, then the pipeline"
        )
    columns = tuple(column for column in _BROKER if column in dict(lake.balancer.tables["brokers"]))
    states = _broker_states(newest_rows(lake, tables.get("brokers", ()), columns, name, 1, last))
    return _status(lake, name, found, ticks, known, states)


def read_statuses(lakes: Sequence[Lake], cluster: str | None = None) -> list[ClusterStatus]:
    """The newest state of a cluster on every balancer, from which the lake is seen, that has tables of it.

    Raises
    ------
    ObserveError
        If no balancer has anything to read: what is said of the first that has tables at all.
    """
    found: list[ClusterStatus] = []
    refused: list[ObserveError] = []
    known = [lake for lake in lakes if lake.tables.is_dir()]
    for lake in known or lakes[:1]:
        try:
            found.append(read_status(lake, cluster))
        except ObserveError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


def _status(
    lake: Lake,
    cluster: str,
    found: dict[int, dict[str, Row]],
    ticks: list[int],
    known: list[str],
    states: dict[int | str, BrokerStatus],
) -> ClusterStatus:
    resources = lake.balancer.resources
    loaded = {one["broker"] for tick in ticks for row in found[tick].values() for one in row["by_broker"]}
    brokers = tuple(
        states.get(broker, BrokerStatus(broker, None, None, "alive"))
        for broker in sorted(loaded | set(states))
    )
    place = {broker.id: index for index, broker in enumerate(brokers)}
    shape = (len(ticks), len(brokers), len(resources))
    usage, deviation = np.full(shape, np.nan), np.full(shape, np.nan)
    for at, tick in enumerate(ticks):
        for name in known:
            resource, row = resources.index(name), found[tick][name]
            for one in row["by_broker"]:
                where = at, place[one["broker"]], resource
                usage[where] = _number(one["usage"])
                # γ is absolute in the table; D against its mean 1/N tells the side.
                deviation[where] = np.copysign(one["deviation"], one["share"] - 1.0 / row["brokers"])
    last = found[ticks[-1]]
    return ClusterStatus(
        balancer=lake.balancer.name,
        resources=resources,
        cluster=cluster,
        last_tick=instant(ticks[-1]),
        newest_tick=instant(max(found)),
        ticks=len(ticks),
        brokers=brokers,
        usage=_mean(usage),
        deviation=_mean(deviation),
        traffic_collapse=next((row["traffic_collapse"] for row in last.values()), None),
        quality=_quality(_meta(lake, cluster)),
    )


def _complete(found: dict[int, dict[str, Row]], resources: tuple[str, ...]) -> tuple[list[int], list[str]]:
    """The newest ticks at which all resources that are known at all are known, and these resources.

    Of those, ticks with counters go before others.
    """
    known = [
        name for name in resources if any(rows[name]["complete"] for rows in found.values() if name in rows)
    ]
    whole = [
        tick
        for tick, rows in sorted(found.items())
        if known and all(name in rows and rows[name]["complete"] for name in known)
    ]
    measured = [tick for tick in whole if all(found[tick][name].get("measured", True) for name in known)]
    return (measured or whole)[-TICKS:], known


def _broker_states(rows: dict[int, list[Row]]) -> dict[int | str, BrokerStatus]:
    return {
        row["broker"]: BrokerStatus(
            row["broker"], row.get("host"), row.get("rack"), row["broker_state"] or "alive"
        )
        for at_once in rows.values()
        for row in at_once
    }


def rightly_stamped(lake: Lake, cluster: str) -> datetime.datetime | None:
    """The instant after which samples were stamped by a clock that was ahead; None where none were."""
    meta = _meta(lake, cluster)
    if not _quality(meta).get("x_samples_ahead_until"):
        return None
    return datetime.datetime.fromisoformat(meta["taken_at"])


def _meta(lake: Lake, cluster: str) -> Row:
    """The head of the newest snapshot; empty without one."""
    try:
        meta = json.loads((lake.newest_snapshot(cluster) / "meta.json").read_bytes())
    except (ObserveError, OSError, ValueError):
        return {}
    return meta if isinstance(meta, dict) else {}


def _quality(meta: Row) -> Row:
    quality = meta.get("quality")
    return quality if isinstance(quality, dict) else {}


def signed_deviation(values: FloatArray) -> FloatArray:
    """Deviation from the mean over the brokers that told, in parts of the mean; 0 where all is 0.

    Shape (brokers, figures), as `values`; NaN for what a broker did not tell.
    """
    mean = _mean(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(mean > 0, (values - mean) / mean, 0.0 * values)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _mean(values: FloatArray) -> FloatArray:
    """Mean over the first axis; NaN only where all are."""
    count = np.isfinite(values).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / np.where(count, count, np.nan))
