"""Copies and moves left out of a plan: those beyond its limits, and those of too little value.

`max_bytes` and `max_moves` limit a plan: the moves with the least value per byte and move are left out
(`apply_limits`).

The price of evenness leaves out copies of too little value for their bytes (`worthwhile`). The *unevenness*
of a placement is the mean of γ² over the brokers, summed over the resources that ε is asked of: (N·σ)² of
each. The *gain* of copies is the fall of the unevenness, divided by twice the share of all data that they
copy. Of one small copy it is the difference between the deviations of its source and of its destination: a
broker 15 % above the mean and one 5 % below it give 0.2. It depends neither on the size of the cluster nor on
unevenness elsewhere. A copy from a broker that is out of ε to one below the mean gains at least ε, less its
own size; an exchange of two replicas of nearly the same load gains almost nothing.

`min_gain_per_copy` is the least gain. The default is 0.2: the width of the band of ε, from its upper edge to
its lower one. The price does not apply to a plan that brings every broker within ε. In other plans, also if
rules prevent ε, each copy is evaluated, alone and with the copy in exchange, and then the whole plan. Leader
transfers that were chosen for copies left out, and that make the load less even without them, go too. The
price does not apply to θ: no copy is left out that keeps a broker below it.

The gain of a copy depends on the other copies. So the price is applied again after copies were left out
because disks lack space during the execution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.topics import LEADERS, REPLICAS
from trimtab.plan.replicas.arrays import Placement, crowding
from trimtab.plan.replicas.board import topic_rise, topic_table
from trimtab.plan.replicas.headroom import with_leaders_moved
from trimtab.plan.replicas.moves import REPLICA_STEP, path_to
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.board import NEGLIGIBLE
from trimtab.plan.search.limits import UsageLimits, potential
from trimtab.plan.search.rounds import Amounts, BudgetUse

SWAPS = 24
"""Maximum number of moves that are tried to be given up for a leader transfer."""


class ReducedProblem(NamedTuple):
    """The problem of moves left out by limits, and the partitions that stay for this reason."""

    problem: Problem
    partitions: IntArray


def apply_limits(problem: ReplicasProblem, placement: Placement) -> tuple[Placement, ReducedProblem | None]:
    """The placement, or the part of it within the limits with the changes left out."""
    settings = problem.settings
    if settings.max_bytes is None and settings.max_moves is None:
        return placement, None
    chosen, copied, steps = _costs(problem, placement)
    spending = BudgetUse(("bytes", "moves"), (copied, steps), (settings.max_bytes, settings.max_moves))
    total_bytes, total_moves = spending.total
    moves = f"{total_moves} move{'s' if total_moves != 1 else ''}"
    cut = spending.cut(f"{total_bytes} bytes in {moves}")
    if cut is None:
        return placement, None
    kept = _reverted(problem, placement, chosen, spending)
    kept = _leaders_first(problem, _with_free_leaders(problem, kept))
    changed = (kept.place != placement.place).any(axis=1) | (kept.lead != placement.lead)
    return kept, ReducedProblem(cut, np.asarray(np.flatnonzero(changed), dtype=np.int32))


def _costs(problem: ReplicasProblem, placement: Placement) -> tuple[IntArray, Amounts, Amounts]:
    """Changed partitions, with the bytes and the moves of each."""
    arrays = problem.arrays
    (kind, partition, _, target, _), chosen, *_ = path_to(problem, placement)
    size = np.rint(arrays.size).astype(np.int64)
    number = len(arrays.initial)
    steps = np.bincount(partition, minlength=number)[chosen]
    copies = np.bincount(partition[(kind == REPLICA_STEP) & (target < problem.brokers)], minlength=number)[
        chosen
    ]
    return chosen, copies * size[chosen], steps


def _reverted(
    problem: ReplicasProblem, placement: Placement, chosen: IntArray, spending: BudgetUse
) -> Placement:
    """Revert partitions until the rest is within the limits; all, if necessary."""
    place, lead = placement.place.copy(), placement.lead.copy()
    borne = problem.carried_load(placement)
    goal = problem.limits(borne)
    home, inverse = problem.initial_placement, problem.carriers.inverse
    usage = borne * inverse
    counted = goal.weight > 0
    theta = goal.theta if np.isfinite(goal.theta).any() else np.full_like(usage, np.inf)
    top = np.maximum(theta, problem.carried_load(home) * inverse)
    harm = np.array([_change(problem, goal, usage, placement, p)[0] for p in chosen.tolist()])
    harm += _topics_risen(problem, placement, chosen)

    def send_home(i: int) -> bool:
        nonlocal usage
        p = int(chosen[i])
        _, after = _change(problem, goal, usage, placement, p)
        touched = np.flatnonzero((after != usage).any(axis=1))
        if (counted[touched] & (after[touched] > top[touched] * (1 + 1e-12))).any():
            # Others must be reverted first, otherwise this would lift a broker above θ.
            return False
        usage = after
        place[p], lead[p] = problem.arrays.initial[p], problem.initial_leader[p]
        return True

    return (
        Placement(place, lead) if spending.reverted(harm, breaks_rules(problem)[chosen], send_home) else home
    )


def _with_free_leaders(problem: ReplicasProblem, retained: Placement) -> Placement:
    """The placement with leader transfers that need no copy, as many as `max_moves` allows."""
    found = with_leaders_moved(problem, retained)
    most = problem.settings.max_moves
    if most is not None:
        rows = np.flatnonzero(found.lead != retained.lead)
        spare = max(most - len(path_to(problem, retained).steps.kind), 0)
        lead = found.lead.copy()
        lead[rows[spare:]] = retained.lead[rows[spare:]]
        found = Placement(found.place, lead)
    return found


def _leaders_first(problem: ReplicasProblem, retained: Placement) -> Placement:
    """The placement without moves that serve no request, if more leaders can be transferred instead.

    A move that keeps brokers below θ for changes left out by limits is no longer necessary. And a transfer
    that needs space takes two moves, while another leader may need one.
    """
    waiting = np.flatnonzero(with_leaders_moved(problem, retained).lead != retained.lead)
    if problem.settings.max_moves is None or problem.resizes or not len(waiting):
        return retained
    limits = problem.limits(problem.carried_load(retained))
    top = np.maximum(
        limits.theta, np.maximum(problem.usage(problem.initial_placement), problem.usage(retained))
    ) * (1 + 1e-12)
    others = problem.changed(retained) & ~problem.needed
    best = _served(problem, retained)
    for p in np.flatnonzero(others)[:SWAPS].tolist():
        found = _with_free_leaders(problem, _without_partition(problem, retained, p, limits, top))
        served = _served(problem, found)
        if served < best and not (problem.usage(found) > top).any():
            retained, best = found, served
    return retained


def _without_partition(
    problem: ReplicasProblem, retained: Placement, p: int, limits: UsageLimits, top: FloatArray
) -> Placement:
    """The placement with a partition reverted, and with it those for which it had made space."""
    place, lead = retained.place.copy(), retained.lead.copy()
    while True:
        place[p], lead[p] = problem.arrays.initial[p], problem.initial_leader[p]
        found = Placement(place, lead)
        usage, changed = problem.usage(found), np.flatnonzero(problem.changed(found)).tolist()
        over = np.argwhere(usage > top)
        if not len(over) or not changed:
            return found
        at = tuple(over[0])
        p = min(changed, key=lambda q: _change(problem, limits, usage, found, q)[1][at])


def _served(problem: ReplicasProblem, placement: Placement) -> tuple[int, int]:
    """How much of a request is undone, in partitions, and the moves that a placement takes."""
    undone = problem.needed & ~problem.changed(placement)
    return int(undone.sum()), len(path_to(problem, placement).steps.kind)


def breaks_rules(problem: ReplicasProblem) -> BoolArray:
    """Shape (partitions,): the snapshot's placement violates a hard goal, so these are reverted last."""
    arrays = problem.arrays
    return np.asarray(
        problem.needed
        | crowding(arrays.initial, arrays.rack, arrays.rack_cap)
        | crowding(arrays.initial, arrays.host, arrays.host_cap)
    )


