"""A plan held to `max_unloads` and `max_sessions`: what is worth least per client and unload is left out."""

import numpy as np

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.plan.bundles.problem import BundlesProblem
from trimtab.plan.search.limits import UsageLimits, potential
from trimtab.plan.search.rounds import BudgetUse


def apply_limits(problem: BundlesProblem, place: IntArray) -> tuple[IntArray, Problem | None]:
    """The ownership, or as much of it as the limits allow, and then the problem that says so."""
    settings, arrays = problem.settings, problem.arrays
    moved = np.flatnonzero(place != arrays.initial).astype(np.int32)
    each = np.ones(len(moved), np.int32), arrays.cost[moved].astype(np.int64)
    spending = BudgetUse(("unloads", "sessions"), each, (settings.max_unloads, settings.max_sessions))
    unloads, sessions = spending.total
    cut = spending.cut(f"{unloads} unloads that disturb {sessions} clients")
    return (place if cut is None else _reverted(problem, place, moved, spending)), cut


def _reverted(problem: BundlesProblem, place: IntArray, moved: IntArray, spending: BudgetUse) -> IntArray:
    """Send bundles home until the rest is within the limits; all, if that is not enough."""
    arrays = problem.arrays
    kept = place.copy()
    load = problem.load(place)
    goal = problem.limits(load)
    usage = load * arrays.inverse
    top = np.maximum(goal.theta, problem.load(arrays.initial) * arrays.inverse) * (1 + 1e-12)
    harm = np.array([_potential_increase(problem, goal, usage, place, i) for i in moved.tolist()])

    def send_home(k: int) -> bool:
        i = moved[k]
        home, gain = int(arrays.initial[i]), arrays.use[i]
        if home >= 0 and (usage[home] + gain * arrays.inverse[home] > top[home]).any():
            # Others have to go first, or this would lift a broker above θ that was not above it.
            return False
        usage[kept[i]] -= gain * arrays.inverse[kept[i]]
        if home >= 0:
            usage[home] += gain * arrays.inverse[home]
        kept[i] = home
        return True

    return kept if spending.reverted(harm, arrays.must[moved], send_home) else arrays.initial.copy()


def _potential_increase(
    problem: BundlesProblem, goal: UsageLimits, usage: FloatArray, place: IntArray, i: int
) -> float:
    """Rise of the potential if a bundle goes home."""
    arrays = problem.arrays
    here, home, gain = int(place[i]), int(arrays.initial[i]), arrays.use[i]
    rise = potential(goal, usage[here] - gain * arrays.inverse[here], here)
    rise -= potential(goal, usage[here], here)
    if home >= 0:
        rise += potential(goal, usage[home] + gain * arrays.inverse[home], home)
        rise -= potential(goal, usage[home], home)
    return rise
