"""Compiled: the goal that each step of a plan of replicas serves."""

import numpy as np

from trimtab.plan.replicas.moves import LEADER_STEP
from trimtab.plan.replicas.schedule import apply_step, other_hosts
from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.reasons import EPSILON_GOAL, OWN_GOALS, ROOM_GOAL, THETA_GOAL, load_goal

DRAIN_GOAL, OFFLINE_GOAL, RACK_GOAL, HOST_GOAL, DEMOTE_GOAL = range(OWN_GOALS, OWN_GOALS + 5)
"""What a step serves besides load."""

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
    """Count the brokers, other than source and target, that could not have been the destination, by why."""
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
    """Goal code of a replica step that the hard goals ask for, -1 if they do not; fills `measure`."""
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
    """Walk through the steps and say what each is for.

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
                # Before anybody leads in its stead: a copy that can.
                out.goal[i] = DEMOTE_GOAL
                demoted[p] = role != 1
        apply_step(a, usage, steps.kind[i], p, source, target, role, 1.0)
        if out.goal[i] < 0:
            load_goal(out, i, limits, before, usage, source, target)
            if reached >= 0 and out.goal[i] != THETA_GOAL:
                # What a broker does not need, or not for its θ, its host may.
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