def _topics_risen(problem: ReplicasProblem, placement: Placement, chosen: IntArray) -> FloatArray:
    """Shape of `chosen`: rise of the potential by topics if each partition alone were reverted."""
    found, asked = np.zeros(len(chosen)), problem.topics
    if asked is None:
        return found
    table = topic_table(asked, placement.place, placement.leader)
    for i, p in enumerate(chosen.tolist()):
        if asked.row[p] >= 0:
            change = np.zeros((len(asked.counted), 2), dtype=np.int32)
            for of, sign in ((placement, -1), (problem.initial_placement, 1)):
                change[of.place[p][of.place[p] >= 0], REPLICAS] += sign
                if of.lead[p] >= 0:
                    change[of.place[p, of.lead[p]], LEADERS] += sign
            found[i] = topic_rise(table, int(asked.row[p]), change)
    return found


def _change(
    problem: ReplicasProblem, goal: UsageLimits, usage: FloatArray, placement: Placement, p: int
) -> tuple[float, FloatArray]:
    """The effect of reverting a partition: rise of the potential, and the utilisations afterwards."""
    arrays = problem.wide
    after = usage.copy()
    touched = set()
    for place, lead, sign in (
        (placement.place[p], placement.lead[p], -1),
        (arrays.initial[p], problem.initial_leader[p], 1),
    ):
        for slot, b in enumerate(place.tolist()):
            if b >= 0:
                for row in {b, int(arrays.host_row[b])} - {-1}:
                    after[row] += sign * arrays.use[p, int(slot == lead)] * arrays.inverse[row]
                    touched.add(row)
    rows = sorted(touched)
    return potential(goal, after[rows], rows) - potential(goal, usage[rows], rows), after


