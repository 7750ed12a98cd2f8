"""Which messages are quick, and how far they overtake."""

from __future__ import annotations

import pytest

from trimtab_queues.core.ordering import LaneClassifier, is_quick_first


def test_alike_messages_stay_in_one_line() -> None:
    """The mean of equals is each of them; no rounding makes one of them quick."""
    lanes = LaneClassifier()
    for _ in range(5000):
        assert not lanes.quick(0.1)
        lanes.enqueued(0.1)


def after(*weights: float) -> LaneClassifier:
    """Lanes after messages of these weights."""
    lanes = LaneClassifier()
    for one in weights:
        lanes.enqueued(one)
    return lanes


def test_less_than_half_of_the_mean_over_work_is_quick() -> None:
    """By hand: of 1 and 3 s of work the messages are of 10/4 s on average (the first counts 0.999)."""
    lanes = after(1.0, 3.0)
    assert lanes.quick(1.249)
    assert not lanes.quick(1.251)
    assert not LaneClassifier().quick(0.001), "of what nothing is known nothing is quick"


def test_a_rare_long_message_makes_all_others_quick() -> None:
    """One of 0.5 s in a hundred of 10 ms hardly moves the mean over messages."""
    assert after(*[0.01] * 99, 0.5).quick(0.01)


def test_the_mean_follows_recent_messages() -> None:
    """After a thousand long ones what was usual before is quick, and then usual again."""
    assert not after(*[1.0] * 100).quick(1.0)
    assert after(*[1.0] * 100, *[10.0] * 2000).quick(1.0)
    assert not after(*[1.0] * 100, *[10.0] * 2000, *[1.0] * 6000).quick(1.0)


@pytest.mark.parametrize(
    ("quick_at", "other_at", "first"), [(5.0, 1.0, True), (11.0, 1.0, True), (11.1, 1.0, False)]
)
def test_a_long_message_is_overtaken_by_messages_sent_soon_afterwards(
    quick_at: float, other_at: float, first: bool
) -> None:
    """Ten seconds, the last of them included."""
    assert is_quick_first(quick_at, other_at, 10.0) is first
