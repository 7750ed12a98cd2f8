"""Converts the numeric reason of a step to a `ReplicaReason` with its text."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trimtab.model.load import BoolArray, IntArray, resource_name
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.model.replicas.secondary_goals import NUMBERS, requested_counts
from trimtab.model.replicas.settings import RESOURCES, UNITS
from trimtab.plan.replicas.moves import LEADER_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.reasons import (
    DEMOTE_GOAL,
    DRAIN_GOAL,
    HOST_GOAL,
    OFFLINE_GOAL,
    RACK_GOAL,
    TOPIC_LEADERS_GOAL,
    TOPIC_REPLICAS_GOAL,
)
from trimtab.plan.search.limits import UsageLimits
from trimtab.plan.search.reasons import (
    EPSILON_GOAL,
    ROOM_GOAL,
    THETA_GOAL,
    StepReasons,
    UnitScale,
    change,
    from_average,
    limit_text,
    rejections,
)

NAMES = {
    THETA_GOAL: "theta",
    EPSILON_GOAL: "epsilon",
    DRAIN_GOAL: "drain",
    OFFLINE_GOAL: "offline",
    RACK_GOAL: "rack",
    HOST_GOAL: "host",
    ROOM_GOAL: "epsilon",
    DEMOTE_GOAL: "demote",
    TOPIC_REPLICAS_GOAL: "topic_replicas",
    TOPIC_LEADERS_GOAL: "topic_leaders",
}
RULES = ("by state or exclusion", "for holding a replica", "for rack or host spread", "for passing a limit")
"""Texts of the rules that reject destinations, in the order of their codes in `reasons`."""

UNEVEN = {
    "cpu": "uses {} CPU than",
    "disk": "stores {} than",
    "network_in": "receives {} than",
    "network_out": "sends {} than",
    "replicas": "holds {} replicas than",
    "leaders": "leads {} partitions than",
    "potential_network_out": "would send {} than",
}
"""Verbs of the texts "more or less than the average", by resource or number."""

OBSERVED = 5e-4
"""A leader transfer that relieves no broker by more than this share is explained by the move that it allows.
"""

SPREAD_GOALS = {RACK_GOAL: "rack", HOST_GOAL: "host"}


def _last_by_place(partition: IntArray, broker: IntArray, chosen: BoolArray) -> dict[tuple[int, int], int]:
    """The last of some steps for each partition and broker."""
    steps = np.flatnonzero(chosen)
    return dict(
        zip(zip(partition[steps].tolist(), broker[steps].tolist(), strict=True), steps.tolist(), strict=True)
    )


def narrator(
    problem: ReplicasProblem, steps: StepArrays, reasons: StepReasons, order: list[int], limits: UsageLimits
) -> Callable[[int], ReplicaReason]:
    """A function from the number of a step to its reason; everything it needs is looked up once.

    A reason says what is wrong and what the step does, then the figures before and after it.

    Parameters
    ----------
    order
        The place of each step among the plan's moves, from 1.
    limits
        Limits of the goals themselves, around the mean at the end of the plan.
    """
    host_row: list[int] = problem.arrays.host_row.tolist()
    ids: list[int] = problem.snapshot.brokers.id.tolist()
    brokers = problem.snapshot.brokers
    goal, resource, broker = reasons.goal.tolist(), reasons.column.tolist(), reasons.broker.tolist()
    measure, other, rejected = reasons.measure.tolist(), reasons.other.tolist(), reasons.rejected.tolist()
    kind, partition, source, target, role = (column.tolist() for column in steps)
    parts, asked = problem.snapshot.partitions, problem.topics
    pairs = zip(parts.topic[steps.partition].tolist(), parts.number[steps.partition].tolist(), strict=True)
    partition_names = [f"{parts.topics[topic]}-{number}" for topic, number in pairs]
    leads = steps.kind == LEADER_STEP
    departure = _last_by_place(steps.partition, steps.source, ~leads)
    promotion = _last_by_place(steps.partition, steps.target, leads & (reasons.goal == TOPIC_LEADERS_GOAL))
    fallback = "epsilon" if "epsilon" in problem.settings.goals else "theta"

    added = problem.settings.add
    rows, goals = len(ids), requested_counts(problem.settings)
    hosts, nominal = problem.carriers.hosts, problem.snapshot.quality.nominal_capacity
    names = [f"broker {one}" for one in ids] + [f"host {one}" for one in (hosts.name if hosts else ())]
    centre = limits.centre.tolist()
    is_even = np.ones(problem.arrays.inverse.shape, dtype=np.bool_)
    for one in problem.shares.stretch:
        is_even[: len(one), : len(RESOURCES)] &= one[:, : len(RESOURCES)] == 1.0
    resource_of = [
        *RESOURCES,
        *("network_out" if one == "potential_network_out" else None for one in goals),
    ]  # of each column; None for counts

    def scale_of(row: int, column: int) -> UnitScale | None:
        name = resource_of[column]
        if name not in nominal or problem.arrays.inverse[row, column] == 0:
            return None
        return UnitScale(1.0 / float(problem.arrays.inverse[row, column]), UNITS[name])

    def change_of(row: int, column: int, pair: tuple[float, float]) -> str:
        if resource_of[column] is None:
            return f"{pair[0]:.0f} -> {pair[1]:.0f}"
        return change(*pair, scale_of(row, column))

    def limit_of(row: int, column: int, limit: float) -> str:
        return f"{limit:.6g}" if resource_of[column] is None else limit_text(limit, scale_of(row, column))

    def others(i: int) -> str:
        return "" if kind[i] == LEADER_STEP else rejections(len(ids) - 2, rejected[i], RULES)

    def moved(i: int, relieved: bool) -> str:
        """The effect of the step; names the source unless it is the relieved broker."""
        what = "leader" if kind[i] == LEADER_STEP else "leading replica" if role[i] else "replica"
        start = f" from broker {ids[source[i]]}" if source[i] >= 0 and not relieved else ""
        return f"moves {what} of {partition_names[i]}{start} to broker {ids[target[i]]}"

    def wrong(
        row: int, column: int, name: str, load_name: str, before: float, limit: float, code: int
    ) -> str:
        """The purpose of a step by load: a broker above θ, or away from the average."""
        average = centre[row][column]
        if code == THETA_GOAL or not average > 0.0:
            shown = limit_text(before, scale_of(row, column)) if resource_of[column] else f"{before:.0f}"
            return f"{names[row]} is at {shown} {load_name}, limit {limit_of(row, column, limit)}"
        even = row >= rows or column >= len(RESOURCES) or is_even[row, column]
        return (
            f"{names[row]} {UNEVEN[name].format(from_average(before, average))} "
            f"{'the average' if even else 'the share that the rules leave it'}"
        )

    def by_load(i: int) -> ReplicaReason:
        before, after, limit = measure[i]
        column, what = resource[i], broker[i]
        number = goals[column - len(RESOURCES)] if column >= len(RESOURCES) else None
        name = None if number else RESOURCES[column]
        load_name = NUMBERS[number].replace("_", " ") if number else resource_name(RESOURCES[column])
        of_host = what >= rows
        if of_host:
            left = host_row[source[i]] if source[i] >= 0 else -1
            there = host_row[target[i]] if what == left else left
            relieved, of = what == left, source[i] if what == left else target[i]
        else:
            there = target[i] if what == source[i] else source[i]
            relieved, of = what == source[i], what
        copy = departure.get((partition[i], source[i]), -1) if kind[i] == LEADER_STEP else -1
        if copy > i and (goal[i] == ROOM_GOAL or abs(after - before) < OBSERVED):
            figures = f"{load_name} of {names[what]} {change_of(what, column, (before, after))}"
            text = (
                f"its replica is to leave broker {ids[source[i]]} for broker {ids[target[copy]]} "
                f"(move {order[copy]}); {moved(i, True)} first "
                f"({figures if before != after else 'no load moves yet'})"
            )
            return replace(reason(copy), before=None, after=None, text=text)
        far = f", {names[there]} {change_of(there, column, other[i])}" if there >= 0 else ""
        figures = f"{load_name} {change_of(what, column, (before, after))}{far}"
        bounded = limit if abs(limit) != float("inf") else None
        if goal[i] == ROOM_GOAL:
            why = f"room is needed on {names[what]}"
        else:
            measured = NUMBERS[number] if number else RESOURCES[column]
            why = wrong(what, column, measured, load_name, before, limit, goal[i])
        then = f"; its replica follows to broker {ids[target[copy]]} (move {order[copy]})" if copy > i else ""
        text = f"{why}; {moved(i, relieved and not of_host)} ({figures}){then}{others(i)}"
        named = "host_load" if of_host else number or (NAMES[goal[i]] if goal[i] != ROOM_GOAL else fallback)
        if ids[target[i]] in problem.settings.add:
            named = "add"
        return ReplicaReason(named, name, ids[of], before, after, bounded, text)

    def by_place(i: int) -> ReplicaReason:
        what, why = ids[broker[i]], goal[i]
        state = {
            DRAIN_GOAL: "is to be emptied",
            OFFLINE_GOAL: "is dead or its log dir offline",
            DEMOTE_GOAL: "is to lead nothing",
        }
        if kind[i] == LEADER_STEP:
            cause = f"broker {what} {state[why]}" if source[i] >= 0 else f"{partition_names[i]} has no leader"
            text = f"{cause}; {moved(i, True)}, which is in sync"
            return ReplicaReason(NAMES[why], None, what, None, None, None, text)
        before, after, limit = measure[i]
        if why == DEMOTE_GOAL:
            text = f"no broker in sync may take the lead of {partition_names[i]}; {moved(i, False)} first"
            return ReplicaReason("demote", None, what, None, None, None, f"{text}{others(i)}")
        if why in SPREAD_GOALS:
            group = SPREAD_GOALS[why]
            name = (brokers.rack if why == RACK_GOAL else brokers.host)[broker[i]]
            text = f"{group} {name} holds {before:.0f} replicas of {partition_names[i]}, limit {limit:.0f}"
            text = f"{text}; {moved(i, False)}"
        else:
            left = f"({before:.0f} -> {after:.0f} replicas left)"
            text = f"broker {what} {state[why]}; {moved(i, True)} {left}"
        return ReplicaReason(NAMES[why], None, what, before, after, limit, f"{text}{others(i)}")

    def by_topic(i: int) -> ReplicaReason:
        before, after, limit = measure[i]
        p, b = partition[i], broker[i]
        topic, row = parts.topics[parts.topic[p]], int(asked.row[p]) if asked else -1
        named, of = NAMES[goal[i]], "replicas" if goal[i] == TOPIC_REPLICAS_GOAL else "leaders"
        if (
            of == "leaders"
            and asked
            and after > before
            and (before < asked.minimum[row] or not asked.even[row, 1])
        ):
            named = "min_leaders_per_topic"
        named = "add" if ids[target[i]] in added else named
        relieved = after < before
        there = target[i] if relieved else source[i]
        far = f", broker {ids[there]} {other[i][0]:.0f} -> {other[i][1]:.0f}" if there >= 0 else ""
        holds = f"holds {before:.0f} replicas" if of == "replicas" else f"leads {before:.0f} partitions"
        text = (
            f"broker {ids[b]} {holds} of topic {topic}, limit {limit:.0f}; {moved(i, relieved)} "
            f"({before:.0f} -> {after:.0f}{far}){others(i)}"
        )
        return ReplicaReason(named, None, ids[b], before, after, limit, text)

    def for_a_role(i: int, later: int) -> ReplicaReason:
        text = (
            f"broker {ids[target[i]]} is to lead {partition_names[i]} (move {order[later]}) and holds no "
            f"replica; {moved(i, False)}{others(i)}"
        )
        return replace(by_topic(later), before=None, after=None, text=text)

    def reason(i: int) -> ReplicaReason:
        later = promotion.get((partition[i], target[i]), -1) if kind[i] != LEADER_STEP else -1
        if later > i and goal[i] == ROOM_GOAL:
            return for_a_role(i, later)
        if goal[i] in (TOPIC_REPLICAS_GOAL, TOPIC_LEADERS_GOAL):
            return by_topic(i)
        return by_load(i) if resource[i] >= 0 else by_place(i)

    return reason
