"""The lake: raw samples, tables and snapshots in one folder, read without Spark.

Layout::

    raw/date=YYYY-MM-DD/<file>.parquet    samples as collected; "." or "_" first: in the making
    tables/manifest.json                  which files make up each table now (`trimtab.observe.manifest`)
    tables/<table>/<version>/*.parquet    immutable files, never changed once the manifest names them
    bundles/raw, bundles/tables, ...      the same of the level `bundles`: other samples, other tables
    snapshots/<cluster>/<taken_at>/       folder-format snapshots of all levels; `meta.json` tells which
"""

from __future__ import annotations

import datetime
import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from trimtab.model.errors import ObserveError
from trimtab.observe.manifest import Entry, Manifest, read_manifest

if TYPE_CHECKING:
    import pyarrow

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

TIME_COLUMNS = dict.fromkeys(
    ("windows", "cpu_model", "attributed", "hours", "forecasts", "forecast_errors"), "window_end"
)
"""The column that a table's files are cut by, where it is not `tick`."""


LEVELS: Final = ("replicas", "bundles")
"""The levels that have samples and tables, each in a place of its own."""


class Lake:
    """One folder of telemetry, seen from one level.

    Parameters
    ----------
    path
        The lake's folder; made by whoever writes first.
    level
        Whose raw samples, tables and snapshots are meant: one of `LEVELS`.
    """

    def __init__(self, path: Path | str, level: str = LEVELS[0]) -> None:
        assert level in LEVELS, level
        self.path = Path(path).expanduser().absolute()
        self.level = level

    def of_level(self, level: str) -> Lake:
        """The same lake, seen from another level."""
        return Lake(self.path, level)

    @property
    def home(self) -> Path:
        """Folder of the level: the lake's own for `replicas`, which was there first."""
        return self.path if self.level == LEVELS[0] else self.path / self.level

    @property
    def raw(self) -> Path:
        """Where collectors of the level's system land samples: `raw/date=YYYY-MM-DD/<file>.parquet`."""
        return self.home / "raw"

    @property
    def has_samples(self) -> bool:
        """Whether anything was ever landed on this level; told without looking at the files."""
        return next(self.raw.glob("date=*"), None) is not None

    @property
    def tables(self) -> Path:
        """Where the pipeline's tables lie."""
        return self.home / "tables"

    @property
    def snapshots(self) -> Path:
        """Where snapshots of all levels lie, by cluster and time."""
        return self.path / "snapshots"

    @property
    def checkpoints(self) -> Path:
        """Where streams remember how far they have read."""
        return self.home / "checkpoints"

    def clusters(self) -> list[str]:
        """Names of the clusters that have a snapshot of this level, in order."""
        if not self.snapshots.is_dir():
            return []
        folders = (folder for folder in self.snapshots.iterdir() if folder.is_dir())
        return sorted(unquote(folder.name) for folder in folders if next(self._finished(folder), None))

    def _finished(self, folder: Path) -> Iterator[Path]:
        """Snapshots of this level in a cluster's folder, newest first."""
        entries = (entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] not in "._")
        for entry in sorted(entries, reverse=True):
            if snapshot_level(entry) == self.level:
                yield entry

    def snapshot_folder(self, cluster: str) -> Path:
        """Where the snapshots of a cluster lie; its name may hold anything, the folder's may not."""
        return self.snapshots / quote(cluster, safe=" ").replace(".", "%2E")

    def newest_snapshot(self, cluster: str | None = None, level: str | None = None) -> Path:
        """Folder of the newest snapshot.

        Parameters
        ----------
        cluster
            Its name; may be left out where the lake holds one cluster only.
        level
            Another one than the lake is seen from.

        Returns
        -------
        Path
            To be read by the level's own reader in `trimtab.files`.

        Raises
        ------
        ObserveError
            If there is no snapshot, or several clusters to choose from.
        """
        if level is not None and level != self.level:
            return self.of_level(level).newest_snapshot(cluster)
        known = self.clusters()
        if cluster is None and len(known) > 1:
            raise ObserveError(
                f"lake {self.path} holds {len(known)} clusters ({', '.join(known)}): say which with --cluster"
            )
        name = cluster if cluster is not None else (known[0] if known else None)
        if name is None or name not in known:
            asked = "no snapshot" if name is None else f"no snapshot of cluster {name!r}"
            asked += "" if self.level == LEVELS[0] else f" on level {self.level}"
            raise ObserveError(
                f"lake {self.path} holds {asked}: collect samples (`trimtab collect`), "
                "then run `trimtab pipeline run` or `trimtab pipeline stream`"
            )
        return next(self._finished(self.snapshot_folder(name)))

    def manifest(self) -> Manifest:
        """The tables as published last (an empty manifest where nothing is published)."""
        return read_manifest(self.tables)

    def raw_files(self, since: datetime.date | None = None, until: datetime.date | None = None) -> list[Path]:
        """Finished files of raw samples, oldest day first.

        Parameters
        ----------
        since, until
            Days, as in the folders' names; both ends included.
        """
        if not self.raw.is_dir():
            return []
        files: list[Path] = []
        for folder in sorted(self.raw.iterdir()):
            if not folder.is_dir() or not folder.name.startswith("date="):
                continue
            day = datetime.date.fromisoformat(folder.name[len("date=") :])
            if (since is None or day >= since) and (until is None or day <= until):
                files += sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")
        return files

    def table(
        self,
        name: str,
        columns: list[str] | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        where: Any = None,
        manifest: Manifest | None = None,
    ) -> pyarrow.Table:
        """A published table, or part of it, by pyarrow alone.

        Parameters
        ----------
        name
            As in `trimtab.observe.schemas`.
        columns
            Which columns; None for all.
        since, until
            Half-open range of the table's time column.
        where
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
        return read_entries(self.tables, name, entries, columns, low, high, where)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lake's only seat for a writer of tables; let go of by the kernel if the process dies.

        Raises
        ------
        ObserveError
            If another process is writing.
        """
        self.tables.mkdir(parents=True, exist_ok=True)
        with (self.tables / ".writer").open("a+") as seat:
            try:
                fcntl.flock(seat, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ObserveError(
                    f"tables of lake {self.path} are being written by another `trimtab pipeline`: "
                    "stop that one, or use another --lake"
                ) from None
            yield


def read_entries(
    tables: Path,
    name: str,
    entries: tuple[Entry, ...],
    columns: list[str] | None,
    low: int | None,
    high: int | None,
    where: Any = None,
) -> pyarrow.Table:
    """Rows that `entries` of table `name` stand for, in [`low`, `high`) microseconds since 1970."""
    import pyarrow
    import pyarrow.dataset

    field = pyarrow.dataset.field(TIME_COLUMNS.get(name, "tick"))
    parts = []
    for entry in entries:
        begin = entry.begin if low is None else max(entry.begin, low)
        end = entry.end if high is None else min(entry.end, high)
        if begin >= end:
            continue
        keep = (field >= _timestamp(begin)) & (field < _timestamp(end))
        dataset = pyarrow.dataset.dataset(tables / entry.path, format="parquet")
        parts.append(dataset.to_table(columns=columns, filter=keep if where is None else keep & where))
    return pyarrow.concat_tables(parts) if parts else pyarrow.table({})


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


def snapshot_level(folder: Path) -> str:
    """Which level a snapshot is of, by the format that its `meta.json` names; `replicas` where none tells."""
    try:
        told = json.loads((folder / "meta.json").read_bytes())["format"].split("/")[1]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return LEVELS[0]
    return str(told).removesuffix("-snapshot")