PRUNE_PASSES = 4
PRUNE_PAIRS = 8
"""Maximum number of exchanged copies that are checked for each copy."""


def worthwhile(
    problem: ReplicasProblem,
    lawful: Callable[[], Placement],
    placement: Placement,
    earlier: Problem | None = None,
) -> tuple[Placement, Problem | None]:
    """The placement, or the rest of it without copies that cost too much, and the problem that reports this.

    Parameters
    ----------
    lawful
        Finds the placement after the necessary moves: the price does not apply to their copies. It is slow,
        so it is called only if a price applies.
    earlier
        The problem of earlier left-out moves, returned if nothing else is left out.
    """
    if "epsilon" not in problem.settings.goals or not problem.carriers.plain or problem.topics is not None:
        return placement, earlier
    borne = problem.carried_load(placement)
    limits, usage = problem.limits(borne), borne * problem.carriers.inverse
    if potential(problem.bare_limits(borne, stretched=False), usage) <= NEGLIGIBLE:
        return placement, earlier
    least, total, start = problem.settings.min_gain_per_copy, float(_held_bytes(problem).sum()), lawful()
    extra = _copied(problem, placement) - _copied(problem, start)
    if total <= 0.0 or not (extra > 0).any():
        return placement, earlier
    gain = _unevenness(problem, limits, problem.usage(start)) - _unevenness(problem, limits, usage)
    paid = float(extra.sum()) / total
    pruning = _PrunedPlacement(problem, start, limits, usage, placement, extra / total, least)
    before = np.inf
    while len(pruning.left) < before:
        before = len(pruning.left)
        pruning.leave_out()
        if 2 * least * (paid - pruning.saved) > gain - pruning.lost:
            pruning.leave_out_until(2 * least * paid - gain)
    if not pruning.saved:
        return placement, earlier
    pruning.leave_out_leaders()
    return Placement(pruning.place, pruning.lead), _pruned_problem(pruning, total, earlier)


