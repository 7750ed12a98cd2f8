"""Hosts and numbers held against their goals: what a plan predicts of them, and what it misses."""

from collections.abc import Sequence

from trimtab.model.goals import GoalViolation, SecondaryGoal, percent_above
from trimtab.model.imbalance import Imbalance
from trimtab.model.load import resource_name
from trimtab.model.plan import Prediction, Problem
from trimtab.model.replicas.numbers import NUMBERS
from trimtab.model.replicas.plan import CountSpread, CountSpreadPrediction
from trimtab.model.replicas.resources import DISK, RESOURCES, UNITS
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.verdicts import too_few_brokers

Pair = tuple[SecondaryGoal, SecondaryGoal]
"""One kind under the snapshot, and under the plan."""


def predicted_hosts(pairs: Sequence[Pair]) -> Prediction | None:
    """Measures over the hosts; None where they bear no load of their own."""
    found = (pair for pair in pairs if pair[0].kind == "host")
    return next((Prediction(*(one.measured.measures() for one in pair)) for pair in found), None)


def predicted_numbers(pairs: Sequence[Pair]) -> dict[str, CountSpreadPrediction] | None:
    """Least, mean and most of each number that a goal asks for, before and after; None if none does."""
    found = {
        name: CountSpreadPrediction(_spread(before.measured, column), _spread(after.measured, column))
        for before, after in pairs
        if after.kind == "number"
        for column, name in enumerate(after.measured.resources)
    }
    return found or None


def _spread(measured: Imbalance, column: int) -> CountSpread:
    counted = measured.counted[:, column]
    if not counted.any():
        return CountSpread(0.0, 0.0, 0.0)
    usage = measured.usage[counted, column]
    return CountSpread(float(usage.min()), float(measured.mean[column]), float(usage.max()))


def secondary_problems(
    problem: ReplicasProblem, pairs: Sequence[Pair]
) -> tuple[list[Problem], list[Problem], bool]:
    """What is proven impossible, what is only not achieved, and whether something is lifted above θ."""
    proven: list[Problem] = []
    open_: list[Problem] = []
    lifted = False
    for before, after in pairs:
        # What a broker might have to send is no load that it bears.
        lifted |= after.kind == "host" and bool(
            (after.violations_by_row()[0] & ~before.violations_by_row()[0]).any()
        )
        for breach in after.violations():
            why = None
            if after.kind == "host" and breach.goal == "theta":
                why = _too_few_hosts(problem, after, RESOURCES.index(breach.resource))
            (open_ if why is None else proven).append(why or _missed(after, breach))
    return proven, open_, lifted


def _too_few_hosts(problem: ReplicasProblem, after: SecondaryGoal, r: int) -> Problem | None:
    """The total is more than all hosts together may carry."""
    hosts = problem.carriers.hosts
    if hosts is None or not hosts.counted[:, r].all() or not problem.fixed_mean[r]:
        return None
    if r == DISK and not hosts.declared[:, DISK].all():
        return None
    name, capacity, number = RESOURCES[r], hosts.capacity[:, r], len(hosts)
    load = float((after.measured.usage[:, r] * capacity).sum())
    theta = float(after.goals.theta[r])
    found = too_few_brokers(f"{name} of the hosts", name, UNITS[name], load, capacity, theta, {})
    if found is None:
        return None
    told = {key: value for key, value in found.proof.items() if "broker" not in key}
    return Problem(
        "add_brokers",
        f"{name}: the load of {told['total']:.6g} {UNITS[name]} is more than {100 * theta:g}% of the "
        f"capacity of {number} hosts; add {found.count} host{'s' if found.count != 1 else ''}",
        count=found.count,
        resource=name,
        proof={"goal": "host_load", **told, "hosts": number},
    )


def _missed(after: SecondaryGoal, violation: GoalViolation) -> Problem:
    """A goal that the plan does not reach, and that is not proven out of reach."""
    host, number = after.kind == "host", violation.brokers
    noun = "host" if host else "broker"
    rows = f"1 {noun} stays" if number == 1 else f"{number} {noun}s stay"
    limit = f"host_{violation.goal}" if host else "count_epsilon" if violation.goal == "epsilon" else "theta"
    side = "above" if violation.goal == "theta" else "further from the mean than"
    goal = (
        "host_load"
        if host
        else next(goal for goal, column in NUMBERS.items() if column == violation.resource)
    )
    worst = percent_above(abs(violation.value), violation.limit)
    figure = "peak_usage" if violation.goal == "theta" else "worst_deviation"
    return Problem(
        "unmet_goal",
        f"{resource_name(violation.resource)}: {rows} {side} {limit} {100 * violation.limit:g}%, the worst "
        f"{noun} "
        f"{violation.broker} at {worst}; no move that was tried helps within the rules",
        resource=violation.resource if violation.resource in RESOURCES else None,
        proof={"goal": goal, f"{noun}s": number, figure: abs(violation.value)},
    )
