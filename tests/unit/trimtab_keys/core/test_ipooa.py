"""IPOOA on examples that were worked out by hand."""

from __future__ import annotations

import pytest

from trimtab_common.errors import SettingsError
from trimtab_keys.core.load import (
    PartitionContent,
    PartitionLoadView,
    by_content,
    by_load,
    literal_consumption,
    minkowski,
    repaired_consumption,
)
from trimtab_keys.core.policies import IpooaSettings, OverloadOptimisation

KEY = b"21"
"""Without its sign 1173551340: partition 0 of 5, and of 4."""


def view_of(
    load: list[float], rate: list[float], capacity: float = 100.0, spare: int = 0
) -> PartitionLoadView:
    """Partitions with so many records and records a second."""
    view = PartitionLoadView(len(load), spare=spare, capacity=capacity)
    view.reset_counts(load, rate)
    return view


def test_repaired_consumption() -> None:
    """80 of 100 a second arrive and half a second of work waits: 0.4·0.8 + 0.6·0.5; both end at 1."""
    assert repaired_consumption(80, 50, 100, 0.4) == pytest.approx(0.62)
    assert repaired_consumption(900, 50, 100, 0.4) == pytest.approx(0.4 + 0.3)
    assert repaired_consumption(80, 900, 100, 0.4) == pytest.approx(0.32 + 0.6)


def test_literal_consumption_has_a_mean_of_one_over_the_partitions() -> None:
    """Keys 6, 3, 1; the second is read by two groups; the third is fetched by five connections.

    Num = 6, 6, 1 of 13; Con = 6, 3, 5 of 14; with λ1 = 0.4 the first has 0.4·6/13 + 0.6·6/14 = 0.4418.
    """
    view = PartitionLoadView(3)
    view.keys[:], view.members[:], view.connections[:] = [6, 3, 1], [1, 2, 1], [1, 1, 5]
    found = literal_consumption(view, 0.4)
    assert found == pytest.approx([0.44176, 0.31319, 0.24505], abs=1e-5)
    assert sum(found) == pytest.approx(1)
    assert literal_consumption(PartitionLoadView(3), 0.4) == [0, 0, 0]


def test_the_literal_reading_does_not_see_load() -> None:
    """A million records wait in a partition with a fifth of the keys, and the record goes there."""
    view = view_of([1e6, 0, 0, 0, 0], [1e4, 0, 0, 0, 0])
    view.keys[:] = [20] * 5
    assert OverloadOptimisation(IpooaSettings(isc="literal")).choose(KEY, view, lambda: 0.0) == 0
    view.keys[:] = [90, 3, 3, 2, 2]
    view.reset_counts(view.load)
    assert OverloadOptimisation(IpooaSettings(isc="literal")).choose(KEY, view, lambda: 0.0) != 0


def test_the_distance_on_both_powers() -> None:
    """Differences .3 and .4 weighted evenly: .35, and √(.5·.09 + .5·.16) = √.125."""
    assert minkowski((0.3, -0.4), (0.5, 0.5), 1) == pytest.approx(0.35)
    assert minkowski((0.3, -0.4), (0.5, 0.5), 2) == pytest.approx(0.125**0.5)
    assert minkowski((0.3, -0.4), (0.8, 0.2), 1) == pytest.approx(0.32)


def test_similarity_by_content() -> None:
    """Key groups (.5, .5, 0) and (0, .5, .5) are half apart, sizes not: .7·.5 with p = 1."""
    view = PartitionLoadView(3)
    view.content[:] = [
        PartitionContent((0.5, 0.5, 0), (1, 0)),
        PartitionContent((0, 0.5, 0.5), (1, 0)),
        PartitionContent(),
    ]
    assert by_content(view, 0, 1, (0.7, 0.3), 1) == pytest.approx(0.35)
    assert by_content(view, 0, 0, (0.7, 0.3), 1) == 0
    assert by_content(view, 0, 2, (0.7, 0.3), 1) == pytest.approx(1), "an empty one is like no other"
    assert by_content(view, 2, 2, (0.7, 0.3), 1) == 0


def test_similarity_by_load() -> None:
    """Rates 10 and 5 of 10, backlogs 0 and 2 of 8, sizes equal: (.5 + .25 + 0) / 3 with p = 1."""
    view = view_of([0, 2, 8], [10, 5, 0])
    assert by_load(view, 0, 1, (1 / 3,) * 3, 1) == pytest.approx(0.25)
    view.record_bytes[:] = [100, 50, 100]
    assert by_load(view, 0, 1, (0.2, 0.2, 0.6), 2) == pytest.approx((0.05 + 0.0125 + 0.15) ** 0.5)


def test_a_partition_at_the_threshold_is_not_over_it() -> None:
    """0.5·0.6 + 0.5·0.6 is 0.6; one more record a hundred makes 0.605."""
    policy, view = OverloadOptimisation(), view_of([60, 0, 0, 0, 0], [60, 0, 0, 0, 0])
    assert policy.choose(KEY, view, lambda: 0.0) == 0
    assert view.load[0] == 61
    assert policy.choose(KEY, view, lambda: 0.0) != 0, "its own record counts before anybody looks again"


