"""Compiled: the order of all steps: each partition's own kept, no broker above its ceiling if avoidable.

Leaderships first, then what must leave, then the rest from the most loaded brokers on; a move waits while its
destination, or the host of that, would pass its limit on the way.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.resources import DISK
from trimtab.plan.replicas.moves import LEADER_STEP, StepArrays
from trimtab.plan.search.compiled import entry, leaf

DISK_WEIGHT = 1e3
"""Where every step passes some ceiling, disks come last: a full one takes its broker down."""


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
def schedule(a, usage, ceiling, kind, partition, source, target, role, priority):
    """Order of the steps: by priority, each only after its partition's earlier ones, none above a ceiling if
    avoidable.

    Parameters
    ----------
    usage
        Shape (rows, columns), at the start; changed.
    ceiling
        Shape (rows, columns): what no broker and no host should pass on the way.
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
            over = _overshoot(a, usage, ceiling, kind[i], p, source[i], target[i], role[i])
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


def urgency(steps: StepArrays, leaving: NDArray[np.bool_], potential: FloatArray) -> IntArray:
    """All steps: leaderships, then replicas that must leave, then from the brokers furthest out."""
    source = np.where(steps.source >= 0, steps.source, 0)
    group = np.where(steps.kind == LEADER_STEP, 0, np.where(leaving, 1, 2))
    return np.asarray(np.lexsort((np.arange(len(source)), -potential[source], group)), dtype=np.int32)
