"""Which messages are quick, and how far they overtake."""

from __future__ import annotations

import pytest

from trimtab.online.queues.lanes import Lanes, quick_goes_first


def test_alike_messages_stay_in_one_line() -> None:
    """The mean of equals is each of them; no rounding makes one of them quick."""
    lanes = Lanes()
    assert not any(lanes.quick(0.1) for _ in range(5000))


def test_half_of_the_mean_is_quick() -> None:
    """By hand: 0.3 and 0.3 have the mean 0.3; with 0.1 it is 0.7/3, half of which is 0.1166."""
    lanes = Lanes()
    assert not lanes.quick(0.3)
    assert not lanes.quick(0.3)
    assert lanes.quick(0.1)
    assert not lanes.quick(0.2)  # the mean is 0.225


def test_the_mean_follows_what_comes() -> None:
    """After a thousand long ones what was usual before is quick, and then usual again."""
    lanes = Lanes()
    assert not any([lanes.quick(1.0) for _ in range(100)])
    for _ in range(2000):
        lanes.quick(10.0)
    assert lanes.quick(1.0)
    for _ in range(3000):
        lanes.quick(1.0)
    assert not lanes.quick(1.0)


@pytest.mark.parametrize(
    ("quick_at", "other_at", "first"), [(5.0, 1.0, True), (11.0, 1.0, True), (11.1, 1.0, False)]
)
def test_a_long_message_is_overtaken_by_what_came_soon_after(
    quick_at: float, other_at: float, first: bool
) -> None:
    """Ten seconds, the last of them included."""
    assert quick_goes_first(quick_at, other_at, 10.0) is first
