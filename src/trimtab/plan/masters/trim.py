"""The planner `trim`: masterships that must leave their nodes first, then the fewest that make loads even."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.files.masters.settings import MastersSettings
from trimtab.model.errors import PlanError
from trimtab.model.level import ROUNDING, exceeds
from trimtab.model.masters.plan import (
    Mastership,
    MastersPlan,
    MoveKind,
    Takeover,
    TakeoverBound,
    TakeoverCost,
    TakeoverReason,
)
from trimtab.model.masters.snapshot import NOBODY, RESOURCES, MastersSnapshot, NodeState
from trimtab.model.plan import Prediction, Problem, Verdict, settings_document
from trimtab.plan.masters.board import Board

if TYPE_CHECKING:
    from trimtab.model.load import BoolArray

PROPOSALS: Final = {"expire": 3, "instate": 1}
"""Proposals in a row for which a group has no master, by scheme; other schemes wait for leases as well."""


@dataclass
class Draft:
    """Takeovers so far, as (group, source, target, reason), and problems."""

    takeovers: list[tuple[int, int, int, TakeoverReason]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def plan_masters(snapshot: MastersSnapshot, settings: MastersSettings) -> MastersPlan:
    """The plan: the same for the same snapshot and settings; what cannot be done stands in its problems.

    Raises
    ------
    PlanError
        If settings name a node that is not in the snapshot.
    """
    _refuse_unknown(snapshot, settings)
    seen = snapshot.as_asked(vars(settings))
    board, draft = Board(seen), Draft()
    bound = _bound(board, settings)
    _leave(seen, board, draft)
    musts = len(draft.takeovers)
    _level(seen, settings, board, draft)
    before, after = seen.imbalance(), seen.imbalance(board.masters.tolist())
    draft.problems += _unmet(seen, settings, board, len(draft.takeovers))
    moves = tuple(_takeover(seen, order, *one) for order, one in enumerate(draft.takeovers, 1))
    return MastersPlan(
        level="masters",
        strategy="trim",
        seed=0,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=_verdict(draft),
        moves=moves,
        predicted=Prediction(before.measures(), after.measures()),
        problems=tuple(draft.problems),
        system=snapshot.system,
        version=snapshot.version,
        assignments=tuple(
            Mastership(group.group, _name(seen, group.master), _name(seen, int(after_place)))
            for group, after_place in zip(seen.groups, board.masters, strict=True)
        ),
        cost=TakeoverCost(len(moves), sum(move.pause_seconds or 0.0 for move in moves)),
        bound=TakeoverBound(
            musts + bound,
            f"{musts} must leave their nodes or have no master; the least that overloaded nodes must give",
        ),
    )


def _refuse_unknown(snapshot: MastersSnapshot, settings: MastersSettings) -> None:
    """Refuse nodes that are not there: passed over, they would make a plan say that all is level."""
    there = [one.node for one in snapshot.nodes]
    for name in ("drain", "muted", "weights"):
        for node in getattr(settings, name):
            if node not in there:
                raise PlanError(
                    f"masters.{name}: node {node} is not one of {', '.join(there)}, which the snapshot of "
                    f"{snapshot.reference.taken_at} knows; correct it"
                )


def _leave(snapshot: MastersSnapshot, board: Board, draft: Draft) -> None:
    """Masterships of nodes that are dead or being emptied, and groups without a master: the largest first."""
    must = [
        row
        for row, group in enumerate(snapshot.groups)
        if group.master == NOBODY or not board.in_service[group.master]
    ]
    for row in sorted(must, key=lambda one: (-float(board.share[one].sum()), one)):
        group = snapshot.groups[row]
        target = board.best_target(row)
        if target is None:
            told = "; it stays" if group.master != NOBODY else ""
            draft.problems.append(
                Problem("no_target", f"{group.group}: no node that is alive and not behind may have it{told}")
            )
            continue
        if group.master == NOBODY:
            reason = TakeoverReason("nobody", None, "no node is its master")
        elif snapshot.nodes[group.master].state is NodeState.DEAD:
            reason = TakeoverReason("dead", None, f"node {_name(snapshot, group.master)} does not answer")
        else:
            reason = TakeoverReason("drain", None, f"node {_name(snapshot, group.master)} is being emptied")
        draft.takeovers.append((row, group.master, target, reason))
        board.take(row, target)


def _level(snapshot: MastersSnapshot, settings: MastersSettings, board: Board, draft: Draft) -> None:
    """One takeover after another, or a swap where none helps, until every node is within ε."""
    moved = {row for row, *_ in draft.takeovers}
    free = np.array(
        [
            row not in moved
            and group.master != NOBODY
            and bool(board.in_service[group.master])
            and (group.held_seconds is None or group.held_seconds >= settings.settle_seconds)
            for row, group in enumerate(snapshot.groups)
        ],
        dtype=np.bool_,
    )
    while len(draft.takeovers) < settings.takeovers_most and _off(board, settings).any():
        least = -settings.gain_least * board.unevenness
        found = board.best(free)
        if found is None or found.delta > least:
            found = board.best_swap(free)
        if (
            found is None
            or found.delta > least
            or found.delta >= 0
            or len(draft.takeovers) + len(found.takeovers) > settings.takeovers_most
        ):
            return
        usage = board.usage
        place = int(np.abs(usage - 1).max(axis=0).argmax())
        for number, (row, target) in enumerate(found.takeovers):
            source = int(board.masters[row])
            goal = "order" if number else "epsilon"
            told = (
                f"node {_name(snapshot, source)} has {usage[source, place]:.2f} times its share of "
                f"{RESOURCES[place]}, node {_name(snapshot, target)} {usage[target, place]:.2f}; "
                f"this group is {board.share[row, place]:.1%} of all"
            )
            draft.takeovers.append((row, source, target, TakeoverReason(goal, RESOURCES[place], told)))
        for row, target in found.takeovers:
            board.take(row, target)
            free[row] = False


def _off(board: Board, settings: MastersSettings) -> BoolArray:
    """Shape (nodes, resources): further than ε from its share."""
    return exceeds(np.abs(board.usage - 1), np.array(settings.epsilon))


def _unmet(
    snapshot: MastersSnapshot, settings: MastersSettings, board: Board, takeovers: int
) -> list[Problem]:
    found = []
    for place, name in enumerate(RESOURCES):
        off = np.abs(board.usage[:, place] - 1)
        if not off.size or not snapshot.groups or not exceeds(off.max(), settings.epsilon[place]):
            continue
        node = int(off.argmax())
        largest = int(board.share[:, place].argmax())
        why = (
            f"the plan has {takeovers} takeovers (masters.takeovers_most)"
            if takeovers >= settings.takeovers_most
            else f"the largest group, {snapshot.groups[largest].group}, is {board.share[largest, place]:.1%} "
            "of all, and no takeover or swap that may be made helps more"
        )
        found.append(
            Problem(
                "unmet_goal",
                f"node {_name(snapshot, node)}: {off[node]:.1%} from the mean of {name} against epsilon "
                f"{settings.epsilon[place]:.0%}: {why}",
                resource=name,
                proof={"worst_deviation": float(off[node])},
            )
        )
    return found


def _bound(board: Board, settings: MastersSettings) -> int:
    """The fewest masterships that leave nodes in service, in any plan that brings them within ε.

    Each such node must give what is above its share and ε; its largest groups are the fewest that do.
    """
    most = 0
    for place in range(len(RESOURCES)):
        number = 0
        for node in np.flatnonzero(board.in_service):
            excess = board.carried[node, place] - board.target[node] * (1 + settings.epsilon[place])
            own = np.sort(board.share[board.masters == node, place])[::-1]
            if excess > ROUNDING:
                number += int(np.searchsorted(np.cumsum(own), excess - ROUNDING) + 1)
        most = max(most, number)
    return most


def _takeover(
    snapshot: MastersSnapshot, order: int, row: int, source: int, target: int, reason: TakeoverReason
) -> Takeover:
    group = snapshot.groups[row]
    proposals = PROPOSALS.get(snapshot.scheme)
    known = proposals is not None and group.propose_seconds is not None
    return Takeover(
        order=order,
        kind=MoveKind.TAKEOVER,
        group=group.group,
        source=_name(snapshot, source),
        target=snapshot.nodes[target].node,
        queries_per_second=group.queries_per_second,
        bytes_per_second=group.bytes_per_second,
        reason=reason,
        pause_seconds=(proposals or 0) * (group.propose_seconds or 0.0) if known else None,
    )


def _name(snapshot: MastersSnapshot, place: int) -> str | None:
    return None if place == NOBODY else snapshot.nodes[place].node


def _verdict(draft: Draft) -> Verdict:
    kinds = {one.kind for one in draft.problems}
    if "no_target" in kinds:
        return Verdict.INFEASIBLE
    if kinds:
        return Verdict.IMPROVED if draft.takeovers else Verdict.INCOMPLETE
    return Verdict.LEVELLED if draft.takeovers else Verdict.LEVEL
