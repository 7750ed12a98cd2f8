"""A lake of a month of full size: a day of it through Spark, the others copies of its first hour.

Raw rows are those of one synthetic hour, again and again. The last hour of the month and the one after it
are built by `trimtab pipeline run`; those before are copies of the tables and samples of the former with all
times moved. What is measured are trimtab's own commands, each a process of its own, on the whole month. What
is done stands in the folder, so a run that was killed goes on with the next step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from moved_parquet import later, write_moved
from results import write_result
from timing import time_commands

from support.object_store import object_store
from synthetic_telemetry import START, SyntheticCluster
from trimtab.files import object_store as store
from trimtab.files.store import Location, place_of, remove_folder
from trimtab.observe.lake.columns import arrow_schema
from trimtab.observe.lake.lake import Lake, instant, microseconds, publish_index
from trimtab.observe.lake.manifest import Manifest, new_path
from trimtab.observe.lake.parquet import finished_files, write_rows, writer_of
from trimtab.observe.lake.status import read_status
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COUNTERS = (
    "end_offset",
    "size_bytes",
    "committed_offset",
    "cpu_time_ns",
    "bytes_in_total",
    "bytes_out_total",
)
COUNTERS += ("replication_bytes_in_total", "messages_in_total", "offered_bytes_total", "served_bytes_total")
COUNTERS += ("produce_requests_total", "fetch_requests_total")
ENTITY = ("kind", "broker", "topic", "partition", "log_dir", "group", "client")
TICKS = 120
"""An hour of ticks of 30 s."""
TICK, HOUR, DAY = timedelta(seconds=30), timedelta(hours=1), timedelta(days=1)
ROWS_AT_ONCE = 600_000
TIME = "%Y-%m-%dT%H:%M:%SZ"
MONTH = 30

Figures = dict[str, object]

TRIMTAB = [sys.executable, "-c", "from trimtab.cli.app import main; main()"]


def main() -> None:
    """Take the steps that are not done yet; write the figures after the last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="to go on in later; else one is made and removed"
    )
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--brokers", type=int, default=12)
    asked = parser.parse_args()
    size = (asked.brokers, asked.partitions)
    with tempfile.TemporaryDirectory() as name:
        figures = figures_of(asked.folder or Path(name), size)
    write_result("month_lake", {"partitions": asked.partitions, "brokers": asked.brokers, **figures})


def figures_of(folder: Path, size: tuple[int, int]) -> dict[str, Any]:
    """The figures of all steps; brokers and partitions are the size of the cluster."""
    done = folder / "figures.json"
    figures: dict[str, Any] = json.loads(done.read_text()) if done.exists() else {}
    lake = Lake(folder / "lake", REPLICAS)
    for step in STEPS:
        if step.__name__ not in figures:
            figures[step.__name__] = step(lake, size)
            done.write_text(json.dumps(figures, indent=1))
            print(step.__name__, figures[step.__name__], flush=True)
    return figures


def landed(lake: Lake, size: tuple[int, int]) -> Figures:
    """The last hour of the month, the day after it, and one tick of the next: a file a tick."""
    return land_hours(lake, hours(*size, range(-1, 25)), until=NEXT_DAY + DAY + TICK)


def built(lake: Lake, size: tuple[int, int]) -> Figures:
    """The last hour of the month through Spark."""
    return measured(trimtab("pipeline", "run", "--large-job", f"--until={NEXT_DAY:{TIME}}", lake=lake))


