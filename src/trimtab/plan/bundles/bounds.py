"""Lower bound on the clients that any plan meeting the goals must disturb.

Every overloaded broker must lose its excess: bundles leave it at the cost of their sessions. That is a small
covering problem, and every price vector of its dual gives a lower bound (`trimtab.plan.search.covering`).
Brokers do not share departures, so their bounds add up, and so do the sessions of all bundles that must go.
The same from the other side: what underloaded brokers lack must arrive. The bigger of the two is the bound.
The bound holds for plans that split the same bundles as this one: a bundle that is split otherwise might move
in part.
"""

import numpy as np

from trimtab.model.bundles.plan import BundleBound
from trimtab.model.load import BoolArray, FloatArray
from trimtab.plan.bundles.problem import BundlesProblem
from trimtab.plan.search.compiled import entry
from trimtab.plan.search.covering import dual_bound
from trimtab.plan.search.limits import UsageLimits

SWEEPS = 2
SLACK = 1e-6
"""Relative: rounding must not lift a bound above the truth."""

WIDEST = 2
"""Columns of greatest need that take part in one covering problem; leaving others out only lowers a bound."""


@entry
def _covered(need, scale, items, use, cost, sweeps):
    """`dual_bound` of some bundles, over the columns whose need is greatest."""
    # Each further column makes the ascent slower; one that is left out only lowers the bound.
    ranked = np.argsort(-need * scale, kind="mergesort")[:WIDEST]
    chosen = np.empty((len(items), len(ranked)))
    paid = np.empty(len(items))
    asked = np.empty(len(ranked))
    for c in range(len(ranked)):
        asked[c] = need[ranked[c]]
    for k in range(len(items)):
        paid[k] = cost[items[k]]
        for c in range(len(ranked)):
            chosen[k, c] = use[items[k], ranked[c]]
    return dual_bound(asked, chosen, paid, sweeps)


@entry
def departures(start, member, need, scale, use, cost, sweeps):
    """Sessions that must leave the brokers above their ceilings, besides the bundles that must leave anyway.

    Parameters
    ----------
    start, member
        Movable bundles of broker b: `member[start[b]:start[b + 1]]`.
    need
        Shape (brokers, columns): load beyond the ceiling.
    scale
        Shape (columns,): 1 / what a broker usually carries, so that needs are comparable.
    """
    total = 0.0
    for b in range(len(need)):
        if need[b].max() > 0.0:
            total += _covered(need[b], scale, member[start[b] : start[b + 1]], use, cost, sweeps)
    return total


def bound_of(problem: BundlesProblem, goal: UsageLimits, load: FloatArray, fixed: BoolArray) -> BundleBound:
    """The bound, with its proof in words.

    Parameters
    ----------
    goal
        The goals' own limits, around the mean that every plan that meets them ends with.
    load
        Shape (brokers, columns): of the snapshot.
    fixed
        Shape (columns,): whether that mean is the same for all plans.
    """
    arrays, capacity = problem.arrays, problem.capacity
    forced = float(arrays.cost[arrays.must].sum())
    with np.errstate(invalid="ignore"):
        top = np.where(fixed, goal.high, goal.theta) * capacity * (1 + SLACK)
        bottom = np.where(fixed, goal.low, -np.inf) * capacity * (1 - SLACK)
    asked = problem.counted
    # Bundles that must leave a broker in service take their load along; `forced` counts their cost.
    forced_rows = np.flatnonzero(arrays.must & (arrays.initial >= 0))
    stays = load.copy()
    np.add.at(stays, arrays.initial[forced_rows], -arrays.use[forced_rows])
    over = np.where(asked & np.isfinite(top), stays - top, -np.inf)
    under = np.where(asked & np.isfinite(bottom), np.maximum(bottom - load, 0.0), 0.0)
    scale = 1.0 / np.maximum(load.mean(axis=0), 1e-300)
    rows = np.flatnonzero(arrays.movable & (arrays.initial >= 0) & ~arrays.must)
    rows = rows[np.argsort(arrays.initial[rows], kind="stable")]
    start = np.searchsorted(arrays.initial[rows], np.arange(len(load) + 1))
    leave = float(departures(start, rows, over, scale, arrays.use, arrays.cost, SWEEPS))
    # `forced` counts the cost of unowned bundles and of bundles that must leave their broker.
    anyone = np.flatnonzero(arrays.movable & ((arrays.initial >= 0) | arrays.must))
    arrive = float(_covered(under.sum(axis=0), scale, anyone, arrays.use, arrays.cost, SWEEPS))
    least = max(forced + leave, arrive)
    proof = (
        f"{forced:.0f} sessions of bundles that must get another broker, {leave:.0f} to bring every broker "
        f"down to its limits (dual of the covering problem), {arrive:.0f} to lift every broker to its lower "
        "limits; bound = max(first + second, third), among plans that make the same splits"
    )
    return BundleBound(int(np.ceil(least * (1 - SLACK) - 1e-9)), proof)
