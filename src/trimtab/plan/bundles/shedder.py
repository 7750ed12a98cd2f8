"""`trim` as a strategy beside Pulsar's, on a stream of load reports."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trimtab.model.bundles.plan import BundleMoveKind
from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.settings import BundlesSettings
from trimtab.model.bundles.snapshot import BundlesSnapshot, Departure
from trimtab.model.snapshot import SnapshotReference
from trimtab.plan.bundles.reported import VIEWS, Load, bundle_loads, departed, owners, snapshot_of
from trimtab.plan.bundles.trim import plan_bundles
from trimtab.plan.pulsar.decision import ShedDecision, Shedder
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

_UNNAMED = SnapshotReference("reports", "1970-01-01T00:00:00Z", "0" * 64)


@dataclass(frozen=True)
class TrimShedderState:
    """The memory from tick to tick.

    Attributes
    ----------
    earlier
        What every bundle brought along at the ticks before, the newest first; at most `VIEWS` - 1.
    owner
        Who owned each bundle last.
    departures
        Bundle, the broker it left, and when; those within the grace time, oldest first.
    """

    earlier: tuple[Mapping[str, Load], ...] = ()
    owner: Mapping[str, str] = field(default_factory=dict)
    departures: tuple[tuple[str, str, float], ...] = ()


def noted(state: TrimShedderState, view: LeaderLoadView, options: PulsarBrokerConfig) -> TrimShedderState:
    """The state with what has changed hands since, whether anything is decided or not."""
    now = owners(view.reports)
    grace = options.shedding_grace_period_minutes * 60
    left = [(one.bundle, one.broker, one.at) for one in departed(state.owner, now, view.at)]
    kept = [one for one in (*state.departures, *left) if view.at - one[2] <= grace]
    return TrimShedderState(state.earlier, {**state.owner, **now}, tuple(kept))


@dataclass(frozen=True)
class TrimShedder:
    """The decision, with the policies that bear on it."""

    metadata: ClusterMetadata

    def __call__(
        self,
        view: LeaderLoadView,
        state: TrimShedderState,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[ShedDecision, TrimShedderState]:
        """The unloads of the plan for the reports seen last; nothing is left to chance.

        A plan is made only where some broker was above θ, or further from the mean than `trimTrigger`, at
        every tick that is remembered: load that comes and goes would else be run after, minute by minute.
        Splits are left out: reports do not tell which topics carry a bundle.
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
        worst = [_worst(snapshot, row, settings) for row in range(len(snapshot.views))]
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


def _worst(snapshot: BundlesSnapshot, view: int, settings: BundlesSettings) -> float:
    """Worst deviation of the resources that are not idle; infinite where a broker is above θ."""
    measured = snapshot.imbalance(view=view)
    if (measured.counted & (measured.usage > np.array(settings.theta))).any():
        return math.inf
    balanced = measured.counted.any(axis=0) & (measured.mean >= settings.min_utilization)
    return float(np.where(balanced, measured.worst_deviation, 0.0).max(initial=0.0))


def trim_shedder(metadata: ClusterMetadata) -> Shedder[TrimShedderState]:
    """`trim` in a cluster with these policies, and what else there is to know besides its load."""
    return Shedder(TrimShedder(metadata), TrimShedderState(), True, noted)