def copied(lake: Lake, size: tuple[int, int]) -> Figures:
    """Tables and samples of all hours of the month: that one's, with their times moved; a file a day."""
    begun, rows, manifest = time.perf_counter(), 0, lake.manifest()
    with lake.writing() as seat:
        for table in tuple(manifest.tables):
            # A window has the instant at which it ends: that of the hour before is not this one's.
            after = int(REPLICAS.time_column(table) == "window_end")
            own, first, last = rows_of_hour(lake, table, microseconds(NEXT_DAY - HOUR) + after)
            for day in range(MONTH):
                path, shifts = new_path(table), moves_of(day)
                rows += write_moved(own, Path(str(lake.tables)) / path / "copied.parquet", shifts)
                begin, end = (microseconds(NEXT_DAY - one * DAY) + after for one in (day + 1, day))
                span = first + in_microseconds(shifts[0]), last + in_microseconds(shifts[-1])
                manifest = manifest.replaced(table, [(begin, end)], path, span)
            own.unlink()
        seat.publish(manifest)
    tables_seconds = round(time.perf_counter() - begun, 1)
    return {
        "rows": rows,
        "seconds": tables_seconds,
        "bytes": bytes_below(lake.tables),
        "raw_rows": copy_samples(lake, size),
        "raw_bytes": bytes_below(lake.joined),
    }


def rows_of_hour(lake: Lake, table: str, begin: int) -> tuple[Path, int, int]:
    """A file of a table's rows from an instant on, and the times of the first and the last, microseconds."""
    made, column = Path(str(lake.path)) / f"{table}.parquet", REPLICAS.time_column(table)
    rows = lake.table(table, since=instant(begin)).sort_by(column)
    pq.write_table(rows, made, compression="zstd", row_group_size=ROWS_AT_ONCE)
    times = rows[column].cast("int64")
    return made, times[0].as_py(), times[-1].as_py()


def copy_samples(lake: Lake, size: tuple[int, int]) -> int:
    """The samples that the tables are made of, joined by the day; returns how many."""
    index, rows, schema = lake.raw_index(), 0, arrow_schema(REPLICAS.raw.columns)
    hour = lake.path / "hour.parquet"
    with writer_of(hour, schema) as writer:
        for _, part in hours(*size, [-1]):
            writer.write_table(part.cast(schema))
    remove_folder(lake.raw / f"date={NEXT_DAY - DAY:%Y-%m-%d}")
    for day in range(MONTH):
        name = f"date={NEXT_DAY - (day + 1) * DAY:%Y-%m-%d}"
        joined = Path(str(lake.joined)) / name / "joined-0.parquet"
        rows += write_moved(Path(str(hour)), joined, moves_of(day))
        index = index.with_joined(name, joined.name, (), time.time())
    publish_index(lake.folder, index)
    hour.unlink()
    return rows


def moves_of(day: int) -> list[timedelta]:
    """From the last hour of the month to each of a day, counted backward from the last one."""
    return [timedelta(hours=hour - 23) - day * DAY for hour in range(24)]


def in_microseconds(by: timedelta) -> int:
    """A length of time as manifests have it."""
    return by // timedelta(microseconds=1)


def newest(lake: Lake, size: tuple[int, int]) -> Figures:
    """The hour after the month through Spark, upon the tables of the month; once half an hour of bytes per
    record is known, it comes out as the hour before.
    """
    words = [f"--since={NEXT_DAY:{TIME}}", f"--until={NEXT_DAY + HOUR:{TIME}}"]
    told = measured(trimtab("pipeline", "run", "--large-job", *words, lake=lake))
    columns = ["tick", "topic", "partition", "bytes_in", "bytes_out", "bytes_per_record", "flags"]
    found = lake.table("traffic", columns, NEXT_DAY + HOUR / 2, NEXT_DAY + HOUR)
    wanted = later(lake.table("traffic", columns, NEXT_DAY - HOUR / 2, NEXT_DAY), HOUR)
    order = [(name, "ascending") for name in columns[:3]]
    if not found.num_rows or not found.sort_by(order).equals(wanted.sort_by(order)):
        raise SystemExit("the hour after the month differs from the one before")
    return {**told, "samples": lake.table("cleaned", ["tick"], NEXT_DAY, NEXT_DAY + HOUR).num_rows}


def kept(lake: Lake, size: tuple[int, int]) -> Figures:
    """Retention as it is set by default, and compaction."""
    return order(lake)


def kept_shorter(lake: Lake, size: tuple[int, int]) -> Figures:
    """The same with ages of a day less, so that a whole day goes."""
    return order(
        lake, f"--set=lake.raw_retention_days={MONTH - 1}", f"--set=lake.table_retention_days={MONTH - 1}"
    )


