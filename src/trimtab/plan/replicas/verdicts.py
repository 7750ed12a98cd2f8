"""What a final placement achieves, and for what it does not, the numbers that prove why.

A problem is called proven only by an argument that holds for every plan: a total that no number of moves
changes, a replica that no broker can bear, a partition that its rules leave no place for. What is merely
not found is `unmet_goal`, and says so.
"""

import math
from dataclasses import dataclass

import numpy as np

from trimtab.model.imbalance import Imbalance
from trimtab.model.load import RESOURCES, UNITS, BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem, Verdict
from trimtab.plan.replicas.limits import mean_usage
from trimtab.plan.replicas.placement_rules import crowding
from trimtab.plan.replicas.problem import ProblemData

ROUNDING = 1e-9
NAMED = 5
"""Partitions named in a text; the proof counts them all."""


@dataclass(frozen=True)
class Judgement:
    """Verdict and problems of a final placement; `goals_met` says whether nothing is left to wish for."""

    verdict: Verdict
    problems: tuple[Problem, ...]
    goals_met: bool


def judge(
    problem: ProblemData,
    place: IntArray,
    lead: IntArray,
    load: FloatArray,
    after: Imbalance,
    any_move: bool,
    cut: Problem | None = None,
) -> Judgement:
    """Hold a final placement against the goals.

    Parameters
    ----------
    place, lead
        The placement in slots.
    load, after
        Its load per broker, and the measures of it.
    any_move
        Whether the plan has moves.
    cut
        Says that limits left out a part of the plan.
    """
    hard = [*_left_behind(problem, place), *_leaderless(problem, lead), *_crowded(problem, place)]
    led = lead >= 0
    proven, open_ = _capacity(problem, load, after, led)
    level = _deviation(problem, load, after, led)
    problems = (*hard, *proven, *open_, *level)
    if problems and cut is not None:
        problems = (cut, *problems)
    if not problems:
        return Judgement(Verdict.LEVELLED if any_move else Verdict.LEVEL, (), True)
    return Judgement(Verdict.INFEASIBLE if hard or proven else Verdict.IMPROVED, problems, False)


def _left_behind(problem: ProblemData, place: IntArray) -> list[Problem]:
    """Replicas that must leave their broker and are still there, by why."""
    arrays = problem.arrays
    # What is excluded stays where it is because the operator says so; that breaks no goal.
    left = (arrays.leaving & (place == arrays.home)).any(axis=1) & ~problem.excluded
    if not left.any():
        return []
    orphaned = left & problem.orphaned
    rest = left & ~orphaned
    factor = problem.snapshot.partitions.replication_factor
    open_brokers = int(arrays.may_receive.sum())
    staying = ((arrays.home >= 0) & ~arrays.leaving).sum(axis=1)
    holders_closed = ((arrays.home >= 0) & ~arrays.leaving & ~arrays.may_receive[arrays.home]).sum(axis=1)
    too_few = rest & (factor > open_brokers + holders_closed)
    other = rest & ~too_few
    found = []
    if orphaned.any():
        found.append(
            _conflict(
                problem,
                orphaned,
                "must leave their brokers, but no broker that runs holds them in sync, so there is "
                "nothing to copy "
                "from: bring one of their brokers back",
                {"online_in_sync_copies": 0},
            )
        )
    if too_few.any():
        need = int(factor[too_few].max())
        have = open_brokers + int(holders_closed[too_few & (factor == need)].min())
        found.append(
            Problem(
                kind="add_brokers",
                count=need - have,
                text=f"{int(too_few.sum())} partitions keep {need} replicas on {need} different "
                "brokers, but only "
                f"{have} brokers may hold them; add {need - have} ({_names(problem, too_few)})",
                proof={"replication_factor": need, "brokers_that_may_hold_them": have},
            )
        )
    if other.any():
        found.append(
            _conflict(
                problem,
                other,
                "must leave their brokers, but the rules on leaders, brokers and log dirs leave no "
                "destination, or "
                "no replica in sync that may lead meanwhile",
                {"replicas_that_stay": int(staying[other].sum()), "brokers_open_for_replicas": open_brokers},
            )
        )
    return found


