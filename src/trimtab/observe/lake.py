"""The lake: raw samples, tables and snapshots in one place, read without Spark.

Layout::

    raw/date=YYYY-MM-DD/<file>.parquet    samples as collected; "." or "_" first: in the making
    joined/date=YYYY-MM-DD/<file>.parquet samples of days that are over, a file for many of those
    joined/index/<number>.json            which of both count (`observe.raw_index`)
    tables/manifests/<number>.json        files of each table; the newest counts (`observe.manifest`)
    tables/writer-lock/<number>.json      who may publish the next one (`observe.writer_lock`)
    tables/<table>/<version>/*.parquet    immutable files, never changed once the manifest names them
    <place>/raw, <place>/tables, ...      the same of a balancer that has a place of its own
    snapshots/<cluster>/<taken_at>/       folder-format snapshots of all balancers; `meta.json` tells which
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from trimtab.files.object_store import StoreError, StorePath
from trimtab.files.store import Location, place_of
from trimtab.model.errors import ObserveError
from trimtab.observe.manifest import Manifest, ManifestEntry, read_manifest
from trimtab.observe.parquet import finished_files, rows_of_folder
from trimtab.observe.raw_index import JOINED, RAW, RawIndex, read_index
from trimtab.observe.snapshot_copy import local_copy
from trimtab.observe.writer_lock import WriterLock, hold_writer_lock

if TYPE_CHECKING:
    import pyarrow

    from trimtab.observe.balancer_pipeline import BalancerPipeline

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Lake:
    """One folder of telemetry, here or in an object store, seen from one balancer.

    Parameters
    ----------
    path
        The lake's folder or address; a folder is made by whoever writes first.
    balancer
        Whose raw samples, tables and snapshots are meant.
    """

    def __init__(self, path: Location | str, balancer: BalancerPipeline) -> None:
        self.path: Location = path if isinstance(path, StorePath) else place_of(path)
        self.balancer = balancer

    @property
    def folder(self) -> Location:
        """Folder of the balancer: the lake's own where the balancer has no place of its own."""
        return self.path / self.balancer.place

    @property
    def raw(self) -> Location:
        """The collectors' folder of samples: `raw/date=YYYY-MM-DD/<file>.parquet`."""
        return self.folder / RAW

    @property
    def joined(self) -> Location:
        """The folder of files that landed samples were joined into, by day as in `raw`."""
        return self.folder / JOINED

    @property
    def has_samples(self) -> bool:
        """True if anything was ever landed on this balancer; told without looking at the files."""
        return any(next(root.glob("date=*"), None) is not None for root in (self.raw, self.joined))

    def raw_index(self) -> RawIndex:
        """The files of raw samples that count."""
        return read_index(self.folder)

    @property
    def tables(self) -> Location:
        """The folder of the pipeline's tables."""
        return self.folder / "tables"

    @property
    def snapshots(self) -> Location:
        """The folder of the snapshots of all balancers, by cluster and time."""
        return self.path / "snapshots"

    @property
    def checkpoints(self) -> Location:
        """The folder in which streams remember how far they have read."""
        return self.folder / "checkpoints"

    def clusters(self) -> list[str]:
        """Names of the clusters that have a snapshot of this balancer, in order."""
        if not self.snapshots.is_dir():
            return []
        folders = (folder for folder in self.snapshots.iterdir() if folder.is_dir())
        return sorted(unquote(folder.name) for folder in folders if next(self.finished(folder), None))

    def the_only_cluster(self) -> str | None:
        """The cluster that is meant where none is named; None where there is none.

        Raises
        ------
        ObserveError
            If there are several.
        """
        known = self.clusters()
        if len(known) > 1:
            raise ObserveError(
                f"lake {self.path} holds {len(known)} clusters ({', '.join(known)}): say which with --cluster"
            )
        return known[0] if known else None

    def finished(self, folder: Location) -> Iterator[Location]:
        """Snapshots of this balancer in a cluster's folder, newest first."""
        entries = (entry for entry in folder.iterdir() if entry.name[0] not in "._")
        for entry in sorted(entries, reverse=True):
            if entry.is_dir() and self.has_as_snapshot(entry):
                yield entry

    def snapshot_folder(self, cluster: str) -> Location:
        """The folder of a cluster's snapshots; its name may hold anything, the folder's may not."""
        return self.snapshots / quote(cluster, safe=" ").replace(".", "%2E")

    def has_as_snapshot(self, folder: Location) -> bool:
        """True if a snapshot is of this balancer, by the format that its `meta.json` names.

        Where none is named, it is of the balancer without a place of its own. In an object store a folder has
        its `meta.json` once it is complete.
        """
        try:
            format_name = json.loads((folder / "meta.json").read_bytes())["format"].split("/")[1]
        except StoreError:
            raise
        except FileNotFoundError:
            return isinstance(folder, Path) and not self.balancer.place
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return not self.balancer.place
        return bool(format_name.removesuffix("-snapshot") == self.balancer.name)

    def newest_snapshot(self, cluster: str | None = None) -> Path:
        """Folder of the newest snapshot of a cluster, for the balancer's own reader in `trimtab.files`.

        The cluster may be left out where the lake holds one only. Out of an object store it is a copy in our
        cache.

        Raises
        ------
        ObserveError
            If there is no snapshot, or several clusters to choose from.
        """
        name = self.the_only_cluster() if cluster is None else cluster
        if name is None or name not in self.clusters():
            missing = "no snapshot" if name is None else f"no snapshot of cluster {name!r}"
            missing += f" for balancer {self.balancer.name}" if self.balancer.place else ""
            raise ObserveError(
                f"lake {self.path} holds {missing}: collect samples (`trimtab collect`), "
                "then run `trimtab pipeline run` or `trimtab pipeline stream`"
            )
        return local_copy(next(self.finished(self.snapshot_folder(name))))

    def manifest(self) -> Manifest:
        """The tables as published last (an empty manifest where nothing is published)."""
        return read_manifest(self.tables)

    def raw_files(
        self, since: datetime.date | None = None, until: datetime.date | None = None
    ) -> list[Location]:
        """Finished files of raw samples, oldest day first.

        Parameters
        ----------
        since, until
            Days, as in the folders' names; both ends included.
        """
        # Landed files first: what is joined in between is then told by the index, and not missed.
        landed = [path for folder in self.raw_retention_days() for path in finished_files(folder)]
        index = self.raw_index()
        found = [path for path in landed if f"{RAW}/{path.parent.name}/{path.name}" not in index.doomed]
        found += [self.joined / day / name for day, names in index.joined.items() for name in names]
        begins = instant(index.begins).date()
        low = begins if since is None else max(since, begins)
        high = datetime.date.max if until is None else until
        wanted = [path for path in found if low <= date_of(path.parent) <= high]
        return sorted(wanted, key=lambda path: (path.parent.name, path.name))

    def raw_retention_days(self) -> list[Location]:
        """Folders of landed samples, oldest day first."""
        if not self.raw.is_dir():
            return []
        days = [one for one in self.raw.iterdir() if one.name.startswith("date=") and one.is_dir()]
        return sorted(days, key=lambda folder: folder.name)

    def table(
        self,
        name: str,
        columns: list[str] | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        context: Any = None,
        manifest: Manifest | None = None,
    ) -> pyarrow.Table:
        """A published table, or part of it, by pyarrow alone.

        Parameters
        ----------
        name, columns
            One of the balancer's tables, and which of its columns; None for all.
        since, until
            Half-open range of the table's time column.
        context
            A further `pyarrow.dataset` expression.
        manifest
            Read the tables as of this manifest, so that several tables fit together; by default the newest.

        Returns
        -------
        pyarrow.Table
            Rows in no promised order; no rows and no columns where the table holds nothing.
        """
        entries = (manifest or self.manifest()).tables.get(name, ())
        low = None if since is None else microseconds(since)
        high = None if until is None else microseconds(until)
        column = self.balancer.time_column(name)
        return read_entries(self.tables, column, entries, columns, low, high, context)

    def writing(
        self, print_progress: Callable[[str], None] = lambda _: None
    ) -> AbstractContextManager[WriterLock]:
        """Hold the lake's writer lock for a process of tables, as
        `trimtab.observe.writer_lock.hold_writer_lock`.

        Parameters
        ----------
        print_progress
            Told of a wait for signs of life of another writer.

        Raises
        ------
        ObserveError
            If another process is writing.
        """
        return hold_writer_lock(self.tables, print_progress=print_progress)


