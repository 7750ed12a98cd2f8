"""Decisions of this project against those of Pulsar's own classes, on recordings drawn at random."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from support.pulsar_classes import Run, decisions_of
from support.random_reports import SHEDDERS, options_for, ticks_for
from trimtab.files.bundles.reports import BrokerReportRecord
from trimtab.history.bundles.replay import ReplayState, ShedderScenario, first_state, step
from trimtab.model.bundles.reports import BrokerReport, ReportTick
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.pulsar.decision import ShedDecision, placer
from trimtab.plan.pulsar.java import hash_map_order
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.splits import find_splits
from trimtab.plan.pulsar.view import BrokerLoad, LeaderLoadView, updated

pytestmark = pytest.mark.pulsar

SEEDS = (20261121, 7, 1915)
RUNS = 80
"""For each seed."""

UNKNOWN = "x/y/0x00000000_0x40000000"
PLACEMENTS = {
    "4.0.7": ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight"),
    "4.2.4": ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector"),
}


EXTENSIBLE = "extensions.LeastResourceUsageWithWeight"
"""Goes by what brokers publish, as only the shedder of the extensible manager does."""


def drawn(seed: int, version: str) -> list[Run]:
    """Runs of all shedders in turn."""
    chance, runs = random.Random(seed), []
    for number in range(RUNS):
        strategy = SHEDDERS[number % len(SHEDDERS)]
        options = options_for(strategy, chance)
        if version == "4.0.7":
            options.pop("loadBalancerSheddingExcludedNamespaces", None)
        extensible = (EXTENSIBLE,) if strategy == "TransferShedder" else ()
        placements = (*PLACEMENTS[version], *extensible)
        runs.append(Run(strategy, placements, options, ticks_for(strategy, chance)))
    return runs


def ours(run: Run, variant: str) -> list[dict[str, Any]]:
    """What this project decides, in the words of the recorder."""
    options = make_options(run.options, variant)
    scenario = ShedderScenario(shedder(run.strategy), options)
    state = first_state(scenario)
    memory = {name: placer(name).initial for name in run.placements}
    answers = []
    for given in run.ticks:
        records = msgspec.convert(given["brokers"], dict[str, BrokerReportRecord])
        reports = msgspec.convert(records, dict[str, BrokerReport], from_attributes=True)
        tick = ReportTick(given["ms"] / 1000, reports)
        before = state
        seen, decision, state = step(tick, scenario, before)
        view = view_after(seen, before, state)
        pools = {}
        for name in run.placements:
            asked = placer(name)
            remembered = asked.noted(memory[name], view, options)
            candidates = hash_map_order(tick.brokers)
            placement, memory[name] = asked.choose(
                UNKNOWN, candidates, view, remembered, options, np.random.default_rng(0)
            )
            pools[name] = list(placement.pool)
        answers.append(answer(run.strategy, decision, pools, view, options))
    return answers


def view_after(seen: ReportTick, before: ReplayState, after: ReplayState) -> LeaderLoadView:
    """The leader's view at a tick."""
    brokers = {name: BrokerLoad(report) for name, report in seen.brokers.items()}
    view = LeaderLoadView(seen.at, brokers, after.bundles)
    return replace(view, rates_in_between=updated(before.bundles, seen.brokers)[1])


def answer(
    strategy: str,
    decision: ShedDecision,
    pools: dict[str, list[str]],
    view: LeaderLoadView,
    options: PulsarBrokerConfig,
) -> dict[str, Any]:
    """A decision as the recorder writes it."""
    if "Pulsar fails here" in str(decision.facts.get("outcome")):
        return {"thrown": "Comparison method violates its general contract!"}
    # TransferShedder gives a set; a lone broker is asked for splits by the recorder alone.
    order = sorted if strategy == "TransferShedder" else list
    splits = find_splits(view, options) if len(view.brokers) > 1 else None
    return {
        "unloads": {broker: order(bundles) for broker, bundles in decision.unloads.items()},
        "destinations": dict(decision.destinations),
        "pools": pools,
        "splits": None if splits is None else {one.bundle: one.broker for one in splits.splits},
    }


@pytest.mark.parametrize(
    ("version", "variant"),
    [pytest.param("4.0.7", "pulsar-4.0", marks=pytest.mark.long), ("4.2.4", "pulsar-4.2")],
)
def test_decisions_are_those_of_pulsars_own_classes(version: str, variant: str, tmp_path: Path) -> None:
    """Every shedder, placement and split decision of hundreds of ticks, to the last; all of them act."""
    runs = [run for seed in SEEDS for run in drawn(seed, version)]
    acted: Counter[str] = Counter()
    for number, (run, recorded) in enumerate(zip(runs, decisions_of(version, runs, tmp_path), strict=True)):
        found = ours(run, variant)
        for at, (one, other) in enumerate(zip(found, recorded, strict=True)):
            if run.strategy == "TransferShedder":
                other["unloads"] = {broker: sorted(held) for broker, held in other["unloads"].items()}
            if one.get("splits", 0) is None:
                other["splits"] = None
            assert one == other, f"run {number} of {run.strategy} {run.options}, tick {at}"
            acted[run.strategy] += bool(one.get("unloads"))
            acted["splits"] += bool(one.get("splits"))
            acted["ties"] += len(one.get("pools", {}).get(EXTENSIBLE, ())) > 1
    assert min(acted[name] for name in (*SHEDDERS, "splits", "ties")) > 10