def _crowded(problem: ProblemData, place: IntArray) -> list[Problem]:
    """Partitions with more replicas on one rack or host than allowed."""
    arrays = problem.arrays
    found = []
    for name, group, cap, groups in (
        ("rack", arrays.rack, arrays.rack_cap, problem.racks),
        ("host", arrays.host, arrays.host_cap, problem.hosts),
    ):
        over = crowding(place, group, cap) & ~problem.excluded
        if not over.any():
            continue
        bound = over & (~arrays.movable | ~_room(problem, group, cap))
        if bound.any():
            found.append(
                _conflict(
                    problem,
                    bound,
                    f"crowd a {name}, and cannot be spread: there is nothing to copy from, or the "
                    f"{name}s have too few brokers for at most ceil(replicas / {groups}) each",
                    {f"{name}s": groups, "goal": name},
                )
            )
        if (over & ~bound).any():
            found.append(
                Problem(
                    "unmet_goal",
                    f"{int((over & ~bound).sum())} partitions still crowd a {name} "
                    f"({_names(problem, over & ~bound)})",
                    proof={"goal": name, "partitions": int((over & ~bound).sum())},
                )
            )
    return found


def _room(problem: ProblemData, group: IntArray, cap: IntArray) -> BoolArray:
    """Shape (partitions,): whether the groups have room for all replicas, by the number of their "
    "brokers alone.
    """
    arrays = problem.arrays
    number = int(group.max(initial=-1)) + 1
    open_brokers = np.bincount(group[arrays.may_receive], minlength=number)
    factor = problem.snapshot.partitions.replication_factor
    stays = (arrays.home >= 0) & ~arrays.leaving & ~arrays.may_receive[arrays.home]
    room = np.zeros(len(factor), dtype=np.int64)
    for g in range(number):
        members = open_brokers[g] + (stays & (group[arrays.home] == g)).sum(axis=1)
        room += np.minimum(members, cap)
    return np.asarray(room >= factor)


def _capacity(
    problem: ProblemData, load: FloatArray, after: Imbalance, led: BoolArray
) -> tuple[list[Problem], list[Problem]]:
    """Brokers above θ: what is proven impossible, and what is only not achieved."""
    if "theta" not in problem.settings.goals:
        return [], []
    proven, open_ = [], []
    for r, name in enumerate(RESOURCES):
        theta = problem.settings.theta[r]
        over = after.counted[:, r] & (after.usage[:, r] > theta)
        if not over.any():
            continue
        why = _too_few_brokers(problem, load, r) or _indivisible(problem, r, theta, "theta", led)
        if why is not None:
            proven.append(why)
            continue
        worst = int(np.argmax(np.where(over, after.usage[:, r], -1.0)))
        open_.append(
            Problem(
                "unmet_goal",
                f"{name}: {int(over.sum())} brokers stay above theta {theta:g}, the worst broker "
                f"{problem.snapshot.brokers.id[worst]} at {after.usage[worst, r]:.4f}; no move that was "
                "tried helps",
                resource=name,
                proof={
                    "goal": "theta",
                    "brokers": int(over.sum()),
                    "peak_usage": float(after.usage[worst, r]),
                },
            )
        )
    return proven, open_


def _too_few_brokers(problem: ProblemData, load: FloatArray, r: int) -> Problem | None:
    """The total is more than all brokers together may carry: how many more of their kind it takes."""
    brokers = problem.snapshot.brokers
    counted = problem.counted[:, r]
    if not np.array_equal(counted, brokers.in_service):
        # A broker without a limit could take any amount, so no total proves anything.
        return None
    theta, name = problem.settings.theta[r], RESOURCES[r]
    total, capacity = float(load[counted, r].sum()), float(brokers.capacity[counted, r].sum())
    if total <= theta * capacity * (1 + ROUNDING):
        return None
    typical = float(np.median(brokers.capacity[counted, r]))
    count = max(1, math.ceil((total - theta * capacity) / (theta * typical) - ROUNDING))
    return Problem(
        kind="add_brokers",
        count=count,
        resource=name,
        text=f"{name}: the load of {total:.6g} {UNITS[name]} is more than {theta:g} of the capacity of "
        f"{int(counted.sum())} brokers, {theta * capacity:.6g}; add {count} brokers of {typical:.6g} each",
        proof={
            "total": total,
            "capacity": capacity,
            "theta": theta,
            "brokers": int(counted.sum()),
            "capacity_of_an_added_broker": typical,
        },
    )


