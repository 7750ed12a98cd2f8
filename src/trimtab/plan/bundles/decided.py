"""A decision of Pulsar's strategies as a plan: unloads with destinations, judged by the goals of `trim`."""

from collections.abc import Mapping
from typing import TypeGuard

import numpy as np

from trimtab.model.bundles.plan import (
    BundleAssignment,
    BundleBound,
    BundleMove,
    BundleMoveKind,
    BundlePlan,
    BundleReason,
)
from trimtab.model.bundles.settings import BundlesSettings
from trimtab.model.bundles.snapshot import RESOURCES, BundlesSnapshot
from trimtab.model.plan import Prediction, settings_document
from trimtab.plan.bundles.problem import problem_data
from trimtab.plan.bundles.trim import cost_of, traffic_of
from trimtab.plan.bundles.verdicts import evaluate
from trimtab.plan.pulsar.decision import ShedDecision


def plan_of_decision(
    snapshot: BundlesSnapshot,
    decision: ShedDecision,
    strategy: str,
    placement: str | None,
    settings: BundlesSettings,
    more: Mapping[str, object],
) -> BundlePlan:
    """A plan that does what a strategy decided.

    Parameters
    ----------
    snapshot
        The load by which the result is judged; it may know more than the reports that were decided by.
    strategy, placement
        By their names in Pulsar; None for shedders that name destinations themselves.
    settings
        The goals by which the result is judged: a strategy of Pulsar's has none of its own.
    more
        Further settings for the plan's own (options, variant).
    """
    names = snapshot.brokers.name
    broker = {name: row for row, name in enumerate(names)}
    row_of = {key: row for row, key in enumerate(snapshot.bundles.key)}
    bundles = snapshot.bundles
    traffic = traffic_of(snapshot)
    place = bundles.owner.copy()
    moves: list[BundleMove] = []
    chosen_by = strategy if placement is None else f"{strategy}, placed by {placement}"
    for source, chosen in decision.unloads.items():
        for bundle in chosen:
            target = decision.destinations.get(bundle)
            if target is None or target not in broker or bundle not in row_of or target == source:
                continue
            row = row_of[bundle]
            place[row] = broker[target]
            text = f"chosen by {chosen_by}{_numbers(decision, source, bundle)}"
            moves.append(
                BundleMove(
                    order=len(moves) + 1,
                    kind=BundleMoveKind.UNLOAD,
                    bundle=bundle,
                    source=source,
                    target=target,
                    boundaries=(),
                    sessions=int(bundles.sessions[row]),
                    topics=int(bundles.topics[row]),
                    bytes_per_second=float(traffic[row]),
                    reason=BundleReason(strategy, None, None, source, None, None, None, text),
                )
            )
    problem = problem_data(snapshot, settings)
    judgement = evaluate(problem, place, bool(moves), None)
    moved = np.flatnonzero(place != bundles.owner)
    return BundlePlan(
        balancer="bundles",
        strategy=strategy,
        seed=settings.seed,
        settings={**settings_document(settings, RESOURCES), "placement": placement, **more},
        snapshot=snapshot.reference,
        verdict=judgement.verdict,
        moves=tuple(moves),
        assignments=tuple(
            BundleAssignment(bundles.key[row], names[bundles.owner[row]], names[place[row]])
            for row in moved.tolist()
        ),
        predicted=Prediction(snapshot.imbalance().measures(), snapshot.imbalance(place).measures()),
        cost=cost_of(moves),
        bound=BundleBound(0, f"{strategy} asks for no goal that a bound could be of"),
        problems=judgement.problems,
    )


def _numbers(decision: ShedDecision, source: str, bundle: str) -> str:
    """The reason for this broker and bundle, as far as the strategy says it by name."""
    said = []
    for name, value in decision.facts.items():
        one = value.get(source) if isinstance(value, Mapping) else None
        if isinstance(one, Mapping):
            said += [
                f"{inner.replace('_', ' ')} {number:.4g}"
                for inner, number in one.items()
                if _is_number(number)
            ]
        elif _is_number(one):
            said.append(f"{name.replace('_', ' ')} {one:.4g}")
        elif _is_number(value):
            said.append(f"{name.replace('_', ' ')} {value:.4g}")
    placements = decision.facts.get("placements")
    if isinstance(placements, Mapping) and isinstance(found := placements.get(bundle), Mapping):
        pool = found.get("pool") or ()
        said.append(f"placement among {len(pool)} equal" if len(pool) > 1 else "placement the only best")
    return f": {', '.join(said)}" if said else ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
