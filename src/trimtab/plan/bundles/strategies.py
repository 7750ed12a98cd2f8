"""Strategies that decide from a stream of load reports: Pulsar's own, and `trim`.

A decision of such a strategy becomes a plan: unloads with destinations, evaluated by the goals of `trim`
(`plan_of_decision`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

import numpy as np

from trimtab.model.bundles.plan import (
    BundleAssignment,
    BundleBound,
    BundleMove,
    BundleMoveKind,
    BundlePlan,
    BundleReason,
    BundlesSettings,
)
from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.snapshot import RESOURCES, BundlesSnapshot, Departure
from trimtab.model.documents import SnapshotReference
from trimtab.model.plan import Prediction, settings_document
from trimtab.plan.bundles.problem import problem_data
from trimtab.plan.bundles.reported import VIEWS, Load, bundle_loads, departed, owners, snapshot_of
from trimtab.plan.bundles.trim import cost_of, plan_bundles, traffic_of
from trimtab.plan.bundles.verdicts import evaluate
from trimtab.plan.pulsar.decision import SHEDDERS as PULSAR_SHEDDERS
from trimtab.plan.pulsar.decision import ShedDecision, Shedder
from trimtab.plan.pulsar.decision import shedder as pulsar_shedder
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

_UNNAMED = SnapshotReference("reports", "1970-01-01T00:00:00Z", "0" * 64)


@dataclass(frozen=True)
class TrimShedderState:
    """The memory from tick to tick.

    Attributes
    ----------
    earlier
        Loads of every bundle at previous ticks, the newest first; at most `VIEWS` - 1.
    owner
        Last owner of each bundle.
    departures
        Bundle, the broker it left, and when; those within the grace time, oldest first.
    """

    earlier: tuple[Mapping[str, Load], ...] = ()
    owner: Mapping[str, str] = field(default_factory=dict)
    departures: tuple[tuple[str, str, float], ...] = ()


def noted_departures(
    state: TrimShedderState, view: LeaderLoadView, options: PulsarBrokerConfig
) -> TrimShedderState:
    """The state with new departures, with or without a decision."""
    now = owners(view.reports)
    grace = options.shedding_grace_period_minutes * 60
    left = [(one.bundle, one.broker, one.at) for one in departed(state.owner, now, view.at)]
    kept = [one for one in (*state.departures, *left) if view.at - one[2] <= grace]
    return TrimShedderState(state.earlier, {**state.owner, **now}, tuple(kept))


@dataclass(frozen=True)
class TrimShedder:
    """The decision, with the policies that affect it."""

    metadata: ClusterMetadata

    def __call__(
        self,
        view: LeaderLoadView,
        state: TrimShedderState,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[ShedDecision, TrimShedderState]:
        """The unloads of the plan for the latest reports; deterministic.

        A plan is made only where some broker was above θ, or further from the mean than `trimTrigger`, at
        every tick that is remembered: otherwise every short change of load would cause moves. Splits are left
        out, because reports do not contain topics.
        """
        settings = BundlesSettings(
            theta=(options.trim_theta,) * 4,
            epsilon=(options.trim_epsilon,) * 4,
            grace_seconds=options.shedding_grace_period_minutes * 60,
            excluded_namespaces=options.shedding_excluded_namespaces,
            allow_splits=False,
        )
        departures = [Departure(*one) for one in state.departures]
        snapshot = snapshot_of(
            view.reports, view.at, state.earlier, departures, _UNNAMED, self.metadata.policies
        )
        earlier = (bundle_loads(view.reports), *state.earlier)[: VIEWS - 1]
        after = TrimShedderState(earlier, state.owner, state.departures)
        worst = [_worst_deviation(snapshot, row, settings) for row in range(len(snapshot.views))]
        if len(worst) < VIEWS or min(worst) <= options.trim_trigger:
            why = {
                "outcome": f"no broker was that far out at each of the last {VIEWS} ticks",
                "trigger": options.trim_trigger,
                "worst_deviation_by_tick": worst,
            }
            return ShedDecision(facts=why), after
        plan = plan_bundles(snapshot, settings)
        unloads: dict[str, tuple[str, ...]] = {}
        destinations: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for move in plan.moves:
            if move.kind is BundleMoveKind.UNLOAD and move.source is not None and move.target is not None:
                unloads[move.source] = (*unloads.get(move.source, ()), move.bundle)
                destinations[move.bundle] = move.target
                reasons[move.bundle] = move.reason.text
        why = {
            "verdict": str(plan.verdict),
            "clients": plan.cost.sessions,
            "clients_at_least": plan.bound.sessions,
            "worst_deviation": dict(plan.predicted.before.worst_deviation),
            "worst_deviation_after": dict(plan.predicted.after.worst_deviation),
            "problems": [one.text for one in plan.problems],
            "reasons": reasons,
        }
        return ShedDecision(unloads, destinations, why), after


def _worst_deviation(snapshot: BundlesSnapshot, view: int, settings: BundlesSettings) -> float:
    """Worst deviation of the resources that are not idle; infinite where a broker is above θ."""
    measured = snapshot.imbalance(view=view)
    if (measured.counted & (measured.usage > np.array(settings.theta))).any():
        return math.inf
    balanced = measured.counted.any(axis=0) & (measured.mean >= settings.min_utilization)
    return float(np.where(balanced, measured.worst_deviation, 0.0).max(initial=0.0))


def trim_shedder(metadata: ClusterMetadata) -> Shedder[TrimShedderState]:
    """Make `trim` for a cluster with these policies and other metadata."""
    return Shedder(TrimShedder(metadata), TrimShedderState(), True, noted_departures)


SHEDDERS: Final[Mapping[str, str]] = {
    **PULSAR_SHEDDERS,
    "trim": "trimtab.plan.bundles.strategies:trim_shedder",
}
"""Shedders by name: those of `trimtab.plan.pulsar.decision.SHEDDERS`, and `trim`."""


def shedder(name: str, metadata: ClusterMetadata | None = None) -> Shedder[Any]:
    """Look up a shedder by name, including `trim`; see `trimtab.plan.pulsar.decision.shedder`."""
    return pulsar_shedder(name, metadata, SHEDDERS)


def plan_of_decision(
    snapshot: BundlesSnapshot,
    decision: ShedDecision,
    strategy: str,
    placement: str | None,
    settings: BundlesSettings,
    more: Mapping[str, object],
) -> BundlePlan:
    """Make a plan of a strategy's decision.

    Parameters
    ----------
    snapshot
        The load for the evaluation of the result; it may contain more than the reports.
    strategy, placement
        By their names in Pulsar; None for shedders that name destinations themselves.
    settings
        The goals for the evaluation of the result: a strategy of Pulsar has none of its own.
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
            text = f"chosen by {chosen_by}{_decision_figures(decision, source, bundle)}"
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


def _decision_figures(decision: ShedDecision, source: str, bundle: str) -> str:
    """The reason for this broker and bundle, if the strategy names it."""
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