def _indivisible(problem: ProblemData, r: int, limit: float, goal: str, led: BoolArray) -> Problem | None:
    """A replica or leader that alone lifts every broker that might take it above the limit."""
    arrays, parts = problem.arrays, problem.snapshot.partitions
    if not led.any():
        return None
    service = problem.snapshot.brokers.in_service
    if (service & ~problem.counted[:, r]).any():
        return None
    smallest = float(arrays.inverse[service, r].min())
    use = np.where(led, arrays.use[:, 1, r], 0.0) * smallest
    p = int(np.argmax(use))
    if use[p] <= limit * (1 + ROUNDING):
        return None
    name = RESOURCES[r]
    return Problem(
        kind="indivisible_replica",
        resource=name,
        text=f"{name}: the leader of {parts.topics[parts.topic[p]]}-{parts.number[p]} alone takes "
        f"{use[p]:.4f} of "
        f"even the biggest broker, limit {limit:.4f}; split the topic into more partitions or add "
        "bigger brokers",
        proof={
            "goal": goal,
            "topic": parts.topics[parts.topic[p]],
            "partition": int(parts.number[p]),
            "load": float(arrays.use[p, 1, r]),
            "biggest_capacity": 1.0 / smallest,
            "limit": limit,
        },
    )


def _deviation(problem: ProblemData, load: FloatArray, after: Imbalance, led: BoolArray) -> list[Problem]:
    """Brokers outside ε of the mean."""
    if "epsilon" not in problem.settings.goals:
        return []
    found = []
    mean = mean_usage(problem, load)
    for r, name in enumerate(RESOURCES):
        epsilon = problem.settings.epsilon[r]
        out = after.counted[:, r] & (after.deviation[:, r] > epsilon)
        if not out.any():
            continue
        fixed = np.array_equal(problem.counted[:, r], problem.snapshot.brokers.in_service)
        limit = float(mean[r]) * (1 + epsilon)
        why = (
            (_indivisible(problem, r, limit, "epsilon", led) or _too_few_replicas(problem, r))
            if fixed
            else None
        )
        if why is not None:
            found.append(why)
            continue
        worst = int(np.argmax(np.where(out, after.deviation[:, r], -1.0)))
        found.append(
            Problem(
                "unmet_goal",
                f"{name}: {int(out.sum())} brokers deviate by more than {epsilon:g} from the mean "
                f"{mean[r]:.4f}, the "
                f"worst broker {problem.snapshot.brokers.id[worst]} by {after.deviation[worst, r]:.4f}; "
                "no move or "
                f"exchange that was tried helps within the rules",
                resource=name,
                proof={
                    "goal": "epsilon",
                    "brokers": int(out.sum()),
                    "worst_deviation": float(after.deviation[worst, r]),
                    "mean_usage": float(mean[r]),
                },
            )
        )
    return found


def _too_few_replicas(problem: ProblemData, r: int) -> Problem | None:
    """Fewer replicas that carry this load than brokers: one broker must stay without."""
    use = problem.arrays.use
    held = (problem.arrays.home >= 0).sum(axis=1)
    followers = np.where(use[:, 0, r] > 0, np.maximum(held - 1, 0), 0)
    carriers = int((followers + ((use[:, 1, r] > 0) & (held > 0))).sum())
    brokers = int(problem.counted[:, r].sum())
    if carriers >= brokers:
        return None
    name = RESOURCES[r]
    return Problem(
        kind="indivisible_replica",
        resource=name,
        text=f"{name}: only {carriers} replicas carry any, fewer than the {brokers} brokers, so one "
        "broker stays at 0, "
        f"below any band around the mean; more partitions would help",
        proof={"goal": "epsilon", "replicas_with_load": carriers, "brokers": brokers},
    )


def _leaderless(problem: ProblemData, lead: IntArray) -> list[Problem]:
    """Partitions that stay without a leader."""
    without = (lead < 0) & (problem.arrays.home >= 0).any(axis=1) & ~problem.excluded
    if not without.any():
        return []
    return [
        Problem(
            "no_leader",
            f"{int(without.sum())} partitions have no leader and none can be given: no replica on a "
            "running broker is "
            f"in sync and may lead ({_names(problem, without)}); left as they are",
            proof={"partitions": int(without.sum()), "online_in_sync_replicas_that_may_lead": 0},
        )
    ]


def _conflict(problem: ProblemData, which: BoolArray, why: str, proof: dict[str, object]) -> Problem:
    number = int(which.sum())
    return Problem(
        "conflicting_constraints",
        f"{number} partition{'s' if number != 1 else ''} ({_names(problem, which)}) {why}",
        proof={"partitions": number, **proof},
    )


def _names(problem: ProblemData, which: BoolArray) -> str:
    parts = problem.snapshot.partitions
    rows = np.flatnonzero(which)
    named = ", ".join(f"{parts.topics[parts.topic[p]]}-{parts.number[p]}" for p in rows[:NAMED])
    return named + (", ..." if len(rows) > NAMED else "")
