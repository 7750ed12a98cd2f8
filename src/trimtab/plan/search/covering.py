"""Compiled: a lower bound of the cost of the items that must leave a place so that the rest fits.

Minimise c·x with U x >= e and 0 <= x <= 1; by duality every price vector λ >= 0 gives e·λ - Σ (u·λ - c)₊ as a
lower bound, so the ascent below may stop at any point, and its result is still a bound.
"""

import numpy as np

from trimtab.plan.search.compiled import inner


@inner
def _best_price(need, use, cost, price, r):
    """The price of resource `r` that maximises the dual, with the others fixed, by a walk over its
    breakpoints.
    """
    wide = use.shape[1]
    number = 0
    points = np.empty(len(cost))
    loads = np.empty(len(cost))
    for i in range(len(cost)):
        if use[i, r] <= 0.0:
            continue
        rest = cost[i]
        for k in range(wide):
            if k != r:
                rest -= use[i, k] * price[k]
        points[number] = rest / use[i, r]
        loads[number] = use[i, r]
        number += 1
    covered = 0.0
    # Along one price the dual is concave and linear between breakpoints: its maximum is at the point at which
    # the need is covered.
    ranked = np.argsort(points[:number], kind="mergesort")
    for i in ranked:
        covered += loads[i]
        if covered >= need[r]:
            return max(points[i], 0.0)
    # Even all replicas do not cover the need; any price is equally good, and the last one is finite.
    return max(points[ranked[-1]], 0.0) if number else 0.0


@inner
def dual_bound(need, use, cost, sweeps):
    """Lower bound of the covering problem.

    Parameters
    ----------
    need
        Shape (resources,): e, at most zero for resources without a need.
    use
        Shape (items, resources): U; not negative. If several views are balanced, each has columns of its own.
    cost
        Shape (items,): c: bytes, or whatever departures cost.
    """
    best = 0.0
    wide = use.shape[1]
    # The ascent changes one price at a time, and its end depends on the first price. The best of all ends is
    # a bound as well.
    for start in range(wide):
        if need[start] <= 0.0:
            continue
        price = np.zeros(wide)
        for _ in range(sweeps):
            for turn in range(wide):
                r = (start + turn) % wide
                if need[r] > 0.0:
                    price[r] = _best_price(need, use, cost, price, r)
            bound = 0.0
            for r in range(wide):
                bound += max(need[r], 0.0) * price[r]
            for i in range(len(cost)):
                paid = -cost[i]
                for r in range(wide):
                    paid += use[i, r] * price[r]
                if paid > 0.0:
                    bound -= paid
            best = max(best, bound)
    return best
