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


def converged_seconds(course: Course, capacity: float = WORKER_PER_SECOND) -> float | None:
    """From the step of the load until every partition's ISC is at or below Θ for so long; None: never.

    Looked at four times a second while records are sent. What came in before the step is not in it.
    """
    at, done, place = (np.array(one) for one in (course.stream.at, course.done, course.place))
    steps = np.arange(STEP_SECONDS, at[-1], STEP_SECONDS)
    kept = np.exp(-STEP_SECONDS / RATE_SECONDS)
    above = np.zeros(len(steps), bool)
    for one in range(course.partitions):
        own = place == one
        came = np.searchsorted(at[own], steps)
        waiting = came - np.searchsorted(np.sort(done[own]), steps)
        rate = 0.0
        for number, new in enumerate(np.diff(came, prepend=0)):
            rate = kept * rate + (1 - kept) * new / STEP_SECONDS
            above[number] |= repaired(rate, float(waiting[number]), capacity, WEIGHT) > THRESHOLD
    last = float(steps[above][-1]) if above.any() else 0.0
    return last if at[-1] - last >= HOLD_SECONDS else None


def overtaken_of_all(effects: np.ndarray) -> int:
    """Records, of the measured ones and those before, that took effect after a later one of their key."""
    order = effects[np.argsort(effects["done"], kind="stable")]
    order = order[np.argsort(order["key"], kind="stable")]
    first = np.r_[True, order["key"][1:] != order["key"][:-1]]
    numbers = order["of_key"].astype("i8") + np.cumsum(first) * (1 << 33)
    return int((numbers < np.maximum.accumulate(numbers)).sum())


def course_of(stream: KeyStream, effects: np.ndarray, begin: float, until: float) -> tuple[Course, int, int]:
    """The course of the measured records, how many never took effect, and how many did so twice.

    A delay is counted from when the record was due. One that never took effect has it of the end.
    """
    own = effects[effects["number"] >= 0]
    count = len(stream.at)
    place, done = np.zeros(count, int), np.full(count, until - begin)
    place[own["number"]], done[own["number"]] = own["partition"], own["done"] - begin
    there = np.bincount(own["number"], minlength=count)
    course = Course(stream, place.tolist(), done.tolist(), max(PARTITIONS, int(place.max()) + 1))
    return course, int((there == 0).sum()), int((there > 1).sum())


def figures(
    stream: KeyStream, effects: np.ndarray, begin: float, until: float, leaders: Sequence[int]
) -> dict[str, Any]:
    """The measures of a run; `leaders` names the broker of each partition."""
    course, lost, twice = course_of(stream, effects, begin, until)
    own = effects[effects["number"] >= 0]
    late = own["sent"] - begin - np.array(stream.at)[own["number"]]
    brokers = np.bincount(leaders, weights=course.records[: len(leaders)])[np.unique(leaders)]
    converged = converged_seconds(course)
    return figures_of(course) | {
        "brokers_max_over_mean": round(float(brokers.max() / brokers.mean()), 4),
        "records": len(stream.at),
        "lost": lost,
        "twice": twice,
        "overtaken_of_all": overtaken_of_all(effects),
        "of_all": len(effects),
        "converged_seconds": None if converged is None else round(converged, 2),
        "sent_late_p99_seconds": round(float(np.quantile(late, 0.99)), 4),
    }
