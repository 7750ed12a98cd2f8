"""Compiled: from a final placement to the moves that lead there, in an order that can be carried out.

Per partition, the fewest steps: a leader that leaves hands its role over before it goes, or takes it along
when it is first in the list and its destination shall lead. Over all partitions: leaderships first, then
what must leave, then the rest from the most loaded brokers on; a move waits while its destination would pass
its limit on the way.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.search.compiled import entry, leaf

LEADER_STEP, REPLICA_STEP = 0, 1


class Steps(NamedTuple):
    """Moves as arrays, in the order of execution; broker indices, -1 for no source.

    Attributes
    ----------
    kind, partition, source, target
        Shape (steps,).
    role
        Shape (steps,): whether a moved replica leads.
    """

    kind: NDArray[np.int8]
    partition: IntArray
    source: IntArray
    target: IntArray
    role: NDArray[np.int8]


@leaf
def _among(row, b):  # type: ignore[no-untyped-def]
    for x in row:
        if x >= 0 and x == b:
            return True
    return False


@leaf
def _ready(a, p, b):  # type: ignore[no-untyped-def]
    """Whether `b` may take the lead at once."""
    if not a.may_lead[b]:
        return False
    for s in range(a.home.shape[1]):
        if a.home[p, s] == b:
            return a.home_ready[p, s]
    return False


@leaf
def _stand_in(a, p, row, final, but):  # type: ignore[no-untyped-def]
    """A member that may lead at once, preferably one that stays; -1 if none."""
    spare = -1
    for b in row:
        if b < 0 or b == but or not _ready(a, p, b):
            continue
        if _among(final, b):
            return b
        if spare < 0:
            spare = b
    return spare


@leaf
def _partner(a, leaving, arriving, taken):  # type: ignore[no-untyped-def]
    """Index of the arriving broker that takes the place of `leaving`: same host, same rack, any."""
    best = -1
    closest = -1
    for j in range(len(arriving)):
        if arriving[j] < 0 or taken[j]:
            continue
        near = 0
        if a.rack[arriving[j]] == a.rack[leaving]:
            near = 1
        if a.host[arriving[j]] == a.host[leaving]:
            near = 2
        if near > closest:
            best, closest = j, near
    return best


@leaf
def _to_front(row, b):  # type: ignore[no-untyped-def]
    i = 0
    while row[i] != b:
        i += 1
    while i > 0:
        row[i] = row[i - 1]
        i -= 1
    row[0] = b


@entry
def steps_of(a, home_lead, first_leader, place, lead, chosen):  # type: ignore[no-untyped-def]
    """Steps of every changed partition, in the partition's own order.

    Parameters
    ----------
    first_leader
        Shape (partitions,): broker index of the snapshot's leader as it stands there, -1 for none.
    chosen
        Partitions that differ from the snapshot, ascending.

    Returns
    -------
    tuple
        kind, partition, source, target, role (whether a moved replica leads), and the replica list and
        leader after all steps, of shape (len(chosen), width) and (len(chosen),).
    """
    width = place.shape[1]
    room = len(chosen) * (width + 3)
    kind = np.empty(room, np.int8)
    partition = np.empty(room, np.int32)
    source = np.empty(room, np.int32)
    target = np.empty(room, np.int32)
    role = np.zeros(room, np.int8)
    rows = np.empty((len(chosen), width), np.int32)
    leaders = np.empty(len(chosen), np.int32)
    n = 0
    arriving = np.empty(width, np.int32)
    taken = np.empty(width, np.bool_)
    for c in range(len(chosen)):
        p = chosen[c]
        row = rows[c]
        row[:] = a.home[p]
        final = place[p]
        aim = final[lead[p]] if lead[p] >= 0 else -1
        leader = first_leader[p]
        online = home_lead[p] >= 0
        taken[:] = False
        arriving[:] = -1
        m = 0
        for b in final:
            if b >= 0 and not _among(row, b):
                arriving[m] = b
                m += 1
        carry = False
        if aim >= 0 and not online:
            stand = aim if _among(row, aim) else _stand_in(a, p, row, final, -1)
            if stand >= 0:
                kind[n], partition[n], source[n], target[n] = LEADER_STEP, p, leader, stand
                n += 1
                _to_front(row, stand)
                leader = stand
        if leader >= 0 and aim >= 0 and leader != aim and not _among(final, leader):
            if _among(row, aim):
                kind[n], partition[n], source[n], target[n] = LEADER_STEP, p, leader, aim
                n += 1
                _to_front(row, aim)
                leader = aim
            elif row[0] == leader:
                carry = True
            else:
                # Not first in its list, so its role cannot travel with the copy: somebody leads meanwhile.
                stand = _stand_in(a, p, row, final, leader)
                if stand < 0:
                    # Nobody can: another replica makes room for the next leader first, one that leaves, or
                    # else the one in the next leader's slot, which comes back when this one goes.
                    gives_way = a.home[p, lead[p]]
                    for b in row:
                        if b >= 0 and b != leader and not _among(final, b):
                            gives_way = b
                            break
                    if gives_way == leader:
                        for b in row:
                            if b >= 0 and b != leader and a.may_receive[b]:
                                gives_way = b
                                break
                    kind[n], partition[n], source[n], target[n] = REPLICA_STEP, p, gives_way, aim
                    n += 1
                    for i in range(width):
                        if row[i] == gives_way:
                            row[i] = aim
                            break
                    for j in range(m):
                        if arriving[j] == aim and _among(final, gives_way):
                            arriving[j] = gives_way
                        elif arriving[j] == aim:
                            taken[j] = True
                    stand = aim
                kind[n], partition[n], source[n], target[n] = LEADER_STEP, p, leader, stand
                n += 1
                _to_front(row, stand)
                leader = stand
        elif leader >= 0 and leader != aim and _among(row, aim):
            kind[n], partition[n], source[n], target[n] = LEADER_STEP, p, leader, aim
            n += 1
            _to_front(row, aim)
            leader = aim
        if carry:
            for j in range(m):
                if arriving[j] == aim:
                    taken[j] = True
        for i in range(width):
            b = row[i]
            if b < 0 or _among(final, b):
                continue
            if carry and b == leader:
                to = aim
            else:
                j = _partner(a, b, arriving, taken)
                to = arriving[j]
                taken[j] = True
            kind[n], partition[n], source[n], target[n] = REPLICA_STEP, p, b, to
            role[n] = 1 if b == leader else 0
            n += 1
            row[i] = to
            if b == leader:
                leader = to
        if aim >= 0 and leader != aim:
            kind[n], partition[n], source[n], target[n] = LEADER_STEP, p, leader, aim
            n += 1
            _to_front(row, aim)
            leader = aim
        leaders[c] = leader
    return kind[:n], partition[:n], source[:n], target[:n], role[:n], rows, leaders


@leaf
def apply_step(a, usage, kind, p, source, target, role, sign):  # type: ignore[no-untyped-def]
    """Change the usage of source and target by one step (`sign` 1) or take it back (-1)."""
    for r in range(usage.shape[1]):
        if kind == LEADER_STEP:
            change = sign * (a.use[p, 1, r] - a.use[p, 0, r])
        else:
            change = sign * a.use[p, role, r]
        usage[target, r] += change * a.inverse[target, r]
        if source >= 0:
            usage[source, r] -= change * a.inverse[source, r]


@leaf
def _overshoot(a, usage, ceiling, kind, p, target, role):  # type: ignore[no-untyped-def]
    """By how much the target would pass its ceiling in this step, 0 if it stays below."""
    worst = 0.0
    for r in range(usage.shape[1]):
        if kind == LEADER_STEP:
            change = a.use[p, 1, r] - a.use[p, 0, r]
        else:
            change = a.use[p, role, r]
        if change <= 0.0:
            continue
        over = usage[target, r] + change * a.inverse[target, r] - ceiling[target, r]
        worst = max(worst, over)
    return worst


@entry
def schedule(a, usage, ceiling, kind, partition, source, target, role, priority):  # type: ignore[no-untyped-def]
    """Order of the steps: by priority, each only after its partition's earlier ones, none above a ceiling if
    avoidable.

    Parameters
    ----------
    usage
        Shape (brokers, resources), at the start; changed.
    ceiling
        Shape (brokers, resources): what no broker should pass on the way.
    priority
        All steps, most urgent first.

    Returns
    -------
    Array
        Indices of the steps in the order of execution.
    """
    number = len(kind)
    order = np.empty(number, np.int32)
    waiting = priority.copy()
    count = number
    done = np.zeros(number, np.bool_)
    n = 0
    while count > 0:
        kept = 0
        least = np.inf
        least_at = -1
        for w in range(count):
            i = waiting[w]
            p = partition[i]
            if i > 0 and partition[i - 1] == p and not done[i - 1]:
                waiting[kept] = i
                kept += 1
                continue
            over = _overshoot(a, usage, ceiling, kind[i], p, target[i], role[i])
            if over > 0.0:
                if over < least:
                    least, least_at = over, i
                waiting[kept] = i
                kept += 1
                continue
            apply_step(a, usage, kind[i], p, source[i], target[i], role[i], 1.0)
            done[i] = True
            order[n] = i
            n += 1
        if kept == count:
            # Everything waits for something else: the step that passes its ceiling least goes first.
            i = least_at
            apply_step(a, usage, kind[i], partition[i], source[i], target[i], role[i], 1.0)
            done[i] = True
            order[n] = i
            n += 1
            kept = 0
            for w in range(count):
                if waiting[w] != i:
                    waiting[kept] = waiting[w]
                    kept += 1
        count = kept
    return order


def changed_partitions(home: IntArray, first_leader: IntArray, place: IntArray, lead: IntArray) -> IntArray:
    """Partitions whose set of brokers or leader differs from the snapshot, ascending."""
    rows = np.arange(len(place))
    leader = np.where(lead >= 0, place[rows, np.maximum(lead, 0)], first_leader)
    moved = (np.sort(home, axis=1) != np.sort(place, axis=1)).any(axis=1)
    return np.asarray(np.flatnonzero(moved | (leader != first_leader)), dtype=np.int32)


def urgency(steps: Steps, leaving: NDArray[np.bool_], potential: FloatArray) -> IntArray:
    """All steps, leaderships first, then replicas that must leave, then from the brokers that are furthest
    out.
    """
    source = np.where(steps.source >= 0, steps.source, 0)
    group = np.where(steps.kind == LEADER_STEP, 0, np.where(leaving, 1, 2))
    return np.asarray(np.lexsort((np.arange(len(source)), -potential[source], group)), dtype=np.int32)
