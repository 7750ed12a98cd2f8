"""Snapshots of any balancer: the moment that each is made of, and their folders in a lake."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.files.store import make_folder, remove_folder
from trimtab.model.documents import SnapshotReference
from trimtab.observe.lake.balancer_pipeline import PipelineSettings
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.lake.lake import instant, microseconds, uploaded
from trimtab.observe.lake.parquet import finished_files, source_of

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from trimtab.files.store import Location
    from trimtab.model.load import FloatArray
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest

RETAINED_SNAPSHOTS = 200
"""Snapshots kept per cluster; older ones go when a new one is written."""

SettingsT = TypeVar("SettingsT", bound=PipelineSettings)
SettingsT_co = TypeVar("SettingsT_co", bound=PipelineSettings, covariant=True)


@dataclass(frozen=True)
class SnapshotInputs(Generic[SettingsT_co]):
    """One cluster at one tick, in tables that fit together.

    Attributes
    ----------
    lake, manifest
        The tables, of the balancer that the lake is seen from.
    settings
        Those of the balancer.
    cluster, tick
        Which cluster, and which tick, microseconds.
    ahead
        The newest tick in the tables, where a clock that was ahead has stamped it: its samples are older than
        those of `tick`.
    """

    lake: Lake
    manifest: Manifest
    settings: SettingsT_co
    cluster: str
    tick: int
    ahead: int | None = None

    @property
    def reference(self) -> SnapshotReference:
        """The reference of the snapshot of this moment, without its digest."""
        taken_at = instant(self.tick).isoformat().replace("+00:00", "Z")
        return SnapshotReference(self.cluster, taken_at, "")

    def rows(
        self,
        table: str,
        begin: int,
        last: int | None = None,
        columns: Sequence[str] | None = None,
        context: Any = None,
    ) -> pa.Table:
        """The cluster's rows of a table from `begin` to `last`, both included, microseconds.

        Parameters
        ----------
        last
            None: the tick.
        columns, context
            As for `Lake.table`.
        """
        ours = pc.field("cluster") == self.cluster
        return self.lake.table(
            table,
            None if columns is None else list(columns),
            since=instant(begin),
            until=instant((self.tick if last is None else last) + 1),
            context=ours if context is None else ours & context,
            manifest=self.manifest,
        )

    def windows(
        self, table: str, number: int, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """The cluster's rows of the last `number` windows and of those still open, and the end of each row's.

        A window that is still open has fewer samples; it only counts where there is nothing else.

        Parameters
        ----------
        columns
            As for `Lake.table`, besides `window_end`.

        Returns
        -------
        tuple
            The rows, and, shape (rows,), when their windows end, microseconds.
        """
        reach = number * self.settings.slide + self.settings.window
        wanted = None if columns is None else ("window_end", *columns)
        rows = self.rows(table, self.tick - reach, self.tick + self.settings.window, wanted)
        if not rows.num_rows:
            return rows, np.zeros(0, dtype=np.int64)
        return rows, rows["window_end"].cast(pa.int64()).to_numpy()


def fields_of(rows: pa.Table, column: str, names: Sequence[str]) -> FloatArray:
    """Fields of a column of structs: shape (rows, fields); NaN where there is none."""
    structs = rows[column].combine_chunks()
    fields = (pc.struct_field(structs, name).to_numpy(zero_copy_only=False) for name in names)
    return np.column_stack([field.astype(np.float64) for field in fields])


def write_snapshots(
    lake: Lake,
    manifest: Manifest,
    settings: SettingsT,
    table: str,
    write: Callable[[SnapshotInputs[SettingsT], Path], object],
    context: Any = None,
    consistent: Callable[[SnapshotInputs[SettingsT]], int] | None = None,
) -> list[Location]:
    """Write a snapshot of every cluster's newest tick, and remove those that are too old to keep.

    Snapshots of later instants are removed too: a collector's clock was ahead when they were made.

    Parameters
    ----------
    lake, manifest, settings
        As of a `SnapshotInputs`.
    table
        Whose newest ticks they are.
    write
        Writes the snapshot of a moment to a folder.
    context
        A `pyarrow.dataset` expression for rows of the table that count; None for all.
    consistent
        The tick of a moment's newest samples, where its own may be stamped by a clock that was ahead.

    Returns
    -------
    list of Place
        One folder per cluster, by ascending name of the cluster.
    """
    paths: list[Location] = []
    for cluster, tick in _newest_ticks(lake, manifest, settings, table, context).items():
        moment = SnapshotInputs(lake, manifest, settings, cluster, tick)
        if consistent is not None and (found := consistent(moment)) != tick:
            moment = replace(moment, tick=found, ahead=tick)
        path = _new_folder(lake, manifest, cluster, moment.tick)
        with uploaded(path) as made:
            write(moment, made)
        paths.append(path)
        _remove_old(lake, cluster)
        if moment.ahead is not None:
            _remove_later(lake, cluster, path)
    return paths


def _newest_ticks(
    lake: Lake, manifest: Manifest, settings: PipelineSettings, table: str, context: Any
) -> dict[str, int]:
    last = max((entry.last for entry in manifest.tables.get(table, ())), default=None)
    if last is None:
        return {}
    # A second cluster may lag: look back a day, but on two columns only, and where footers tell it, on none.
    since = instant(last - max(86400 * SECOND, settings.gap))
    told, untold = _newest_by_footer(lake, manifest, table, since) if context is None else ({}, manifest)
    rows = lake.table(table, ["cluster", "tick"], since=since, context=context, manifest=untold)
    newest = rows.group_by("cluster").aggregate([("tick", "max")]).to_pylist() if rows.num_rows else []
    for row in newest:
        tick = microseconds(row["tick_max"])
        told[row["cluster"]] = max(tick, told.get(row["cluster"], tick))
    return dict(sorted(told.items()))


def _newest_by_footer(
    lake: Lake, manifest: Manifest, table: str, since: datetime.datetime
) -> tuple[dict[str, int], Manifest]:
    """The newest tick of each cluster in those files that hold one cluster each, and the tables without them.

    A day of a large cluster has hundreds of millions of rows, and the statistics of its files say the same.
    """
    import pyarrow.parquet

    newest: dict[str, int] = {}
    others = []
    for entry in manifest.tables.get(table, ()):
        found = []
        if entry.is_complete and microseconds(since) <= entry.first:
            files = finished_files(lake.tables / entry.path)
            found = [one for file in files for one in _spans(pyarrow.parquet.read_metadata(source_of(file)))]
        if not found or None in found:
            others.append(entry)
            continue
        for cluster, tick in (one for one in found if one is not None):
            newest[cluster] = max(tick, newest.get(cluster, tick))
    return newest, replace(manifest, tables={**manifest.tables, table: tuple(others)})


def _spans(footer: Any) -> Iterator[tuple[str, int] | None]:
    """The cluster and newest tick of each group of rows; None for one of several clusters."""
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if not group.num_rows:
            continue
        cluster, tick = (group.column(places[name]).statistics for name in ("cluster", "tick"))
        alone = all(one is not None and one.has_min_max for one in (cluster, tick)) and (
            cluster.min == cluster.max and not cluster.null_count
        )
        yield (cluster.max, microseconds(tick.max)) if alone else None


def _new_folder(lake: Lake, manifest: Manifest, cluster: str, tick: int) -> Location:
    """A folder that nobody reads yet; its parent is made."""
    folder = lake.snapshot_folder(cluster)
    make_folder(folder)
    name = f"{instant(tick):%Y-%m-%dT%H:%M:%S.%fZ}"
    # More samples of a tick that has its snapshot already: a new folder, lest a reader lose the old one.
    return folder / (name if not (folder / name).exists() else f"{name}-{manifest.version:08d}")


def _remove_later(lake: Lake, cluster: str, path: Location) -> None:
    """Remove the snapshots of a cluster that are of later instants than the one just written."""
    found = [entry for entry in lake.snapshot_folder(cluster).iterdir() if entry.name[0] != "."]
    for later in [entry for entry in found if entry.name > path.name]:
        if lake.has_as_snapshot(later):
            remove_folder(later)


def _remove_old(lake: Lake, cluster: str) -> None:
    """Remove snapshots of this balancer that are older than the newest `RETAINED_SNAPSHOTS` of a cluster."""
    found = sorted(entry for entry in lake.snapshot_folder(cluster).iterdir() if entry.name[0] != ".")
    for old in found[:-RETAINED_SNAPSHOTS]:
        if lake.has_as_snapshot(old):
            remove_folder(old)
