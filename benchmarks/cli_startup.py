"""How long the command line takes to say anything: `--help`, `status` and a bare interpreter beside them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from results import write_result
from timing import time_commands

from trimtab.files.replicas_snapshot import write_snapshot
from trimtab.simulate.instances import lognormal_skew

LIMITS_SECONDS = {"trimtab --help": 0.3, "trimtab status": 0.7}


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=9)
    runs = options.parse_args().runs
    trimtab = str(Path(sys.executable).parent / "trimtab")
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder)
        snapshot = lognormal_skew(brokers=6, replicas=600, seed=1)
        write_snapshot(snapshot, lake / "snapshots" / snapshot.reference.cluster / "2026-11-21T050000Z")
        timings = time_commands(
            {
                "python -c pass": [sys.executable, "-c", "pass"],
                "trimtab --help": [trimtab, "--help"],
                "trimtab status": [trimtab, "status", "--lake", str(lake)],
            },
            runs,
        )
    rows = {name: timing.as_json() for name, timing in timings.items()}
    for name, limit in LIMITS_SECONDS.items():
        rows[name]["limit_seconds"] = limit
    write_result("cli_startup", rows)
    for name, timing in timings.items():
        print(f"{name:16} wall median {timing.wall_median:6.3f} s   cpu median {timing.cpu_median:6.3f} s")


if __name__ == "__main__":
    main()
