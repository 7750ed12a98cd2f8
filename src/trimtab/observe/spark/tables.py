"""Tables as Spark sees them: reading what a manifest names, writing what the next one will name."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from trimtab.files.store import move, remove_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import arrow_schema, ddl
from trimtab.observe.lake.lake import microseconds, read_entries
from trimtab.observe.lake.manifest import merged, new_path
from trimtab.observe.lake.parquet import finished_files, source_of, write_rows
from trimtab.observe.spark.expressions import frame_of, is_in_ranges
from trimtab.observe.spark.session import executors_elsewhere, is_local, spark_address, spark_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from trimtab.files.store import Location
    from trimtab.observe.lake.columns import Columns
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest, ManifestEntry, Ranges

    Build = Callable[[dict[str, DataFrame]], DataFrame]

Made = TypeVar("Made")


def rows_in_ranges(frame: DataFrame, time_column: str, ranges: Ranges) -> DataFrame:
    """The rows whose time lies in `ranges`."""
    return frame.where(is_in_ranges(time_column, ranges))


def read_raw(session: SparkSession, paths: Sequence[Location], columns: Columns) -> DataFrame:
    """The rows of raw files, or of a folder of them."""
    if not paths:
        return frame_of(session, [], ddl(columns))
    return session.read.schema(ddl(columns)).parquet(*(spark_address(path) for path in paths))


def from_readable_files(
    session: SparkSession,
    paths: Sequence[Location],
    columns: Columns,
    make: Callable[[Sequence[Location]], Made],
    print_progress: Callable[[str], None],
) -> tuple[Made, Sequence[Location]]:
    """What `make` makes of raw files; if it fails, of those among them whose rows can all be read.

    Returns
    -------
    tuple
        What was made, and the files that were left out, which are reported.

    Raises
    ------
    StoreError
        If a store does not answer.
    Py4JError, PySparkException
        If `make` fails though all files can be read, or on what is left.
    """
    from py4j.protocol import Py4JError

    try:
        return make(paths), ()
    except (Py4JError, PySparkException):
        damaged = unreadable_files(session, paths, columns, print_progress)
        if not damaged:
            raise
    return make([path for path in paths if path not in damaged]), damaged


def unreadable_files(
    session: SparkSession,
    paths: Sequence[Location],
    columns: Columns,
    print_progress: Callable[[str], None],
) -> list[Location]:
    """The raw files whose rows cannot all be read, found by halves; each is reported with the reason.

    Spark can leave out damaged files by itself, but does not tell which, takes a store that does not answer
    for one, and keeps an accelerator from reading at all.

    Raises
    ------
    StoreError
        If a store does not answer.
    Py4JError, PySparkException
        If reading fails for another reason than a file: queries of a stream that ends are cancelled.
    """
    from py4j.protocol import Py4JError

    def among(some: Sequence[Location]) -> list[Location]:
        try:
            read_raw(session, some, columns).write.format("noop").mode("overwrite").save()
            return []
        except (Py4JError, PySparkException) as error:
            if not any(condition in str(error) for condition in _OF_FILES):
                raise
            reason = spark_reason(error)
        if len(some) > 1:
            return [*among(some[: len(some) // 2]), *among(some[len(some) // 2 :])]
        (path,) = some
        if not isinstance(path, Path):
            path.read_bytes()
        print_progress(f"left out {path}: its rows cannot be read ({reason})")
        return [path]

    accelerated = session.conf.get(_ACCELERATED, None)
    # Spark names the reason, which native code does not.
    session.conf.set(_ACCELERATED, "false")
    try:
        return among(paths)
    finally:
        if accelerated is None:
            session.conf.unset(_ACCELERATED)
        else:
            session.conf.set(_ACCELERATED, accelerated)


_ACCELERATED = "spark.comet.enabled"

_OF_FILES = ("[FAILED_READ_FILE", "[CANNOT_READ_FILE_FOOTER", "[PATH_NOT_FOUND")
"""How Spark's messages begin that are about a file."""


@dataclass(frozen=True)
class SparkTables:
    """A balancer's tables as Spark sees them, as of one manifest."""

    session: SparkSession
    lake: Lake
    manifest: Manifest

    def read(self, table: str, ranges: Ranges) -> DataFrame:
        """The published rows of a table within some ranges.

        Rows that a later step computed anew are there once.
        """
        columns = ddl(self.lake.balancer.tables[table])
        time_column = self.lake.balancer.time_column(table)
        reader = self.session.read.schema(columns)
        wanted = self.entries(table, ranges)
        if not wanted:
            return frame_of(self.session, [], columns)
        # Folders of which every row is asked for are one scan, the few others need a filter each: its bounds
        # are compiled into the query, which a stream would do for every micro-batch.
        whole = [entry for entry in wanted if _lies_in(entry, ranges)]
        frames = [reader.parquet(*(self._folder(entry) for entry in whole))] if whole else []
        frames += [
            rows_in_ranges(reader.parquet(self._folder(entry)), time_column, _both(entry, ranges))
            for entry in wanted
            if not _lies_in(entry, ranges)
        ]
        return reduce(lambda one, other: one.unionByName(other), frames)

    def entries(self, table: str, ranges: Ranges) -> list[ManifestEntry]:
        """What may hold rows of a table within some ranges."""
        return [
            entry
            for entry in self.manifest.tables.get(table, ())
            if any(entry.begin < end and begin < entry.end for begin, end in ranges)
        ]

    def _folder(self, entry: ManifestEntry) -> str:
        return spark_address(self.lake.tables / entry.path)