def _pruned_problem(pruning: "_PrunedPlacement", total: float, earlier: Problem | None) -> Problem:
    """The problem of all moves left out, including `earlier`."""
    saved = pruning.saved + _earlier_figure(earlier, "copied_share")
    lost, least = pruning.lost + _earlier_figure(earlier, "fall_of_unevenness"), pruning.minimum
    return Problem(
        "limit_reached",
        f"copies of {saved:.2%} of all data, {saved * total:.6g} bytes, are left out: their gain is "
        f"{max(lost, 0.0) / (2 * saved):.4f}, less than replicas.min_gain_per_copy {least:g}",
        proof={
            "bytes": saved * total,
            "copied_share": saved,
            "fall_of_unevenness": lost,
            "gain": lost / (2 * saved),
            "min_gain_per_copy": least,
        },
    )


def _earlier_figure(earlier: Problem | None, name: str) -> float:
    found = 0.0 if earlier is None else earlier.proof[name]
    assert isinstance(found, float)
    return found


def _held_bytes(problem: ReplicasProblem) -> FloatArray:
    """Shape (partitions,): bytes of all replicas of each."""
    return np.asarray((problem.arrays.initial >= 0).sum(axis=1) * problem.arrays.size)


def _copied(problem: ReplicasProblem, placement: Placement) -> FloatArray:
    """Shape (partitions,): bytes that a placement copies of each."""
    return np.asarray(problem.arrived(placement.place).sum(axis=1) * problem.arrays.size)


def _epsilon_columns(problem: ReplicasProblem, limits: UsageLimits) -> BoolArray:
    """Shape (columns,): resources to which ε applies."""
    return np.asarray((problem.counted & np.isfinite(limits.low)).any(axis=0))


def _unevenness(problem: ReplicasProblem, limits: UsageLimits, usage: FloatArray) -> float:
    """The mean of γ² over the brokers, summed over the resources to which ε applies."""
    counted = problem.counted
    each = np.where(counted, usage, 0.0)
    return _of_sums(
        counted.sum(axis=0), each.sum(axis=0), (each**2).sum(axis=0), _epsilon_columns(problem, limits)
    )


def _of_sums(number: FloatArray, first: FloatArray, second: FloatArray, request: BoolArray) -> float:
    """The unevenness from the numbers of brokers, and the sums of utilisations and of their squares."""
    with np.errstate(invalid="ignore", divide="ignore"):
        square = np.where(request & (first > 0), number * second / first**2 - 1.0, 0.0)
    return float(square.sum())


