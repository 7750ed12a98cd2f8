"""Seeds of the simulation: one with its story (`--seed 7`), or many (`--seeds 0:1000 --processes 2`)."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pool

from trimtab.lab.simulate.masters.run import Told, run
from trimtab.lab.simulate.masters.times import table
from trimtab.online.masters.engines import EMBEDDED, ENGINES

PROGRESS_SECONDS = 10.0


def main() -> int:
    """Run them; exit code 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="python -m trimtab.lab.simulate.masters", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed, with its story")
    parser.add_argument("--seeds", default="0:100", help="from the first up to the second, that one left out")
    parser.add_argument(
        "--engine",
        choices=sorted(ENGINES),
        default=EMBEDDED.name,
        help="what chooses; etcd is a model of one",
    )
    parser.add_argument("--processes", type=int, default=1, help="so many at once")
    parser.add_argument("--beyond", action="store_true", help="clocks drift far more than promised")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first broken invariant")
    parser.add_argument("--times", type=int, help="measure so many takeovers by each scheme instead")
    asked = parser.parse_args()
    if asked.times:
        print(table(asked.times, ENGINES[asked.engine]))
        return 0
    if asked.seed is not None:
        seeds = range(asked.seed, asked.seed + 1)
    else:
        first, last = (int(one) for one in asked.seeds.split(":"))
        seeds = range(first, last)
    story = asked.seed is not None
    sums = _Sums(len(seeds))
    for told in _played(seeds, asked.processes, engine=asked.engine, beyond=asked.beyond, story=story):
        sums.add(told)
        if story:
            print(f"seed {told.seed}: {told.setting}")
            for at, what in told.story:
                print(f"  {at:9.3f} s  {what}")
        if told.violation:
            beyond = " --beyond" if asked.beyond else ""
            engine = "" if asked.engine == EMBEDDED.name else f" --engine {asked.engine}"
            print(f"seed {told.seed}: {told.violation}")
            print(
                f"  replay: python -m trimtab.lab.simulate.masters --seed {told.seed}{engine}{beyond}",
                flush=True,
            )
            if not asked.keep_going:
                break
    print(sums)
    return 1 if sums.broken else 0


def _played(seeds: range, processes: int, *, engine: str, beyond: bool, story: bool) -> Iterator[Told]:
    """What came of each seed, in their order."""
    one = partial(_play, engine=engine, beyond=beyond, story=story)
    if processes <= 1:
        yield from map(one, seeds)
        return
    with Pool(processes) as pool:
        yield from pool.imap(one, seeds, chunksize=4)


def _play(seed: int, *, engine: str, beyond: bool, story: bool) -> Told:
    told = run(seed, engine=ENGINES[engine], beyond=beyond)
    if not story:
        told.story.clear()
    return told


class _Sums:
    """What came of all seeds so far; told now and then where somebody looks on."""

    def __init__(self, seeds: int) -> None:
        self._seeds, self._began = seeds, time.perf_counter()
        self._told = self._began
        self.played = self.broken = self.stored = self.takeovers = 0
        self.seconds = 0.0

    def add(self, told: Told) -> None:
        """Count one in."""
        self.played += 1
        self.seconds += told.seconds
        self.stored += told.stored
        self.takeovers += len(told.takeovers)
        self.broken += bool(told.violation)
        now = time.perf_counter()
        if now - self._told >= PROGRESS_SECONDS:
            self._told = now
            print(f"{self.played} of {self._seeds} seeds: {self}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        took = time.perf_counter() - self._began
        return (
            f"{self.broken} broken; {self.played:,} seeds, {self.seconds:,.0f} simulated seconds "
            f"in {took:.1f} s ({self.seconds / took:,.0f} a second), "
            f"{self.stored:,} messages acknowledged, {self.takeovers:,} takeovers"
        )


if __name__ == "__main__":
    sys.exit(main())
