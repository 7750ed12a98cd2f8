"""What a run on brokers came to, out of the effects of its consumers; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from control import WORKER_PER_SECOND
from simulated import figures_of
from streams import PARTITIONS

from trimtab.history.keys.course import Course
from trimtab.history.keys.stream import KeyStream
from trimtab.online.keys.consumption import repaired

THRESHOLD, WEIGHT, HOLD_SECONDS, RATE_SECONDS = 0.6, 0.5, 10.0, 5.0
"""Θ, λ1, and how long every ISC has to stay at or below Θ; rates are smoothed over the last."""
STEP_SECONDS = 0.25


def consumption(course: Course, capacity: float = WORKER_PER_SECOND) -> tuple[np.ndarray, np.ndarray]:
    """Moments, four a second while records are sent, and the ISC of each partition at each of them.

    What came in before the step is not in it. A partition that was added has an ISC of 0 until it is used.
    """
    at, done, place = (np.array(one) for one in (course.stream.at, course.done, course.place))
    steps = np.arange(STEP_SECONDS, at[-1], STEP_SECONDS)
    kept = np.exp(-STEP_SECONDS / RATE_SECONDS)
    found = np.zeros((len(steps), course.partitions))
    for one in range(course.partitions):
        own = place == one
        came = np.searchsorted(at[own], steps)
        waiting = came - np.searchsorted(np.sort(done[own]), steps)
        rate = 0.0
        for number, new in enumerate(np.diff(came, prepend=0)):
            rate = kept * rate + (1 - kept) * new / STEP_SECONDS
            found[number, one] = repaired(rate, float(waiting[number]), capacity, WEIGHT)
    return steps, found


def convergence(course: Course, capacity: float = WORKER_PER_SECOND) -> dict[str, float | None]:
    """How a load that stepped up was met, by three measures.

    `converged_seconds` is KSCDR's: the time until every ISC is at or below Θ for `HOLD_SECONDS`, at every
    moment; None: never. One stall of one consumer is enough for never. `settled_seconds` is the same of each
    ISC's mean over `HOLD_SECONDS`, which chance and short stalls hardly move. `overloaded` is how many
    partitions have an ISC above Θ, in the mean of all moments: it tells runs apart which both never settle.
    """
    steps, isc = consumption(course, capacity)
    above = isc > THRESHOLD
    window = round(HOLD_SECONDS / STEP_SECONDS)
    sums = np.vstack([np.zeros(course.partitions), np.cumsum(isc, axis=0)])
    first = np.maximum(np.arange(len(steps)) + 1 - window, 0)
    counts = np.arange(len(steps)) + 1 - first
    means = (sums[1:] - sums[first]) / counts[:, None]
    end = course.stream.at[-1]

    def since(where: np.ndarray) -> float | None:
        moments = steps[where.any(axis=1)]
        last = float(moments[-1]) if len(moments) else 0.0
        return round(last, 2) if end - last >= HOLD_SECONDS else None

    return {
        "converged_seconds": since(above),
        "settled_seconds": since(means > THRESHOLD),
        "overloaded": round(float(above.sum()) / max(1, len(steps)), 3),
    }


def overtaken_of_all(effects: np.ndarray) -> int:
    """Records, of the measured ones and those before, that took effect after a later one of their key."""
    order = effects[np.argsort(effects["done"], kind="stable")]
    order = order[np.argsort(order["key"], kind="stable")]
    first = np.r_[True, order["key"][1:] != order["key"][:-1]]
    numbers = order["of_key"].astype("i8") + np.cumsum(first) * (1 << 33)
    return int((numbers < np.maximum.accumulate(numbers)).sum())


def course_of(
    stream: KeyStream, effects: np.ndarray, begin: float, until: float, partitions: int
) -> tuple[Course, int, int]:
    """The course of the measured records, how many never took effect, and how many did so twice.

    `partitions` are those that the topic has in the end; those beyond the first were added by the policy. A
    delay is counted from when the record was due. One that never took effect has it of the end.
    """
    own = effects[effects["number"] >= 0]
    count = len(stream.at)
    place, done = np.zeros(count, int), np.full(count, until - begin)
    place[own["number"]], done[own["number"]] = own["partition"], own["done"] - begin
    there = np.bincount(own["number"], minlength=count)
    course = Course(stream, place.tolist(), done.tolist(), partitions, partitions - PARTITIONS)
    return course, int((there == 0).sum()), int((there > 1).sum())


def figures(
    stream: KeyStream, effects: np.ndarray, begin: float, until: float, leaders: Sequence[int]
) -> dict[str, Any]:
    """The measures of a run; `leaders` names the broker of each partition that the topic has in the end."""
    course, lost, twice = course_of(stream, effects, begin, until, len(leaders))
    own = effects[effects["number"] >= 0]
    late = own["sent"] - begin - np.array(stream.at)[own["number"]]
    brokers = np.bincount(leaders, weights=course.records)[np.unique(leaders)]
    return (
        figures_of(course)
        | convergence(course)
        | {
            "brokers_max_over_mean": round(float(brokers.max() / brokers.mean()), 4),
            "records": len(stream.at),
            "lost": lost,
            "twice": twice,
            "overtaken_of_all": overtaken_of_all(effects),
            "of_all": len(effects),
            "sent_late_p99_seconds": round(float(np.quantile(late, 0.99)), 4),
        }
    )