def _lies_in(entry: ManifestEntry, ranges: Ranges) -> bool:
    return entry.is_complete and any(begin <= entry.first and entry.last < end for begin, end in ranges)


def _both(entry: ManifestEntry, ranges: Ranges) -> Ranges:
    """The parts of `ranges` for which an entry stands."""
    return merged((max(begin, entry.begin), min(end, entry.end)) for begin, end in ranges)


@dataclass(frozen=True)
class WrittenFolder:
    """A folder of new rows of a table.

    Attributes
    ----------
    path
        Relative to the tables' folder.
    rows
        How many.
    span
        Time of the first and last row, microseconds; None where there is no row.
    """

    path: str
    rows: int
    span: tuple[int, int] | None


def write_table(frame: DataFrame, lake: Lake, table: str) -> WrittenFolder:
    """Write rows to a new folder.

    Readers do not see it before a manifest that names it is published; one that never gets there is swept
    later. Rows are counted from the files. An observation of the plan counts them besides where executors may
    see another folder, and for `cleaned` only: no accelerator runs a plan with an observation natively, and
    every other table is made from that one.

    Raises
    ------
    ObserveError
        If fewer rows are found there than Spark wrote: an executor wrote them where nobody finds them.
    """
    path = new_path(table)
    folder = lake.tables / path
    observation = Observation() if table == "cleaned" and _may_differ(frame.sparkSession, folder) else None
    if observation is not None:
        frame = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    frame.write.parquet(spark_address(folder))
    files = written(lake, table, path)
    if observation is not None:
        check_found(frame, f"rows of table {table}", folder, observation.get["rows"], files.rows)
    return files


def _may_differ(session: SparkSession, folder: Location) -> bool:
    """Whether an executor may find another folder at a path: one on another machine, and no object store."""
    return isinstance(folder, Path) and not is_local(session)


def write_gathered(
    rows: pyarrow.Table, lake: Lake, table: str, ranges: Ranges | None = None
) -> WrittenFolder:
    """Write rows that are here to a new folder, those in `ranges` alone where it is given.

    A few thousand rows are written so in a fiftieth of the time that a job of Spark's takes, which starts
    processes to set permissions besides.
    """
    import pyarrow.compute as pc

    path, column = new_path(table), lake.balancer.time_column(table)
    rows = rows.cast(arrow_schema(lake.balancer.tables[table]))
    if ranges is not None:
        times = pc.cast(rows[column], "int64")
        inside = [pc.and_(pc.greater_equal(times, low), pc.less(times, high)) for low, high in ranges]
        rows = rows.filter(reduce(pc.or_, inside))
    if not rows.num_rows:
        return WrittenFolder(path, 0, None)
    write_rows(lake.tables / path / "part.parquet", rows)
    times = pc.min_max(pc.cast(rows[column], "int64"))
    return WrittenFolder(path, rows.num_rows, (times["min"].as_py(), times["max"].as_py()))


