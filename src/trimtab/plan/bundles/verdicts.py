"""The goals held against a final ownership, and for what it misses, the numbers that prove why."""

import numpy as np

from trimtab.model.bundles.policies import is_heartbeat_or_sla
from trimtab.model.bundles.range import namespace_of
from trimtab.model.bundles.snapshot import RESOURCES, UNITS
from trimtab.model.level import beyond, exceeds, percent_beyond
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.plan.bundles.diagnosis import hot_problems
from trimtab.plan.bundles.problem import ProblemData
from trimtab.plan.search.verdicts import Judgement, judgement_of, too_few_brokers


def judge(problem: ProblemData, place: IntArray, any_move: bool, cut: Problem | None) -> Judgement:
    """Hold a final ownership against the goals.

    Parameters
    ----------
    any_move, cut
        As `trimtab.plan.search.verdicts.judgement_of` takes them.
    """
    load = problem.load(place)
    usage, before = (_usage(problem, each) for each in (load, problem.load(problem.arrays.home)))
    impossible, open_ = _homeless(problem, place, cut is not None)
    goal = problem.limits(load)
    asked, mean = problem.goals, problem.mean(load)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.where(problem.counted & (mean > 0), np.abs(usage - mean) / mean, 0.0)
    over, out = beyond(usage, deviation, mean, asked)
    proven: list[Problem] = []
    if over.any() or out.any():
        alone, uneven = hot_problems(problem, goal)
        proven += [*_too_few_brokers(problem, load, over), *alone]
        open_ += uneven
        known = {one.resource for one in (*proven, *uneven)}
        open_ += _unmet(problem, "theta", over, usage, asked.theta, known, mean)
        open_ += _unmet(problem, "epsilon", out & ~over, deviation, asked.epsilon, known, mean)
    problems = (*impossible, *proven, *open_)
    return judgement_of(
        problems,
        proven=bool(impossible or proven),
        overloads=bool((over & ~exceeds(before, asked.theta)).any()),
        any_move=any_move,
        cuts=() if cut is None else (cut,),
    )


def _usage(problem: ProblemData, load: FloatArray) -> FloatArray:
    """Shape of `load`: the share of capacity that it takes, 0 where that is not limited."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(problem.counted, load / problem.capacity, 0.0)


def _homeless(problem: ProblemData, place: IntArray, limited: bool) -> tuple[list[Problem], list[Problem]]:
    """Bundles that should get a broker and do not: because no rule leaves one, or for a limit of the plan."""
    arrays, key = problem.arrays, problem.snapshot.bundles.key
    names = problem.snapshot.brokers.name
    impossible, open_ = [], []
    left = np.flatnonzero(arrays.must & (place == arrays.home))
    for row in left.tolist():
        free = arrays.allowed[arrays.kind[row]].copy()
        free[[b for b in arrays.barred[row].tolist() if b >= 0]] = False
        if free.any() and limited:
            continue
        where = "is unowned" if place[row] < 0 else f"is on {names[place[row]]}, which is not in service"
        allowed = int(arrays.allowed[arrays.kind[row]].sum())
        impossible.append(
            Problem(
                "conflicting_constraints",
                f"bundle {key[row]} {where}, and no other broker may be given it: policies leave {allowed} "
                "in service, and it left all of these within the grace time of "
                f"{problem.settings.grace_seconds:g} s; relax one of the two",
                proof={"bundle": key[row], "allowed_brokers": allowed},
            )
        )
    service = problem.snapshot.brokers.in_service
    stuck = (arrays.home >= 0) & ~arrays.movable & ~service[arrays.home]
    for row in np.flatnonzero(stuck).tolist():
        stuck[row] = not is_heartbeat_or_sla(namespace_of(key[row]))  # these end with their broker
    if stuck.any():
        row = int(np.flatnonzero(stuck)[0])
        open_.append(
            Problem(
                "unmovable_bundles",
                f"{int(stuck.sum())} bundles of brokers that are not in service stay there, as {key[row]}: "
                "they are the system's own or of excluded namespaces",
                proof={"bundles": int(stuck.sum())},
            )
        )
    if limited and len(left) > len(impossible):
        open_.append(
            Problem(
                "unmet_goal",
                f"{len(left) - len(impossible)} bundles that should get another broker do not, "
                "for the limits on unloads or sessions",
                proof={"goal": "drain", "bundles": len(left) - len(impossible)},
            )
        )
    return impossible, open_


def _too_few_brokers(problem: ProblemData, load: FloatArray, over: BoolArray) -> list[Problem]:
    """Totals that are more than all brokers may carry: how many more of their kind it takes, at most."""
    found: dict[str, Problem] = {}
    fixed = problem.fixed_mean(True)
    for column in np.flatnonzero(over.any(axis=0) & fixed).tolist():
        view, name = problem.column_name(column)
        counted, resource = problem.counted[:, column], column % len(RESOURCES)
        capacity = problem.snapshot.brokers.capacity[counted, resource]
        theta, where = problem.settings.theta[resource], f"{name} in {view}"
        one = too_few_brokers(
            where, name, UNITS[name], load[counted, column], capacity, theta, {"view": view}
        )
        if one is not None and (name not in found or (found[name].count or 0) < (one.count or 0)):
            found[name] = one
    return list(found.values())


def _unmet(
    problem: ProblemData,
    goal: str,
    out: BoolArray,
    measure: FloatArray,
    limit: FloatArray,
    known: set[str | None],
    mean: FloatArray,
) -> list[Problem]:
    """One problem a resource: in which views brokers stay out, and the worst of them."""
    found = []
    for resource, name in enumerate(RESOURCES):
        columns = np.arange(resource, out.shape[1], len(RESOURCES))
        if name in known or not out[:, columns].any():
            continue
        views = [problem.column_name(int(column))[0] for column in columns[out[:, columns].any(axis=0)]]
        worst, at = np.unravel_index(
            np.where(out, measure, -1.0)[:, columns].argmax(), (len(out), len(columns))
        )
        column = int(columns[at])
        value, view = float(measure[worst, column]), problem.column_name(column)[0]
        broker = problem.snapshot.brokers.name[int(worst)]
        number = int(out[:, columns].any(axis=1).sum())
        figure = percent_beyond(value, limit[column])
        who = "1 broker stays" if number == 1 else f"{number} brokers stay"
        said = (
            f"above theta {100 * limit[column]:g}%, the worst {broker} at {figure} in {view}"
            if goal == "theta"
            else f"more than {100 * limit[column]:g}% from the mean {mean[column]:.2%}, "
            f"the worst {broker} by {figure} in {view}"
        )
        found.append(
            Problem(
                "unmet_goal",
                f"{name}: {who} {said}; no unload, exchange or split that was tried helps within the rules",
                resource=name,
                proof={"goal": goal, "brokers": number, "views": views, "worst": value, "view": view},
            )
        )
    return found
