"""Time of answers, memory and processor time of `trimtab serve`: real processes, small and large clusters.

The brokers answer in Kafka's protocol and are simulated. A snapshot comes into the lake at intervals, as the
pipeline writes it. The simulated brokers of the large cluster hold no partitions: while the service observes
and plans, it asks brokers for reassignments alone. The parts `stream` and `batch` start `serve` with
`observe = "run"` or `"batch"`: collector, Spark and the service, all on simulated brokers.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gzip
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.extend(str(Path(__file__).parents[1] / name) for name in ("tests", "examples"))

from results import read_result, write_result

from simulate.instances import lognormal_skew
from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from simulate.served_cluster import free_port
from trimtab.api import write_snapshot
from trimtab.model.documents import SnapshotReference
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.observe.lake.columns import arrow_schema
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import new_path
from trimtab.observe.lake.parquet import write_rows
from trimtab.observe.replicas.pipeline import IMBALANCE
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

SIZES = {"large": (1000, 1_002_000), "forecast": (1000, 1_002_000), "six": (6, 600)}
"""Brokers and replicas; `forecast` has the loads of 24 hours to come for each replica."""
OBSERVED = {"stream": "run", "batch": "batch"}
"""Settings `observe` of parts in which the service starts collector and pipeline itself."""
PARTITIONS = 2000
"""Of a stream; one of another size is a line of its own."""
HOURS = 24
TICKS, LOOSE = 2_880, 50
"""A day of samples every 30 s; the newest are in files of their own until a compaction."""
GETS = 20
NAME = "sim"
PATHS = {
    "overview": "/",
    "cluster page": f"/clusters/{NAME}/replicas",
    "metrics": "/metrics",
    "API: clusters": "/api/v1/clusters",
    "API: cluster": f"/api/v1/clusters/{NAME}/replicas",
    "API: plans": "/api/v1/plans",
    "API: executions": "/api/v1/executions",
    "API: decisions": "/api/v1/decisions",
}
LIMITS = {"overview": 0.1, "cluster page": 1.0, "metrics": 0.3}
MEBIBYTE = 1 << 20


def main() -> None:
    """Measure the parts asked for, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"which: {', '.join((*SIZES, *OBSERVED))}; all of them")
    parser.add_argument("--idle-seconds", type=float, default=300.0)
    parser.add_argument("--stream-seconds", type=float, default=660.0)
    parser.add_argument("--stream-interval", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--batch-interval", type=float, default=300.0, help="seconds between runs of batch")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of stream and batch")
    asked = parser.parse_args()
    before = read_result("serve")
    rows: dict[str, Any] = dict(before["rows"]) if before else {}
    for part in asked.parts or [*SIZES, *OBSERVED]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if part in OBSERVED:
                intervals = asked.stream_interval, asked.batch_interval if part == "batch" else 0.0
                key = part if asked.partitions == PARTITIONS else f"{part}-{asked.partitions}"
                rows[key] = streamed(folder, part, asked.partitions, intervals, asked.stream_seconds)
            else:
                key = part
                rows[key] = watched(folder, part, asked.idle_seconds)
        print(json.dumps({key: rows[key]}, indent=1), flush=True)
        write_result("serve", rows)


# ------------------------------------------------------------ processes