@dataclass(eq=False)
class _PrunedPlacement:
    """A placement from which partitions are reverted to their lawful places.

    Attributes
    ----------
    share
        Shape (partitions,): share of all data that is copied beyond the necessary copies.
    saved, lost
        Share of data no longer copied, and fall of the unevenness that this gives up.
    """

    problem: ReplicasProblem
    lawful: Placement
    limits: UsageLimits
    usage: FloatArray
    placement: Placement
    share: FloatArray
    minimum: float
    saved: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        self.place, self.lead = self.placement.place.copy(), self.placement.lead.copy()
        self.requested = _epsilon_columns(self.problem, self.limits)
        self.number = self.problem.counted.sum(axis=0)
        self.unevenness = _unevenness(self.problem, self.limits, self.usage)
        each = np.where(self.problem.counted, self.usage, 0.0)
        self.first, self.second = each.sum(axis=0), (each**2).sum(axis=0)
        self.left = set(np.flatnonzero(self.share > 0).tolist())
        self.broker_pairs = {p: _broker_pairs(self.lawful.place[p], self.place[p]) for p in sorted(self.left)}
        self.by_broker_pair: dict[tuple[int, int], list[int]] = {}
        for p, ways in self.broker_pairs.items():
            for way in ways:
                self.by_broker_pair.setdefault(way, []).append(p)

    def leave_out(self) -> None:
        """Revert copies that cost too much, the most expensive first."""
        for _ in range(PRUNE_PASSES):
            before = len(self.left)
            for p in self._dearest():
                if not self._try([p], self.minimum):
                    for q in self._in_exchange(p):
                        if self._try([p, q], self.minimum):
                            break
            if len(self.left) == before:
                return

    def leave_out_until(self, excess: float) -> None:
        """Revert copies, the most expensive first, until the rest gains enough.

        Parameters
        ----------
        excess
            Fall of the unevenness that the whole lacks.
        """
        for p in self._dearest():
            if excess - 2 * self.minimum * self.saved + self.lost <= 0.0:
                return
            self._try([p], np.inf)

    def leave_out_leaders(self) -> None:
        """Revert what makes the load less even without the copies left out: leaders, or all that remains."""
        copied = self.left
        moved = (self.place == self.lawful.place).all(axis=1) & (self.lead != self.lawful.lead)
        leaders = np.flatnonzero(moved & (self.lawful.lead >= 0) & ~self.problem.needed).tolist()
        self.left = copied | set(leaders)
        for _ in range(PRUNE_PASSES):
            before = len(self.left)
            for _, p in sorted((self._rise(self._after([p])), p) for p in leaders):
                self._try([p], 0.0)
            if len(self.left) == before:
                break
        for rows in (self.left - copied, self.left):
            self._try(sorted(rows), 0.0)

    def _dearest(self) -> list[int]:
        worth = [(self._rise(self._after([p])) / self.share[p], p) for p in self.left]
        return [p for _, p in sorted(worth)]

    def _in_exchange(self, p: int) -> list[int]:
        """Partitions that were copied the other way, those of nearly the same size first."""
        back = {
            q
            for source, target in self.broker_pairs[p]
            for q in self.by_broker_pair.get((target, source), ())
        }
        near = [(abs(self.share[q] - self.share[p]), q) for q in back & self.left if q != p]
        return [q for _, q in sorted(near)[:PRUNE_PAIRS]]

    def _after(self, rows: list[int]) -> FloatArray:
        """Utilisations once these are home."""
        use, inverse = self.problem.arrays.use, self.problem.carriers.inverse
        after = self.usage.copy()
        for p in rows:
            for place, lead, sign in (
                (self.place[p], self.lead[p], -1),
                (self.lawful.place[p], self.lawful.lead[p], 1),
            ):
                for slot, b in enumerate(place.tolist()):
                    if b >= 0:
                        after[b] += sign * use[p, int(slot == lead)] * inverse[b]
        return after

    def _rise(self, after: FloatArray) -> float:
        touched = np.flatnonzero((after != self.usage).any(axis=1))
        counted = self.problem.counted[touched]
        was, now = np.where(counted, self.usage[touched], 0.0), np.where(counted, after[touched], 0.0)
        first = self.first + (now - was).sum(axis=0)
        second = self.second + (now**2 - was**2).sum(axis=0)
        return _of_sums(self.number, first, second, self.requested) - self.unevenness

    def _try(self, rows: list[int], least: float) -> bool:
        """Revert these if they gain less than `least` and θ still holds."""
        if any(p not in self.left for p in rows):
            return False
        after = self._after(rows)
        rise = self._rise(after)
        share = float(self.share[rows].sum())
        over = (after > np.maximum(self.limits.theta, self.usage) * (1 + 1e-12)) & self.problem.counted
        if 2 * least * share <= rise or over.any():
            return False
        for p in rows:
            self.place[p], self.lead[p] = self.lawful.place[p], self.lawful.lead[p]
            self.left.remove(p)
        each = np.where(self.problem.counted, after, 0.0)
        self.usage, self.first, self.second = after, each.sum(axis=0), (each**2).sum(axis=0)
        self.saved, self.lost, self.unevenness = self.saved + share, self.lost + rise, self.unevenness + rise
        return True


def _broker_pairs(before: IntArray, after: IntArray) -> list[tuple[int, int]]:
    """Pairs of a broker that a partition left and one that it came to."""
    then, now = set(before.tolist()) - {-1}, set(after.tolist()) - {-1}
    return [(source, target) for source in sorted(then - now) for target in sorted(now - then)]
