"""Seeds of the simulation: one with its story (`--seed 7`), or many (`--seeds 0:1000`)."""

from __future__ import annotations

import argparse
import sys
import time

from trimtab.lab.simulate.masters.run import Told, run
from trimtab.lab.simulate.masters.times import table
from trimtab.online.masters.engines import EMBEDDED, ENGINES


def _tell(told: Told) -> None:
    print(f"seed {told.seed}: {told.setting}")
    for at, what in told.story:
        print(f"  {at:9.3f} s  {what}")


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
    parser.add_argument("--beyond", action="store_true", help="clocks drift far more than promised")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first broken invariant")
    parser.add_argument("--times", type=int, help="measure so many takeovers by each scheme instead")
    asked = parser.parse_args()
    if asked.times:
        print(table(asked.times, ENGINES[asked.engine]))
        return 0
    first, last = (int(one) for one in asked.seeds.split(":"))
    seeds = range(first, last) if asked.seed is None else [asked.seed]
    began, seconds, broken, stored, takeovers = time.perf_counter(), 0.0, 0, 0, 0
    for seed in seeds:
        told = run(seed, engine=ENGINES[asked.engine], beyond=asked.beyond)
        seconds, stored, takeovers = (
            seconds + told.seconds, stored + told.stored, takeovers + len(told.takeovers),
        )  # fmt: skip
        if asked.seed is not None:
            _tell(told)
        if told.violation:
            broken += 1
            print(f"seed {seed}: {told.violation}")
            if not asked.keep_going:
                break
    took = time.perf_counter() - began
    print(
        f"{broken} broken; {seconds:,.0f} simulated seconds in {took:.1f} s "
        f"({seconds / took:,.0f} a second), {stored:,} messages acknowledged, {takeovers:,} takeovers"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
