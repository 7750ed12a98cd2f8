"""A lake of a month: filled tick by tick, kept in order, built by the day, and looked at.

Raw rows are those of one synthetic hour, with counters that go on from hour to hour. Everything after that is
trimtab's own commands, each a process of its own, whose largest memory (Python and its JVM together) is told.

"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from pipeline_points import SETTINGS
from results import write_result
from timing import time_commands

from support.object_store import object_store
from synthetic_telemetry import START, SyntheticCluster
from trimtab.files import object_store as store
from trimtab.files.store import Place, place_of
from trimtab.observe.lake import Lake
from trimtab.observe.parquet import write_rows
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.status import read_status

if TYPE_CHECKING:
    from collections.abc import Iterator

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

TRIMTAB = [sys.executable, "-c", "from trimtab.cli.app import main; main()"]


def main() -> None:
    """Fill, keep, build, look; print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--brokers", type=int, default=12)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--ticks-per-file", type=int, default=1)
    parser.add_argument("--heavy", action="store_true", help="as `trimtab pipeline run --heavy`")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, default=None, help="fill this folder, and leave it there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lake = Lake(asked.keep or Path(name) / "lake", REPLICAS)
        figures = month(lake, asked)
    write_result("month_lake", figures)
    print(json.dumps(figures, indent=1))


def month(lake: Lake, asked: argparse.Namespace) -> dict[str, object]:
    """Every figure of one month."""
    begun = time.perf_counter()
    rows = fill(lake, (asked.brokers, asked.partitions), asked.days, asked.ticks_per_file)
    filled = time.perf_counter() - begun
    told: dict[str, object] = {
        "brokers": asked.brokers,
        "partitions": asked.partitions,
        "ticks_per_file": asked.ticks_per_file,
        "ticks": asked.days * 24 * TICKS,
        "rows": rows,
        "files": len(lake.raw_files()),
        "fill_seconds": round(filled, 1),
        "landed_bytes": bytes_below(lake.raw),
    }
    words = [f"--lake={lake.path}", "--set=lake.raw_days=0", "--set=lake.tables_days=0"]
    settings = [f"--set=pipeline.window_seconds={SETTINGS.window_seconds}"]
    told["join"] = measured(["pipeline", "compact", *words])
    told["joined_files"] = len(lake.raw_files())
    told["joined_bytes"] = bytes_below(lake.joined)
    told["build"] = measured(
        ["pipeline", "run", *(["--heavy"] if asked.heavy else []), f"--lake={lake.path}", *settings]
    )
    told["tables_bytes"] = bytes_below(lake.tables)
    told["compact"] = measured(["pipeline", "compact", *words])
    told["entries"] = sum(map(len, lake.manifest().tables.values()))
    status = {"status": [*TRIMTAB, "status", f"--lake={lake.path}"]}
    told["status"] = time_commands(status, asked.runs)["status"].as_json()
    told["requests"] = requests(lake)
    return told


def fill(lake: Lake, size: tuple[int, int], days: int, ticks_per_file: int) -> int:
    """Land the samples of so many days; returns the rows."""
    rows = 0
    for number, part in enumerate(hours(*size, days * 24)):
        each = part.num_rows // TICKS
        for first in range(0, TICKS, ticks_per_file):
            one = part.slice(first * each, ticks_per_file * each)
            at = START_OF_DAY + datetime.timedelta(seconds=(number * TICKS + first) * 30)
            path = lake.raw / f"date={at:%Y-%m-%d}" / f"{at:%Y%m%dT%H%M%S}000Z-test-00000000.parquet"
            write_rows(path, one, compression="zstd")
        rows += part.num_rows
    return rows


START_OF_DAY = START.replace(hour=0)


def hours(brokers: int, partitions: int, number: int) -> Iterator[pa.Table]:
    """Samples of one hour after the other, in order of time; counters grow by the same in each."""
    cluster = SyntheticCluster(
        brokers=brokers, partitions=partitions, replication=3, partitions_per_topic=20, seconds_per_tick=30.0
    )
    raw = replace(cluster, start=START_OF_DAY).raw(TICKS + 1)
    raw = raw.sort_by([(name, "ascending") for name in ("tick", *ENTITY)])
    each = raw.num_rows // (TICKS + 1)
    hour = raw.slice(0, TICKS * each)
    grown = {}
    for name in COUNTERS:
        values = raw[name].cast(pa.float64()).to_numpy().reshape(TICKS + 1, each)
        grown[name] = pa.array(np.tile(np.nan_to_num(values[-1] - values[0]), TICKS).astype(np.int64))
    for place in range(number):
        shift = pa.scalar(datetime.timedelta(hours=place), pa.duration("us"))
        moved = hour
        for name in ("tick", "sampled_at", "received_at"):
            at = moved.column_names.index(name)
            moved = moved.set_column(at, name, pc.add(moved[name], shift))
        for name, growth in grown.items():
            at = moved.column_names.index(name)
            moved = moved.set_column(at, name, pc.add(moved[name], pc.multiply(growth, place)))
        yield moved


def measured(words: list[str]) -> dict[str, float]:
    """Seconds of a command, and the largest memory of it and its children together, MiB."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*TRIMTAB, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    peak = 0
    while True:
        peak = max(peak, memory_of(process.pid))
        try:
            _, err = process.communicate(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            continue
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: {err[-2000:]}")
    print(" ".join(words), err[-1500:], file=sys.stderr, flush=True)
    return {"seconds": round(time.perf_counter() - begun, 1), "peak_mebibytes": round(peak / 1024)}


def memory_of(pid: int) -> int:
    """KiB that a process and those below it have in memory now."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")), 0)
    return own + sum(memory_of(int(one)) for one in below)


def bytes_below(place: Place) -> int:
    """Bytes of all files below a folder of this machine."""
    return sum(path.stat().st_size for path in Path(str(place)).rglob("*") if path.is_file())


def requests(lake: Lake) -> dict[str, int]:
    """Requests, and bytes fetched, of what `status` reads, of the same lake in an object store."""
    with object_store() as server:
        os.environ.update(server.environment)
        address = f"{server.bucket()}/lake"
        for root in (lake.tables, lake.snapshots):
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
