"""Runs of the order guard by seeds: `python -m trimtab.lab.simulate.keys --seeds 1000 --records 1000000`."""

from __future__ import annotations

import argparse
import sys
import time

from trimtab.lab.simulate.keys.checker import Violation
from trimtab.lab.simulate.keys.run import simulate


def main() -> int:
    """Run the seeds in turn; the first violation ends it, with the seed that shows it again."""
    parser = argparse.ArgumentParser(prog="python -m trimtab.lab.simulate.keys", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--records", type=int, default=1_000_000, help="of each seed")
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.seeds):
        begun = time.monotonic()
        try:
            found = simulate(seed, given.records)
        except Violation as error:
            print(f"seed {seed}: {error}")
            return 1
        print(f"seed {seed}: {found}, {time.monotonic() - begun:.1f} s", flush=True)
    print(f"{given.seeds} seeds, {given.records:,} records each: no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
