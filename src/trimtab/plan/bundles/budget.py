"""A plan held to `max_unloads` and `max_sessions`: what is worth least per client and unload is left out."""

import numpy as np

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.plan.bundles.problem import ProblemData
from trimtab.plan.search.limits import Limits, potential

TRIES = 4


def within_budget(problem: ProblemData, place: IntArray) -> tuple[IntArray, Problem | None]:
    """The ownership, or as much of it as the limits allow, and then the problem that says so."""
    settings = problem.settings
    if settings.max_unloads is None and settings.max_sessions is None:
        return place, None
    moved = np.flatnonzero(place != problem.arrays.home).astype(np.int32)
    sessions = int(problem.arrays.cost[moved].sum())
    most = (
        np.inf if settings.max_unloads is None else settings.max_unloads,
        np.inf if settings.max_sessions is None else settings.max_sessions,
    )
    if len(moved) <= most[0] and sessions <= most[1]:
        return place, None
    cut = Problem(
        "limit_reached",
        f"meeting the goals took this planner {len(moved)} unloads that disturb {sessions} clients, more "
        "than "
        f"max_unloads {settings.max_unloads} or max_sessions {settings.max_sessions} allow; the least useful "
        "were left out",
        proof={
            "unloads": len(moved),
            "sessions": sessions,
            "max_unloads": settings.max_unloads,
            "max_sessions": settings.max_sessions,
        },
    )
    return _reverted(problem, place, moved, most), cut


def _reverted(problem: ProblemData, place: IntArray, moved: IntArray, most: tuple[float, float]) -> IntArray:
    """Send bundles home, the least useful for their price first, until the rest is within the limits."""
    arrays = problem.arrays
    kept = place.copy()
    load = problem.load(place)
    goal = problem.limits(load)
    usage = load * arrays.inverse
    top = np.maximum(goal.theta, problem.load(arrays.home) * arrays.inverse) * (1 + 1e-12)
    price = 1 / max(most[0], 1.0) + arrays.cost[moved] / max(most[1], 1.0)
    harm = np.array([_harm(problem, goal, usage, place, i) for i in moved.tolist()])
    order = moved[np.lexsort((harm / np.maximum(price, 1e-12), arrays.must[moved]))].tolist()
    unloads, sessions = len(moved), float(arrays.cost[moved].sum())
    for _ in range(TRIES):
        later = []
        for i in order:
            if unloads <= most[0] and sessions <= most[1]:
                return kept
            home, gain = int(arrays.home[i]), arrays.use[i]
            if home >= 0 and (usage[home] + gain * arrays.inverse[home] > top[home]).any():
                # Others have to go first, or this would lift a broker above θ that was not above it.
                later.append(i)
                continue
            if unloads <= most[0] and arrays.cost[i] == 0:
                later.append(i)
                continue
            usage[kept[i]] -= gain * arrays.inverse[kept[i]]
            if home >= 0:
                usage[home] += gain * arrays.inverse[home]
            kept[i] = home
            unloads, sessions = unloads - 1, sessions - float(arrays.cost[i])
        order = later
    return kept if unloads <= most[0] and sessions <= most[1] else arrays.home.copy()


def _harm(problem: ProblemData, goal: Limits, usage: FloatArray, place: IntArray, i: int) -> float:
    """Rise of the potential if a bundle goes home."""
    arrays = problem.arrays
    here, home, gain = int(place[i]), int(arrays.home[i]), arrays.use[i]
    rise = potential(goal, usage[here] - gain * arrays.inverse[here], here)
    rise -= potential(goal, usage[here], here)
    if home >= 0:
        rise += potential(goal, usage[home] + gain * arrays.inverse[home], home)
        rise -= potential(goal, usage[home], home)
    return rise
