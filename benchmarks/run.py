"""All benchmarks in turn, then the page docs/benchmarks.md with its charts. `make bench` runs this."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
QUICK = {
    "plan_speed": ["--quick", "--runs", "3"],
    "cli_startup": ["--runs", "5"],
    "pipeline": ["--quick"],
    "bundles_speed": ["--quick", "--runs", "3"],
    "bundles_replay": ["--quick"],
    "queues_dispatch": ["--runs", "50"],
    "queues_count": ["--rounds", "2", "--messages", "2000"],
    "queues_rivals": ["--quick"],
    "keys_choose": ["--runs", "50"],
    "keys_clients": ["--rounds", "3"],
    "keys_consumers": ["--rounds", "3"],
}
ALL = (
    "cli_startup",
    "plan_speed",
    "plan_quality",
    "bundles_speed",
    "bundles_replay",
    "queues_dispatch",
    "queues_count",
    "keys_choose",
    "pipeline",
)
BY_NAME = (
    "keys_clients",
    "keys_consumers",
    "month_lake",
    "pipeline_accuracy",
    "pipeline_cpu_base",
    "queues_rivals",
    "serve",
)
"""Answers to questions of design, measured on real servers or over many draws: run where the question comes
up again; the figures that are committed stay on the page."""


def main() -> None:
    """Run what was asked for; one that fails does not stop the others, but the exit code is 1 then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=ALL, help=f"which: {', '.join((*ALL, *BY_NAME))}")
    parser.add_argument("--quick", action="store_true", help="fewer runs, smaller sizes")
    parser.add_argument(
        "--resume", action="store_true", help="pipeline: go on where it was ended, if the code is the same"
    )
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - {*ALL, *BY_NAME})
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join((*ALL, *BY_NAME))}")
    failed = []
    for number, name in enumerate(asked.names, start=1):
        print(f"[{number}/{len(asked.names)}] {name}", flush=True)
        begun = time.monotonic()
        options = [*(QUICK.get(name, []) if asked.quick else [])]
        options += ["--resume"] if asked.resume and name == "pipeline" else []
        done = subprocess.run([sys.executable, HERE / f"{name}.py", *options], check=False)
        if done.returncode:
            failed.append(name)
        print(f"      {time.monotonic() - begun:.0f} s", flush=True)
    subprocess.run([sys.executable, HERE / "page.py"], check=True)
    if failed:
        sys.exit(f"failed, in whole or in part: {', '.join(failed)}")


if __name__ == "__main__":
    main()