def order(lake: Lake, *words: str) -> Figures:
    """`pipeline compact`, and numbers of files and folders before and after."""

    def counted() -> dict[str, int]:
        entries = sum(map(len, lake.manifest().tables.values()))
        return {"raw_files": len(lake.raw_files()), "folders": entries}

    before = counted()
    told = measured(trimtab("pipeline", "compact", *words, lake=lake))
    return {**told, "before": before, "after": counted()}


def looked(lake: Lake, size: tuple[int, int]) -> Figures:
    """`status` and `plan` on the month, by turns."""
    with tempfile.TemporaryDirectory() as name:
        commands = {
            "status": trimtab("status", lake=lake),
            "plan": trimtab("plan", "replicas", f"--out={name}/plan.json", lake=lake),
        }
        found = time_commands(commands, 5)
        told = {name: {**timing.as_json(), **measured(commands[name])} for name, timing in found.items()}
    return {**told, "requests": requests(lake)}


READERS = {
    "DuckDB, a mean over all of `imbalance`": """
imbalance = tables["imbalance"]
print(duckdb.sql("SELECT resource, avg(sigma), count(*) FROM imbalance GROUP BY resource").fetchall())
""",
    "Polars, the same": """
imbalance = tables["imbalance"]
print(polars.from_arrow(imbalance).group_by("resource").agg(polars.col("sigma").mean()))
""",
    "DuckDB, a sum over two columns of all of `traffic`": """
traffic = tables.read("traffic", ["topic", "bytes_in"])
print(duckdb.sql("SELECT topic, sum(bytes_in), count(*) FROM traffic GROUP BY topic").fetchall()[:2])
""",
}


def read(lake: Lake, size: tuple[int, int]) -> Figures:
    """Tables of the whole month in other engines."""
    begin = f"import duckdb, polars, trimtab; tables = trimtab.tables({str(lake.path)!r})"
    told: Figures = {name: measured([sys.executable, "-c", begin + text]) for name, text in READERS.items()}
    manifest = lake.manifest()
    rows = {
        name: sum(pq.read_metadata(path).num_rows for path in paths_of(lake, manifest, name))
        for name in ("imbalance", "traffic")
    }
    return {**told, "rows": rows}


def paths_of(lake: Lake, manifest: Manifest, table: str) -> Iterator[Location]:
    """The files of a table."""
    for entry in manifest.tables[table]:
        yield from finished_files(lake.tables / entry.path)


def rest_of_day(lake: Lake, size: tuple[int, int]) -> Figures:
    """The other 23 hours of the day after the month at once, through Spark, out of joined samples."""
    begin, end = NEXT_DAY + HOUR, NEXT_DAY + DAY
    told = measured(
        trimtab(
            "pipeline", "run", "--large-job", f"--since={begin:{TIME}}", f"--until={end:{TIME}}", lake=lake
        )
    )
    return {**told, "samples": lake.table("cleaned", ["tick"], begin, end).num_rows}


STEPS = (landed, built, copied, newest, kept, kept_shorter, looked, read, rest_of_day)


def trimtab(*words: str, lake: Lake) -> list[str]:
    """A command on a lake."""
    return [*TRIMTAB, *words, f"--lake={lake.path}"]


def land_hours(lake: Lake, parts: Iterable[tuple[int, pa.Table]], until: datetime) -> Figures:
    """Land the samples of some hours, by their numbers from the end of the month, a file a tick."""
    rows, files = 0, 0
    for number, part in parts:
        each = part.num_rows // TICKS
        for tick in range(TICKS):
            at = NEXT_DAY + timedelta(hours=number) + tick * TICK
            if at < until:
                path = lake.raw / f"date={at:%Y-%m-%d}" / f"{at:%Y%m%dT%H%M%S}000Z-test-00000000.parquet"
                write_rows(path, part.slice(tick * each, each))
                rows, files = rows + each, files + 1
    return {"rows": rows, "files": files}


NEXT_DAY = START.replace(hour=0)
"""When the month is over; long enough ago for ages to count from it, not from now."""


