"""Ticks per second of a replay of a day, all shedders side by side: in this process, and as a Spark job.

The run fails if a decision of the one differs in a byte from the other's. A tick counts once for every
strategy that goes through it, the recording as it is included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from results import write_result

from simulated_clusters.recordings import RecordedCluster, recorded, write_recording
from trimtab.files.bundles.decisions import decision_file, decision_line
from trimtab.files.bundles.recording import read_recording
from trimtab.history.bundles.effect import compare, metric_spec
from trimtab.history.bundles.recording import FileReportRecording
from trimtab.history.bundles.replay import ShedderScenario
from trimtab.history.bundles.spark import replay_on_spark
from trimtab.model.bundles.reports import ReportTick
from trimtab.observe.spark.session import SessionSettings, spark_session
from trimtab.plan.bundles.strategies import SHEDDERS, shedder
from trimtab.plan.pulsar.decision import ShedDecision, placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig

TRIMTAB = str(Path(sys.executable).parent / "trimtab")
PULSARS = [name for name in SHEDDERS if name.endswith("Shedder")]
"""Pulsar's own; ours plans anew and is timed apart."""


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ticks", type=int, default=1440)
    parser.add_argument("--quick", action="store_true", help="two hours, once")
    asked = parser.parse_args()
    if asked.quick:
        asked.runs, asked.ticks = 1, 120
    cluster = RecordedCluster(ticks=asked.ticks)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        path = scratch / "day.jsonl.gz"
        write_recording(recorded(cluster), path)
        seconds = engines(path, scratch, asked.runs)
        memory = {
            f"{ticks} ticks": peak_megabytes(path, scratch, cluster, ticks)
            for ticks in (asked.ticks // 8, asked.ticks)
        }
        size = path.stat().st_size
    passes = asked.ticks * (len(PULSARS) + 1)
    rows = {
        "ticks": asked.ticks,
        "brokers": cluster.brokers,
        "bundles": cluster.bundles,
        "strategies": len(PULSARS),
        "gzip_bytes": size,
        "engines": {
            name: {
                "wall_median": round(statistics.median(wall for wall, _ in found), 2),
                "cpu_median": round(statistics.median(cpu for _, cpu in found), 2),
                "wall": [round(wall, 2) for wall, _ in found],
                "ticks_per_second": round(passes / statistics.median(wall for wall, _ in found)),
            }
            for name, found in seconds.items()
        },
        "peak_megabytes": memory,
    }
    write_result("bundles_replay", rows)
    for name, one in rows["engines"].items():
        print(
            f"{name:16} wall {one['wall_median']:8.2f} s   cpu {one['cpu_median']:8.2f} s   "
            f"{one['ticks_per_second']:6,} ticks/s"
        )
    print(f"peak memory of one strategy's replay: {memory}")


def scenarios() -> dict[str, ShedderScenario]:
    """Every shedder of Pulsar's with its placement, in the simulated world."""
    found = {}
    for name in PULSARS:
        one = shedder(name)
        placed = "AvgShedder" if name == "AvgShedder" else "LeastLongTermMessageRate"
        place = None if one.extensible else placer(placed)
        found[name] = ShedderScenario(one, PulsarBrokerConfig(), placer=place, world_answers=True)
    return found


def engines(path: Path, scratch: Path, runs: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds and CPU seconds of every run, in turn; a session is started before its run, and not counted."""
    seconds: dict[str, list[tuple[float, float]]] = {}
    for turn in range(runs):
        outs = {}
        for name, run in (
            ("this process", local),
            ("Spark, 1 core", lambda *given: on_spark("local[1]", *given)),
            ("Spark, 2 cores", lambda *given: on_spark("local[2]", *given)),
        ):
            outs[name] = scratch / f"{turn}-{name.replace(' ', '-')}"
            seconds.setdefault(name, []).append(run(path, outs[name]))
        check_same(outs)
    return seconds


def local(path: Path, out: Path) -> tuple[float, float]:
    """All strategies side by side, the recording read once."""
    out.mkdir()
    begun = now()
    with ExitStack() as files:
        write = {name: files.enter_context(decision_file(out / f"{name}.jsonl")) for name in PULSARS}

        def told(name: str, seen: ReportTick, one: ShedDecision) -> None:
            write[name](decision_line(seen.at, one.unloads, one.destinations, one.facts))

        compare(read_recording(path), scenarios(), metric_spec(PulsarBrokerConfig()), told)
    return since(begun)


def on_spark(master: str, path: Path, out: Path) -> tuple[float, float]:
    """A task each; the first job of a session, so that its workers' start is counted."""
    session = spark_session(SessionSettings(master=master))
    try:
        begun = now()
        replay_on_spark(
            session, FileReportRecording(path), scenarios(), metric_spec(PulsarBrokerConfig()), out
        )
        return since(begun)
    finally:
        session.stop()


def now() -> tuple[float, float]:
    """The clock, and the CPU seconds of this process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return time.perf_counter(), sum(used[pid] for pid in ours)


def since(begun: tuple[float, float]) -> tuple[float, float]:
    """Seconds and CPU seconds."""
    return tuple(after - before for after, before in zip(now(), begun, strict=True))


def check_same(outs: Mapping[str, Path]) -> None:
    """Decisions agree, byte for byte.

    Raises
    ------
    RuntimeError
        If they do not.
    """
    first, *others = outs.values()
    for one in first.iterdir():
        for other in others:
            if (other / one.name).read_bytes() != one.read_bytes():
                raise RuntimeError(f"decisions of {one.name} differ between {first.name} and {other.name}")


def peak_megabytes(path: Path, scratch: Path, cluster: RecordedCluster, ticks: int) -> int:
    """The largest resident size of `trimtab replay bundles` over the first so many ticks."""
    begin = f"{cluster.begins + ticks * cluster.tick_seconds:.0f}"
    until = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(begin)))
    command = [TRIMTAB, "replay", "bundles", "--reports", str(path), "--mode", "simulated"]
    options = ["--until", until, "--out", str(scratch / "out.jsonl")]
    started = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise RuntimeError(f"{' '.join([*command, *options])}: exit code {started.returncode}")
    return round(used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
