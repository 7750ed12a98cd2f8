"""Compiled: the fewest steps to a final placement, and the order of all steps.

A leader that leaves transfers its role before, or keeps it if it is first in the list and its destination is
to lead. The order preserves that of each partition, and keeps brokers below their ceilings if possible:
leaderships first, then replicas that must leave, then the rest from the most loaded brokers on. A move waits
while its destination, or the host of that, would exceed its limit meanwhile.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.settings import DISK
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.compiled import entry, leaf

LEADER_STEP, REPLICA_STEP = 0, 1


class StepArrays(NamedTuple):
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
def _among(row, b):
    for x in row:
        if x >= 0 and x == b:
            return True
    return False


@leaf
def _ready(a, p, b):
    """True if `b` may become leader immediately."""
    if not a.may_lead[b]:
        return False
    for s in range(a.initial.shape[1]):
        if a.initial[p, s] == b:
            return a.initial_in_sync[p, s]
    return False


@leaf
def _substitute_leader(a, p, row, final, but):
    """A member that may become leader immediately, preferably one that stays; -1 if none."""
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
def _partner(a, leaving, arriving, taken):
    """Index of the arriving broker that replaces `leaving`: preferably on the same host, then in the same
    rack.
    """
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
def _to_front(row, b):
    i = 0
    while row[i] != b:
        i += 1
    while i > 0:
        row[i] = row[i - 1]
        i -= 1
    row[0] = b


@leaf
def _write(out, n, kind, p, source, target, role):
    """Write step `n`; returns the number of the next."""
    out.kind[n], out.partition[n], out.role[n] = kind, p, role
    out.source[n], out.target[n] = source, target
    return n + 1


@leaf
def _pass_lead(out, n, p, row, leader, b):
    """Make `b` leader: Kafka prefers the first of the list, so `b` moves to the front."""
    _to_front(row, b)
    return _write(out, n, LEADER_STEP, p, leader, b, 0)


@leaf
def _start(home, final, row, arriving, taken):
    """Start a partition: its current list, and the brokers that are new to it; returns their number."""
    m = 0
    for i in range(len(row)):
        row[i] = home[i]
        arriving[i] = -1
        taken[i] = False
    for b in final:
        if b >= 0 and not _among(row, b):
            arriving[m] = b
            m += 1
    return m


@leaf
def _makes_room(a, row, final, leader, in_slot_of_aim):
    """The replica that the next leader replaces first, so that the old leader can move.

    One that leaves anyway; otherwise the one in the next leader's slot; if that is the leader itself, any
    that may return.
    """
    for b in row:
        if b >= 0 and b != leader and not _among(final, b):
            return b
    if in_slot_of_aim == leader:
        for b in row:
            if b >= 0 and b != leader and a.may_receive[b]:
                return b
    return in_slot_of_aim


@leaf
def _lead_from_outside(a, out, n, p, row, final, leader, aim, in_slot_of_aim, arriving, taken):
    """Copy to `aim` first, because no other replica can lead while the leader's replica moves."""
    away = _makes_room(a, row, final, leader, in_slot_of_aim)
    n = _write(out, n, REPLICA_STEP, p, away, aim, 0)
    for i in range(len(row)):
        if row[i] == away:
            row[i] = aim
            break
    for j in range(len(arriving)):
        if arriving[j] == aim:
            # A replica that made space without having to leave returns in place of another that leaves.
            if _among(final, away):
                arriving[j] = away
            else:
                taken[j] = True
    return n


@leaf
def _relocate(a, out, n, p, row, final, leader, aim, carries, arriving, taken):
    """Move every leaving replica to a new broker; returns (next step, leader).

    The leader's goes to `aim` with its role where it `carries` that.
    """
    for i in range(len(row)):
        b = row[i]
        if b < 0 or _among(final, b):
            continue
        to = aim
        if not carries or b != leader:
            j = _partner(a, b, arriving, taken)
            to = arriving[j]
            taken[j] = True
        n = _write(out, n, REPLICA_STEP, p, b, to, 1 if b == leader else 0)
        row[i] = to
        if b == leader:
            leader = to
    return n, leader


