"""How long the command line takes to say anything: `--help`, `status` and a bare interpreter beside them."""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from results import write_result
from timing import time_commands

from support.small_lake import NOON, STEP, broker_rows, imbalance_rows, publish, snapshot_folder

BROKERS, TICKS = 100, 120
"""The lake that `status` reads: an hour of half-minute ticks of so many brokers."""

LIMITS_SECONDS = {"trimtab --help": 0.3, "trimtab status": 0.7}


def _fill(path: Path) -> None:
    ticks: list[datetime.datetime] = [NOON + STEP * number for number in range(TICKS)]
    usage = {broker: (0.3 + broker / 1000, 0.5, 0.4, 0.2) for broker in range(BROKERS)}
    states = dict.fromkeys(range(BROKERS), "alive")
    tables = {
        "imbalance": [imbalance_rows(tick, usage) for tick in ticks],
        "brokers": [broker_rows(tick, states) for tick in ticks],
    }
    snapshot_folder(publish(path, tables))


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=9)
    runs = options.parse_args().runs
    trimtab = str(Path(sys.executable).parent / "trimtab")
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder)
        _fill(lake)
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
