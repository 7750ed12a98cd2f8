"""Compiled: the order of unloads, and for each which goal it serves, on which broker, from what to what."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.search.compiled import entry, leaf

THETA_GOAL, EPSILON_GOAL, DRAIN_GOAL, UNOWNED_GOAL, ROOM_GOAL = range(5)
"""What a step serves; `ROOM_GOAL` makes room for others."""

POLICY_REJECTED, GRACE_REJECTED, LIMIT_REJECTED = range(3)


class Reasons(NamedTuple):
    """One row a step, in the order of execution.

    Attributes
    ----------
    goal, column, broker
        Shape (steps,): goal code, column (-1 for none), broker index.
    measure
        Shape (steps, 3): the goal's measure on that broker before and after, and its limit.
    other
        Shape (steps, 2): the same column on the other broker, before and after.
    rejected
        Shape (steps, 3): brokers that were no destination: by service or policy, because the bundle left them
        lately, because they would pass a limit.
    """

    goal: NDArray[np.int8]
    column: IntArray
    broker: IntArray
    measure: FloatArray
    other: FloatArray
    rejected: IntArray


def blank_reasons(steps: int) -> Reasons:
    """Room for the reasons of so many steps."""
    return Reasons(
        goal=np.zeros(steps, np.int8),
        column=np.full(steps, -1, np.int32),
        broker=np.zeros(steps, np.int32),
        measure=np.zeros((steps, 3)),
        other=np.zeros((steps, 2)),
        rejected=np.zeros((steps, 3), np.int32),
    )


@leaf
def _shift(use, inverse, usage, i, b, sign):  # type: ignore[no-untyped-def]
    for r in range(use.shape[1]):
        usage[b, r] += sign * use[i, r] * inverse[b, r]


@leaf
def _fits(use, inverse, usage, ceiling, i, b):  # type: ignore[no-untyped-def]
    for r in range(use.shape[1]):  # noqa: SIM110 - compiled code knows no generators
        if usage[b, r] + use[i, r] * inverse[b, r] > ceiling[b, r]:
            return False
    return True


@entry
def schedule(use, inverse, home, place, usage, ceiling, queue):  # type: ignore[no-untyped-def]
    """Order of the moves: the first of the queue whose destination has room by then; else the first.

    Parameters
    ----------
    usage
        Shape (brokers, columns), at the start; changed.
    ceiling
        Shape (brokers, columns): what no broker should pass on the way.
    queue
        Bundles that move, the most urgent first.
    """
    number = len(queue)
    order = np.empty(number, np.int32)
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
            if _fits(use, inverse, usage, ceiling, i, place[i]):
                done[k] = True
                order[made] = i
                made += 1
                if home[i] >= 0:
                    _shift(use, inverse, usage, i, home[i], -1.0)
                _shift(use, inverse, usage, i, place[i], 1.0)
        if made == before:
            # All wait for each other: one of them has to pass a ceiling for a moment.
            i = queue[first]
            done[first] = True
            order[made] = i
            made += 1
            if home[i] >= 0:
                _shift(use, inverse, usage, i, home[i], -1.0)
            _shift(use, inverse, usage, i, place[i], 1.0)
    return order


@leaf
def _off(level, high, low):  # type: ignore[no-untyped-def]
    return max(level - high, low - level, 0.0)


@leaf
def _reject(a, usage, ceiling, i, target, counts):  # type: ignore[no-untyped-def]
    """Count the other brokers that could not have been the destination, by why."""
    for b in range(len(usage)):
        if b == a.home[i] or b == target:
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


@leaf
def _load_goal(before, usage, limits, source, target, row):  # type: ignore[no-untyped-def]
    """Which broker and column a step helps most: (goal, broker, column); fills the row of measures."""
    best = 0.0
    broker = source
    column = -1
    for side in range(2):
        b = source if side == 0 else target
        for r in range(usage.shape[1]):
            old = _off(before[side, r], limits.high[b, r], limits.low[b, r])
            new = _off(usage[b, r], limits.high[b, r], limits.low[b, r])
            relief = limits.weight[b, r] * (old * old - new * new)
            if relief > best:
                best, broker, column = relief, b, r
    goal = EPSILON_GOAL if column >= 0 else ROOM_GOAL
    if column < 0:
        # Nothing got nearer to its band by this step alone: say which column it moves most.
        most = -1.0
        for r in range(usage.shape[1]):
            change = limits.weight[target, r] * abs(usage[target, r] - before[1, r])
            if change > most:
                most, column = change, r
    level = before[0 if broker == source else 1, column]
    if level > limits.theta[broker, column]:
        goal = THETA_GOAL if goal == EPSILON_GOAL else goal
        row[2] = limits.theta[broker, column]
    elif level < limits.low[broker, column]:
        row[2] = limits.low[broker, column]
    else:
        row[2] = limits.high[broker, column]
    row[0], row[1] = level, usage[broker, column]
    return goal, broker, column


@entry
def reasons_of(a, limits, order, place, usage, ceiling, owned, out):  # type: ignore[no-untyped-def]
    """Walk through the steps and say what each is for.

    Parameters
    ----------
    usage
        Shape (brokers, columns), at the start; changed.
    owned
        Shape (brokers,): how many bundles each owns at the start; changed.
    out
        `Reasons`, written.
    """
    before = np.zeros((2, usage.shape[1]))
    for k in range(len(order)):
        i = order[k]
        source, target = a.home[i], place[i]
        _reject(a, usage, ceiling, i, target, out.rejected[k])
        for r in range(usage.shape[1]):
            before[0, r] = usage[source, r] if source >= 0 else 0.0
            before[1, r] = usage[target, r]
        if source >= 0:
            _shift(a.use, a.inverse, usage, i, source, -1.0)
        _shift(a.use, a.inverse, usage, i, target, 1.0)
        if source < 0:
            out.goal[k], out.broker[k] = UNOWNED_GOAL, target
        elif a.must[i]:
            out.goal[k], out.broker[k] = DRAIN_GOAL, source
            out.measure[k, 0], out.measure[k, 1] = owned[source], owned[source] - 1.0
        else:
            goal, b, column = _load_goal(before, usage, limits, source, target, out.measure[k])
            out.goal[k], out.broker[k], out.column[k] = goal, b, column
            far = 1 if b == source else 0
            out.other[k, 0] = before[far, column]
            out.other[k, 1] = usage[target if far == 1 else source, column]
        if source >= 0:
            owned[source] -= 1.0
        owned[target] += 1.0