@entry
def _write_steps(a, home_lead, first_leader, place, lead, chosen, out, rows, leaders, arriving, taken):
    """Steps of every changed partition, in the partition's own order; returns how many.

    Parameters
    ----------
    first_leader
        Shape (partitions,): broker index of the snapshot's leader as it stands there, -1 for none.
    out, rows, leaders
        Written: see `PartitionPath`.
    arriving, taken
        Shape (width,): brokers new to the partition, and whether each has replaced another; scratch arrays.
    """
    n = 0
    for c in range(len(chosen)):
        p = chosen[c]
        row, final = rows[c], place[p]
        leader = first_leader[p]
        # Who shall lead in the end.
        aim = final[lead[p]] if lead[p] >= 0 else -1
        m = _start(a.initial[p], final, row, arriving, taken)
        if aim >= 0 and home_lead[p] < 0:
            # The leader is offline: a replica that may lead immediately becomes leader before anything is
            # copied.
            b = aim if _among(row, aim) else _substitute_leader(a, p, row, final, -1)
            if b >= 0:
                n = _pass_lead(out, n, p, row, leader, b)
                leader = b
        carries = False
        if leader >= 0 and aim >= 0 and leader != aim:
            if _among(row, aim):
                n = _pass_lead(out, n, p, row, leader, aim)
                leader = aim
            elif not _among(final, leader):
                # The leader leaves and its successor holds nothing yet. First in the list, a leader hands its
                # role on with its copy; else somebody has to lead meanwhile.
                carries = row[0] == leader
                if not carries:
                    b = _substitute_leader(a, p, row, final, leader)
                    if b < 0:
                        slot = a.initial[p, lead[p]]
                        n = _lead_from_outside(
                            a, out, n, p, row, final, leader, aim, slot, arriving[:m], taken
                        )
                        b = aim
                    n = _pass_lead(out, n, p, row, leader, b)
                    leader = b
        if carries:
            for j in range(m):
                taken[j] = taken[j] or arriving[j] == aim
        n, leader = _relocate(a, out, n, p, row, final, leader, aim, carries, arriving, taken)
        if aim >= 0 and leader != aim:
            n = _pass_lead(out, n, p, row, leader, aim)
            leader = aim
        leaders[c] = leader
    return n


class PartitionPath(NamedTuple):
    """From the snapshot to a placement, partition by partition.

    Attributes
    ----------
    steps
        In the order of partitions, and for each in its own.
    chosen
        Shape (changed,): partitions that differ from the snapshot, ascending.
    rows, leaders
        Shape (changed, width) and (changed,): replica list and leader after all steps.
    """

    steps: StepArrays
    chosen: IntArray
    rows: IntArray
    leaders: IntArray


def path_to(problem: ReplicasProblem, placement: Placement) -> PartitionPath:
    """The steps from the snapshot to a placement."""
    arrays, first_leader, width = problem.arrays, problem.first_leader, placement.place.shape[1]
    chosen = changed_partitions(arrays.initial, first_leader, *placement)
    room = len(chosen) * (width + 3)
    partition, source, target = (np.zeros(room, np.int32) for _ in range(3))
    out = StepArrays(np.zeros(room, np.int8), partition, source, target, np.zeros(room, np.int8))
    rows, leaders = np.empty((len(chosen), width), np.int32), np.empty(len(chosen), np.int32)
    work = np.empty(width, np.int32), np.empty(width, np.bool_)
    number = _write_steps(
        arrays, problem.initial_leader, first_leader, *placement, chosen, out, rows, leaders, *work
    )
    steps = StepArrays(
        out.kind[:number], out.partition[:number], out.source[:number], out.target[:number], out.role[:number]
    )
    return PartitionPath(steps, chosen, rows, leaders)


def changed_partitions(home: IntArray, first_leader: IntArray, place: IntArray, lead: IntArray) -> IntArray:
    """Partitions whose set of brokers or leader differs from the snapshot, ascending."""
    rows = np.arange(len(place))
    leader = np.where(lead >= 0, place[rows, np.maximum(lead, 0)], first_leader)
    moved = (np.sort(home, axis=1) != np.sort(place, axis=1)).any(axis=1)
    return np.asarray(np.flatnonzero(moved | (leader != first_leader)), dtype=np.int32)


