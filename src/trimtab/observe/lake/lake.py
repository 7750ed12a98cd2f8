"""The lake: raw samples, tables and snapshots in one place, read without Spark.

Layout::

    raw/date=YYYY-MM-DD/<file>.parquet    samples as collected; "." or "_" first: in the making
    joined/date=YYYY-MM-DD/<file>.parquet samples of days that are over, a file for many of those
    joined/index/<number>.json            which of both count (`RawIndex`)
    tables/manifests/<number>.json        files of each table; the newest counts (`manifest`)
    tables/writer-lock/<number>.json      who may publish the next one (`writer_lock`)
    tables/<table>/<version>/*.parquet    immutable files, never changed once the manifest names them
    <place>/raw, <place>/tables, ...      the same of a balancer that has a place of its own
    snapshots/<cluster>/<taken_at>/       folder-format snapshots of all balancers; `meta.json` tells which

Collectors write a file a tick. Files of days that are over are joined into few in a folder of their own,
and those they were joined from are removed an hour later. The newest index tells which of both count, so
that to every reader each sample is there once, at any moment and wherever a process was killed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote

import msgspec

from trimtab.files.machine import cache_folder
from trimtab.files.object_store import StoreError, StorePath
from trimtab.files.store import Location, place_of, written_at
from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, read_manifest
from trimtab.observe.lake.parquet import finished_files, footer_of, rows_of_folder
from trimtab.observe.lake.writer_lock import WriterLock, hold_writer_lock
from trimtab_common.documents import one_of
from trimtab_common.files import in_the_making

if TYPE_CHECKING:
    import pyarrow

    from trimtab.observe.lake.balancer_pipeline import BalancerPipeline


INDEX_FORMAT = "trimtab/raw/1"
RAW, JOINED, INDEX = "raw", "joined", "index"
"""Folders: of a balancer, of a balancer, and below the one before."""

RETAINED_INDEXES = 5
"""Documents; readers may hold one that is not the newest."""


@dataclass(frozen=True)
class RawIndex:
    """Raw files of a balancer at one moment; without any document, all those landed.

    Attributes
    ----------
    number
        Counts documents; 0 where there is none.
    begins
        Microseconds since 1970, the beginning of a day: of earlier ones samples were removed for their age.
    joined
        By day, as folders are named, the names of the files that samples landed then were joined into.
    doomed
        Files (relative to the balancer's folder) that no longer count, and since when, seconds since 1970.
    format
        Format of the document.
    """

    number: int = 0
    begins: int = 0
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doomed: Mapping[str, float] = field(default_factory=dict)
    format: Annotated[str, one_of(INDEX_FORMAT)] = INDEX_FORMAT

    def with_joined(self, day: str, name: str, written: Iterable[str], now: float) -> RawIndex:
        """A file stands for those `landed` that day under some names."""
        doomed = {f"{RAW}/{day}/{one}": now for one in written}
        joined = {**self.joined, day: (*self.joined.get(day, ()), name)}
        return replace(self, joined=joined, doomed={**self.doomed, **doomed})

    def without_before(self, begins: int, day: str, removed: Iterable[str], now: float) -> RawIndex:
        """Nothing of before a day counts; of what was landed `removed` may go, by their relative names."""
        gone = [one for one in self.joined if one < day]
        doomed = {f"{JOINED}/{old}/{name}": now for old in gone for name in self.joined[old]}
        doomed |= dict.fromkeys(removed, now)
        kept = {one: names for one, names in self.joined.items() if one not in gone}
        return replace(self, begins=max(begins, self.begins), joined=kept, doomed={**doomed, **self.doomed})


def read_index(home: Location) -> RawIndex:
    """The newest index of a balancer whose folder is `home`.

    Raises
    ------
    ObserveError
        If it is not one that this version can read.
    """
    numbered = _numbered(home)
    found = numbered.newest()
    if found is None:
        return RawIndex()
    try:
        return msgspec.json.decode(found[1], type=RawIndex)
    except msgspec.MsgspecError as error:
        raise ObserveError(
            f"{numbered.path(found[0])} is not of format {INDEX_FORMAT} ({error}): use the version of "
            "trimtab that wrote it, for it says which raw samples count"
        ) from None


def publish_index(home: Location, index: RawIndex) -> RawIndex:
    """Make an index the one that counts; returns it with its number counted up.

    Raises
    ------
    ObserveError
        If somebody else has published one since it was read; nothing was published then.
    """
    numbered = replace(index, number=index.number + 1)
    content = msgspec.json.format(msgspec.json.encode(numbered), indent=1)
    try:
        _numbered(home).add(numbered.number, content)
    except VersionConflictError:
        raise ObserveError(
            f"{home}: another `trimtab pipeline` is putting its raw samples in order; start again when it is "
            "done, nothing was changed"
        ) from None
    return numbered


def _numbered(home: Location) -> VersionedDocuments:
    return VersionedDocuments(home / JOINED / INDEX, RETAINED_INDEXES)


LAST_FILE = "meta.json"
"""Uploaded after the other files: a folder that has it is complete."""

RETAINED_COPIES = 3
"""Copies of a cluster's snapshots that stay in the cache."""


def local_copy(folder: Location) -> Path:
    """A snapshot folder on this machine: itself, or a copy in our cache."""
    if isinstance(folder, Path):
        return folder
    cluster = hashlib.sha256(str(folder.parent).encode()).hexdigest()[:16]
    copy = cache_folder() / "snapshots" / cluster / folder.name
    if not copy.is_dir():
        copy.parent.mkdir(parents=True, exist_ok=True)
        making = in_the_making(copy)
        making.mkdir()
        try:
            for file in folder.iterdir():
                (making / file.name).write_bytes(file.read_bytes())
            # Another process may have been faster; its copy is the same.
            if not copy.is_dir():
                making.rename(copy)
        except OSError:
            if not copy.is_dir():
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    for old in sorted(one for one in copy.parent.iterdir() if one.name[0] != ".")[:-RETAINED_COPIES]:
        if old != copy:
            shutil.rmtree(old, ignore_errors=True)
    return copy


@contextmanager
def uploaded(folder: Location) -> Iterator[Path]:
    """A path to write a snapshot folder to, which is then where `folder` says."""
    if isinstance(folder, Path):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="trimtab-snapshot-") as scratch:
        made = Path(scratch) / folder.name
        yield made
        for file in sorted(made.iterdir(), key=lambda file: file.name == LAST_FILE):
            (folder / file.name).write_bytes(file.read_bytes())


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

    def newest_samples(self) -> int | None:
        """Samples in the newest landed file, which is a tick's where a collector landed it; None without one.

        A file that cannot be read counts as 0.
        """
        days = self.raw_retention_days()
        files = finished_files(days[-1]) if days else []
        if not files:
            return None
        footer = footer_of(files[-1])
        return 0 if footer is None else footer.rows

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
        folder = None if name is None else self.snapshot_folder(name)
        newest = None if folder is None or not folder.is_dir() else next(self.finished(folder), None)
        if newest is None:
            missing = "no snapshot" if name is None else f"no snapshot of cluster {name!r}"
            missing += f" for balancer {self.balancer.name}" if self.balancer.place else ""
            raise ObserveError(
                f"lake {self.path} holds {missing}: collect samples (`trimtab collect`), "
                "then run `trimtab pipeline run` or `trimtab pipeline stream`"
            )
        return local_copy(newest)

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
        `trimtab.observe.lake.writer_lock.hold_writer_lock`.

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


@dataclass(frozen=True, slots=True)
class LakeAge:
    """Instants, seconds since 1970; None where there is nothing.

    Attributes
    ----------
    samples_at
        When the newest file of raw samples was finished.
    tables_until
        The end of what the published tables cover.
    clusters
        Those with a snapshot.
    """

    samples_at: float | None
    tables_until: float | None
    clusters: tuple[str, ...]


def lake_age(lake: Lake) -> LakeAge:
    """The newest of each; looks at names and the manifest, and reads no samples.

    Raises
    ------
    ObserveError
        If the manifest cannot be read.
    """
    days = sorted((one for one in lake.raw.glob("date=*") if one.is_dir()), reverse=True)
    files = (path for day in days[:1] for path in finished_files(day))
    ends = [entry.end for entries in lake.manifest().tables.values() for entry in entries]
    return LakeAge(
        samples_at=max((written_at(path) for path in files), default=None),
        tables_until=max(ends) / 1e6 if ends else None,
        clusters=tuple(lake.clusters()),
    )
