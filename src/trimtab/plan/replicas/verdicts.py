"""Evaluates a final placement by the goals, and proves why goals are missed.

The goals are about the load of brokers and hosts, about numbers of replicas and leaders, and about topics.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trimtab.model.goals import (
    GoalViolation,
    SecondaryGoal,
    exceeds,
    percent_above,
    topic_violation_text,
    violations,
)
from trimtab.model.load import BoolArray, FloatArray, Imbalance, IntArray, resource_name
from trimtab.model.plan import Prediction, Problem
from trimtab.model.replicas.plan import CountSpread, CountSpreadPrediction, TopicGoalPrediction
from trimtab.model.replicas.secondary_goals import NUMBERS
from trimtab.model.replicas.settings import DISK, RESOURCES, UNITS
from trimtab.model.replicas.topics import TopicCounts, topic_numbers
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.dir_schedule import LogDirSchedule, dir_problems
from trimtab.plan.replicas.factor import factor_problems
from trimtab.plan.replicas.headroom import too_few_holders
from trimtab.plan.replicas.infeasible import (
    NOTHING_PINNED,
    PinnedPartitions,
    copies_in_service,
    hard_problems,
)
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.shares import BrokerPrefix, whole_groups
from trimtab.plan.search.limits import required_epsilon_scale
from trimtab.plan.search.verdicts import Evaluation, evaluation, too_few_brokers

NAMED = 5
"""Brokers or topics named in a text, at most; the proof names them all."""


def must_exceed_theta(problem: ReplicasProblem, r: int) -> Problem | None:
    """The problem of brokers that must carry more than θ allows by the rules; None where none must."""
    theta, name = problem.settings.theta[r], RESOURCES[r]
    found = problem.shares.fullest(r)
    if found is None or not exceeds(found.usage, theta):
        return None
    limit, typical = theta * found.capacity, found.capacity / len(found.brokers)
    count = max(1, int(np.ceil((found.needed / theta - found.capacity) / typical - 1e-9)))
    kind, which = _named_set(problem, found)
    more = f"{count} broker{'s' if count != 1 else ''} of {typical:.6g} {UNITS[name]}"
    return Problem(
        "conflicting_constraints",
        f"{name}: {_set_text(problem, found)}: {found.needed:.6g} {UNITS[name]}, limit {limit:.6g} "
        f"({100 * theta:g}% of the capacity). {_set_remedy(kind, which, more)}",
        count=count,
        resource=name,
        proof={"goal": "theta", **_set_proof(problem, found), "theta": theta, "limit": limit},
    )


def must_be_uneven(problem: ReplicasProblem, r: int) -> Problem | None:
    """The problem of brokers that the rules keep further than ε from the mean; None where none are."""
    epsilon, name, shares = problem.settings.epsilon[r], RESOURCES[r], problem.shares
    found, others = shares.fullest(r), shares.emptiest(r)
    if found is None or others is None:
        return None
    total, capacity = shares.total(r)
    if total <= 0.0:
        return None
    mean = total / capacity

    def rest(of: BrokerPrefix) -> float:
        return 1 - (total - of.needed) / (capacity - of.capacity) / mean

    if not exceeds(found.usage / mean - 1, epsilon):
        found = others
        if not exceeds(rest(found), epsilon):
            return None
    kind, which = _named_set(problem, found)
    return Problem(
        "conflicting_constraints",
        f"{name}: {_set_text(problem, found)}: on average at least {found.usage / mean - 1:.1%} above the "
        f"mean {mean:.2%}, and all other brokers at least {rest(found):.1%} below it (epsilon "
        f"{100 * epsilon:g}%). {_set_remedy(kind, which, 'brokers')}",
        resource=name,
        proof={
            "goal": "epsilon",
            **_set_proof(problem, found),
            "mean_usage": mean,
            "above_mean": found.usage / mean - 1,
            "others_below_mean": rest(found),
        },
    )


def _named_set(problem: ReplicasProblem, found: BrokerPrefix) -> tuple[str, list[str]]:
    """What the set is made of: racks, hosts or brokers, and their names."""
    brokers, service = problem.snapshot.brokers, problem.snapshot.brokers.in_service
    for kind, group, names in (
        ("rack", problem.arrays.rack, brokers.rack),
        ("host", problem.arrays.host, brokers.host),
    ):
        if kind in problem.settings.goals and whole_groups(found.brokers, group, service):
            several = len(set(group[service].tolist())) < int(service.sum())
            if several:
                return kind, sorted({names[b] for b in found.brokers.tolist()})
    return "broker", [str(brokers.id[b]) for b in sorted(found.brokers.tolist())]


def _set_text(problem: ReplicasProblem, found: BrokerPrefix) -> str:
    """The set, how many brokers it has, and what it must hold."""
    brokers, service = problem.snapshot.brokers, problem.snapshot.brokers.in_service
    kind, which = _named_set(problem, found)
    named = ", ".join(which[:NAMED]) + (", ..." if len(which) > NAMED else "")
    who = f"{kind}{'s' if len(which) > 1 else ''} {named}"
    least, most = found.replicas
    what = f"{most} replica{'s' if most != 1 else ''}"
    must = (
        f"must hold {what} of every partition" if least == most else f"must hold up to {what} of a partition"
    )
    if kind == "broker":
        return f"{who} {must}, because all others hold one at most"
    of = brokers.rack if kind == "rack" else brokers.host
    there = sum(name in which for name in of)
    ids = [str(brokers.id[b]) for b in sorted(found.brokers.tolist())]
    listed = ", ".join(ids[:NAMED]) + (", ..." if len(ids) > NAMED else "")
    number = f"{len(ids)} broker{'s' if len(ids) > 1 else ''}"
    if there > len(ids):
        has = f"{'have' if len(which) > 1 else 'has'} {number} left ({listed})"
    else:
        has = f"{'have' if len(which) > 1 else 'has'} {len(ids)} of {int(service.sum())} brokers ({listed})"
    return f"{who} {has} and {must}"


def _set_remedy(kind: str, which: list[str], more: str) -> str:
    if kind == "broker":
        return f"Add {more}, or give these brokers more capacity"
    where = f"{kind} {which[0]}" if len(which) == 1 else f"these {kind}s"
    return f"Add {more} to {where}, or take {kind} out of replicas.goals"


def _set_proof(problem: ReplicasProblem, found: BrokerPrefix) -> dict[str, object]:
    kind, which = _named_set(problem, found)
    ids = problem.snapshot.brokers.id
    return {
        "of": kind,
        "names": which,
        "brokers": sorted(int(ids[b]) for b in found.brokers),
        "brokers_in_service": int(problem.snapshot.brokers.in_service.sum()),
        "replicas_of_a_partition": found.replicas[1],
        "needed": found.needed,
        "capacity": found.capacity,
    }


TopicPair = tuple[TopicCounts, TopicCounts]
"""The topics under the snapshot, and under the plan."""


def topic_pair(problem: ReplicasProblem, replicas: IntArray, leader: IntArray) -> TopicPair | None:
    """The topics that goals are about, under the snapshot and a plan's end, broker indices; None for none."""
    snapshot, settings = problem.snapshot, problem.settings
    before = topic_numbers(snapshot, settings, problem.arrays.initial, problem.first_leader)
    after = topic_numbers(snapshot, settings, replicas, leader)
    return None if before is None or after is None else (before, after)