class Process:
    """`trimtab serve` as a process, with its memory sampled."""

    def __init__(self, folder: Path, settings: Path, lake: Path) -> None:
        self._log = folder / "serve.log"
        paths = [str(Path(__file__).parents[1] / "src")]
        paths += map(str, sorted((Path(__file__).parents[1] / "packages").glob("*/src")))
        self.begun = time.monotonic()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "trimtab", "serve", "--settings", str(settings),
                    "--lake", str(lake), "--listen", f"127.0.0.1:{free_port()}",
                ],
                env={**os.environ, "TRIMTAB_STATE": str(folder / "state"), "PYTHONPATH": ":".join(paths)},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.id = self._process.pid
        self.peaks: dict[str, float] = {}
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    @property
    def log(self) -> str:
        """What it printed."""
        return self._log.read_text(encoding="utf-8")

    def _sample(self) -> None:
        while not self._over.wait(0.2):
            for name, value in memory_of(self.id).items():
                self.peaks[name] = max(self.peaks.get(name, 0.0), value)

    def peak(self) -> dict[str, float]:
        """The peaks since the last call, MiB."""
        found, self.peaks = self.peaks, {}
        return {name: round(value, 1) for name, value in found.items()}

    def get(self, path: str, method: str = "GET", body: object = None) -> tuple[float, bytes]:
        """Seconds and content of an answer, on a connection of its own."""
        connection = http.client.HTTPConnection(*self.address, timeout=600)
        begun = time.perf_counter()
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        answer = connection.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - begun
        connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return seconds, content

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its API."""
        found = re.findall(r"serves http://(\S+):(\d+);", self.log)
        return found[-1][0], int(found[-1][1])

    def json(self, path: str) -> Any:
        """An answer, decoded."""
        return json.loads(self.get(path)[1])

    def end(self) -> None:
        """End it as a supervisor does."""
        self._over.set()
        self._sampler.join()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.id, signal.SIGKILL)
            self._process.wait()


def family(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in thread.read_text().split():
                found += family(int(child))
    return found


def memory_of(process: int) -> dict[str, float]:
    """Resident MiB of a process (`service`), of each child by its command, and of all together (`all`).

    Pages that several processes share are divided by their number (PSS): the JVM forks now and then, and both
    halves have all its pages for a moment.
    """
    found = {"all": 0.0}
    for one in family(process):
        with contextlib.suppress(OSError, StopIteration, ValueError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            size = int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
            found["all"] += size
            name = "service" if one == process else command_of(one)
            found[name] = found.get(name, 0.0) + size
    return found


def command_of(process: int) -> str:
    """What a child is, in a word or two."""
    words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
    if "java" in words[0]:
        return "JVM"
    return next((one for one in ("collect", "pipeline") if one in words), "planner")


def cpu_seconds(process: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(name: str, holds: Callable[[], object], process: Process, seconds: float = 300.0) -> None:
    """Wait until something holds.

    Raises
    ------
    RuntimeError
        If it does not in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, IndexError, http.client.HTTPException):
            if holds():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(f"not seen: {name}\n{process.log[-3000:]}")
        time.sleep(0.05)


# ------------------------------------------------------------ a lake that others fill


def clock_text(seconds: float) -> str:
    """An instant as snapshots have it."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def publish(lake: Lake, snapshot: ReplicasSnapshot, cluster: SimulatedKafka) -> float:
    """Write a snapshot into the lake; returns when it is there."""
    taken_at = clock_text(time.time())
    reference = SnapshotReference(cluster.cluster_id, taken_at, "0" * 64)
    folder = lake.snapshot_folder(cluster.cluster_id)
    folder.mkdir(parents=True, exist_ok=True)
    write_snapshot(replace(snapshot, reference=reference), folder / taken_at)
    return time.time()


def fill_imbalance(lake: Lake, snapshot: ReplicasSnapshot, cluster: str) -> None:
    """The table behind the charts: a day of ticks, as the stream and its compaction leave it."""
    measured, end = snapshot.imbalance(), int(time.time()) * 1_000_000
    ticks = [end - 30_000_000 * back for back in range(TICKS, 0, -1)]
    schema = arrow_schema(IMBALANCE)
    manifest = lake.manifest()
    chunks = [ticks[:-LOOSE], *([tick] for tick in ticks[-LOOSE:])]
    with lake.writing() as seat:
        for chunk in chunks:
            rows = [
                {
                    "cluster": cluster, "tick": tick, "resource": name,
                    "worst_deviation": float(measured.worst_deviation[at]),
                    "peak_usage": float(measured.peak_usage[at]), "by_broker": [],
                }
                for tick in chunk for at, name in enumerate(RESOURCES)
            ]  # fmt: skip
            path = new_path("imbalance")
            write_rows(
                lake.tables / path / "part.parquet",
                pa.Table.from_pylist(rows, schema=schema),
                rows_per_group=120_000,
            )
            begin, last = chunk[0], chunk[-1]
            manifest = manifest.replaced("imbalance", [(begin, last + 1)], path, (begin, last))
        seat.publish(manifest)


def with_forecast(snapshot: ReplicasSnapshot) -> ReplicasSnapshot:
    """The snapshot with the loads of hours to come, a day's sine."""
    parts = snapshot.partitions
    wave = 1.0 + 0.3 * np.sin(np.arange(HOURS) * 2 * np.pi / HOURS)
    return replace(
        snapshot,
        partitions=replace(
            parts,
            leader_forecast=parts.leader_load[:, None, :] * wave[None, :, None],
            follower_forecast=parts.follower_load[:, None, :] * wave[None, :, None],
        ),
    )


@contextmanager
def served(
    folder: Path, server: SimulatedKafkaServer, section: str, rest: str = ""
) -> Iterator[tuple[Process, Path]]:
    """The service on simulated brokers, until the end."""
    settings, lake = folder / "trimtab.toml", folder / "lake"
    addresses = ",".join(server.bootstrap[:3])
    settings.write_text(
        f'[clusters.{NAME}]\naddress = "kafka://{addresses}"\n[serve]\n{section}\n{rest}', encoding="utf-8"
    )
    process = Process(folder, settings, lake)
    try:
        yield process, lake
    except BaseException:
        print(process.log[-5000:], file=sys.stderr)
        raise
    finally:
        process.end()