def hours(brokers: int, partitions: int, numbers: Iterable[int]) -> Iterator[tuple[int, pa.Table]]:
    """Samples of one hour after the other, in order of time; counters grow by the same in each."""
    cluster = SyntheticCluster(
        brokers=brokers, partitions=partitions, replication=3, partitions_per_topic=20, seconds_per_tick=30.0
    )
    raw = replace(cluster, start=NEXT_DAY).raw(TICKS + 1)
    raw = raw.sort_by([(name, "ascending") for name in ("tick", *ENTITY)])
    for name in ("disk_total_bytes", "disk_usable_bytes"):
        # Room for a month without retention of the brokers' own.
        raw = raw.set_column(raw.column_names.index(name), name, pc.multiply(raw[name], 100))
    each = raw.num_rows // (TICKS + 1)
    hour = raw.slice(0, TICKS * each)
    grown = {}
    for name in COUNTERS:
        values = raw[name].cast(pa.float64()).to_numpy().reshape(TICKS + 1, each)
        grown[name] = pa.array(np.tile(np.nan_to_num(values[-1] - values[0]), TICKS).astype(np.int64))
    for number in numbers:
        moved = later(hour, timedelta(hours=number))
        for name, growth in grown.items():
            # From a hundred hours on, so that no counter of the hour before falls below zero.
            by = pc.multiply(growth, number + 100)
            moved = moved.set_column(moved.column_names.index(name), name, pc.add(moved[name], by))
        yield number, moved


def measured(command: list[str]) -> Figures:
    """Seconds of a command by the clock and of processors, and its largest memory, MiB; with its children."""
    begun, peak, used = time.perf_counter(), 0, 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while True:
        memory, processors = taken(process.pid)
        peak, used = max(peak, memory), max(used, processors)
        try:
            _, err = process.communicate(timeout=0.3)
            break
        except subprocess.TimeoutExpired:
            continue
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {err[-2000:]}")
    print(" ".join(command), err[-1500:], file=sys.stderr, flush=True)
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "processor_seconds": round(used, 1),
        "peak_mebibytes": round(peak / 1024),
    }


def taken(pid: int) -> tuple[int, float]:
    """KiB that a process and those below it have in memory now, and seconds of processors that they took."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0, 0.0
    memory = next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")), 0)
    processors = sum(map(int, times[11:15])) / os.sysconf("SC_CLK_TCK")
    for one in map(int, below):
        found = taken(one)
        memory, processors = memory + found[0], processors + found[1]
    return memory, processors


def bytes_below(place: Location) -> int:
    """Bytes of all files below a folder of this machine."""
    return sum(path.stat().st_size for path in Path(str(place)).rglob("*") if path.is_file())


def requests(lake: Lake) -> dict[str, int]:
    """Requests, and bytes fetched, of what `status` reads, of the same lake in an object store."""
    with object_store() as server:
        os.environ.update(server.environment)
        address = f"{server.bucket()}/lake"
        roots = [lake.snapshots, *(lake.tables / name for name in ("manifests", "imbalance", "brokers"))]
        for root in roots:
            for path in Path(str(root)).rglob("*"):
                if path.is_file():
                    target = place_of(f"{address}/{path.relative_to(Path(str(lake.path)))}")
                    target.write_bytes(path.read_bytes())
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TRIMTAB_CACHE"] = cache
            counting = Counting(store._client(address.rsplit("/", 1)[0]))
            store._client = lambda _: counting  # type: ignore[assignment]
            read_status(Lake(address, REPLICAS))
    return {"requests": counting.requests, "bytes": counting.bytes}


class Counting:
    """A store's client that counts what it is asked."""

    def __init__(self, client: object) -> None:
        self._client = client
        self.requests = 0
        self.bytes = 0

    def __getattr__(self, name: str) -> object:
        asked = getattr(self._client, name)

        def called(*given: object, **named: object) -> object:
            self.requests += 1
            found = asked(*given, **named)
            if name == "get":
                self.bytes += found.meta["size"]
            elif name == "get_range":
                self.bytes += len(found)
            return found

        return called


if __name__ == "__main__":
    main()
