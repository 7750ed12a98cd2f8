"""What a run on brokers came to, out of the effects of its consumers; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from control import WORKER_PER_SECOND
from simulated import DEADLINE_SECONDS, figures_of
from streams import PARTITIONS

from trimtab.history.keys.simulation import KeysSimulationRun, KeyStream
from trimtab_keys.core.load import repaired_consumption

THRESHOLD, WEIGHT, HOLD_SECONDS, RATE_SECONDS = 0.6, 0.5, 10.0, 5.0
"""Θ, λ1, and how long every ISC has to stay at or below Θ; rates are smoothed over the last."""
STEP_SECONDS = 0.25
BEHIND = 0.01
"""Of the records of a second: so many may wait longer than the deadline in a load that is met."""


def consumption(
    course: KeysSimulationRun, capacity: float = WORKER_PER_SECOND
) -> tuple[np.ndarray, np.ndarray]:
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
            found[number, one] = repaired_consumption(rate, float(waiting[number]), capacity, WEIGHT)
    return steps, found


def convergence(
    course: KeysSimulationRun, until: float, capacity: float = WORKER_PER_SECOND
) -> dict[str, float | None]:
    """How a load that stepped up was met, by three measures.

    `converged_seconds` is KSCDR's: the time until every ISC is at or below Θ for `HOLD_SECONDS`; None: never.
    One stall of one consumer keeps it from that. `recovered_seconds` is the time after which no more than
    `BEHIND` of a second's records wait longer than the deadline, for good; 0: never more, None: not `until`
    then. It goes on when all are sent. `overloaded` is how many partitions have an ISC above Θ, in the mean
    of all moments.
    """
    steps, isc = consumption(course, capacity)
    above = isc > THRESHOLD
    end = course.stream.at[-1]
    moments = steps[above.any(axis=1)]
    last = float(moments[-1]) if len(moments) else 0.0
    due, done = np.array(course.stream.at) + DEADLINE_SECONDS, np.array(course.done)
    late = done > due
    steps = np.arange(0.0, until, STEP_SECONDS)
    waiting = np.searchsorted(due[late], steps) - np.searchsorted(np.sort(done[late]), steps)
    behind = np.flatnonzero(waiting > BEHIND * len(due) / end)
    recovered: float | None = 0.0
    if len(behind):
        recovered = None if behind[-1] == len(steps) - 1 else round(float(steps[behind[-1] + 1]), 2)
    return {
        "converged_seconds": round(last, 2) if end - last >= HOLD_SECONDS else None,
        "recovered_seconds": recovered,
        "overloaded": round(float(above.sum()) / max(1, len(above)), 3),
    }


def overtaken_of_all(effects: np.ndarray) -> int:
    """Records, of the measured ones and those before, that took effect after a later one of their key."""
    order = effects[np.argsort(effects["done"], kind="stable")]
    order = order[np.argsort(order["key"], kind="stable")]
    first = np.r_[True, order["key"][1:] != order["key"][:-1]]
    numbers = order["of_key"].astype("i8") + np.cumsum(first) * (1 << 33)
    return int((numbers < np.maximum.accumulate(numbers)).sum())


def course_of(
    stream: KeyStream, effects: np.ndarray, begin: float, until: float, partitions: int, places: np.ndarray
) -> tuple[KeysSimulationRun, int, int]:
    """The course of the measured records, how many never took effect, and how many did so twice.

    `partitions` are those that the topic has in the end; those beyond the first were added by the policy. A
    delay is counted from when the record was due. One that did not take effect has it of the end, and lies
    where `places` says: shape (records,), read from the topic.
    """
    own = effects[effects["number"] >= 0]
    count = len(stream.at)
    # Members take effect for a moment after they were told to stop.
    end = max([until, *own["done"]])
    place, done = places.astype(int), np.full(count, end - begin)
    place[own["number"]], done[own["number"]] = own["partition"], own["done"] - begin
    there = np.bincount(own["number"], minlength=count)
    course = KeysSimulationRun(stream, place.tolist(), done.tolist(), partitions, partitions - PARTITIONS)
    return course, int((there == 0).sum()), int((there > 1).sum())


def figures(
    stream: KeyStream,
    effects: np.ndarray,
    begin: float,
    until: float,
    leaders: Sequence[int],
    places: np.ndarray | None = None,
) -> dict[str, Any]:
    """The measures of a run.

    `leaders` names the broker of each partition that the topic has in the end. `places` are given of a run
    that ended before all records took effect: nobody knows then what was lost, and delays above
    `censored_seconds` may be longer than measured.
    """
    drained = places is None
    course, missing, twice = course_of(
        stream, effects, begin, until, len(leaders), np.zeros(len(stream.at)) if places is None else places
    )
    own = effects[effects["number"] >= 0]
    late = own["sent"] - begin - np.array(stream.at)[own["number"]]
    brokers = np.bincount(leaders, weights=course.records)[np.unique(leaders)]
    first = [effects["sent"][effects["partition"] == one] for one in range(PARTITIONS, len(leaders))]
    there = np.isin(np.arange(len(stream.at)), own["number"])
    left = np.array(stream.at)[~there]
    return (
        figures_of(course)
        | convergence(course, until - begin)
        | {
            "used_seconds": [round(float(one.min() - begin), 2) if len(one) else None for one in first],
            "brokers_max_over_mean": round(float(brokers.max() / brokers.mean()), 4),
            "records": len(stream.at),
            "played_seconds": round(until - begin, 2),
            "lost": missing if drained else None,
            "unfinished": missing,
            "censored_seconds": round(until - begin - float(left.max()), 2) if len(left) else None,
            "twice": twice,
            "overtaken_of_all": overtaken_of_all(effects),
            "of_all": len(effects),
            "sent_late_p99_seconds": round(float(np.quantile(late, 0.99)), 4),
        }
    )