def predicted_topics(pair: TopicPair | None) -> dict[str, TopicGoalPrediction] | None:
    """How many topics miss each goal, before and after; None where no goal is about topics."""
    if pair is None:
        return None
    before, after = (
        {goal: sum(breach.goal == goal for breach in one.violations()) for goal in one.goals} for one in pair
    )
    return {goal: TopicGoalPrediction(pair[1].about(goal), before[goal], after[goal]) for goal in after}


def topic_problems(pair: TopicPair | None) -> tuple[list[Problem], list[Problem]]:
    """Proven problems, and problems that only this plan leaves."""
    if pair is None:
        return [], []
    after, proven, open_ = pair[1], [], []
    short = after.short()
    if short:
        proven.append(_too_few_partitions(after, short))
    for goal in after.goals:
        found = [breach for breach in after.violations() if breach.goal == goal]
        if goal == "min_leaders_per_topic":
            found = [breach for breach in found if breach.resource not in short]
        if not found:
            continue
        told = "; ".join(topic_violation_text(breach) for breach in found[:NAMED])
        more = f"; and {len(found) - NAMED} more topics" if len(found) > NAMED else ""
        open_.append(
            Problem(
                "unmet_goal",
                f"{goal}: {told}{more}; no move that was tried helps within the rules",
                proof={"goal": goal, "topics": [breach.resource for breach in found]},
            )
        )
    return proven, open_


