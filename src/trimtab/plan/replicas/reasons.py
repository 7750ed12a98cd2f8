"""Compiled: the goal that each step of a plan of replicas serves, of load, of placement, or per topic."""

import numpy as np

from trimtab.plan.replicas.board import HIGH, LOW, topic_term
from trimtab.plan.replicas.moves import LEADER_STEP, apply_step, other_hosts
from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.reasons import EPSILON_GOAL, OWN_GOALS, ROOM_GOAL, THETA_GOAL, load_goal

DRAIN_GOAL, OFFLINE_GOAL, RACK_GOAL, HOST_GOAL, DEMOTE_GOAL = range(OWN_GOALS, OWN_GOALS + 5)
"""Goals of a step besides load."""

STATE_REJECTED, SIBLING_REJECTED, GROUP_REJECTED, LIMIT_REJECTED = range(4)


@leaf
def _in_group(place, group, p, g):
    number = 0
    for s in range(place.shape[1]):
        b = place[p, s]
        if b >= 0 and group[b] == g:
            number += 1
    return number


@leaf
def _limited(a, usage, ceiling, p, row, role):
    """True if the replica would lift the row above its ceiling."""
    for r in range(usage.shape[1]):
        if usage[row, r] + a.use[p, role, r] * a.inverse[row, r] > ceiling[row, r]:
            return True
    return False


@leaf
def _reject(a, usage, ceiling, place, p, source, target, role, counts):
    """Count the brokers, other than source and target, that were no possible destination, by rule."""
    width = place.shape[1]
    for b in range(len(a.may_receive)):
        if b == source or b == target:  # noqa: SIM109 - compiled
            continue
        if not a.may_receive[b] or (role == 1 and not a.may_lead[b]):
            counts[STATE_REJECTED] += 1
            continue
        sibling = False
        in_rack = 0
        in_host = 0
        for s in range(width):
            other = place[p, s]
            if other == b:
                sibling = True
            elif other >= 0 and other != source:
                in_rack += a.rack[other] == a.rack[b]
                in_host += a.host[other] == a.host[b]
        if sibling:
            counts[SIBLING_REJECTED] += 1
        elif (in_rack >= a.rack_cap[p] and a.rack[b] != a.rack[source]) or (
            in_host >= a.host_cap[p] and a.host[b] != a.host[source]
        ):
            counts[GROUP_REJECTED] += 1
        elif _limited(a, usage, ceiling, p, b, role) or (
            a.host_row[b] >= 0
            and a.host_row[b] != a.host_row[source]
            and _limited(a, usage, ceiling, p, a.host_row[b], role)
        ):
            counts[LIMIT_REJECTED] += 1


@leaf
def _placement_goal(a, place, p, source, target, held, draining, measure):
    """Goal code of a replica step that hard goals require, -1 otherwise; fills `measure`."""
    for s in range(place.shape[1]):
        if a.initial[p, s] == source and a.leaving[p, s]:
            measure[0], measure[1], measure[2] = held[source], held[source] - 1.0, 0.0
            return DRAIN_GOAL if draining[source] else OFFLINE_GOAL
    in_rack = _in_group(place, a.rack, p, a.rack[source])
    if in_rack > a.rack_cap[p] and a.rack[source] != a.rack[target]:
        measure[0], measure[1], measure[2] = in_rack, in_rack - 1.0, a.rack_cap[p]
        return RACK_GOAL
    in_host = _in_group(place, a.host, p, a.host[source])
    if in_host > a.host_cap[p] and a.host[source] != a.host[target]:
        measure[0], measure[1], measure[2] = in_host, in_host - 1.0, a.host_cap[p]
        return HOST_GOAL
    return -1


@entry
def reasons_of(a, limits, steps, usage, ceiling, draining, demoted, place, held, out):
    """Walk through the steps and record the goal of each.

    Parameters
    ----------
    usage
        Shape (rows, columns), at the start; changed.
    ceiling
        As in `schedule.schedule`.
    draining
        Shape (brokers,).
    demoted
        Shape (partitions,): led by a broker that is to lead nothing; changed.
    place
        Shape (partitions, width): brokers at the start; changed.
    held
        Shape (brokers,): how many replicas each holds at the start; changed.
    out
        `StepReasons`, written.
    """
    before = np.zeros((2, usage.shape[1]))
    of_hosts = np.zeros((2, usage.shape[1]))
    for i in range(len(steps.kind)):
        p, source, target = steps.partition[i], steps.source[i], steps.target[i]
        role = steps.role[i]
        left, reached = other_hosts(a, source, target)
        for r in range(usage.shape[1]):
            before[0, r] = usage[source, r] if source >= 0 else 0.0
            before[1, r] = usage[target, r]
            of_hosts[0, r] = usage[left, r] if left >= 0 else 0.0
            of_hosts[1, r] = usage[reached, r] if reached >= 0 else 0.0
        out.goal[i] = -1
        out.broker[i] = source if source >= 0 else target
        if steps.kind[i] == LEADER_STEP:
            if source < 0:
                out.goal[i] = OFFLINE_GOAL
            else:
                for s in range(place.shape[1]):
                    if a.initial[p, s] == source and a.leaving[p, s]:
                        out.goal[i] = DRAIN_GOAL if draining[source] else OFFLINE_GOAL
            if demoted[p]:
                out.goal[i] = DEMOTE_GOAL
                demoted[p] = False
        else:
            _reject(a, usage, ceiling, place, p, source, target, role, out.rejected[i])
            out.goal[i] = _placement_goal(a, place, p, source, target, held, draining, out.measure[i])
            if demoted[p] and out.goal[i] < 0:
                # A copy that can lead is needed before another replica leads.
                out.goal[i] = DEMOTE_GOAL
                demoted[p] = role != 1
        apply_step(a, usage, steps.kind[i], p, source, target, role, 1.0)
        if out.goal[i] < 0:
            load_goal(out, i, limits, before, usage, source, target)
            if reached >= 0 and out.goal[i] != THETA_GOAL:
                # A step that the broker does not need, or not for its θ, may serve its host.
                told = out.goal[i]
                load_goal(out, i, limits, of_hosts, usage, left, reached)
                if out.goal[i] == ROOM_GOAL or (told == EPSILON_GOAL and out.goal[i] != THETA_GOAL):
                    load_goal(out, i, limits, before, usage, source, target)
        if steps.kind[i] != LEADER_STEP:
            for s in range(place.shape[1]):
                if place[p, s] == source:
                    place[p, s] = target
                    break
            held[source] -= 1.0
            held[target] += 1.0


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
    """Walk through the steps and record the topic goal of those that serve one most.

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
