"""From a step's reason in numbers to `ReplicaReason`, with the text that people read."""

from collections.abc import Callable
from dataclasses import replace

from trimtab.model.load import resource_name
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
from trimtab.plan.search.reasons import (
    EPSILON_GOAL,
    ROOM_GOAL,
    THETA_GOAL,
    StepReasons,
    UnitScale,
    change,
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
RULES = ("by state or exclusion", "for holding a sibling", "for rack or host spread", "for passing a limit")
"""Reasons not to be a destination, in the order of their codes in `reasons`."""

OBSERVED = 5e-4
"""A leadership that relieves nobody by more than this share of a broker is told by what it lets happen."""

SPREAD_GOALS = {RACK_GOAL: "rack", HOST_GOAL: "host"}


def narrator(
    problem: ReplicasProblem, steps: StepArrays, reasons: StepReasons, order: list[int]
) -> Callable[[int], ReplicaReason]:
    """A function from the number of a step to its reason; everything it needs is looked up once.

    Parameters
    ----------
    order
        The place of each step among the plan's moves, from 1.
    """
    host_row: list[int] = problem.arrays.host_row.tolist()
    ids: list[int] = problem.snapshot.brokers.id.tolist()
    brokers = problem.snapshot.brokers
    goal, resource, broker = reasons.goal.tolist(), reasons.column.tolist(), reasons.broker.tolist()
    measure, other, rejected = reasons.measure.tolist(), reasons.other.tolist(), reasons.rejected.tolist()
    kind, partition, source, target = (column.tolist() for column in steps[:4])
    departure = {at: i for i, at in enumerate(zip(partition, source, strict=True)) if kind[i] != LEADER_STEP}
    promotion = {
        at: i
        for i, at in enumerate(zip(partition, target, strict=True))
        if kind[i] == LEADER_STEP and goal[i] == TOPIC_LEADERS_GOAL
    }
    fallback = "epsilon" if "epsilon" in problem.settings.goals else "theta"

    added = problem.settings.add
    parts, asked = problem.snapshot.partitions, problem.topics
    rows, goals = len(ids), requested_counts(problem.settings)
    hosts, nominal = problem.carriers.hosts, problem.snapshot.quality.nominal_capacity

    def called(row: int) -> str:
        return f"broker {ids[row]}" if hosts is None or row < rows else f"host {hosts.name[row - rows]}"

    def resource_of(column: int) -> str | None:
        """The resource that a column measures; None for one that counts."""
        if column < len(RESOURCES):
            return RESOURCES[column]
        return "network_out" if goals[column - len(RESOURCES)] == "potential_network_out" else None

    def scale_of(row: int, column: int, name: str) -> UnitScale | None:
        known = name not in nominal or problem.arrays.inverse[row, column] == 0
        return None if known else UnitScale(1.0 / float(problem.arrays.inverse[row, column]), UNITS[name])

    def change_of(row: int, column: int, pair: tuple[float, float]) -> str:
        name = resource_of(column)
        return (
            f"{pair[0]:.0f} -> {pair[1]:.0f}" if name is None else change(*pair, scale_of(row, column, name))
        )

    def limit_of(row: int, column: int, limit: float) -> str:
        name = resource_of(column)
        return f"{limit:.6g}" if name is None else limit_text(limit, scale_of(row, column, name))

    def others(i: int) -> str:
        return rejections(len(ids) - 2, "others", rejected[i], RULES)

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
            moved = f"{load_name} of {called(what)} {change_of(what, column, (before, after))}"
            moved = moved if before != after else "no load moves yet"
            text = (
                f"broker {ids[source[i]]} hands the partition over, so that its replica can go to broker "
                f"{ids[target[copy]]} (move {order[copy]}); {moved}"
            )
            return replace(reason(copy), before=None, after=None, text=text)
        aim = "relieved" if relieved else "filled"
        if goal[i] == ROOM_GOAL:
            aim = "makes room"
        then = f"; its replica follows to broker {ids[target[copy]]} (move {order[copy]})" if copy > i else ""
        tail = then if kind[i] == LEADER_STEP else f"; {others(i)}"
        far = f"; {called(there)} {change_of(there, column, other[i])}" if there >= 0 else ""
        bounded = limit if abs(limit) != float("inf") else None
        bound = "" if bounded is None else f", limit {limit_of(what, column, limit)}"
        load = f"{load_name} {change_of(what, column, (before, after))}{bound}"
        text = f"{called(what)} {aim}: {load}{far}{tail}"
        named = "host_load" if of_host else number or (NAMES[goal[i]] if goal[i] != ROOM_GOAL else fallback)
        if ids[target[i]] in problem.settings.add:
            named = "add"
        return ReplicaReason(named, name, ids[of], before, after, bounded, text)

    def by_place(i: int) -> ReplicaReason:
        what, why = ids[broker[i]], goal[i]
        if kind[i] == LEADER_STEP:
            text = (
                f"partition has no leader: broker {ids[target[i]]} holds it in sync"
                if source[i] < 0
                else f"broker {what} must not lead: broker {ids[target[i]]} holds the partition in sync"
            )
            return ReplicaReason(NAMES[why], None, what, None, None, None, text)
        before, after, limit = measure[i]
        if why == DEMOTE_GOAL:
            return ReplicaReason(
                "demote", None, what, None, None, None, f"nobody else in sync may lead; {others(i)}"
            )
        if why in SPREAD_GOALS:
            group = SPREAD_GOALS[why]
            name = (brokers.rack if why == RACK_GOAL else brokers.host)[broker[i]]
            text = f"{group} {name} holds {before:.0f} replicas of the partition, at most {limit:.0f} allowed"
        else:
            state = "is to be emptied" if why == DRAIN_GOAL else "is dead or its log dir offline"
            text = f"broker {what} {state}: {before:.0f} -> {after:.0f} replicas left"
        text = f"{text}; broker {ids[target[i]]} bears it best; {others(i)}"
        return ReplicaReason(NAMES[why], None, what, before, after, limit, text)

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
        aim, there = ("relieved", target[i]) if after < before else ("filled", source[i])
        far = f"; broker {ids[there]} {other[i][0]:.0f} -> {other[i][1]:.0f}" if there >= 0 else ""
        tail = "" if kind[i] == LEADER_STEP else f"; {others(i)}"
        text = (
            f"broker {ids[b]} {aim}: {of} of topic {topic} {before:.0f} -> {after:.0f}, limit {limit:.0f}"
            f"{far}{tail}"
        )
        return ReplicaReason(named, None, ids[b], before, after, limit, text)

    def for_a_role(i: int, later: int) -> ReplicaReason:
        text = (
            f"broker {ids[target[i]]} gets a replica, so that it can lead the partition "
            f"(move {order[later]}); {others(i)}"
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
