"""Which bundles a broker reports as its heaviest, and in which order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.model.bundles.reports import BundleStats
from trimtab.plan.pulsar.transfer_shedder import heaviest_first, top_bundles, weight

IN, OUT = "msg_throughput_in", "msg_throughput_out"


def busy(bytes_in: float, bytes_out: float = 0.0, rate: float = 0.0) -> BundleStats:
    """A bundle with that traffic."""
    return BundleStats(msg_throughput_in=bytes_in, msg_throughput_out=bytes_out, msg_rate_in=rate)


def key(name: str) -> str:
    """A bundle of a namespace of its own."""
    return f"t/{name}/0x00000000_0xffffffff"


def named(**stats: BundleStats) -> dict[str, BundleStats]:
    """Bundles by key, in the order given."""
    return {key(name): one for name, one in stats.items()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (busy(50_000), busy(149_999)),
        (busy(0, 50_000), busy(0, 149_999.9)),
        (busy(0), busy(49_999.999)),
        (BundleStats(msg_rate_in=50), BundleStats(msg_rate_in=100, msg_rate_out=49.9)),
        (BundleStats(topics=500), BundleStats(topics=500, consumer_count=499)),
        (BundleStats(cache_size=100_000), BundleStats(cache_size=199_999)),
    ],
)
def test_bundles_of_one_bucket_weigh_the_same(one: BundleStats, other: BundleStats) -> None:
    """Traffic counts in the nearest multiple of its resolution, the rest in multiples rounded down."""
    assert weight(one) == weight(other)


@pytest.mark.parametrize(
    ("light", "heavy"),
    [
        (busy(149_999.9, 9e9, 9e9), busy(150_000)),  # in before out and rate; half is rounded up
        (busy(100_000, 49_999, 9e9), busy(100_000, 50_000)),  # out before rate
        (BundleStats(msg_rate_in=149, topics=9999), BundleStats(msg_rate_in=100, msg_rate_out=50)),
        (BundleStats(topics=400, producer_count=99, cache_size=10**9), BundleStats(producer_count=500)),
        (BundleStats(cache_size=99_999), BundleStats(cache_size=100_000)),
    ],
)
def test_the_next_bucket_is_heavier_whatever_follows(light: BundleStats, heavy: BundleStats) -> None:
    """Bandwidth in decides, then out, then messages, then connections, then cache."""
    assert weight(light) < weight(heavy)


def test_the_largest_number_below_a_half_is_rounded_down() -> None:
    """49.99999999999999 messages are 0.4999999999999999 of a hundred, to which .5 must not be added."""
    assert 0.49999999999999994 + 0.5 == 1.0
    assert weight(BundleStats(msg_rate_in=0.49999999999999994 * 100)) < weight(BundleStats(msg_rate_in=50.0))


def test_the_heaviest_are_reported_lightest_first() -> None:
    """Three of five, in the order in which they are then tried."""
    stats = named(a=busy(5e5), b=busy(1e5), c=busy(9e5), d=busy(3e5), e=busy(7e5))
    assert list(top_bundles(stats, 3)) == [key("a"), key("e"), key("c")]
    assert list(top_bundles(stats, 99)) == [key(name) for name in "bdaec"]
    assert top_bundles(stats, 0) == {}


def test_idle_and_excluded_bundles_are_left_out() -> None:
    """A bundle without bytes is nothing to move, even with connections; a namespace may be kept out whole."""
    stats = named(idle=BundleStats(topics=9999, msg_rate_in=9e9), kept=busy(9e5), free=busy(1.0))
    assert list(top_bundles(stats, 10, lambda namespace: namespace == "t/kept")) == [key("free")]


def test_equals_come_in_the_order_that_the_selection_leaves() -> None:
    """Worked by hand: the last is the pivot, and heavier ones change places with the first of its equals."""
    weights = {name: (int(name[1:]), 0, 0, 0, 0) for name in ("a1", "b2", "c1", "d2", "e1")}
    # Pivot e1: b2 changes places with a1, then d2 with a1 again, which ends up behind c1.
    assert heaviest_first(list(weights), weights, 4) == ["b2", "d2", "c1", "a1", "e1"]
    assert heaviest_first(list(weights), weights, 2) == ["b2", "d2", "c1", "a1", "e1"]


def test_equals_are_not_sorted_behind_the_border() -> None:
    """Four equal bundles stay as listed, and the report turns them round."""
    stats = named(a=busy(1), b=busy(1), c=busy(1), d=busy(1))
    assert list(top_bundles(stats, 2)) == [key("b"), key("a")]


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 45))
def test_whatever_the_order_the_heaviest_are_found(values: list[int], most: int) -> None:
    """The weights reported are the largest ones, ascending, as a plain sort would give them."""
    stats = {key(f"n{number}"): busy(1 + value * 1e5) for number, value in enumerate(values)}
    found = [int(one.msg_throughput_in / 1e5) for one in top_bundles(stats, most).values()]
    assert found == sorted(sorted(values, reverse=True)[:most])
