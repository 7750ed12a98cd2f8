"""The price of evenness: copies that bring too little for their bytes are left out of a plan.

The *unevenness* of a placement is the mean of γ² over the brokers, summed over the resources that ε is asked
of: (N·σ)² of each. The *gain* of copies is the fall of the unevenness, divided by twice the share of all data
that they copy. Of one small copy it is the difference between the deviations of its source and of its
destination: a broker 15 % above the mean and one 5 % below it give .2. It does not depend on the size of the
cluster, nor on what is uneven elsewhere. A copy from a broker that is out of ε to one below the mean gains at
least ε, less its own size; an exchange of two replicas of nearly the same load gains almost nothing.

`min_gain_per_copy` is the least gain. The default is .2: the width of the band of ε, from its upper edge to
its lower one. A plan that brings every broker within ε has no price, because ε says what it is for. Of a plan
that does not, also where rules keep it from that, each copy is judged, alone and with the copy that came in
exchange, and then the whole. θ has no price: no copy is left out that keeps a broker below it.

What a copy gains depends on the other copies. So the price is asked again of what is left once others stayed
home for want of room on the way.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.plan.replicas.placement import Placement
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.board import NEGLIGIBLE
from trimtab.plan.search.limits import UsageLimits, potential

PASSES = 4
PAIRS = 8
"""Copies in exchange that are looked at for each copy, at most."""


def worthwhile(
    problem: ReplicasProblem,
    lawful: Callable[[], Placement],
    placement: Placement,
    earlier: Problem | None = None,
) -> tuple[Placement, Problem | None]:
    """The placement, or what remains of it without copies that cost too much, and the problem that says so.

    Parameters
    ----------
    lawful
        Finds the placement after what must move: copies that it needs have no price. It takes time, so it is
        called only if a price applies.
    earlier
        Says what was left out before, and is returned if nothing else is.
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
    return Placement(pruning.place, pruning.lead), _left_out(pruning, total, earlier)


def _left_out(pruning: "_PrunedPlacement", total: float, earlier: Problem | None) -> Problem:
    """The problem that says what was left out, `earlier` with it."""
    saved = pruning.saved + _price_text(earlier, "copied_share")
    lost, least = pruning.lost + _price_text(earlier, "fall_of_unevenness"), pruning.minimum
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


def _price_text(earlier: Problem | None, name: str) -> float:
    found = 0.0 if earlier is None else earlier.proof[name]
    assert isinstance(found, float)
    return found


def _held_bytes(problem: ReplicasProblem) -> FloatArray:
    """Shape (partitions,): bytes of all replicas of each."""
    return np.asarray((problem.arrays.initial >= 0).sum(axis=1) * problem.arrays.size)


def _copied(problem: ReplicasProblem, placement: Placement) -> FloatArray:
    """Shape (partitions,): bytes that a placement copies of each."""
    return np.asarray(problem.arrived(placement.place).sum(axis=1) * problem.arrays.size)


def _requested(problem: ReplicasProblem, limits: UsageLimits) -> BoolArray:
    """Shape (columns,): resources that ε is asked of."""
    return np.asarray((problem.counted & np.isfinite(limits.low)).any(axis=0))


def _unevenness(problem: ReplicasProblem, limits: UsageLimits, usage: FloatArray) -> float:
    """The mean of γ² over the brokers, summed over the resources that ε is asked of."""
    counted = problem.counted
    each = np.where(counted, usage, 0.0)
    return _of_sums(counted.sum(axis=0), each.sum(axis=0), (each**2).sum(axis=0), _requested(problem, limits))


def _of_sums(number: FloatArray, first: FloatArray, second: FloatArray, request: BoolArray) -> float:
    """The unevenness from the numbers of brokers, and the sums of utilisations and of their squares."""
    with np.errstate(invalid="ignore", divide="ignore"):
        square = np.where(request & (first > 0), number * second / first**2 - 1.0, 0.0)
    return float(square.sum())


@dataclass(eq=False)
class _PrunedPlacement:
    """A placement of which partitions go back to where they lawfully were.

    Attributes
    ----------
    share
        Shape (partitions,): of all data, that is copied besides what must be.
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
        self.requested = _requested(self.problem, self.limits)
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
        """Send home what costs too much, dearest first."""
        for _ in range(PASSES):
            before = len(self.left)
            for p in self._dearest():
                if not self._try([p], self.minimum):
                    for q in self._in_exchange(p):
                        if self._try([p, q], self.minimum):
                            break
            if len(self.left) == before:
                return

    def leave_out_until(self, excess: float) -> None:
        """Send home, dearest first, until the rest gains enough.

        Parameters
        ----------
        excess
            Fall of the unevenness that the whole lacks.
        """
        for p in self._dearest():
            if excess - 2 * self.minimum * self.saved + self.lost <= 0.0:
                return
            self._try([p], np.inf)

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
        return [q for _, q in sorted(near)[:PAIRS]]

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
        """Send these home if they gain less than `least`, and θ is kept."""
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
