"""Arrivals out of the samples of a lake: counters of processes, turned into messages again.

Processes of queues tell how many messages of each class they sent, and the sum and the sum of squares of the
processing times, not single messages. So a replay knows how many came between two ticks and what a class
takes, not the instants within a tick nor which message took how long: instants are drawn evenly over the
interval, processing times from a gamma distribution with the class' own mean and variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.files.queues import named_places
from trimtab.model.errors import ObserveError
from trimtab.model.queues import Arrivals
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.parquet import rows_of_files
from trimtab.observe.queues.pipeline import PIPELINE

if TYPE_CHECKING:
    import datetime

    import pyarrow

    from trimtab.files.store import Location
    from trimtab.model.load import FloatArray

COLUMNS: Final = (
    *("cluster", "tick", "kind", "queue", "process", "message_class", "capacity", "weight"),
    *("accepted_total", "processed_total", "busy_seconds_total", "busy_squares_total"),
)
MICROSECONDS: Final = 1e6


def lake_arrivals(
    path: Location,
    cluster: str | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    seed: int,
) -> Arrivals:
    """Arrivals between the ticks that a lake holds of a set of queues.

    Parameters
    ----------
    path
        The lake.
    cluster
        The set of queues; may be None where the lake holds one.
    since, until
        Ticks from the one on and before the other.
    seed
        Of instants and processing times.

    Raises
    ------
    ObserveError
        If there are no samples of such queues, or of several where none is named, or no message came.
    """
    told = f"lake {path} holds"
    lake = Lake(path, PIPELINE)
    files = lake.raw_files(*(None if one is None else one.date() for one in (since, until)))
    rows = rows_of_files(files, list(COLUMNS), _in_range(since, until)) if files else None
    known = sorted(set(rows["cluster"].to_pylist())) if rows is not None else []
    name = known[0] if cluster is None and len(known) == 1 else cluster
    if rows is None or name not in known:
        if cluster is None and known:
            raise ObserveError(f"{told} {len(known)} sets of queues ({', '.join(known)}): say which")
        asked = "" if cluster is None else f" named {cluster!r}"
        raise ObserveError(
            f"{told} no samples of queues{asked} in that period: run `trimtab collect` on their server "
            "first, or name another lake"
        )
    table = rows.filter(_equal(rows["cluster"], name))
    queues = table.filter(_equal(table["kind"], "queue"))
    numbers, capacities = queues["queue"].to_pylist(), queues["capacity"].drop_null().to_pylist()
    begun = min(table["tick"].to_pylist()).timestamp()
    found = _messages(table.filter(_equal(table["kind"], "queue_class")), begun, seed)
    if not len(found):
        raise ObserveError(
            f"{told} no message between two ticks of {name!r} in that period: collect two ticks or more "
            "while messages are sent"
        )
    return Arrivals(
        found.at,
        found.classes,
        found.of_class,
        found.seconds,
        weights=found.weights,
        queues=len(set(numbers)) or None,
        capacity=max(capacities, default=None),
    )


def _in_range(since: datetime.datetime | None, until: datetime.datetime | None) -> Any:
    import pyarrow.dataset

    field = pyarrow.dataset.field
    wanted = field("kind").isin(["queue", "queue_class"])
    if since is not None:
        wanted &= field("tick") >= since
    if until is not None:
        wanted &= field("tick") < until
    return wanted


def _equal(column: Any, value: str | None) -> Any:
    import pyarrow.compute

    return pyarrow.compute.equal(column, value)


def _messages(rows: pyarrow.Table, started: float, seed: int) -> Arrivals:
    """Single messages from counters; counting begins at the first tick."""
    import pyarrow as pa

    def numbers(name: str) -> FloatArray:
        return np.asarray(rows[name].cast(pa.float64()).fill_null(0.0))

    instants = rows["tick"].cast(pa.timestamp("us", rows["tick"].type.tz)).cast(pa.int64())
    tick = np.asarray(instants) / MICROSECONDS
    names, of_class = named_places(rows["message_class"])
    _, process = named_places(rows["process"])
    order = np.lexsort((tick, of_class, process))
    tick, process, of_class = tick[order], process[order], of_class[order]
    new = np.ones(len(tick), dtype=np.bool_)
    new[1:] = (process[1:] != process[:-1]) | (of_class[1:] != of_class[:-1])
    # A process that was not there at the tick before has done since then all that it tells.
    ticks = np.unique(np.append(tick, started))
    earlier = ticks[np.maximum(np.searchsorted(ticks, tick) - 1, 0)]
    before = np.where(new, earlier, np.roll(tick, 1))

    def grown(name: str) -> FloatArray:
        totals = numbers(f"{name}_total")[order]
        past = np.where(new, np.where(tick == started, totals, 0.0), np.roll(totals, 1))
        return np.maximum(totals - past, 0.0)

    chance = np.random.default_rng(seed)
    sent = grown("accepted").astype(np.int64)
    done = (grown("processed"), grown("busy_seconds"), grown("busy_squares"))
    seconds = _drawn(chance, of_class, sent, *done)
    at: FloatArray = np.repeat(before, sent) + chance.random(int(sent.sum())) * np.repeat(tick - before, sent)
    sequence = np.argsort(at, kind="stable")
    weight = numbers("weight")[order]
    newest = np.argsort(tick, kind="stable")
    weights = {names[of_class[one]]: float(weight[one]) for one in newest if weight[one] > 0}
    return Arrivals(
        at[sequence], names, np.repeat(of_class, sent)[sequence], seconds[sequence], weights=weights
    )


def _drawn(
    chance: np.random.Generator,
    of_class: np.ndarray,
    sent: np.ndarray,
    processed: FloatArray,
    busy: FloatArray,
    squares: FloatArray,
) -> FloatArray:
    """Processing times: gamma by the mean and the variance of each class over the whole recording.

    A class of which nothing was processed takes as long as the mean of all.
    """
    classes = int(of_class.max(initial=-1)) + 1

    def by_class(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(of_class, weights=values, minlength=classes), dtype=np.float64)

    counts, sums, squared = by_class(processed), by_class(busy), by_class(squares)
    usual = sums.sum() / counts.sum() if counts.sum() else 0.0
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), usual)
    variance = np.where(counts > 1, squared / np.maximum(counts, 1) - mean**2, 0.0)
    of_message = np.repeat(of_class, sent)
    found = mean[of_message]
    spread = (variance > 0) & (mean > 0)
    shape = np.where(spread, mean**2 / np.where(spread, variance, 1.0), 1.0)
    drawn = chance.standard_gamma(shape[of_message]) / shape[of_message] * found
    return np.asarray(np.where(spread[of_message], drawn, found))