DISK_WEIGHT = 1e3
"""If every step exceeds a ceiling, disks have the lowest priority for exceeding: a full disk stops its
broker.
"""


@leaf
def apply_step(a, usage, kind, p, source, target, role, sign):
    """Change the usage of source, target and their hosts by one step (`sign` 1) or take it back (-1)."""
    left, reached = other_hosts(a, source, target)
    for r in range(usage.shape[1]):
        change = sign * (a.use[p, 1, r] - a.use[p, 0, r] if kind == LEADER_STEP else a.use[p, role, r])
        usage[target, r] += change * a.inverse[target, r]
        if source >= 0:
            usage[source, r] -= change * a.inverse[source, r]
        if reached >= 0:
            usage[reached, r] += change * a.inverse[reached, r]
        if left >= 0:
            usage[left, r] -= change * a.inverse[left, r]


@leaf
def other_hosts(a, source, target):
    """Rows of the hosts that a step leaves and reaches; -1 for none, and where it stays on one."""
    left = a.host_row[source] if source >= 0 else -1
    reached = a.host_row[target]
    if left == reached:
        return -1, -1
    return left, reached


@leaf
def _over(a, usage, ceiling, kind, p, row, role):
    """By how much a row would pass its ceiling, 0 if it stays below."""
    worst = 0.0
    for r in range(usage.shape[1]):
        change = a.use[p, 1, r] - a.use[p, 0, r] if kind == LEADER_STEP else a.use[p, role, r]
        # A falling column exceeds nothing, even if it is still above its ceiling.
        if change <= 0.0:
            continue
        over = usage[row, r] + change * a.inverse[row, r] - ceiling[row, r]
        worst = max(worst, over * DISK_WEIGHT if r == DISK else over)
    return worst


@leaf
def _overshoot(a, usage, ceiling, kind, p, source, target, role):
    """By how much the target or its host would pass its ceiling in this step, 0 if both stay below."""
    worst = _over(a, usage, ceiling, kind, p, target, role)
    reached = other_hosts(a, source, target)[1]
    return worst if reached < 0 else max(worst, _over(a, usage, ceiling, kind, p, reached, role))


@entry
def schedule(a, usage, ceiling, kind, partition, source, target, role, priority, order):
    """Find the order of the steps: by priority, each only after its partition's earlier ones, none above a
    ceiling if avoidable.

    Parameters
    ----------
    usage
        Shape (rows, columns), at the start; changed.
    ceiling
        Shape (rows, columns): limits of brokers and hosts during the execution.
    priority
        All steps, most urgent first.
    order
        Filled with the indices of the steps in the order of execution.
    """
    number = len(kind)
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
            # The steps of a partition stand side by side, in the order in which they must be made.
            if i > 0 and partition[i - 1] == p and not done[i - 1]:
                waiting[kept] = i
                kept += 1
                continue
            over = _overshoot(a, usage, ceiling, kind[i], p, source[i], target[i], role[i])
            if over > 0.0:
                if over < least:
                    least, least_at = over, i
                waiting[kept] = i
                kept += 1
                continue
            # Room that a step makes counts at once, so later ones of the same walk can use it.
            apply_step(a, usage, kind[i], p, source[i], target[i], role[i], 1.0)
            done[i] = True
            order[n] = i
            n += 1
        if kept == count:
            # All steps wait for each other: the step that exceeds its ceiling least is first.
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


def urgency(steps: StepArrays, leaving: NDArray[np.bool_], potential: FloatArray) -> IntArray:
    """All steps: leaderships, then replicas that must leave, then from the brokers furthest out."""
    source = np.where(steps.source >= 0, steps.source, 0)
    group = np.where(steps.kind == LEADER_STEP, 0, np.where(leaving, 1, 2))
    return np.asarray(np.lexsort((np.arange(len(source)), -potential[source], group)), dtype=np.int32)