def watched(folder: Path, part: str, idle_seconds: float) -> dict[str, Any]:
    """All figures of a service that reads a lake which others fill."""
    brokers, replicas = SIZES[part]
    cluster = cluster_of(brokers)
    snapshot = lognormal_skew(brokers, replicas, seed=1)
    snapshot = replace(snapshot, brokers=replace(snapshot.brokers, id=snapshot.brokers.id + 1))
    if part == "forecast":
        snapshot = with_forecast(snapshot)
    lake = Lake(folder / "lake", REPLICAS)
    fill_imbalance(lake, snapshot, cluster.cluster_id)
    publish(lake, snapshot, cluster)
    section = 'interval_seconds = 300\n[serve.broker_lost]\nmode = "observe"\n'
    server = SimulatedKafkaServer(cluster)
    found: dict[str, Any] = {"brokers": brokers, "replicas": int(snapshot.partitions.replicas.size)}
    with server, served(folder, server, section) as (process, _):
        wait_for("an answer", lambda: process.get("/livez"), process)
        found["start_seconds"] = round(time.monotonic() - process.begun, 2)
        wait_for("decides on a snapshot", lambda: is_observed(process), process)
        found["observe_seconds"] = round(time.monotonic() - process.begun - found["start_seconds"], 2)
        found["peak_mebibytes_start"] = process.peak()
        print("idle", flush=True)
        found["idle"] = idle(process, idle_seconds)
        print("answers", flush=True)
        found["answers"] = {name: answers(process, path) for name, path in PATHS.items()}
        print("observing", flush=True)
        found["observing"] = during(process, lambda: publish(lake, snapshot, cluster), 5.0)
        process.peak()
        found["planning"] = during(process, lambda: make_plan(process), 0.0)
        found["mebibytes_after_plan"] = round(memory_of(process.id)["service"], 1)
        plans = [make_plan(process) for _ in range(2)]
        found["plan_seconds"] = [round(one, 2) for one in plans]
        found["mebibytes_after_three_plans"] = round(memory_of(process.id)["service"], 1)
        print("death", flush=True)
        found["death"] = [death(process, server, number, 10.0) for number in (1, 2)]
        found["peak_mebibytes_later"] = process.peak()
        found["answers_after_plans"] = {name: answers(process, path) for name, path in PATHS.items()}
        found["state_bytes"] = bytes_below(folder / "state")
        found["log_bytes"] = bytes_below(folder / "lake" / "serve")
    return found