class PreparedFrames:
    """Frames that every micro-batch of a stream uses again, over folders whose files change.

    Half of what a small micro-batch takes is building and analysing the same queries. A prepared frame reads
    a folder for each of its inputs, in which links stand for the files that a micro-batch needs.

    Parameters
    ----------
    folder
        On this machine, of this stream alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._frames: dict[str, DataFrame] = {}
        self._numbers = itertools.count()

    def rows(
        self, tables: SparkTables, name: str, inputs: dict[str, tuple[str, Ranges]], build: Build
    ) -> pyarrow.Table:
        """The rows of a frame, with its inputs as the tables have them now.

        Parameters
        ----------
        tables
            As they are.
        name
            Of the frame.
        inputs
            For each the table and the ranges of its rows.
        build
            Makes the frame from its inputs, by name; called once.
        """
        for one, (table, ranges) in inputs.items():
            self._link(tables, table, ranges, self._folder / name / one)

        def begin() -> DataFrame:
            own = tables.lake.balancer.tables
            return build(
                {
                    one: tables.session.read.schema(ddl(own[table])).parquet(str(self._folder / name / one))
                    for one, (table, _) in inputs.items()
                }
            )

        return self._again(name, begin)

    def rows_of_raw(
        self,
        session: SparkSession,
        files: Sequence[Location],
        columns: Columns,
        build: Callable[[DataFrame], DataFrame],
    ) -> pyarrow.Table:
        """The rows that a frame makes of raw files with some columns; `build` is called once."""
        folder = self._emptied(self._folder / "raw")
        for file in files:
            path = folder / f"{next(self._numbers)}.parquet"
            if isinstance(file, Path):
                path.symlink_to(file.absolute())
            else:
                path.write_bytes(file.read_bytes())
        return self._again("raw", lambda: build(read_raw(session, [folder], columns)))

    def _again(self, name: str, begin: Callable[[], DataFrame]) -> pyarrow.Table:
        frame = self._frames.get(name)
        if frame is None:
            frame = self._frames[name] = begin()
        else:
            jvm_frame: Any = frame._jdf
            jvm_frame.queryExecution().analyzed().refresh()
        # Its plan is analysed; the name on top of it lets Spark run it over the files that are there now.
        return frame.alias("again").toArrow()

    def _emptied(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        return folder

    def _link(self, tables: SparkTables, table: str, ranges: Ranges, folder: Path) -> None:
        """Let a folder hold exactly the rows of a table within some ranges."""
        import pyarrow.parquet

        self._emptied(folder)
        lake, column = tables.lake, tables.lake.balancer.time_column(table)
        for entry in tables.entries(table, ranges):
            home = lake.tables / entry.path
            if isinstance(home, Path) and _lies_in(entry, ranges):
                for file in finished_files(home):
                    (folder / f"{next(self._numbers)}.parquet").symlink_to(Path(str(file)).absolute())
                continue
            for low, high in _both(entry, ranges):
                rows = read_entries(lake.tables, column, (entry,), None, low, high)
                if rows.num_rows:
                    pyarrow.parquet.write_table(rows, folder / f"{next(self._numbers)}.parquet")


def check_found(frame: DataFrame, what: str, folder: Location, wrote: int, found: int) -> None:
    """Refuse to go on where Spark wrote rows that are not in a folder.

    Raises
    ------
    ObserveError
        Naming the executors that may see another folder of that name.
    """
    if found != wrote:
        elsewhere = ", ".join(executors_elsewhere(frame.sparkSession)) or "one of them"
        raise ObserveError(
            f"Spark's executors wrote {wrote:,} {what} to {folder}, but only {found:,} are there: the folder "
            f"is not the same one for {elsewhere}. Nothing was published; give a --lake that all of Spark's "
            "machines share"
        )


def written(lake: Lake, table: str, path: str) -> WrittenFolder:
    """The rows in a folder of Parquet files, from the files' own footers."""
    import pyarrow.parquet

    column = lake.balancer.time_column(table)
    rows, times = 0, []
    for file in finished_files(lake.tables / path):
        footer = pyarrow.parquet.read_metadata(source_of(file))
        rows += footer.num_rows
        place = next(at for at in range(footer.num_columns) if footer.schema.column(at).path == column)
        for group in range(footer.num_row_groups):
            found = footer.row_group(group)
            if found.num_rows:
                statistics = found.column(place).statistics
                times += [microseconds(statistics.min), microseconds(statistics.max)]
    return WrittenFolder(path, rows, (min(times), max(times)) if times else None)


ROWS_PER_FILE = 500_000
"""A task each: a micro-batch of a tick should not leave a file for every partition of its topic."""


def write_topic_rows(raw: DataFrame, rows: int, folder: Location, name: str) -> None:
    """Write raw rows of a topic below a lake's `raw`: history can then be built anew without the topic.

    Spark's executors write them, a file or more for each day of ticks. Running it again with the same rows
    and name changes nothing, also after an end in the middle.

    Parameters
    ----------
    raw, rows
        The rows, and how many they are.
    folder, name
        Where the files go, and how their names begin.

    Raises
    ------
    ObserveError
        If fewer rows are found there than Spark wrote.
    """
    making = folder / f".{name}"
    remove_folder(making)
    at = F.coalesce("tick", "received_at", F.timestamp_micros(F.lit(0)))
    counted = Observation()
    dated = raw.withColumn("date", F.date_format(at, "yyyy-MM-dd")).coalesce(-(-rows // ROWS_PER_FILE) or 1)
    told = dated.observe(counted, F.count(F.lit(1)).alias("rows"))
    told.write.partitionBy("date").parquet(spark_address(making))
    files: list[Location] = list(making.glob("date=*/*.parquet"))
    files.sort(key=str)
    check_found(raw, "samples", making, counted.get["rows"], sum(map(_rows, files)))
    for old in folder.glob(f"date=*/{name}*.parquet"):
        old.unlink()
    for number, path in enumerate(files):
        move(path, folder / path.parent.name / f"{name}-{number}.parquet")
    remove_folder(making)


def _rows(path: Location) -> int:
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(source_of(path)).num_rows)
