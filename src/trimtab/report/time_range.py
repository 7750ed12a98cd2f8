"""Stretches of a lake's table `imbalance`: the newest ticks of one cluster between two instants."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from trimtab.observe.status import rightly_stamped
from trimtab.report.measured import MeasuredLoad, complete_ticks, measured_at, rows_of

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake

MIN_SAMPLES = 3
"""Figures of fewer samples are those of a moment."""

FURTHEST = datetime.timedelta(days=1)
"""Samples from longer before say little of the load that was moved."""
SETTLING = 2
"""Ticks after an execution that do not count: the first interval began before its end, in the second
followers catch up and caches fill."""
SPARE = 3
"""So many times the ticks that are wanted are read, because some may lack a broker."""
MICROSECOND = datetime.timedelta(microseconds=1)


def measured_between(
    lake: Lake,
    cluster: str,
    ticks: int,
    after: datetime.datetime | None,
    until: datetime.datetime | None,
    settling: int = 1,
) -> MeasuredLoad | None:
    """The figures of the newest ticks at which every live broker was sampled; None where there is none.

    Parameters
    ----------
    lake
        Seen from the balancer that is meant.
    ticks
        How many at most.
    after
        Ticks up to this instant do not count; None: any.
    until
        The last instant that counts; none counts that is `FURTHEST` before it. None: the newest count.
    settling
        So many ticks right after `after` do not count either: the interval of the first began before it.
    """
    bounds = [one for one in (after, until and until - FURTHEST) if one is not None]
    begin = max(bounds) + MICROSECOND if bounds else None
    if until is None and (newest := rightly_stamped(lake, cluster)) is not None:
        until = newest
    end = None if until is None else until + MICROSECOND
    named = lake.table("imbalance", ["cluster", "tick"], since=begin, until=end)
    if not named.num_rows:
        return None
    times = sorted({row["tick"] for row in named.to_pylist() if row["cluster"] == cluster})
    right_after = after is not None and after == max(bounds)
    times = times[settling if right_after else 0 :][-SPARE * ticks :]
    if not times:
        return None
    rows = rows_of(lake.table("imbalance", since=times[0], until=end).to_pylist(), cluster)
    found, known = complete_ticks(rows, lake.balancer.resources)
    if not found:
        return None

    def brokers(tick: datetime.datetime) -> set[object]:
        return {one["broker"] for one in rows[tick][known[0]]["by_broker"]}

    # A figure of brokers that came or went meanwhile would be one of no cluster.
    same = [tick for tick in found if brokers(tick) == brokers(found[-1])]
    return measured_at(rows, same[-ticks:], known, lake.balancer.resources)