def overloaded(candidate: str, spare: int = 0) -> tuple[OverloadOptimisation, PartitionLoadView]:
    """Partition 0 over, 4 over and most alike by load, 3 alike by content, 2 nearly empty, 1 in between."""
    view = view_of([90, 30, 1, 40, 90], [90, 30, 10, 40, 90], spare=spare)
    alike = PartitionContent((1, 0), (1,))
    view.content[:] = [
        alike,
        PartitionContent((0, 1), (1,)),
        PartitionContent((0.2, 0.8), (1,)),
        alike,
        PartitionContent((0.5, 0.5), (1,)),
    ]
    return OverloadOptimisation(IpooaSettings(candidate=candidate)), view


def test_candidates_in_their_order() -> None:
    """By content 3, 4, 2, 1; by load 4, 3, 1, 2; by least load 2, 1, 3, 4."""
    for candidate, order in (("content", [3, 4, 2, 1]), ("load", [4, 3, 1, 2]), ("least", [2, 1, 3, 4])):
        policy, view = overloaded(candidate)
        assert policy.candidates(view, 0, lambda: 0.5) == order


def test_the_first_candidate_that_is_not_over_takes_the_record() -> None:
    """By load 4 is over as well: it was similar to an overloaded one."""
    for candidate, place in (("content", 3), ("load", 3), ("least", 2)):
        policy, view = overloaded(candidate)
        assert policy.choose(KEY, view, lambda: 0.5) == place


def test_equal_candidates_are_drawn() -> None:
    """Partitions 1 to 3 are empty; the random generator decides which is first."""
    view = view_of([90, 0, 0, 0], [90, 0, 0, 0])
    draws = iter([0.9, 0.1, 0.5])
    assert OverloadOptimisation(IpooaSettings(candidate="least")).candidates(
        view, 0, lambda: next(draws)
    ) == [
        2,
        3,
        1,
    ]


def test_after_half_of_the_partitions_one_is_added() -> None:
    """Of five two are tried, 4 and 3, both over: the new one takes the record, not the next candidate."""
    policy, view = overloaded("load", spare=1)
    view.load[3] = 95
    view.rate[3] = 90
    assert policy.choose(KEY, view, lambda: 0.5) == 5
    assert (len(view), view.spare, view.requested_partitions) == (6, 0, 0)
    assert view.load[5] == 1


def test_without_a_spare_partition_the_least_loaded_of_those_tried_takes_it() -> None:
    """0 has an ISC of 0.9, 4 of 0.925 and 3 of 0.89; another one is requested, 2 is free and not tried."""
    policy, view = overloaded("load")
    view.load[3], view.rate[3], view.load[4], view.rate[4] = 88, 90, 95, 90
    assert policy.choose(KEY, view, lambda: 0.5) == 3
    assert view.requested_partitions == 1
    assert len(view) == 5


def test_equally_overloaded_ones_are_drawn() -> None:
    """All loads exceed the capacity: each ISC is 1, and home does not receive everything."""
    taken = []
    for draw in (0.0, 0.5, 0.99):
        view = view_of([900.0] * 5, [900.0] * 5)
        policy = OverloadOptimisation(IpooaSettings(candidate="least"))
        taken.append(policy.choose(KEY, view, lambda draw=draw: draw))  # type: ignore[misc]
    assert taken[0] == 0
    assert len(set(taken)) == 3


def test_the_number_of_tries_is_a_setting() -> None:
    """None tried adds at once; three tried find 1."""
    _, view = overloaded("load", spare=1)
    view.load[3], view.rate[3] = 95, 90
    at_once = OverloadOptimisation(IpooaSettings(candidate="load", tries=0))
    three = OverloadOptimisation(IpooaSettings(candidate="load", tries=3))
    assert three.choose(KEY, view, lambda: 0.5) == 1
    assert at_once.choose(KEY, view, lambda: 0.5) == 5


def test_an_observation_computes_the_candidates_again() -> None:
    """Similarities are computed once per observation, not once per record."""
    policy, view = overloaded("load")
    assert policy.candidates(view, 0, lambda: 0.5)[0] == 4
    view.load[4] = view.rate[4] = 0
    assert policy.candidates(view, 0, lambda: 0.5)[0] == 4
    view.reset_counts(view.load, view.rate)
    policy.choose(KEY, view, lambda: 0.5)
    assert policy.candidates(view, 0, lambda: 0.5)[0] == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"isc": "meant"}, "isc is 'meant', expected one of repaired, literal"),
        ({"candidate": "any"}, "candidate is 'any', expected one of content, load, least"),
        ({"weight": 0.3}, "weight is 0.3, expected 0.35 to 0.65, the paper's range"),
        ({"threshold": 0.7}, "threshold is 0.7, expected 0.5 to 0.65"),
        ({"power": 3}, "power is 3, expected 1 or 2"),
        ({"tries": -1}, "tries is -1, expected 0 or more"),
        ({"feature_weights": (0.5, 0.3)}, "expected 2 of 0.1 to 0.9 that add up to 1"),
        ({"feature_weights": (0.05, 0.95)}, "expected 2 of 0.1 to 0.9"),
        ({"candidate": "load", "feature_weights": (0.5, 0.5)}, "expected 3 of 0.1 to 0.9"),
    ],
)
def test_settings_outside_the_papers_ranges_are_refused(given: dict[str, object], told: str) -> None:
    """With the setting, its value and the range."""
    with pytest.raises(SettingsError, match=rf"^Ipooa\..*{told}"):
        IpooaSettings(**given)  # type: ignore[arg-type]
