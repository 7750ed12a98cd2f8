"""Maintenance windows and freezes: when executions may run, and when that changes next."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from math import inf
from typing import NamedTuple
from zoneinfo import ZoneInfo

from trimtab.model.policy import Freeze, Policy, Window, weekdays


class Opening(NamedTuple):
    """Whether executions may run at an instant.

    Attributes
    ----------
    is_open
        Whether they may.
    until
        When `is_open` changes next, seconds since 1970; infinite where it never does.
    reason
        Why executions may not run; empty where they may.
    """

    is_open: bool
    until: float
    reason: str = ""


def opening_at(policy: Policy, now: float) -> Opening:
    """Whether the windows and freezes of a policy let executions run at an instant."""
    if not policy.windows and not policy.freezes:
        return Opening(True, inf)
    for freeze in policy.freezes:
        begin, end = _freeze_span(freeze)
        if begin <= now < end:
            note = f" ({freeze.reason})" if freeze.reason else ""
            return Opening(False, end, f"freeze until the end of {freeze.last.isoformat()}{note}")
    frozen = min((begin for begin, _ in map(_freeze_span, policy.freezes) if begin > now), default=inf)
    if not policy.windows:
        return Opening(True, frozen)
    spans = sorted(span for window in policy.windows for span in _spans(window, now))
    end = now
    for first, last in spans:
        if first <= end < last:
            end = last
    if end > now:
        return Opening(True, min(end, frozen))
    return Opening(False, min(first for first, _ in spans if first > now), "outside the maintenance windows")


def _spans(window: Window, now: float) -> Iterator[tuple[float, float]]:
    """Begin and end of a window, for the days from the day before `now` to the same day of the next week."""
    today = datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo(window.zone)).date()
    for days in range(-1, 9):
        span = _span(window, today + timedelta(days))
        if span is not None:
            yield span


@lru_cache(maxsize=256)
def _span(window: Window, day: date) -> tuple[float, float] | None:
    """Begin and end of a window that opens on a day; None where it does not, or the clock skips all of it.

    Where the clock is put back, a time of day occurs twice: the first of both counts, so that an execution
    never runs longer than the window says.
    """
    if day.weekday() not in weekdays(window.days):
        return None
    zone = ZoneInfo(window.zone)
    begin = datetime.combine(day, time.fromisoformat(window.begin), zone).timestamp()
    last = day if window.end > window.begin else day + timedelta(1)
    end = datetime.combine(last, time.fromisoformat(window.end), zone).timestamp()
    return (begin, end) if begin < end else None


@lru_cache(maxsize=256)
def _freeze_span(freeze: Freeze) -> tuple[float, float]:
    zone = ZoneInfo(freeze.zone)
    begin = datetime.combine(freeze.first, time(), zone)
    end = datetime.combine(freeze.last + timedelta(1), time(), zone)
    return begin.timestamp(), end.timestamp()
