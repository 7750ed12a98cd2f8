"""Seconds from typing `trimtab plan replicas` to the plan file, process start included, by size and form.

One uncounted run goes first; the very first run on a machine, with an empty cache, is timed apart, once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[1] / name) for name in ("tests", "examples"))

from results import write_result
from timing import time_call, time_commands

from simulate.instances import lognormal_skew
from trimtab.files.replicas.snapshot import write_snapshot
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim

LIMITS_SECONDS = {(100, 30_000): 1.0, (300, 300_000): 8.0}
LARGEST = (1000, 1_000_000)
LARGEST_TARGET_SECONDS = 5.0
TRIMTAB = str(Path(sys.executable).parent / "trimtab")


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="without the largest cluster and the cold cache")
    asked = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for (brokers, replicas), limit in LIMITS_SECONDS.items():
            rows += whole_command(scratch, brokers, replicas, limit, asked.runs)
        if not asked.quick:
            rows.append(largest(max(1, asked.runs // 2)))
            rows.append(cold_cache(scratch))
    write_result("plan_speed", rows)
    for row in rows:
        print(f"{row['what']:58} wall {row['wall_median']:7.2f} s   cpu {row['cpu_median']:7.2f} s")


def whole_command(
    scratch: Path, brokers: int, replicas: int, limit: float, runs: int
) -> list[dict[str, object]]:
    """`trimtab plan replicas --snapshot ... --out ...`, from JSON and from a folder."""
    snapshot = lognormal_skew(brokers, replicas, seed=1)
    forms = {"json": scratch / f"{brokers}.json", "folder": scratch / f"{brokers}-folder"}
    commands = {}
    for form, path in forms.items():
        write_snapshot(snapshot, path)
        out = str(scratch / f"{brokers}-{form}-plan.json")
        commands[form] = [TRIMTAB, "plan", "replicas", "--snapshot", str(path), "--out", out]
    return [
        {
            "what": f"{brokers} brokers, {replicas:,} replicas, from {form}",
            "brokers": brokers,
            "replicas": replicas,
            "limit_seconds": limit,
            **timing.as_json(),
        }
        for form, timing in time_commands(commands, runs).items()
    ]


def largest(runs: int) -> dict[str, object]:
    """The planner alone, on arrays in memory."""
    brokers, replicas = LARGEST
    snapshot = lognormal_skew(brokers, replicas, seed=1)
    timing = time_call(lambda: trim.plan(snapshot, ReplicasSettings()), runs)
    return {
        "what": f"{brokers} brokers, {replicas:,} replicas, planner alone",
        "brokers": brokers,
        "replicas": replicas,
        "limit_seconds": LARGEST_TARGET_SECONDS,
        **timing.as_json(),
    }


def cold_cache(scratch: Path) -> dict[str, object]:
    """The first run on a machine: the cache is empty, kernels without machine code are compiled."""
    path = scratch / "small.json"
    write_snapshot(lognormal_skew(6, 60, seed=1), path)
    command = [
        TRIMTAB,
        "plan",
        "replicas",
        "--snapshot",
        str(path),
        "--out",
        str(scratch / "small-plan.json"),
    ]
    timing = time_commands(
        {"cold": ["env", f"NUMBA_CACHE_DIR={scratch / 'cache'}", *command]}, 1, warm_up=False
    )
    return {
        "what": "6 brokers, first run on a machine",
        "brokers": 6,
        "replicas": 60,
        **timing["cold"].as_json(),
    }


if __name__ == "__main__":
    main()
