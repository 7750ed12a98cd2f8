"""Compiled: the order of unloads, and for each its goal, broker, and measures before and after."""

import numpy as np

from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.reasons import OWN_GOALS, load_goal

DRAIN_GOAL, UNOWNED_GOAL = range(OWN_GOALS, OWN_GOALS + 2)
"""Goals of a step besides load."""

POLICY_REJECTED, GRACE_REJECTED, LIMIT_REJECTED = range(3)


@leaf
def _carry(use, inverse, usage, i, source, target):
    """Update the usage of source (-1 for none) and target for a move of the bundle."""
    for r in range(use.shape[1]):
        if source >= 0:
            usage[source, r] -= use[i, r] * inverse[source, r]
        usage[target, r] += use[i, r] * inverse[target, r]


@leaf
def _fits(use, inverse, usage, ceiling, i, b):
    for r in range(use.shape[1]):  # noqa: SIM110 - compiled code knows no generators
        if usage[b, r] + use[i, r] * inverse[b, r] > ceiling[b, r]:
            return False
    return True


@entry
def schedule(use, inverse, home, place, usage, ceiling, queue, order):
    """Find the order of the moves: the first of the queue whose destination has room by then; else the first.

    Parameters
    ----------
    usage
        Shape (brokers, columns), at the start; changed.
    ceiling
        Shape (brokers, columns): limits during the execution.
    queue
        Bundles that move, the most urgent first.
    order
        Filled with the same bundles in the order of execution.
    """
    number = len(queue)
    done = np.zeros(number, np.bool_)
    made = 0
    while made < number:
        before = made
        first = -1
        for k in range(number):
            if done[k]:
                continue
            i = queue[k]
            if first < 0:
                first = k
            # The source is relieved immediately, so later entries of the same pass can use its capacity.
            if _fits(use, inverse, usage, ceiling, i, place[i]):
                done[k] = True
                order[made] = i
                made += 1
                _carry(use, inverse, usage, i, home[i], place[i])
        if made == before:
            # All wait for each other: one of them must exceed a limit for a moment.
            i = queue[first]
            done[first] = True
            order[made] = i
            made += 1
            _carry(use, inverse, usage, i, home[i], place[i])


@leaf
def _reject(a, usage, ceiling, i, target, counts):
    """Count the other brokers that were no possible destination, by rule."""
    for b in range(len(usage)):
        if b == a.initial[i] or b == target:
            continue
        if not a.allowed[a.kind[i], b]:
            counts[POLICY_REJECTED] += 1
            continue
        recent = False
        for k in range(a.barred.shape[1]):
            if a.barred[i, k] == b:
                recent = True
        if recent:
            counts[GRACE_REJECTED] += 1
        elif not _fits(a.use, a.inverse, usage, ceiling, i, b):
            counts[LIMIT_REJECTED] += 1


@entry
def reasons_of(a, limits, order, place, usage, ceiling, owned, out):
    """Walk through the steps and record the goal of each.

    Parameters
    ----------
    usage
        Shape (brokers, columns), at the start; changed.
    owned
        Shape (brokers,): how many bundles each owns at the start; changed.
    out
        `StepReasons`, written.
    """
    before = np.zeros((2, usage.shape[1]))
    for k in range(len(order)):
        i = order[k]
        source, target = a.initial[i], place[i]
        _reject(a, usage, ceiling, i, target, out.rejected[k])
        for r in range(usage.shape[1]):
            before[0, r] = usage[source, r] if source >= 0 else 0.0
            before[1, r] = usage[target, r]
        _carry(a.use, a.inverse, usage, i, source, target)
        # Necessary moves have their own goals, whatever they do for the load.
        if source < 0:
            out.goal[k], out.broker[k] = UNOWNED_GOAL, target
        elif a.must[i]:
            out.goal[k], out.broker[k] = DRAIN_GOAL, source
            out.measure[k, 0], out.measure[k, 1] = owned[source], owned[source] - 1.0
        else:
            load_goal(out, k, limits, before, usage, source, target)
        if source >= 0:
            owned[source] -= 1.0
        owned[target] += 1.0
