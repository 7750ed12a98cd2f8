"""The goals held against a final placement, and for what it misses, the numbers that prove why."""

from dataclasses import replace

import numpy as np

from trimtab.model.goals import exceeds, percent_above, violations
from trimtab.model.imbalance import Imbalance
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.resources import DISK, RESOURCES, UNITS
from trimtab.plan.replicas.dir_schedule import LogDirSchedule
from trimtab.plan.replicas.dir_verdicts import dir_problems
from trimtab.plan.replicas.factor_verdicts import factor_problems
from trimtab.plan.replicas.headroom import too_few_holders
from trimtab.plan.replicas.infeasible import (
    NOTHING_PINNED,
    PinnedPartitions,
    copies_in_service,
    hard_problems,
)
from trimtab.plan.replicas.placement import Placement
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.secondary_goals import Pair, secondary_problems
from trimtab.plan.replicas.share_problems import must_be_uneven, must_exceed_theta
from trimtab.plan.replicas.topic_verdicts import TopicPair, topic_problems
from trimtab.plan.search.limits import required_epsilon_scale
from trimtab.plan.search.verdicts import Evaluation, evaluation, too_few_brokers


def evaluate(
    problem: ReplicasProblem,
    placement: Placement,
    leader: IntArray,
    load: FloatArray,
    measured: tuple[Imbalance, Imbalance],
    log_dir_schedule: LogDirSchedule,
    any_move: bool,
    cuts: tuple[Problem, ...] = (),
    others: tuple[Pair, ...] = (),
    topics: TopicPair | None = None,
    retained: PinnedPartitions = NOTHING_PINNED,
) -> Evaluation:
    """Hold a final placement against the goals.

    Parameters
    ----------
    leader
        Shape (partitions,): broker index of the leader after the plan, -1 for none.
    load
        Shape (brokers, resources): that of the placement.
    measured
        The measures of the snapshot, and of the placement.
    log_dir_schedule
        The log dirs at the end.
    any_move
        Whether the plan has moves.
    cuts
        Say which parts of the plan were left out for limits.
    others
        Hosts and numbers, where goals ask for them.
    topics
        Numbers of topics, where goals are about some.
    retained
        Partitions that stay for limits, or for want of room on the way.
    """
    place, lead = placement
    before, after = measured
    if problem.resizes:
        impossible, unmet = factor_problems(problem, place, lead, retained)
    else:
        impossible, unmet = hard_problems(problem, place, lead, leader, load, retained)
    led = (lead >= 0) & _confined_leaders(problem, place, lead)
    after = _without_relieved(problem, load, after)
    above, off = violations(after.usage, after.deviation, after.mean, problem.goals)
    theta = np.array(problem.settings.theta)
    lifted = after.counted & exceeds(after.usage, theta) & ~exceeds(before.usage, theta)
    if problem.resizes or problem.scoped:
        # Whoever is above θ without this plan is for another.
        above = above & lifted
    tried = _tried(cuts)
    proven, open_ = _capacity(problem, load, after, above, led, bool(unmet), tried)
    proven = [one for one in proven if one not in impossible]
    settled, level = _deviation(problem, after, off, led, tried)
    too_full, uneven = dir_problems(problem, placement, log_dir_schedule)
    further, missed, lifts = secondary_problems(problem, others)
    short, uneven_topics = topic_problems(topics)
    problems = (
        *(*impossible, *unmet, *proven, *further, *short, *open_, *settled, *level, *missed, *too_full),
        *(*uneven, *uneven_topics),
    )
    return evaluation(
        problems,
        proven=bool(impossible or proven or further or short or too_full),
        overloads=("theta" in problem.settings.goals and bool(lifted.any())) or lifts,
        any_move=any_move,
        cuts=cuts,
        incomplete=bool(unmet or open_ or too_full)
        or any("peak_usage" in one.proof for one in missed)
        or any(one.proof.get("of") == "theta" for one in uneven),
        settled=settled,
    )


def _tried(cuts: tuple[Problem, ...]) -> str:
    """Why the plan does no more for a goal that it misses."""
    if not cuts:
        return "no move or exchange that was tried helps"
    if all("min_gain_per_copy" in cut.proof for cut in cuts):
        return "no move or exchange that was tried helps enough for its bytes"
    return "a limit, named apart, left out what would help"