def _too_few_partitions(after: TopicCounts, short: dict[str, int]) -> Problem:
    """Fewer partitions than brokers need to lead: no plan makes more."""
    number = int(after.topic_goals.counted[:, 1].sum())
    rows = {name: row for row, name in enumerate(after.topic_goals.name)}
    least = {name: int(after.topic_goals.minimum[rows[name]]) for name in short}
    has = {name: int(after.topic_goals.partitions[rows[name]]) for name in short}
    told = "; ".join(
        f"topic {name} has {has[name]} partitions, and {number} brokers are to lead {least[name]} each: add "
        f"{lack}"
        for name, lack in list(short.items())[:NAMED]
    )
    more = f"; and {len(short) - NAMED} more topics" if len(short) > NAMED else ""
    return Problem(
        "add_partitions",
        f"{told}{more}; or ask for fewer in replicas.min_leaders_per_topic",
        count=sum(short.values()),
        proof={
            "goal": "min_leaders_per_topic",
            "brokers_that_may_lead": number,
            "least_leaders": least,
            "partitions": has,
        },
    )


SecondaryPair = tuple[SecondaryGoal, SecondaryGoal]
"""One kind under the snapshot, and under the plan."""


def predicted_hosts(pairs: Sequence[SecondaryPair]) -> Prediction | None:
    """Measures over the hosts; None where they bear no load of their own."""
    found = (pair for pair in pairs if pair[0].kind == "host")
    return next((Prediction(*(one.measured.measures() for one in pair)) for pair in found), None)


def predicted_numbers(pairs: Sequence[SecondaryPair]) -> dict[str, CountSpreadPrediction] | None:
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
    problem: ReplicasProblem, pairs: Sequence[SecondaryPair]
) -> tuple[list[Problem], list[Problem], bool]:
    """Proven problems, problems that only this plan leaves, and whether a broker is lifted above θ."""
    proven: list[Problem] = []
    open_: list[Problem] = []
    lifted = False
    for before, after in pairs:
        # Possible future traffic of a broker is no current load.
        lifted |= after.kind == "host" and bool(
            (after.violations_by_row()[0] & ~before.violations_by_row()[0]).any()
        )
        for breach in after.violations():
            why = None
            if after.kind == "host" and breach.goal == "theta":
                why = _too_few_hosts(problem, after, RESOURCES.index(breach.resource))
            (open_ if why is None else proven).append(why or _missed_secondary_goal(after, breach))
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


def _missed_secondary_goal(after: SecondaryGoal, violation: GoalViolation) -> Problem:
    """A goal that the plan does not reach, without a proof."""
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


def evaluate(
    problem: ReplicasProblem,
    placement: Placement,
    leader: IntArray,
    load: FloatArray,
    measured: tuple[Imbalance, Imbalance],
    log_dir_schedule: LogDirSchedule,
    any_move: bool,
    cuts: tuple[Problem, ...] = (),
    others: tuple[SecondaryPair, ...] = (),
    topics: TopicPair | None = None,
    retained: PinnedPartitions = NOTHING_PINNED,
) -> Evaluation:
    """Evaluate a final placement by the goals.

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
        Problems that name the parts of the plan left out for limits.
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
        # Brokers that are above θ already are the task of another plan.
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
    """Why the plan does not do more for a missed goal."""
    if not cuts:
        return "no move or exchange that was tried helps"
    if all("min_gain_per_copy" in cut.proof for cut in cuts):
        return "no move or exchange that was tried helps enough for its bytes"
    return "a limit, named apart, left out what would help"


def _without_relieved(problem: ReplicasProblem, load: FloatArray, after: Imbalance) -> Imbalance:
    """The measures for ε: demoted brokers are left out of resources that leaders use."""
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
    """Brokers above θ: proven problems, and problems that only this plan leaves.

    With unmet requests, no broker may be above θ for their sake.
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
        # A leader that stays in place raises no load.
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
    """Brokers outside ε of the mean: proven problems, and problems that only this plan leaves."""
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
            # Deviations caused by rules are explained by them; others are not.
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
