"""What a final ownership achieves, and for what it does not, the numbers that prove why.

A problem is called proven only by an argument that holds for every plan: a total that no number of moves
changes, a bundle that no broker can bear, rules that leave no place. What is merely not found is
`unmet_goal`, and says so.
"""

import math
from dataclasses import dataclass

import numpy as np

from trimtab.model.bundle_policies import is_heartbeat_or_sla
from trimtab.model.bundle_range import namespace_of
from trimtab.model.bundles_snapshot import RESOURCES, UNITS
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem, Verdict
from trimtab.plan.bundles.trim.diagnosis import hot_problems
from trimtab.plan.bundles.trim.limits import limits, mean_usage
from trimtab.plan.bundles.trim.problem import ProblemData

ROUNDING = 1e-9


@dataclass(frozen=True)
class Judgement:
    """Verdict and problems of a final ownership; `goals_met` says whether nothing is left to wish for."""

    verdict: Verdict
    problems: tuple[Problem, ...]
    goals_met: bool


def judge(problem: ProblemData, place: IntArray, any_move: bool, cut: Problem | None) -> Judgement:
    """Hold a final ownership against the goals.

    Parameters
    ----------
    any_move
        Whether the plan has moves.
    cut
        Says that limits left out a part of the plan.
    """
    load = problem.load(place)
    with np.errstate(invalid="ignore", divide="ignore"):
        usage = np.where(problem.counted, load / problem.capacity, 0.0)
    impossible, open_ = _homeless(problem, place, cut is not None)
    goal = limits(problem, load, 1.0)
    theta = np.tile(problem.settings.theta, len(problem.snapshot.views))
    over = problem.counted & (usage > theta)
    mean = mean_usage(problem, load)
    epsilon = np.tile(problem.settings.epsilon, len(problem.snapshot.views))
    with np.errstate(invalid="ignore", divide="ignore"):
        levelled = problem.counted & (mean > 0) & (mean >= problem.settings.idle_usage)
        deviation = np.where(levelled, np.abs(usage - mean) / mean, 0.0)
    out = deviation > epsilon
    proven: list[Problem] = []
    if over.any() or out.any():
        beyond, uneven = hot_problems(problem, goal)
        proven += [*_too_few_brokers(problem, load, over), *beyond]
        open_ += uneven
        known = {one.resource for one in (*proven, *uneven)}
        open_ += _unmet(problem, "theta", over, usage, theta, known, mean)
        open_ += _unmet(problem, "epsilon", out & ~over, deviation, epsilon, known, mean)
    problems = (*impossible, *proven, *open_)
    if problems and cut is not None:
        problems = (cut, *problems)
    if not problems:
        return Judgement(Verdict.LEVELLED if any_move else Verdict.LEVEL, (), True)
    return Judgement(Verdict.INFEASIBLE if impossible or proven else Verdict.IMPROVED, problems, False)


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
                "in "
                f"service, and it left all of these within the grace time of "
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
                "they "
                "are the system's own or of excluded namespaces",
                proof={"bundles": int(stuck.sum())},
            )
        )
    if limited and len(left) > len(impossible):
        open_.append(
            Problem(
                "unmet_goal",
                f"{len(left) - len(impossible)} bundles that should get another broker do not, for the "
                "limits on "
                "unloads or sessions",
                proof={"goal": "drain", "bundles": len(left) - len(impossible)},
            )
        )
    return impossible, open_


def _too_few_brokers(problem: ProblemData, load: FloatArray, over: BoolArray) -> list[Problem]:
    """Where the total is more than all brokers may carry: how many more of their kind it takes."""
    brokers = problem.snapshot.brokers
    found: dict[str, Problem] = {}
    for column in np.flatnonzero(over.any(axis=0)).tolist():
        counted = problem.counted[:, column]
        if not np.array_equal(counted, brokers.in_service):
            continue  # A broker without a limit could take any amount, so no total proves anything.
        view, name = problem.column_name(column)
        resource = column % len(RESOURCES)
        theta = problem.settings.theta[resource]
        total = float(load[counted, column].sum())
        capacity = float(brokers.capacity[counted, resource].sum())
        if total <= theta * capacity * (1 + ROUNDING):
            continue
        typical = float(np.median(brokers.capacity[counted, resource]))
        count = max(1, math.ceil((total - theta * capacity) / (theta * typical) - ROUNDING))
        if name in found and (found[name].count or 0) >= count:
            continue
        found[name] = Problem(
            kind="add_brokers",
            count=count,
            resource=name,
            text=(
                f"{name} in {view}: the load of {total:.6g} {UNITS[name]} is more than {theta:g} of the "
                "capacity "
                f"of {int(counted.sum())} brokers, {theta * capacity:.6g}; add {count} brokers of "
                f"{typical:.6g} "
                "each"
            ),
            proof={
                "view": view,
                "total": total,
                "capacity": capacity,
                "theta": theta,
                "brokers": int(counted.sum()),
                "capacity_of_an_added_broker": typical,
            },
        )
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
        who = "1 broker stays" if number == 1 else f"{number} brokers stay"
        said = (
            f"above theta {limit[column]:g}, the worst {broker} at {value:.4f} in {view}"
            if goal == "theta"
            else f"more than {limit[column]:g} from the mean {mean[column]:.4f}, the worst {broker} by "
            f"{value:.4f} "
            f"in {view}"
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
