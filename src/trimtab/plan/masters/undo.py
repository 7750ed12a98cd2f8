"""The plan that undoes an executed plan of the balancer `masters`: masterships return to their nodes."""

from __future__ import annotations

from dataclasses import replace

from trimtab.model.masters import (
    MastershipAssignment,
    MastershipTransfer,
    MastersPlan,
    MastersReceipt,
    MastersSnapshot,
    NodeState,
    TransferBound,
    TransferCost,
    TransferReason,
)
from trimtab.model.plan import UNDO, Prediction, goals_of, undo_problems
from trimtab.plan.masters.trim import node_name


def undo(plan: MastersPlan, receipt: MastersReceipt, snapshot: MastersSnapshot) -> MastersPlan:
    """Plan the way back; `problems` of the plan name each group that cannot be undone, and why.

    Parameters
    ----------
    receipt
        Of the execution; only the transfers of its finished steps are undone.
    snapshot
        The masters now, from after the end of the execution.
    """
    done = {order for outcome in receipt.done for order in outcome.moves}
    rows = {one.group: row for row, one in enumerate(snapshot.groups)}
    places = {one.node: place for place, one in enumerate(snapshot.nodes)}
    masters, moves, reasons = list(snapshot.masters), list[MastershipTransfer](), list[str]()
    for move in reversed([one for one in plan.moves if one.order in done]):
        row = rows.get(move.group)
        current = None if row is None else node_name(snapshot, masters[row])
        if row is not None and move.source is not None and current == move.source:
            continue
        kept = _reason_to_keep(move, row, current, places, snapshot)
        if kept is not None:
            reasons.append(f"{move.group} keeps its master: {kept}")
            continue
        assert row is not None and move.source is not None
        group, masters[row] = snapshot.groups[row], places[move.source]
        text = f"undoes move {move.order} of the executed plan: node {move.source} was master before"
        moves.append(
            replace(
                move,
                order=len(moves) + 1,
                source=move.target,
                target=move.source,
                queries_per_second=group.queries_per_second,
                bytes_per_second=group.bytes_per_second,
                reason=TransferReason("undo", None, text),
            )
        )
    verdict, problems = undo_problems(reasons, any_move=bool(moves))
    cost = TransferCost(len(moves), sum(one.pause_seconds or 0.0 for one in moves))
    return MastersPlan(
        balancer=plan.balancer,
        strategy=UNDO,
        seed=plan.seed,
        settings=goals_of(plan),
        snapshot=snapshot.reference,
        verdict=verdict,
        moves=tuple(moves),
        predicted=Prediction(snapshot.imbalance().measures(), snapshot.imbalance(masters).measures()),
        problems=problems,
        system=plan.system,
        version=snapshot.version,
        assignments=tuple(
            MastershipAssignment(
                one.group, node_name(snapshot, one.master), node_name(snapshot, masters[row])
            )
            for row, one in enumerate(snapshot.groups)
        ),
        cost=cost,
        bound=TransferBound(len(moves), "each transfer returns a mastership that has to return"),
    )


def _reason_to_keep(
    move: MastershipTransfer,
    row: int | None,
    current: str | None,
    places: dict[str, int],
    snapshot: MastersSnapshot,
) -> str | None:
    """Why a transfer cannot be undone; None where it can."""
    if row is None:
        return "the group is not there any more"
    if move.source is None:
        return "it had no master before"
    if current != move.target:
        now = "nobody is" if current is None else f"node {current} is"
        return f"the execution made node {move.target} its master, and {now} now"
    place = places.get(move.source)
    if place is None or snapshot.nodes[place].state is not NodeState.ALIVE:
        state = "not there any more" if place is None else snapshot.nodes[place].state.value
        return f"node {move.source}, its previous master, is {state}"
    if place not in snapshot.groups[row].able:
        return f"node {move.source}, its previous master, cannot be its master now"
    return None
