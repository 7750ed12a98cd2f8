"""Which instants a change can reach."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trimtab.observe.lake.manifest import merged
from trimtab.observe.steps.step import backward, forward

RANGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)).map(lambda pair: (pair[0], sum(pair))))


@given(RANGES, st.integers(0, 10))
def test_merging_keeps_every_instant_once(ranges: list[tuple[int, int]], apart: int) -> None:
    """Nothing is lost, and separate ranges are further apart than the merge distance."""
    union = merged(ranges, apart)
    inside = {instant for begin, end in ranges for instant in range(begin, end)}
    assert inside <= {instant for begin, end in union for instant in range(begin, end)}
    assert all(other[0] - one[1] > apart for one, other in pairwise(union))


@given(RANGES, st.integers(0, 40))
def test_the_reach_of_a_change_depends_only_on_rows_read(ranges: list[tuple[int, int]], reach: int) -> None:
    """A row at t depends on [t - reach, t]: every changed instant's dependants are made, with all they
    need.
    """
    made = forward(ranges, reach)
    read = backward(made, reach)
    made_instants = {instant for begin, end in made for instant in range(begin, end)}
    read_instants = {instant for begin, end in read for instant in range(begin, end)}
    for begin, end in ranges:
        for changed in range(begin, end):
            assert {changed, changed + reach} <= made_instants
    for at in made_instants:
        assert {at - reach, at} <= read_instants


@given(RANGES, st.integers(0, 20), st.integers(0, 20))
def test_separate_ranges_reach_only_their_own_rows(
    ranges: list[tuple[int, int]], near: int, longer: int
) -> None:
    """A row at t depends on [t - far, t - near] alone, as a forecast does on the same hour of last week."""
    stretch = ((near + longer, near),)
    ranges = [(begin, end) for begin, end in ranges if begin < end]
    made = {at for begin, end in forward(ranges, stretch) for at in range(begin, end)}
    read = {at for begin, end in backward([(100, 101)], stretch) for at in range(begin, end)}
    assert read == set(range(100 - near - longer, 100 - near + 1))
    changed = {at for begin, end in ranges for at in range(begin, end)}
    assert made == {at + back for at in changed for back in range(near, near + longer + 1)}
