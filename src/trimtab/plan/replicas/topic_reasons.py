"""Compiled: the steps of a plan that serve a goal per topic more than any goal of load."""

from trimtab.plan.replicas.moves import LEADER_STEP
from trimtab.plan.replicas.reasons import DEMOTE_GOAL
from trimtab.plan.replicas.topics import HIGH, LOW, topic_term
from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.reasons import EPSILON_GOAL, ROOM_GOAL

TOPIC_REPLICAS_GOAL, TOPIC_LEADERS_GOAL = DEMOTE_GOAL + 1, DEMOTE_GOAL + 2


@leaf
def _of_load(out, i, limits):
    """What a step's reason of load is worth, by the measures that it has."""
    if out.goal[i] == ROOM_GOAL:
        return 0.0
    b, r = out.broker[i], out.column[i]
    was = max(out.measure[i, 0] - limits.high[b, r], limits.low[b, r] - out.measure[i, 0], 0.0)
    now = max(out.measure[i, 1] - limits.high[b, r], limits.low[b, r] - out.measure[i, 1], 0.0)
    return limits.weight[b, r] * (was * was - now * now)


@leaf
def _write_count(table, t, what, b, change, other, out, i):
    """Write the number of a topic at `b`, before and after it changes by so much, and at the other side."""
    number = table.counts[t, b, what]
    out.goal[i] = TOPIC_REPLICAS_GOAL if what == 0 else TOPIC_LEADERS_GOAL
    out.broker[i], out.column[i] = b, -1
    limit = table.bounds[t, what, HIGH] if change < 0 else table.bounds[t, what, LOW]
    out.measure[i, 0], out.measure[i, 1], out.measure[i, 2] = number, number + change, limit
    if other >= 0:
        there = table.counts[t, other, what]
        out.other[i, 0], out.other[i, 1] = there, there - change


@entry
def topic_reasons(table, row, limits, steps, out):
    """Walk through the steps, and say of those that bring a topic nearest to what is asked of it.

    Parameters
    ----------
    table
        `TopicTable`: numbers at the start, which change, and bounds at the end.
    row
        Shape (partitions,): row of the topic, -1 for none.
    out
        `StepReasons` by load and placement; goals of placement stay, and those of θ.
    """
    for i in range(len(steps.kind)):
        p = steps.partition[i]
        t = row[p]
        if t < 0:
            continue
        leads = steps.kind[i] == LEADER_STEP
        replicas, leaders = (0, 1) if leads else (1, int(steps.role[i]))
        source, target = steps.source[i], steps.target[i]
        if out.goal[i] == EPSILON_GOAL or out.goal[i] == ROOM_GOAL:
            best = _of_load(out, i, limits)
            chosen, broker, change = -1, -1, 0
            for what in range(2):
                number = replicas if what == 0 else leaders
                for side in range(2):
                    b = source if side == 0 else target
                    if b < 0 or number == 0:
                        continue
                    more = -number if side == 0 else number
                    of = (more, 0) if what == 0 else (0, more)
                    fall = topic_term(table.counts, table.bounds, table.counted, t, b, 0, 0)
                    fall -= topic_term(table.counts, table.bounds, table.counted, t, b, of[0], of[1])
                    if fall > best:
                        best, chosen, broker, change = fall, what, b, more
            if chosen >= 0:
                other = target if broker == source else source
                _write_count(table, t, chosen, broker, change, other, out, i)
        if source >= 0:
            table.counts[t, source, 0] -= replicas
            table.counts[t, source, 1] -= leaders
        table.counts[t, target, 0] += replicas
        table.counts[t, target, 1] += leaders