def _without_relieved(problem: ReplicasProblem, load: FloatArray, after: Imbalance) -> Imbalance:
    """The measures that ε is held against: demoted brokers are left out where leaders make the load."""
    if not problem.relieved.any():
        return after
    mean = problem.mean(load)
    counted = after.counted & ~problem.relieved & (mean > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.where(counted, np.abs(after.usage - mean) / mean, 0.0)
    return replace(after, mean=mean, deviation=deviation)


def _confined_leaders(problem: ReplicasProblem, place: IntArray, lead: IntArray) -> BoolArray:
    """Shape (partitions,): its leader must be borne by a broker that the goals are about."""
    rows = np.arange(len(place))
    leader = place[rows, np.maximum(lead, 0)]
    return np.asarray(~problem.excluded | problem.snapshot.brokers.in_service[leader])


def _capacity(
    problem: ReplicasProblem,
    load: FloatArray,
    after: Imbalance,
    above: BoolArray,
    led: BoolArray,
    undone: bool,
    tried: str,
) -> tuple[list[Problem], list[Problem]]:
    """Brokers above θ: what is proven impossible, and what is only not achieved.

    Where something is left undone, no broker may be above θ just for that.
    """
    proven, open_ = [], []
    asked = "theta" in problem.settings.goals and not problem.resizes
    for r, name in enumerate(RESOURCES):
        theta = problem.settings.theta[r]
        over = above[:, r]
        if not (over.any() or (undone and asked)):
            continue
        why = _too_few_brokers(problem, load, r)
        if why is None and over.any() and _is_reduced(problem, r):
            why = must_exceed_theta(problem, r)
        if why is None and r == DISK and not problem.resizes:
            why = too_few_holders(problem, copies_in_service(problem))
        if why is None and over.any():
            why = _indivisible(problem, r, theta, "theta", led)
        if why is not None:
            proven.append(why)
            continue
        if not over.any():
            continue
        worst = int(np.argmax(np.where(over, after.usage[:, r], -1.0)))
        open_.append(
            Problem(
                "unmet_goal",
                f"{name}: {_brokers(int(over.sum()), 'stay')} above theta {100 * theta:g}%, the worst broker "
                f"{problem.snapshot.brokers.id[worst]} at {percent_above(after.usage[worst, r], theta)}; "
                f"{tried}",
                resource=name,
                proof={
                    "goal": "theta",
                    "brokers": int(over.sum()),
                    "peak_usage": float(after.usage[worst, r]),
                },
            )
        )
    return proven, open_


def _too_few_brokers(problem: ReplicasProblem, load: FloatArray, r: int) -> Problem | None:
    """The total is more than all brokers together may carry: how many more of their kind it takes.

    The total is the least of any plan that leaves nothing undone.
    """
    counted = problem.counted[:, r]
    if not (counted == problem.snapshot.brokers.in_service).all() or not _is_reduced(problem, r):
        return None
    name, theta = RESOURCES[r], problem.settings.theta[r]
    capacity = problem.snapshot.brokers.capacity[counted, r]
    total = float(load[counted, r].sum()) if problem.resizes else problem.shares.total(r)[0]
    return too_few_brokers(name, name, UNITS[name], total, capacity, theta, {})


def _is_reduced(problem: ReplicasProblem, r: int) -> bool:
    """Whether every broker is to be below θ: one that is above it already may stay so in a scoped plan."""
    if not (problem.scoped or problem.resizes):
        return True
    return bool((problem.first_usage[problem.counted[:, r], r] <= problem.settings.theta[r]).all())


def _indivisible(problem: ReplicasProblem, r: int, limit: float, goal: str, led: BoolArray) -> Problem | None:
    """A replica or leader that alone lifts every broker that might take it above the limit."""
    arrays, parts = problem.arrays, problem.snapshot.partitions
    if not led.any():
        return None
    service = problem.snapshot.brokers.in_service
    if (service & ~problem.counted[:, r]).any():
        return None
    smallest = float(arrays.inverse[service, r].min())
    if goal == "theta" and (problem.scoped or problem.resizes):
        # A leader that stays where it is lifts nobody.
        led = led & (problem.initial_leader < 0) if problem.scoped else np.zeros_like(led)
    use = np.where(led, arrays.use[:, 1, r], 0.0) * smallest
    p = int(np.argmax(use))
    if not exceeds(use[p], limit):
        return None
    most = np.where(problem.scoped & problem.counted[service, r], problem.first_usage[service, r], 0.0)
    if goal == "theta" and not exceeds(arrays.use[p, 1, r] * arrays.inverse[service, r], most).all():
        return None
    name, topic, number = RESOURCES[r], parts.topics[parts.topic[p]], int(parts.number[p])
    return Problem(
        kind="indivisible_replica",
        resource=name,
        text=(
            f"{name}: the leader of {topic}-{number} alone takes {use[p]:.2%} of even the biggest broker, "
            f"limit {limit:.2%}; split the topic into more partitions or add bigger brokers"
        ),
        proof={
            "goal": goal,
            "topic": topic,
            "partition": number,
            "load": float(arrays.use[p, 1, r]),
            "biggest_capacity": 1.0 / smallest,
            "limit": limit,
        },
    )


def _deviation(
    problem: ReplicasProblem, after: Imbalance, off: BoolArray, led: BoolArray, tried: str
) -> tuple[list[Problem], list[Problem]]:
    """Brokers outside ε of the mean: what is proven impossible, and what is only not achieved."""
    settled: list[Problem] = []
    found: list[Problem] = []
    mean = after.mean
    for r, name in enumerate(RESOURCES):
        epsilon = problem.settings.epsilon[r]
        out = off[:, r]
        if not out.any():
            continue
        limit = float(mean[r]) * (1 + epsilon)
        uneven = must_be_uneven(problem, r)
        if uneven is not None:
            settled.append(uneven)
            # What rules bring about is explained; what they do not is not.
            stretch = required_epsilon_scale(problem.shares.stretch, problem.goals.epsilon[r])
            most, least = (each[:, r] for each in stretch)
            usage = after.usage[:, r] / mean[r]
            out = out & (exceeds(usage, most * (1 + epsilon)) | exceeds(least * (1 - epsilon), usage))
            if not out.any():
                continue
        why = (
            (_indivisible(problem, r, limit, "epsilon", led) or _too_few_replicas(problem, r))
            if problem.fixed_mean[r]
            else None
        )
        if why is not None:
            settled.append(why)
            continue
        worst = int(np.argmax(np.where(out, after.deviation[:, r], -1.0)))
        middle = f"the {'mean' if uneven is None else 'lawful range around the mean'} {mean[r]:.2%}"
        found.append(
            Problem(
                "unmet_goal",
                f"{name}: {_brokers(int(out.sum()), 'deviate')} by more than {100 * epsilon:g}% from "
                f"{middle}, the worst broker {problem.snapshot.brokers.id[worst]} by "
                f"{percent_above(after.deviation[worst, r], epsilon)} from the mean; {tried} "
                "within the rules",
                resource=name,
                proof={
                    "goal": "epsilon",
                    "brokers": int(out.sum()),
                    "worst_deviation": float(after.deviation[worst, r]),
                    "mean_usage": float(mean[r]),
                },
            )
        )
    return settled, found


def _brokers(number: int, verb: str) -> str:
    return f"1 broker {verb}s" if number == 1 else f"{number} brokers {verb}"


def _too_few_replicas(problem: ReplicasProblem, r: int) -> Problem | None:
    """Fewer replicas that carry this load than brokers: one broker must stay without."""
    use = problem.arrays.use
    held = (problem.arrays.initial >= 0).sum(axis=1)
    followers = np.where(use[:, 0, r] > 0, np.maximum(held - 1, 0), 0)
    carriers = int((followers + ((use[:, 1, r] > 0) & (held > 0))).sum())
    brokers = int(problem.counted[:, r].sum())
    if carriers >= brokers:
        return None
    name = RESOURCES[r]
    return Problem(
        kind="indivisible_replica",
        resource=name,
        text=(
            f"{name}: only {carriers} replicas carry any, fewer than the {brokers} brokers, so one broker "
            "stays at 0, below any band around the mean; more partitions would help"
        ),
        proof={"goal": "epsilon", "replicas_with_load": carriers, "brokers": brokers},
    )