def bytes_below(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def is_observed(process: Process) -> bool:
    """Whether the service has a snapshot, and decides."""
    (one,) = process.json("/api/v1/clusters")
    is_waiting = "first snapshot" in one["waiting"]["reason"]
    return bool(one["is_leader"] and one["snapshot_taken_at"] and not is_waiting)


def idle(process: Process, seconds: float) -> dict[str, float]:
    """Share of a core that the service takes, and its memory, while nothing happens."""
    before, begun = cpu_seconds(process.id), time.monotonic()
    time.sleep(seconds)
    share = (cpu_seconds(process.id) - before) / (time.monotonic() - begun)
    return {
        "seconds": seconds,
        "core_share": round(share, 4),
        "mebibytes": round(memory_of(process.id)["service"], 1),
    }


def answers(process: Process, path: str) -> dict[str, float]:
    """Median and maximum time of an answer, and its size."""
    first, content = process.get(path)
    seconds = [process.get(path)[0] for _ in range(GETS)]
    return {
        "first_seconds": round(first, 4),
        "median_seconds": round(statistics.median(seconds), 4),
        "max_seconds": round(max(seconds), 4),
        "bytes": len(content),
        "gzip_bytes": len(gzip.compress(content, 6)),
    }


def during(process: Process, work: Callable[[], object], after: float) -> dict[str, Any]:
    """Longest answers while something happens and for a time after it, and the peak of memory."""
    names = ("overview", "cluster page", "metrics")
    longest: dict[str, float] = dict.fromkeys(names, 0.0)
    counts = dict.fromkeys(names, 0)
    process.peak()
    thread = threading.Thread(target=work)
    begun = time.monotonic()
    thread.start()
    ended = None
    while ended is None or time.monotonic() < ended + after:
        for name in names:
            longest[name] = max(longest[name], process.get(PATHS[name])[0])
            counts[name] += 1
        if ended is None and not thread.is_alive():
            ended = time.monotonic()
    return {
        "seconds": round((ended or 0.0) - begun, 2),
        "answers": min(counts.values()),
        "max_seconds": {name: round(one, 4) for name, one in longest.items()},
        "peak_mebibytes": process.peak(),
    }


def make_plan(process: Process) -> float:
    """Seconds of a plan that a person asks for."""
    body = {"cluster": NAME, "balancer": "replicas", "settings": {}}
    return process.get("/api/v1/plans", "POST", body)[0]


def death(process: Process, server: SimulatedKafkaServer, broker: int, passed_seconds: float = 0.0) -> float:
    """Seconds from the death of a broker to the decision that is written down.

    Parameters
    ----------
    passed_seconds
        Time that passes in the cluster at once: where it stands still, the controller fences nobody.
    """

    def kill(cluster: SimulatedKafka) -> None:
        cluster.kill_broker(broker)
        cluster.advance(passed_seconds)

    def start(cluster: SimulatedKafka) -> None:
        cluster.start_broker(broker)
        cluster.advance(passed_seconds)

    at = time.monotonic()
    server.do(kill)
    wait_for("the lost broker", lambda: is_lost(process, str(broker)), process)
    seconds = time.monotonic() - at
    server.do(start)
    wait_for("the broker is back", lambda: not is_lost(process, str(broker)), process)
    return round(seconds, 2)


def is_lost(process: Process, broker: str) -> bool:
    """Whether the service counts a broker as lost, as its journal has it."""
    (one,) = process.json("/api/v1/clusters")
    return broker in one["lost_brokers"]


# ------------------------------------------------------------ with its children


def age_of_snapshot(process: Process) -> float:
    """Seconds since the instant of the newest snapshot that the service has read."""
    (one,) = process.json("/api/v1/clusters")
    return time.time() - float(one["snapshot_taken_at"])


def streamed(
    folder: Path, part: str, partitions: int, intervals: tuple[float, float], seconds: float
) -> dict[str, Any]:
    """Memory of all processes of a service that starts collector and pipeline; and the time to see a death.

    Parameters
    ----------
    intervals
        Time between two samples, and between two runs of the pipeline where it does not stay.
    """
    brokers, (interval, pause) = 12, intervals
    cluster = cluster_of(brokers)
    for topic in range(partitions // 20):
        replicas = {
            one: [(topic + one + place) % brokers + 1 for place in range(3)]
            for one in range(min(20, partitions - 20 * topic))
        }
        cluster.controller.create_topic(f"t{topic:03}", replicas, 100 * MEBIBYTE, 5e4)
    section = (
        f'observe = "{OBSERVED[part]}"\ninterval_seconds = {pause or interval}\n'
        '[serve.broker_lost]\nmode = "observe"\n[serve.drift]\nmode = "observe"\n'
    )
    rest = (
        f"[collect]\ninterval_seconds = {interval}\n[pipeline]\nwindow_seconds = 60\nslide_seconds = 60\n"
        "[capacity]\ncpu_cores = 8\ndisk_bytes = 1e11\nnetwork_in_bytes_per_second = 1e8\n"
        "network_out_bytes_per_second = 1e8\n"
    )
    server = SimulatedKafkaServer(cluster, speed=1.0)
    found: dict[str, Any] = {
        "brokers": brokers, "partitions": partitions, "interval_seconds": interval, "seconds": seconds,
        "pause_seconds": pause,
    }  # fmt: skip
    with server, served(folder, server, section, rest) as (process, lake):
        wait_for("decides on a snapshot", lambda: is_observed(process), process, 600)
        found["first_snapshot_seconds"] = round(time.monotonic() - process.begun, 1)
        found["peak_mebibytes_start"] = process.peak()
        before, begun = cpu_seconds(process.id), time.monotonic()
        steps, oldest = [], 0.0
        while time.monotonic() < begun + seconds:
            minute = time.monotonic() + 60
            while time.monotonic() < min(minute, begun + seconds):
                time.sleep(1.0)
                oldest = max(oldest, age_of_snapshot(process))
            steps.append(process.peak())
            print(steps[-1], flush=True)
        found["core_share_of_service"] = round(
            (cpu_seconds(process.id) - before) / (time.monotonic() - begun), 4
        )
        found["peak_mebibytes_each_minute"] = steps
        found["oldest_snapshot_seconds"] = round(oldest, 1)
        found["snapshots"] = sum(1 for path in (lake / "snapshots").glob("*/*") if path.is_dir())
        found["death_seconds"] = [death(process, server, broker) for broker in (3, 4)]
    return found


if __name__ == "__main__":
    main()
