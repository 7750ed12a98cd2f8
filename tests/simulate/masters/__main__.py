"""Seeds of the simulation: one with its story (`--seed 7`), or many (`--seeds 0:1000 --processes 2`)."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial

from simulate.masters.run import FAULT_SECONDS, StoreSimulationResult, run, table
from simulate.seeds import add_seeds, played, selected_seeds
from trimtab_store.core.node import EMBEDDED, ENGINES


def main() -> int:
    """Run them; exit code 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="scripts/simulate masters", description=__doc__)
    add_seeds(parser, default="0:100")
    parser.add_argument(
        "--engine",
        choices=sorted(ENGINES),
        default=EMBEDDED.name,
        help="what chooses; etcd is a model of one",
    )
    parser.add_argument("--beyond", action="store_true", help="clocks drift far more than promised")
    parser.add_argument(
        "--fault-seconds", type=float, default=FAULT_SECONDS, help="faults of a seed end then: %(default)s"
    )
    parser.add_argument("--times", type=int, help="measure so many transfers by each scheme instead")
    asked = parser.parse_args()
    if asked.times:
        print(table(asked.times, ENGINES[asked.engine]))
        return 0
    seeds, story = selected_seeds(asked), asked.seed is not None
    sums = _MastersTotals()
    play = partial(
        _play, engine=asked.engine, beyond=asked.beyond, fault_seconds=asked.fault_seconds, story=story
    )
    for told in played(play, seeds, asked.processes, lambda: sums):
        sums.add(told)
        if story:
            print(f"seed {told.seed}: {told.setting}")
            for at, what in told.story:
                print(f"  {at:9.3f} s  {what}")
        if told.undecided:
            print(f"seed {told.seed}: {told.undecided} histories were given up", flush=True)
        if told.violation:
            options = " --beyond" if asked.beyond else ""
            options += "" if asked.engine == EMBEDDED.name else f" --engine {asked.engine}"
            longer = asked.fault_seconds != FAULT_SECONDS
            options += f" --fault-seconds {asked.fault_seconds:g}" if longer else ""
            print(f"seed {told.seed}: {told.violation}")
            print(f"  replay: scripts/simulate masters --seed {told.seed}{options}", flush=True)
            if not asked.keep_going:
                break
    print(sums)
    return 1 if sums.broken else 0


def _play(
    seed: int, *, engine: str, beyond: bool, fault_seconds: float, story: bool
) -> StoreSimulationResult:
    told = run(seed, engine=ENGINES[engine], beyond=beyond, fault_seconds=fault_seconds)
    if not story:
        told.story.clear()
    return told


class _MastersTotals:
    """What came of all seeds so far."""

    def __init__(self) -> None:
        self._started_at = time.perf_counter()
        self.played = self.broken = self.stored = self.sent = self.transfers = self.clean = (
            self.incarnations
        ) = 0
        self.histories = self.undecided = self.operations = self.ends = self.maps = 0
        self.seconds = 0.0
        self.faults: Counter[str] = Counter()

    def add(self, text: StoreSimulationResult) -> None:
        """Count one in."""
        self.played += 1
        self.seconds += text.seconds
        self.stored += text.stored
        self.sent += text.sent
        self.incarnations += text.incarnations
        self.transfers += len(text.transfers)
        self.clean += text.clean
        self.histories += text.histories
        self.undecided += text.undecided
        self.operations += text.operations
        self.ends += text.ends
        self.maps += text.maps
        self.faults += text.faults
        self.broken += bool(text.violation)

    def __str__(self) -> str:
        took = time.perf_counter() - self._started_at
        faults = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.broken} broken; {self.played:,} seeds, {self.seconds:,.0f} simulated seconds "
            f"in {took:.1f} s ({self.seconds / took:,.0f} a second), "
            f"{self.stored:,} messages acknowledged, sent {self.sent:,} times, {self.transfers:,} transfers, "
            f"{self.clean:,} clean for a consumer, {self.incarnations:,} lives of consumers; {self.ends:,} "
            "ends of "
            f"nodes, {self.maps:,} maps, {self.faults.total():,} faults ({faults}); "
            f"an order was looked for in {self.histories:,} histories ({self.operations:,} operations), and "
            f"given up in {self.undecided}"
        )


if __name__ == "__main__":
    sys.exit(main())
