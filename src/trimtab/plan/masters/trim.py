"""The planner `trim`: masterships that must leave their nodes, and the transfers that make loads even.

It chooses the plan that brings every node within ε with the fewest transfers, and of those the most even one.
If no plan does, it chooses the least uneven plan in which each optional transfer lowers the unevenness by a
minimum share. In a small cluster all plans are compared; otherwise a search changes one or two groups at a
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trimtab.files.masters.settings import MastersSettings
from trimtab.model.errors import require_known_names
from trimtab.model.goals import ROUNDING, exceeds
from trimtab.model.masters import (
    NO_MASTER,
    RESOURCES,
    MastershipAssignment,
    MastershipMoveKind,
    MastershipTransfer,
    MastersPlan,
    MastersSnapshot,
    NodeState,
    TransferBound,
    TransferCost,
    TransferReason,
)
from trimtab.model.plan import Prediction, Problem, Verdict, settings_document
from trimtab.plan.masters.exact import ExactSearch, MastershipBoard, TooManyPlansError

if TYPE_CHECKING:
    from trimtab.model.load import FloatArray

PROPOSALS: Final = {"expire": 3, "instate": 1}
"""Successive proposals during which a group has no master, by scheme; other schemes wait for leases as well.
"""
STEPS: Final = 16
"""Number of changes of one search pass beyond the permitted transfers of the plan."""
SMALL: Final = 1e-12
"""Largest change of unevenness by rounding."""


class ProvenTransfers(NamedTuple):
    """Proven facts about the transfers of groups that could stay.

    Attributes
    ----------
    minimum
        With fewer transfers, some node stays further than ε from its share.
    none
        No plan brings every node within ε with the permitted number of transfers.
    """

    minimum: int
    none: bool


def plan_masters(snapshot: MastersSnapshot, settings: MastersSettings) -> MastersPlan:
    """Make the plan: the same for the same snapshot and settings. Its problems name the goals that cannot be
    met.

    Raises
    ------
    PlanError
        If settings name a node that is not in the snapshot.
    """
    _reject_unknown(snapshot, settings)
    seen = snapshot.with_overrides(vars(settings))
    board = MastershipBoard(seen, settings)
    most = max(0, settings.max_moves - int(board.must.sum()))
    proven = _solve(board, most, 1 / (1 - settings.min_gain))
    moves = tuple(_transfer(seen, order, *one) for order, one in enumerate(_transfers(seen, board), 1))
    problems = (*_without_target(seen, board), *_unmet(seen, settings, board, most, proven))
    before, after = seen.imbalance(), seen.imbalance(board.masters.tolist())
    return MastersPlan(
        balancer="masters",
        strategy="trim",
        seed=0,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=_verdict(problems, any_move=bool(moves)),
        moves=moves,
        predicted=Prediction(before.measures(), after.measures()),
        problems=problems,
        system=snapshot.system,
        version=snapshot.version,
        assignments=tuple(
            MastershipAssignment(
                group.group, node_name(seen, group.master), node_name(seen, int(after_place))
            )
            for group, after_place in zip(seen.groups, board.masters, strict=True)
        ),
        cost=TransferCost(len(moves), sum(move.pause_seconds or 0.0 for move in moves)),
        bound=_bound(board, proven),
    )


def _reject_unknown(snapshot: MastersSnapshot, settings: MastersSettings) -> None:
    """Reject unknown nodes: ignored, they would make a plan report a balanced cluster."""
    there = [one.node for one in snapshot.nodes]
    for name in ("drain", "excluded_nodes", "weights"):
        require_known_names(
            f"masters.{name}", getattr(settings, name), "node", there, snapshot.reference.taken_at
        )


# ------------------------------------------------------------ who is to be master


def _solve(board: MastershipBoard, most: int, worth: float) -> ProvenTransfers:
    """Put the best plan on the board, with at most a given number of optional transfers."""
    least = _min_transfers(board)
    _search(board, most, worth)
    most = min(most, int(board.optional.sum()))
    upto = most if board.off.any() else board.transfers
    comparison = ExactSearch(board)
    masters = None
    try:
        try:
            masters = comparison.best_within_epsilon(upto)
            least = upto + 1
        except TooManyPlansError:
            # There are fewer plans with few transfers: each number without a plan is a proof.
            while masters is None and least <= upto:
                masters = comparison.best_within_epsilon(least)
                least += masters is None
        if masters is not None:
            board.put(masters)
            least = board.transfers
        elif board.off.any():
            known = board.unevenness * worth**board.transfers
            board.put(comparison.most_even(most, worth, known))
    except TooManyPlansError:
        pass
    off = bool(board.off.any())
    return ProvenTransfers(least if off else min(least, board.transfers), none=off and least > most)


def _min_transfers(board: MastershipBoard) -> int:
    """Groups that could stay and have to leave nodes in service, in any plan within ε: a lower bound.

    Each such node must give away the load above its share and ε; its largest groups do so with the fewest
    transfers.
    """
    least = 0
    for place in np.flatnonzero(board.compared):
        number = 0
        for node in np.flatnonzero(board.in_service):
            excess = board.carried[node, place] - board.target[node] * (1 + board.epsilon[place])
            own = np.sort(board.share[board.optional & (board.masters == node), place])[::-1]
            if excess > ROUNDING:
                number += int(np.searchsorted(np.cumsum(own), excess - ROUNDING) + 1)
        least = max(least, number)
    return least


def _search(board: MastershipBoard, most: int, worth: float) -> None:
    """One transfer after another, or a swap where none helps, of groups that have moved before as well.

    First each transfer must have a minimum value. If that does not bring every node within ε, all improving
    transfers are made, and then those without the minimum value are reverted.
    """
    for row in board.largest_first(board.must):
        board.assign(row, board.best_target(row))
    for price in (worth, 1.0, worth):
        for _ in range(most + STEPS):
            if not board.off.any() or not _change(board, price, most):
                break
    if not board.off.any():
        _revert_unneeded(board)
        for _ in range(STEPS):
            before = board.masters.copy()
            if not _change(board, 1.0, board.transfers):
                return
            if board.off.any():
                board.put(before)
                return


def _change(board: MastershipBoard, worth: float, most: int) -> bool:
    """Make the transfer that helps most, or the swap; False if neither helps."""
    found = board.best(worth, most)
    if found is None or found.delta >= -SMALL:
        found = board.best_swap(worth, most)
    if found is None or found.delta >= -SMALL:
        return False
    for row, node in found.transfers:
        board.assign(row, node)
    return True


def _revert_unneeded(board: MastershipBoard) -> None:
    """Revert transfers that are not needed for ε, those that cost least first."""
    while True:
        rows = np.flatnonzero(board.optional & (board.masters != board.initial))
        back = board.takes(rows)[np.arange(len(rows)), board.initial[rows]]
        for place in np.argsort(back, kind="stable"):
            row = int(rows[place])
            away = int(board.masters[row])
            board.assign(row, int(board.initial[row]))
            if not board.off.any():
                break
            board.assign(row, away)
        else:
            return


# ------------------------------------------------------------ in which order, why, and what is left


def _transfers(
    snapshot: MastersSnapshot, board: MastershipBoard
) -> list[tuple[int, int, int, TransferReason]]:
    """Each transfer as (group, source, target, reason): necessary ones first, the largest first, then the
    rest.

    Of the rest the one comes next that makes loads most even.
    """
    masters = board.masters.copy()
    board.reset()
    found = []
    for row in board.largest_first(board.must):
        target = int(masters[row])
        found.append((row, int(board.initial[row]), target, _forced_groups(snapshot, board, row, target)))
        board.assign(row, target)
    usage = board.usage
    rest = np.flatnonzero(masters != board.masters)
    while rest.size:
        place = int(board.takes(rest)[np.arange(len(rest)), masters[rest]].argmin())
        row = int(rest[place])
        source, target = int(board.initial[row]), int(masters[row])
        found.append((row, source, target, _transfer_reason(snapshot, board, usage, row, target)))
        board.assign(row, target)
        rest = np.delete(rest, place)
    return found


def _forced_groups(
    snapshot: MastersSnapshot, board: MastershipBoard, row: int, target: int
) -> TransferReason:
    source, group = int(board.initial[row]), snapshot.groups[row].group
    does = f"moves mastership of {group} to node {node_name(snapshot, target)}"
    if source == NO_MASTER:
        text = f"{group} has no master; makes node {node_name(snapshot, target)} its master"
        return TransferReason("nobody", None, text)
    if snapshot.nodes[source].state is NodeState.DEAD:
        return TransferReason("dead", None, f"node {node_name(snapshot, source)} does not answer; {does}")
    return TransferReason("drain", None, f"node {node_name(snapshot, source)} is to be emptied; {does}")


def _transfer_reason(
    snapshot: MastersSnapshot, board: MastershipBoard, usage: FloatArray, row: int, target: int
) -> TransferReason:
    """The reason by the loads after all necessary transfers: from a node with more to one with less, or a
    swap.
    """
    source = int(board.initial[row])
    place = int((usage[source] - usage[target]).argmax())
    goal = "epsilon" if usage[source, place] > usage[target, place] else "order"
    text = (
        f"node {node_name(snapshot, source)} serves {usage[source, place]:.2f} times its share of "
        f"{RESOURCES[place]}; moves mastership of {snapshot.groups[row].group} "
        f"({board.share[row, place]:.1%} of all) to node {node_name(snapshot, target)}, which serves "
        f"{usage[target, place]:.2f} times its share"
    )
    return TransferReason(goal, RESOURCES[place], text)


def _without_target(snapshot: MastersSnapshot, board: MastershipBoard) -> list[Problem]:
    found = []
    for row in np.flatnonzero(board.stuck):
        group = snapshot.groups[row]
        stays = "" if group.master == NO_MASTER else "; it stays"
        text = f"{group.group}: no node that is alive and not behind may have it{stays}"
        found.append(Problem("no_target", text))
    return found


def _unmet(
    snapshot: MastersSnapshot,
    settings: MastersSettings,
    board: MastershipBoard,
    most: int,
    proven: ProvenTransfers,
) -> list[Problem]:
    found = []
    deviation = np.abs(board.usage - 1)
    for place, name in enumerate(RESOURCES):
        off = deviation[:, place]
        if not off.size or not exceeds(off.max(), settings.epsilon[place]):
            continue
        node, largest = int(off.argmax()), int(board.share[:, place].argmax())
        limited = most < int(board.optional.sum())
        limit = f" with {settings.max_moves} transfers (masters.max_moves)" if limited else ""
        if proven.none:
            why = f"no plan{limit} brings every node within epsilon"
        else:
            why = f"the search found no plan{limit} that does better, and has not compared all"
        found.append(
            Problem(
                "unmet_goal",
                f"node {node_name(snapshot, node)}: {off[node]:.1%} from the mean of {name} against epsilon "
                f"{settings.epsilon[place]:.0%}: {why}; the largest group, "
                f"{snapshot.groups[largest].group}, is {board.share[largest, place]:.1%} of all",
                resource=name,
                proof={"worst_deviation": float(off[node])},
            )
        )
    return found


def _bound(board: MastershipBoard, proven: ProvenTransfers) -> TransferBound:
    must = int(board.must.sum())
    leave = f"{must} must leave their nodes or have no master"
    if proven.minimum > board.optional.sum():
        return TransferBound(must, f"{leave}; no plan brings every node within epsilon")
    rest = f"; with fewer than {proven.minimum} others some node stays further than epsilon from its share"
    return TransferBound(must + proven.minimum, leave + rest * bool(proven.minimum))


def _transfer(
    snapshot: MastersSnapshot, order: int, row: int, source: int, target: int, reason: TransferReason
) -> MastershipTransfer:
    group = snapshot.groups[row]
    proposals = PROPOSALS.get(snapshot.scheme)
    known = proposals is not None and group.propose_seconds is not None
    return MastershipTransfer(
        order=order,
        kind=MastershipMoveKind.TRANSFER,
        group=group.group,
        source=node_name(snapshot, source),
        target=snapshot.nodes[target].node,
        queries_per_second=group.queries_per_second,
        bytes_per_second=group.bytes_per_second,
        reason=reason,
        pause_seconds=(proposals or 0) * (group.propose_seconds or 0.0) if known else None,
    )


def node_name(snapshot: MastersSnapshot, place: int) -> str | None:
    """The name of the node at a place of a snapshot; None for nobody."""
    return None if place == NO_MASTER else snapshot.nodes[place].node


def _verdict(problems: tuple[Problem, ...], *, any_move: bool) -> Verdict:
    kinds = {one.kind for one in problems}
    if "no_target" in kinds:
        return Verdict.INFEASIBLE
    if kinds:
        return Verdict.IMPROVED if any_move else Verdict.INCOMPLETE
    return Verdict.BALANCED