def read_entries(
    tables: Location,
    time_column: str,
    entries: tuple[ManifestEntry, ...],
    columns: list[str] | None,
    low: int | None,
    high: int | None,
    context: Any = None,
) -> pyarrow.Table:
    """Rows that `entries` stand for, with their time in [`low`, `high`) microseconds since 1970."""
    import pyarrow
    import pyarrow.dataset

    field = pyarrow.dataset.field(time_column)
    parts = []
    for entry in entries:
        begin = entry.begin if low is None else max(entry.begin, low)
        end = entry.end if high is None else min(entry.end, high)
        if begin >= end:
            continue
        keep = (field >= _timestamp(begin)) & (field < _timestamp(end))
        parts.append(
            rows_of_folder(tables / entry.path, columns, keep if context is None else keep & context)
        )
    return pyarrow.concat_tables(parts, promote_options="default") if parts else pyarrow.table({})


def date_of(folder: Location) -> datetime.date:
    """The day of a folder of raw samples, `date=YYYY-MM-DD`."""
    return datetime.date.fromisoformat(folder.name.removeprefix("date="))


def microseconds(instant: datetime.datetime) -> int:
    """Microseconds since the epoch; an instant without a zone is UTC."""
    aware = instant if instant.tzinfo else instant.replace(tzinfo=datetime.UTC)
    return (aware - EPOCH) // datetime.timedelta(microseconds=1)


def instant(value: int) -> datetime.datetime:
    """The instant (UTC) of so many microseconds since the epoch."""
    return EPOCH + datetime.timedelta(microseconds=value)


def _timestamp(value: int) -> Any:
    import pyarrow

    return pyarrow.scalar(value, pyarrow.timestamp("us", tz="UTC"))
