"""How good and how fast plans are, against size and strategy: bytes over the lower bound, goals met, seconds.

    python benchmarks/plan_quality.py            the sizes of the table
    python benchmarks/plan_quality.py --large    also 1,000 brokers and 1,000,000 replicas

Instances are made up from fixed seeds (lognormal broker weights, sigma .25, mean usage .4/.4/.4/.5, three
racks). Seconds are those of the planner alone, in a warm process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[1] / name) for name in ("tests", "examples"))

from results import write_result

from simulate.instances import lognormal_skew
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.model.plan import Verdict
from trimtab.model.replicas.settings import ReplicasSettings, RoleAwareSettings

SIZES = ((6, 600, 5), (12, 2_400, 5), (30, 6_000, 3), (100, 30_000, 3), (300, 300_000, 3))
LARGE = (1_000, 1_000_000, 1)
STRATEGIES = {
    "trim": ReplicasSettings(),
    "role_aware, literal": ReplicasSettings(
        strategy="role_aware", role_aware=RoleAwareSettings(literal=True)
    ),
    "role_aware, repaired": ReplicasSettings(strategy="role_aware"),
}
BASELINE_LIMIT = 6_000
"""Replicas up to which the baseline, which is not compiled, is run."""


def measured(name: str, brokers: int, replicas: int, seed: int) -> dict[str, object]:
    """One plan: its time and its quality."""
    snapshot = lognormal_skew(brokers, replicas, seed)
    started, used = time.perf_counter(), time.process_time()
    plan = planner_of(BALANCERS["replicas"], STRATEGIES[name].strategy)(snapshot, STRATEGIES[name])
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    after = plan.predicted.after
    met = plan.verdict in (Verdict.BALANCED,)
    return {
        "strategy": name,
        "brokers": brokers,
        "replicas": replicas,
        "seed": seed,
        "seconds": round(wall, 4),
        "cpu_seconds": round(cpu, 4),
        "verdict": str(plan.verdict),
        "goals_met": met,
        "bytes": plan.cost.bytes,
        "bound": plan.bound.bytes,
        # Over a bound that holds for plans that meet the goals, so only of those.
        "ratio": round(plan.cost.bytes / plan.bound.bytes, 4) if met and plan.bound.bytes else None,
        "replica_moves": plan.cost.replica_moves,
        "leader_moves": plan.cost.leader_moves,
        "worst_deviation": max(after.worst_deviation.values()),
        "peak_usage": max(after.peak_usage.values()),
    }


def summary(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Medians over the seeds of each strategy and size."""
    found = []
    for key in dict.fromkeys((r["strategy"], r["brokers"], r["replicas"]) for r in rows):
        of = [r for r in rows if (r["strategy"], r["brokers"], r["replicas"]) == key]
        ratios = [r["ratio"] for r in of if r["ratio"] is not None]
        found.append(
            {
                "strategy": key[0],
                "brokers": key[1],
                "replicas": key[2],
                "seeds": len(of),
                "goals_met": sum(bool(r["goals_met"]) for r in of),
                "seconds": statistics.median(r["seconds"] for r in of),
                "cpu_seconds": statistics.median(r["cpu_seconds"] for r in of),
                "ratio": statistics.median(ratios) if ratios else None,
                "worst_ratio": max(ratios, default=None),
                "moves": statistics.median(r["replica_moves"] + r["leader_moves"] for r in of),
            }
        )
    return found


def main() -> None:
    """Run, print, and write `results/plan_quality.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 1,000 brokers and 1,000,000 replicas")
    arguments = parser.parse_args()
    for settings in STRATEGIES.values():
        # Compiles what is not yet.
        planner_of(BALANCERS["replicas"], settings.strategy)(lognormal_skew(6, 60, 0), settings)
    rows = []
    for brokers, replicas, seeds in (*SIZES, *([LARGE] if arguments.large else [])):
        for name in STRATEGIES:
            if name != "trim" and replicas > BASELINE_LIMIT:
                continue
            rows += [measured(name, brokers, replicas, seed) for seed in range(1, seeds + 1)]
            row = summary(rows)[-1]
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f} (at worst {row['worst_ratio']:.3f})"
            print(
                f"{name:22} {brokers:5} brokers {replicas:8} replicas: "
                f"goals met {row['goals_met']}/{row['seeds']}, bytes/bound {ratio}, "
                f"{row['moves']:.0f} moves, {row['seconds']:.3f} s ({row['cpu_seconds']:.3f} s CPU)",
                flush=True,
            )
    write_result("plan_quality", {"medians": summary(rows), "plans": rows})


if __name__ == "__main__":
    main()
