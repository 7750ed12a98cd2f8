"""Maintenance windows in local time, also over both changes of the clock, and freezes."""

from datetime import UTC, date, datetime
from math import inf

import pytest

from trimtab.decide.windows import opening_at
from trimtab.model.policy import Freeze, Policy, Window, weekdays

NIGHT = Policy(windows=(Window("22:00", "05:00", "mon-fri", "Europe/Berlin"),))
"""From 22:00 to 05:00 in Berlin, beginning on Mondays to Fridays."""


def at(text: str) -> float:
    """Seconds since 1970 of a UTC time."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_no_window_is_always_open() -> None:
    """A policy without windows and freezes never closes."""
    assert opening_at(Policy(), at("2026-11-27T12:00")) == (True, inf, "")


@pytest.mark.parametrize(
    ("now", "is_open", "until"),
    [
        ("2026-11-27T20:59", False, "2026-11-27T21:00"),
        ("2026-11-27T21:00", True, "2026-11-28T04:00"),
        ("2026-11-28T03:59", True, "2026-11-28T04:00"),
        ("2026-11-28T04:00", False, "2026-11-30T21:00"),
        ("2026-11-29T23:00", False, "2026-11-30T21:00"),
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens(
    now: str, is_open: bool, until: str
) -> None:
    """Friday's window runs into Saturday; the weekend has none. Berlin is one hour ahead in winter."""
    opening = opening_at(NIGHT, at(now))
    assert (opening.is_open, opening.until) == (is_open, at(until))


@pytest.mark.parametrize(
    ("opens", "closes", "begin", "end"),
    [
        ("01:00", "05:00", "2026-03-29T00:00", "2026-03-29T03:00"),
        ("02:30", "03:30", "2026-03-29T01:30", "2026-03-29T01:30"),
        ("01:00", "05:00", "2026-10-25T23:00", "2026-10-25T04:00"),
        ("01:00", "02:30", "2026-10-24T23:00", "2026-10-25T00:30"),
    ],
    ids=[
        "one hour shorter in spring",
        "skipped in spring",
        "one hour longer in autumn",
        "first 02:30 in autumn",
    ],
)
def test_changes_of_the_clock(opens: str, closes: str, begin: str, end: str) -> None:
    """Local times are kept; a time that occurs twice counts the first time."""
    window = Window(opens, closes, zone="Europe/Berlin")
    policy = Policy(windows=(window,))
    assert not opening_at(policy, at(end)).is_open
    if begin < end:
        assert opening_at(policy, at(begin)).until == at(end)


def test_overlapping_windows_are_one() -> None:
    """The end is that of the last window that follows without a gap."""
    policy = Policy(windows=(Window("01:00", "03:00"), Window("02:00", "06:00")))
    assert opening_at(policy, at("2026-11-27T01:30")) == (True, at("2026-11-27T06:00"), "")


def test_a_freeze_closes_an_open_window() -> None:
    """The last day of a freeze is part of it; the reason is shown."""
    freeze = Freeze(date(2026, 11, 27), date(2026, 11, 30), "UTC", "Black Friday")
    policy = Policy(freezes=(freeze,))
    closed = opening_at(policy, at("2026-11-30T23:59"))
    assert closed == (False, at("2026-12-01T00:00"), "freeze until the end of 2026-11-30 (Black Friday)")
    assert opening_at(policy, at("2026-12-01T00:00")) == (True, inf, "")
    assert opening_at(policy, at("2026-11-26T12:00")).until == at("2026-11-27T00:00")


def test_ranges_of_days_run_over_the_weekend() -> None:
    """Monday is 0."""
    assert weekdays("mon-fri") == {0, 1, 2, 3, 4}
    assert weekdays("fri-mon, wed") == {4, 5, 6, 0, 2}
    with pytest.raises(ValueError, match="monday"):
        weekdays("monday")
