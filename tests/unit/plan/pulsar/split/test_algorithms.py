"""Where bundles are cut: the article's examples, and each comparison at its edge."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_clusters.state import cut
from trimtab.model.bundles.snapshot import BundleRange
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.splits import (
    MEBIBYTE,
    TopicTraffic,
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)

HASHES = st.integers(0, 0xFFFFFFFF)


def bundle(low: int, high: int) -> BundleRange:
    """A bundle of the namespace t/n."""
    return BundleRange("t/n", low, high)


def rates(*pairs: tuple[int, float]) -> list[TopicTraffic]:
    """Topics with a message rate and no bytes."""
    return [TopicTraffic(position, rate, 0.0) for position, rate in pairs]


def test_the_articles_range_is_cut_in_its_middle() -> None:
    """(0, 0x8000) is split at 0x4000."""
    assert range_equally_divide(bundle(0, 0x8000)) == [0x4000]


def test_the_articles_topics_are_parted_by_count() -> None:
    """Topics at 0, 5, 0x10, 0x15, 0x20 and 0x25 are parted between 0x10 and 0x15, at 0x12."""
    assert topic_count_equally_divide([0, 5, 0x10, 0x15, 0x20, 0x25]) == [0x12]


def test_the_articles_namespace_has_three_bundles_after_the_cut() -> None:
    """[0, 0x8000, 0xFFFF] cut at 0x4000 has three bundles."""
    assert cut([0, 0x8000, 0xFFFF], bundle(0, 0x8000), [0x4000]) == (0, 0x4000, 0x8000, 0xFFFF)


def test_the_whole_ring_is_cut_below_its_middle() -> None:
    """The last boundary is 0xffffffff, the last hash, so the middle of the ring is one lower."""
    assert range_equally_divide(bundle(0, 0xFFFFFFFF)) == [0x7FFFFFFF]


@pytest.mark.parametrize(
    ("lower", "upper", "position"),
    [(0, 0x10000000, 0x08000000), (0xC0000000, 0xFFFFFFFF, 0xDFFFFFFF), (7, 10, 8), (7, 9, 8)],
)
def test_ranges_of_real_splits(lower: int, upper: int, position: int) -> None:
    """The first two were answered by a real broker; odd widths round down."""
    assert range_equally_divide(bundle(lower, upper)) == [position]


@pytest.mark.parametrize("positions", [[], [7]])
def test_fewer_than_two_topics_have_no_middle(positions: list[int]) -> None:
    """With one topic there is nothing to part by count."""
    assert topic_count_equally_divide(positions) is None


@pytest.mark.parametrize(
    ("positions", "position"),
    [
        ([4, 2], 3),  # two topics, given backwards
        ([1, 2, 9], 1),  # three: the lower half gets one, and its own hash as upper end
        ([3, 4], 3),  # neighbours: the cut is the lower topic's own hash
        ([5, 5, 5, 5], 5),  # equal hashes cannot be parted
        ([0, 10, 10, 20], 10),
        ([0, 1, 8, 9, 100], 4),
    ],
)
def test_counts_round_towards_the_lower_topic(positions: list[int], position: int) -> None:
    """The cut lies between sorted topic n/2 - 1 and topic n/2, rounded down."""
    assert topic_count_equally_divide(positions) == [position]


@settings(deadline=None)
@given(st.lists(HASHES, min_size=2, max_size=40))
def test_a_cut_by_count_leaves_no_half_with_more_than_half(positions: list[int]) -> None:
    """Strictly below the cut lie at most half of the topics, and above it at most one more than half."""
    (position,) = topic_count_equally_divide(positions) or [-1]
    below = sum(one < position for one in positions)
    above = sum(one > position for one in positions)
    assert below <= len(positions) // 2
    assert above <= len(positions) - len(positions) // 2


def test_positions_on_the_ends_are_outside() -> None:
    """A cut at either end would leave an empty bundle, so only what lies strictly inside counts, sorted."""
    assert specified_positions_divide(bundle(10, 20), 5, [20, 19, 10, 11, 9, 21]) == [11, 19]
    assert specified_positions_divide(bundle(10, 20), 5, [10, 20]) is None


def test_a_duplicate_position_is_returned_twice_and_rejected_by_the_split() -> None:
    """The algorithm only filters and sorts; the namespace reports the error."""
    twice = specified_positions_divide(bundle(10, 20), 5, [15, 15])
    assert twice == [15, 15]
    with pytest.raises(PlanError, match="cut twice at one position"):
        cut([10, 20], bundle(10, 20), twice)


def test_a_bundle_of_one_topic_is_cut_only_by_force() -> None:
    """Nothing is gained by cutting a bundle of at most one topic, but an operator may insist."""
    assert specified_positions_divide(bundle(10, 20), 1, [15]) is None
    assert specified_positions_divide(bundle(10, 20), 1, [15], forced=True) == [15]
    assert specified_positions_divide(bundle(10, 20), 2, [15]) == [15]


def test_no_positions_is_the_callers_mistake() -> None:
    """An empty list is an error before the topics are even counted."""
    with pytest.raises(PlanError, match=r"t/n/0x0000000a_0x00000014.*names no position"):
        specified_positions_divide(bundle(10, 20), 0, [])


def test_flow_cuts_in_front_of_the_topic_that_does_not_fit() -> None:
    """0..10 and 10..20 fill the limit of 100 exactly, which is allowed; one more does not fit."""
    topics = rates((0, 60), (10, 40), (20, 1), (31, 99))
    assert flow_or_qps_equally_divide(topics, 100, 1000) == [16]
    topics = rates((0, 60), (10, 40), (20, 1), (31, 99.5))
    assert flow_or_qps_equally_divide(topics, 100, 1000) == [16, 26]


def test_flow_may_cut_several_times() -> None:
    """Every topic above the limit stands alone, and what follows it is cut off too."""
    topics = rates((0, 500), (4, 1), (8, 500), (12, 1))
    assert flow_or_qps_equally_divide(topics, 100, 1000) == [3, 7, 11]


def test_flow_needs_ten_percent_over_a_limit() -> None:
    """Just under 110 % of the limit nothing happens; at 110 % it does; another percentage moves the edge."""
    below = rates((0, 60), (10, 49.9))
    at = rates((0, 60), (10, 50.1))
    assert flow_or_qps_equally_divide(below, 100, 1000) is None
    assert flow_or_qps_equally_divide(at, 100, 1000) == [6]
    assert flow_or_qps_equally_divide(below, 100, 1000, difference_percentage=0) == [6]


def test_flow_edge_is_a_double_product() -> None:
    """100 * (1 + 10 / 100.0) is 110.00000000000001 in doubles, so 110 is below it; 115 at 15 % is not."""
    assert flow_or_qps_equally_divide(rates((0, 60), (10, 50)), 100, 1000) is None
    assert flow_or_qps_equally_divide(rates((0, 60), (10, 55)), 100, 1000, 15) == [6]
    assert flow_or_qps_equally_divide(rates((0, 600), (10, 500)), 1000, 1000) == [6]


def test_flow_includes_bytes() -> None:
    """2 MiB/s of bandwidth is a limit of its own, in mebibytes."""
    topics = [TopicTraffic(0, 1, 2 * MEBIBYTE), TopicTraffic(100, 1, 1 * MEBIBYTE)]
    assert flow_or_qps_equally_divide(topics, 30000, 2) == [51]
    assert flow_or_qps_equally_divide(topics, 30000, 3) is None


def test_flow_passes_over_idle_topics() -> None:
    """A topic without traffic neither counts as the second topic nor marks where to cut."""
    assert flow_or_qps_equally_divide(rates((0, 500), (10, 0)), 100, 1000) is None
    assert flow_or_qps_equally_divide(rates((0, 500), (10, 0), (20, 500)), 100, 1000) == [11]


def test_flow_with_two_topics_of_one_hash_counts_the_later_one_twice() -> None:
    """Pulsar keeps topics by hash: the first of two equals is forgotten, yet walked over twice."""
    hidden = rates((5, 500), (5, 1), (9, 1))
    assert flow_or_qps_equally_divide(hidden, 100, 1000) == []
    doubled = rates((5, 1), (5, 500), (9, 1))
    assert flow_or_qps_equally_divide(doubled, 100, 1000) == [6, 8]
    assert flow_or_qps_equally_divide(rates((5, 500), (5, 500)), 100, 1000) is None


def test_flow_cuts_next_to_each_other_stay_above_the_lower_topic() -> None:
    """Neighbouring hashes are parted at the upper one, which is why one is added after halving."""
    assert flow_or_qps_equally_divide(rates((7, 90), (8, 90)), 100, 1000) == [8]


def test_a_bundle_split_by_another_process_is_named() -> None:
    """Between plan and split the boundaries may change."""
    with pytest.raises(PlanError, match=r"0x00000000_0x00008000 is not one of its namespace"):
        cut([0, 0x4000, 0x8000], bundle(0, 0x8000), [0x2000])
    with pytest.raises(PlanError, match="not one of its namespace"):
        cut([0, 0x8000], bundle(0x8000, 0x9000), [0x8500])


@pytest.mark.parametrize("position", [0, 0x8000, 0x9000])
def test_a_cut_outside_is_refused(position: int) -> None:
    """The ends themselves are outside."""
    with pytest.raises(PlanError, match="strictly between its ends"):
        cut([0, 0x8000], bundle(0, 0x8000), [position])


@settings(deadline=None)
@given(HASHES, HASHES, st.lists(HASHES, min_size=2, max_size=20))
def test_every_found_range_cut_can_be_made(one: int, other: int, asked: list[int]) -> None:
    """What the range algorithm and the specified positions answer is accepted by the namespace."""
    whole = bundle(min(one, other), max(one, other))
    if whole.can_split:
        ends = [whole.low, whole.high]
        assert len(cut(ends, whole, range_equally_divide(whole))) == 3
        inside = specified_positions_divide(whole, 2, sorted(set(asked)))
        if inside:
            assert set(cut(ends, whole, inside)) == {*ends, *inside}


def test_throughput_exactly_over_by_the_difference_is_enough() -> None:
    """1.25 MiB/s against a limit of 1 and a difference of 25 %: on it the bundle is cut, a hair below not."""
    mebibyte = 1024.0 * 1024
    over = [TopicTraffic(0, 0, 0.75 * mebibyte), TopicTraffic(10, 0, 0.5 * mebibyte)]
    assert flow_or_qps_equally_divide(over, 1000, 1, 25) == [6]
    below = [over[0], TopicTraffic(10, 0, 0.5 * mebibyte - 1e-6)]
    assert flow_or_qps_equally_divide(below, 1000, 1, 25) is None


def test_a_part_that_is_exactly_on_a_limit_is_not_cut() -> None:
    """Half a MiB/s and half make one, which is the limit; the third topic is cut off."""
    half = 512.0 * 1024
    three = [TopicTraffic(position, 0, half) for position in (0, 10, 20)]
    assert flow_or_qps_equally_divide(three, 1000, 1, 10) == [16]
    by_rate = [TopicTraffic(position, 500, 0) for position in (0, 10, 20)]
    assert flow_or_qps_equally_divide(by_rate, 1000, 1, 10) == [16]
