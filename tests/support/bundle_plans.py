"""Plans of the balancer `bundles` made by hand, for tests."""

import math
from dataclasses import replace

from trimtab.model.bundles.plan import (
    BundleAssignment,
    BundleBound,
    BundleCost,
    BundleMove,
    BundleMoveKind,
    BundlePlan,
    BundleReason,
)
from trimtab.model.bundles.snapshot import RESOURCES, BundleRange, bundles_between, parse_bundle
from trimtab.model.documents import SnapshotReference
from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import Prediction, Problem, Verdict

NONE = ImbalanceSummary({}, {}, {})


def unload(bundle: str, source: str | None, target: str, *, sessions: int = 3) -> BundleMove:
    """An unload; its order is given by `bundle_plan_of`."""
    reason = BundleReason("epsilon", "cpu", "window 0", target, 0.5, 0.4, 0.45, f"relieves {source}")
    return BundleMove(
        0, BundleMoveKind.UNLOAD, bundle, source, target, (), sessions, 2, 1e3 * sessions, reason
    )


def split(bundle: str, source: str | None, *boundaries: int) -> BundleMove:
    """A split; its order is given by `bundle_plan_of`."""
    reason = BundleReason("hot", None, None, source or "nobody", None, None, None, "too big for a broker")
    return BundleMove(0, BundleMoveKind.SPLIT, bundle, source, None, boundaries, 0, 4, 0.0, reason)


def key(low: int, high: int, namespace: str = "t/n") -> str:
    """A bundle's name."""
    return BundleRange(namespace, low, high).key


def bundle_plan_of(
    *moves: BundleMove, problems: tuple[Problem, ...] = (), cluster: str = "fake"
) -> BundlePlan:
    """A sound plan of these moves: numbers them and works out assignments and cost."""
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    numbered = []
    for number, move in enumerate(moves, start=1):
        before.setdefault(move.bundle, move.source)
        after[move.bundle] = move.target
        if move.kind is BundleMoveKind.SPLIT:
            cut = parse_bundle(move.bundle)
            for part in bundles_between(cut.namespace, (cut.low, *move.boundaries, cut.high)):
                before[part.key], after[part.key] = None, move.source
        fields = {name: getattr(move, name) for name in move.__dataclass_fields__} | {"order": number}
        numbered.append(BundleMove(**fields))
    unloads = [move for move in moves if move.kind is BundleMoveKind.UNLOAD]
    return BundlePlan(
        balancer="bundles",
        strategy="hand",
        seed=0,
        settings={},
        snapshot=SnapshotReference(cluster, "2026-11-21T05:00:00Z", "0" * 64),
        verdict=Verdict.BALANCED,
        moves=tuple(numbered),
        assignments=tuple(BundleAssignment(bundle, before[bundle], after[bundle]) for bundle in before),
        predicted=Prediction(NONE, NONE),
        cost=BundleCost(
            sum(move.sessions for move in unloads),
            len(unloads),
            len(moves) - len(unloads),
            math.fsum(move.bytes_per_second for move in unloads),
        ),
        bound=BundleBound(0, "none"),
        problems=problems,
    )


def messages_plan(broker: str, *moves: BundleMove, goal: str = "theta", **settings: object) -> BundlePlan:
    """A plan whose moves relieve a broker of its messages; θ is .8, ε is asked where it is given."""
    reasons = (replace(move.reason, goal=goal, resource="message_rate", broker=broker) for move in moves)
    plan = bundle_plan_of(
        *(replace(move, reason=reason) for move, reason in zip(moves, reasons, strict=True))
    )
    return replace(plan, settings={"theta": dict.fromkeys(RESOURCES, 0.8), **settings})
