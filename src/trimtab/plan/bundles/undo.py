"""The plan that undoes an executed plan of the balancer `bundles`: bundles return to their previous owners.

Splits cannot be undone, because Pulsar does not merge bundles. Unloaded parts of a split return to the owner
of the whole bundle.
"""

from __future__ import annotations

from trimtab.model.bundles.plan import (
    BundleAssignment,
    BundleBound,
    BundleMove,
    BundleMoveKind,
    BundlePlan,
    BundleReason,
    BundlesReceipt,
)
from trimtab.model.bundles.snapshot import NO_OWNER, BundlesSnapshot
from trimtab.model.plan import UNDO, Prediction, goals_of, undo_problems
from trimtab.plan.bundles.trim import cost_of, traffic_of


def undo(plan: BundlePlan, receipt: BundlesReceipt, snapshot: BundlesSnapshot) -> BundlePlan:
    """Plan the way back; `problems` of the plan name each bundle that cannot be undone, and why.

    Parameters
    ----------
    receipt
        Of the execution; only the moves of its finished steps are undone.
    snapshot
        The owners now, from after the end of the execution.
    """
    done = {order for outcome in receipt.done for order in outcome.moves}
    bundles, names = snapshot.bundles, snapshot.brokers.name
    rows = {key: row for row, key in enumerate(bundles.key)}
    traffic, owner = traffic_of(snapshot), bundles.owner.copy()
    moves, assignments, reasons = list[BundleMove](), list[BundleAssignment](), list[str]()
    for move in reversed([one for one in plan.moves if one.order in done]):
        if move.kind is BundleMoveKind.SPLIT:
            reasons.append(f"{move.bundle} stays split: Pulsar cannot merge bundles")
            continue
        row = rows.get(move.bundle)
        current = None if row is None or owner[row] == NO_OWNER else names[owner[row]]
        if move.source is not None and current == move.source:
            continue
        kept = _reason_to_keep(move, row, current, snapshot)
        if kept is not None:
            reasons.append(f"{move.bundle} stays: {kept}")
            continue
        assert row is not None and move.source is not None
        text = f"undoes move {move.order} of the executed plan: {move.source} owned it before"
        moves.append(
            BundleMove(
                order=len(moves) + 1,
                kind=BundleMoveKind.UNLOAD,
                bundle=move.bundle,
                source=current,
                target=move.source,
                boundaries=(),
                sessions=int(bundles.sessions[row]),
                topics=int(bundles.topics[row]),
                bytes_per_second=float(traffic[row]),
                reason=BundleReason("undo", None, None, move.source, None, None, None, text),
            )
        )
        assignments.append(BundleAssignment(move.bundle, current, move.source))
        owner[row] = names.index(move.source)
    cost = cost_of(moves)
    verdict, problems = undo_problems(reasons, any_move=bool(moves))
    return BundlePlan(
        balancer=plan.balancer,
        strategy=UNDO,
        seed=plan.seed,
        settings=goals_of(plan),
        snapshot=snapshot.reference,
        verdict=verdict,
        moves=tuple(moves),
        predicted=Prediction(snapshot.imbalance().measures(), snapshot.imbalance(owner).measures()),
        problems=problems,
        assignments=tuple(sorted(assignments, key=lambda one: one.bundle)),
        cost=cost,
        bound=BundleBound(cost.sessions, "each unload returns a bundle that has to return"),
    )


def _reason_to_keep(
    move: BundleMove, row: int | None, current: str | None, snapshot: BundlesSnapshot
) -> str | None:
    """Why an unload cannot be undone; None where it can."""
    names = snapshot.brokers.name
    if row is None:
        return "it was split or deleted after the execution"
    if move.source is None:
        return "it had no owner before"
    if current != move.target:
        now = "nobody owns it" if current is None else f"{current} owns it"
        return f"the execution gave it to {move.target}, and {now} now"
    if move.source not in names:
        return f"broker {move.source}, its previous owner, is not there any more"
    if not snapshot.brokers.in_service[names.index(move.source)]:
        return f"broker {move.source}, its previous owner, is not in service"
    if not snapshot.bundles.movable[row] or move.bundle in snapshot.claims:
        return "it may not be moved now"
    return None
