"""Seconds of one decision on the balancer `bundles`: 1,000 brokers, 100,000 bundles, 1,000,000 topics.

A decision is timed in a round in which the strategy acts: those that wait for several hits have had them. Its
view is new each time, so that nothing is computed beforehand. A whole round is what a replay does at a tick:
running means, the order of Java's hash maps, the decision, and the placement of what is shed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).parents[1] / name) for name in ("tests", "examples"))

import numpy as np
from results import write_result
from timing import time_call

from simulate.instances import skewed_bundles
from simulated_clusters.recordings import RecordedCluster, recorded
from support.bundle_views import update_bundles
from trimtab.history.bundles.replay import ReplayState, ShedderScenario, first_state, step
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.bundles.snapshot import BundlesSnapshot, bundle_positions, initial_boundaries, topic_hashes
from trimtab.plan.bundles.strategies import SHEDDERS, shedder
from trimtab.plan.bundles.trim import plan_bundles
from trimtab.plan.pulsar.decision import PLACERS, placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.selection import (
    AssignmentState,
    PlacementRules,
    select_broker,
    select_broker_extensible,
)
from trimtab.plan.pulsar.splits import SplitState, find_splits
from trimtab.plan.pulsar.splits import find_owner_splits as find_splits_extensible
from trimtab.plan.pulsar.view import EMPTY_TABLE, BrokerLoad, BundleTable, LeaderLoadView

LIMIT_SECONDS = 2.0
BROKERS, BUNDLES, TOPICS = 1000, 100_000, 1_000_000
MOST_ROUNDS = 12
"""In which a strategy that waits for hits has had them."""


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    asked = parser.parse_args()
    scale = 10 if asked.quick else 1
    size = {"brokers": BROKERS // scale, "bundles": BUNDLES // scale}
    cluster = RecordedCluster(**size, ticks=3, usage=0.6, hot_at=0, joins_at=0, dies_at=2)
    ticks = list(recorded(cluster))
    # Reports that have not been seen yet, minute after minute.
    rounds = [replace(ticks[number % 3], at=ticks[0].at + 60.0 * number) for number in range(MOST_ROUNDS + 1)]
    rows = [
        *decisions(rounds, asked.runs),
        *placements(rounds[0], asked.runs),
        *splits(rounds[0], asked.runs),
        *plans(size["brokers"], size["bundles"], asked.runs),
    ]
    rows.append(hashing(TOPICS // scale, asked.runs))
    write_result("bundles_speed", {**size, "rows": rows})
    for row in rows:
        print(f"{row['what']:58} wall {row['wall_median']:7.3f} s   cpu {row['cpu_median']:7.3f} s")


def decisions(rounds: list[ReportTick], runs: int) -> list[dict[str, Any]]:
    """Every shedder alone, and in a whole round of the leader."""
    rows = []
    for name in SHEDDERS:
        one = shedder(name)
        placed = None
        if not one.extensible:
            placed = placer("AvgShedder" if name == "AvgShedder" else "LeastLongTermMessageRate")
        scenario = ShedderScenario(one, PulsarBrokerConfig(), placer=placed)
        at, state = acting(rounds, scenario)

        def whole(scenario: ShedderScenario = scenario, at: int = at, state: ReplayState = state) -> object:
            return step(rounds[at], scenario, state)

        table = update_bundles(state.bundles, rounds[at].brokers.values())

        def alone(
            scenario: ShedderScenario = scenario,
            at: int = at,
            state: ReplayState = state,
            table: BundleTable = table,
        ) -> object:
            view = replace(fresh_view(rounds[at], table), recently_unloaded=state.recently_unloaded)
            chance = np.random.default_rng(0)
            return scenario.shedder.decide(view, state.shedder, scenario.options, chance)

        _, decision, _ = step(rounds[at], scenario, state)
        unloads = sum(map(len, decision.unloads.values()))
        rows.append(row(f"{name}: decision, {unloads:,} unloads", alone, runs))
        rows.append(row(f"{name}: whole round", whole, runs))
    return rows


def acting(rounds: list[ReportTick], scenario: ShedderScenario) -> tuple[int, ReplayState]:
    """The first round in which something is unloaded, and the state before it; else the last."""
    state = first_state(scenario)
    for number, tick in enumerate(rounds[:-1]):
        _, decision, after = step(tick, scenario, state)
        if decision.unloads:
            return number, state
        state = after
    return len(rounds) - 1, state


def placements(tick: ReportTick, runs: int) -> list[dict[str, Any]]:
    """Every placement of one bundle, with all filters of the load manager."""
    bundle = next(iter(next(iter(tick.brokers.values())).last_stats))
    table = update_bundles(EMPTY_TABLE, tick.brokers.values())
    rows = []
    for name in PLACERS:
        chosen = placer(name)

        def place(chosen: Any = chosen) -> object:
            rules = PlacementRules(chosen, PulsarBrokerConfig())
            before = AssignmentState(chosen.initial)
            select = select_broker_extensible if chosen.extensible else select_broker
            return select(bundle, fresh_view(tick, table), rules, before, np.random.default_rng(0))

        rows.append(row(f"{name}: a bundle placed", place, runs))
    return rows


def splits(tick: ReportTick, runs: int) -> list[dict[str, Any]]:
    """Which bundles are too large, in both load managers."""
    table = update_bundles(EMPTY_TABLE, tick.brokers.values())
    options = PulsarBrokerConfig(namespace_bundle_max_topics=12, namespace_maximum_bundles=1_000_000)

    def modular() -> object:
        return find_splits(fresh_view(tick, table), options)

    def extensible() -> object:
        return find_splits_extensible(fresh_view(tick, table), SplitState(), options)

    found = find_splits(fresh_view(tick, table), options)
    return [
        row(f"splits, modular manager: {len(found.splits):,} found", modular, runs),
        row("splits, extensible manager", extensible, runs),
    ]


def plans(brokers: int, bundles: int, runs: int) -> list[dict[str, Any]]:
    """Whole plans of `trim`, on lognormal bundles unevenly dealt out, with one view and with three."""
    rows = []
    for views in (1, 3):
        snapshot = skewed_bundles(brokers, bundles, seed=0, views=views)
        found = plan_bundles(snapshot, BundlesSettings())

        def plan(snapshot: BundlesSnapshot = snapshot) -> object:
            return plan_bundles(snapshot, BundlesSettings())

        what = f"trim: a plan in {views} view{'s' if views > 1 else ''}, {len(found.moves):,} moves"
        rows.append(row(what, plan, runs))
    return rows


def hashing(count: int, runs: int) -> dict[str, Any]:
    """Full names of topics to bundles of their namespace."""
    names = [f"persistent://shop/orders/topic-{number}-partition-{number % 10}" for number in range(count)]
    boundaries = initial_boundaries(BUNDLES)

    def hashed() -> object:
        return bundle_positions(boundaries, topic_hashes(names))

    return row(f"{count:,} topic names to their bundles", hashed, runs)


def fresh_view(tick: ReportTick, table: BundleTable) -> LeaderLoadView:
    """What the leader knows, with nothing computed from it yet."""
    return LeaderLoadView(
        tick.at, {name: BrokerLoad(one) for name, one in tick.brokers.items()}, replace(table)
    )


def row(what: str, call: Callable[[], object], runs: int) -> dict[str, Any]:
    """Time it."""
    return {"what": what, "limit_seconds": LIMIT_SECONDS, **time_call(call, runs).as_json()}


if __name__ == "__main__":
    main()
