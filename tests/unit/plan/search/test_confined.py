"""Loads that are confined to some places: found exactly where no division of them fits."""

from itertools import combinations

import numpy as np
import pytest

from trimtab.plan.search.verdicts import confined


def test_two_loads_that_share_one_place_are_too_much_together() -> None:
    """Each fits alone; the place of the third load is not theirs."""
    allowed = np.array([[True, False], [True, False], [False, True]])
    (found,) = confined(np.array([6.0, 7.0, 1.0]), np.array([10.0, 10.0]), allowed)
    assert (found.loads.tolist(), found.places.tolist()) == ([0, 1], [0])
    assert (found.load, found.capacity) == (13.0, 10.0)


def test_a_union_of_different_sets_is_found_if_no_set_alone_is_too_much() -> None:
    """Three loads of 7, each on two of three places of 6; a fourth place allows none of them."""
    allowed = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]], dtype=bool)
    (found,) = confined(np.full(3, 7.0), np.array([6.0, 6.0, 6.0, 100.0]), allowed)
    assert found.places.tolist() == [0, 1, 2]
    assert confined(np.full(3, 6.0), np.array([6.0, 6.0, 6.0, 100.0]), allowed) == []


def test_sets_that_share_no_place_are_distinguished() -> None:
    """Two namespaces, each with too little room of its own: two proofs, not one about both."""
    allowed = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
    found = confined(np.array([9.0, 8.0]), np.array([4.0, 4.0, 3.0, 3.0]), allowed)
    assert sorted(one.places.tolist() for one in found) == [[0, 1], [2, 3]]


def test_a_place_without_limit_takes_everything() -> None:
    """Infinite room proves nothing; a place that is too full already counts against the others' room."""
    allowed = np.array([[True, True]])
    assert confined(np.array([1e12]), np.array([1.0, np.inf]), allowed) == []
    (found,) = confined(np.array([5.0]), np.array([6.0, -2.0]), allowed)
    assert found.capacity == 4.0


def test_exactly_full_is_no_proof() -> None:
    """What differs by rounding alone fits."""
    assert confined(np.array([0.1] * 3), np.array([0.3]), np.ones((3, 1), dtype=bool)) == []


@pytest.mark.parametrize("seed", range(200))
def test_it_agrees_with_every_subset_tried(seed: int) -> None:
    """Hall's condition over all subsets of loads: something is found exactly where it breaks, and is true."""
    random = np.random.default_rng(seed)
    loads, places = int(random.integers(1, 7)), int(random.integers(1, 6))
    allowed = random.random((loads, places)) < random.uniform(0.2, 0.9)
    load = random.integers(0, 10, loads).astype(float)
    room = random.integers(0, 12, places).astype(float)
    broken = any(
        load[list(some)].sum() > room[allowed[list(some)].any(axis=0)].sum()
        for size in range(1, loads + 1)
        for some in combinations(range(loads), size)
    )
    found = confined(load, room, allowed)
    assert bool(found) is broken
    for one in found:
        assert one.places.tolist() == np.flatnonzero(allowed[one.loads].any(axis=0)).tolist()
        assert load[one.loads].sum() == one.load > one.capacity == room[one.places].sum()
