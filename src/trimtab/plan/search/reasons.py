"""Compiled: the reason of a step in numbers: which goal, on which broker, from what to what."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.search.compiled import leaf

THETA_GOAL, EPSILON_GOAL, ROOM_GOAL = range(3)
"""Goals of load that a step serves; a step with `ROOM_GOAL` makes space for others. A balancer's own goals
follow.
"""

OWN_GOALS = 3


class StepReasons(NamedTuple):
    """One row a step, in the order of execution.

    Attributes
    ----------
    goal, column, broker
        Shape (steps,): goal code, column of load (-1 for none), broker index.
    measure
        Shape (steps, 3): the goal's measure on that broker before and after, and its limit.
    other
        Shape (steps, 2): the same column on the other broker, before and after.
    rejected
        Shape (steps, rules): number of brokers that each rule of the balancer rejected as destinations.
    """

    goal: NDArray[np.int8]
    column: IntArray
    broker: IntArray
    measure: FloatArray
    other: FloatArray
    rejected: IntArray


def blank_reasons(steps: int, rules: int) -> StepReasons:
    """Allocate the reasons of a number of steps."""
    return StepReasons(
        goal=np.zeros(steps, np.int8),
        column=np.full(steps, -1, np.int32),
        broker=np.zeros(steps, np.int32),
        measure=np.zeros((steps, 3)),
        other=np.zeros((steps, 2)),
        rejected=np.zeros((steps, rules), np.int32),
    )


def rejections(choices: int, rejected: Sequence[int], rules: Sequence[str]) -> str:
    """The end of a reason: the rules that rejected other brokers; empty if none did.

    Parameters
    ----------
    choices
        Number of other brokers.
    rejected, rules
        Number of brokers that each rule rejected, and the texts of the rules.
    """
    if choices <= 0:
        return "; there is no other broker"
    said = [f"{number} {rule}" for number, rule in zip(rejected, rules, strict=True) if number]
    if not said:
        return ""
    brokers = "1 other broker" if choices == 1 else f"{choices} other brokers"
    return f"; of {brokers} rejected: {', '.join(said)}"


def from_average(before: float, average: float) -> str:
    """Deviation of a utilisation from the average: `88% more`, `0.4% less`."""
    off = before / average - 1.0
    return f"{abs(off):.{0 if abs(off) >= 0.01 else 1}%} {'more' if off > 0 else 'less'}"


class UnitScale(NamedTuple):
    """The nominal capacity in place of an unknown one, and the unit in which texts print the load instead."""

    capacity: float
    unit: str


PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def change(before: float, after: float, scale: UnitScale | None = None) -> str:
    """A utilisation before and after, with one to four digits, as many as distinguish them.

    In percent of the capacity; if that is unknown (`scale`), as a load in its unit.
    """
    factor, suffix = (100.0, "%") if scale is None else _unit(max(abs(before), abs(after)), scale)
    for digits in range(1, 5):
        one, other = f"{before * factor:.{digits}f}", f"{after * factor:.{digits}f}"
        if one != other and float(one) != float(other):  # -0.0 equals 0.0
            return f"{one}{suffix} -> {other}{suffix}"
    return f"stays {before * factor:.1f}{suffix}"


def limit_text(limit: float, scale: UnitScale | None = None) -> str:
    """A limit of utilisation, in the format of `change`."""
    factor, suffix = (100.0, "%") if scale is None else _unit(abs(limit), scale)
    return f"{limit * factor:.1f}{suffix}"


def _unit(most: float, scale: UnitScale) -> tuple[float, str]:
    """The factor and the suffix for printing loads up to this utilisation."""
    if not scale.unit.startswith("bytes"):
        noun = scale.unit.partition(",")[0].replace(" per second", "/s")
        return scale.capacity, f" {noun}"
    per = "/s" if scale.unit.endswith("per second") else ""
    for size, prefix in PREFIXES:
        if most * scale.capacity >= size:
            return scale.capacity / size, f" {prefix}B{per}"
    return scale.capacity, f" B{per}"


@leaf
def _off(balancer, high, low):
    return max(balancer - high, low - balancer, 0.0)


@leaf
def load_goal(out, k, limits, before, usage, source, target):
    """Store for step `k` the broker and column that it helps most, and its measures.

    Parameters
    ----------
    before
        Shape (2, columns): utilisation of source (-1 for none) and target before the step.
    usage
        Shape (brokers, columns): after it.
    """
    best = 0.0
    broker = source if source >= 0 else target
    column = -1
    for side in range(2):
        b = source if side == 0 else target
        if b < 0:
            continue
        for r in range(usage.shape[1]):
            old = _off(before[side, r], limits.high[b, r], limits.low[b, r])
            new = _off(usage[b, r], limits.high[b, r], limits.low[b, r])
            relief = limits.weight[b, r] * (old * old - new * new)
            if relief > best:
                best, broker, column = relief, b, r
    goal = EPSILON_GOAL if column >= 0 else ROOM_GOAL
    if column < 0:
        # No column is nearer to its band after this step alone: name the column that it changes most.
        most = -1.0
        for r in range(usage.shape[1]):
            change = limits.weight[target, r] * abs(usage[target, r] - before[1, r])
            if change > most:
                most, column = change, r
    level = before[0 if broker == source else 1, column]
    limit = limits.high[broker, column]
    if level > limits.theta[broker, column]:
        goal = THETA_GOAL if goal == EPSILON_GOAL else goal
        limit = limits.theta[broker, column]
    elif level < limits.low[broker, column]:
        limit = limits.low[broker, column]
    out.goal[k], out.broker[k], out.column[k] = goal, broker, column
    out.measure[k, 0], out.measure[k, 1], out.measure[k, 2] = level, usage[broker, column], limit
    far = 1 if broker == source else 0
    there = target if far == 1 else source
    if there >= 0:
        out.other[k, 0] = before[far, column]
        out.other[k, 1] = usage[there, column]
