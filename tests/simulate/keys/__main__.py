"""Runs of the order guard by seeds: one (`--seed 7`), or many (`--seeds 0:1000 --records 1000000`)."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

from simulate.keys.checker import KeysInvariantError
from simulate.keys.run import KeysSimulationResult, simulate
from simulate.seeds import add_seeds, played, selected_seeds


def main() -> int:
    """Run the seeds; exit code 1 if a promise was broken, with the seed that shows it again."""
    parser = argparse.ArgumentParser(prog="scripts/simulate keys", description=__doc__)
    add_seeds(parser, default="0:1000")
    parser.add_argument("--records", type=int, default=1_000_000, help="of each seed: %(default)s")
    parser.add_argument("--retention", action="store_true", help="cut logs past what is not consumed")
    asked = parser.parse_args()
    play = partial(_play, records=asked.records, retention=asked.retention)
    sums = _KeysTotals(asked.records, asked.retention)
    for seed, told in played(play, selected_seeds(asked), asked.processes, lambda: sums):
        if isinstance(told, KeysSimulationResult):
            sums.add(told)
            if asked.seed is not None:
                print(
                    f"seed {seed}: {told}" + (f", {told.lost:,} lost by retention" if asked.retention else "")
                )
            continue
        sums.broken += 1
        print(f"seed {seed}: {told}")
        more = " --retention" if asked.retention else ""
        print(
            f"  replay: scripts/simulate keys --seed {seed} --records {asked.records}{more}",
            flush=True,
        )
        if not asked.keep_going:
            break
    print(sums)
    return 1 if sums.broken else 0


def _play(seed: int, *, records: int, retention: bool) -> tuple[int, KeysSimulationResult | str]:
    try:
        return seed, simulate(seed, records, retention=retention)
    except KeysInvariantError as error:
        return seed, str(error)


class _KeysTotals:
    """What came of all seeds so far."""

    def __init__(self, records: int, retention: bool) -> None:
        self._records, self._retention, self._started_at = records, retention, time.perf_counter()
        self.lost = self.played = self.broken = self.effects = self.doubled = self.tables = self.killed = 0

    def add(self, text: KeysSimulationResult) -> None:
        """Count one in."""
        self.played += 1
        self.effects += text.effects
        self.doubled += text.doubled
        self.tables += text.tables
        self.killed += text.killed
        self.lost += text.lost

    def __str__(self) -> str:
        took = time.perf_counter() - self._started_at
        cut = f"{self.lost:,} lost by retention, " if self._retention else ""
        return (
            f"{self.broken} broken; {self.played:,} seeds of {self._records:,} records each: "
            f"{self.effects:,} effects, {self.doubled:,} received again, {self.tables:,} tables, "
            f"{self.killed:,} kills, {cut}in {took:.1f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
