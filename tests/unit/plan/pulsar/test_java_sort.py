"""Java's sort, held against what OpenJDK 17 made of orders that contradict themselves."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.plan.pulsar.java import ComparisonContractError, java_sorted


def drawn(count: int, seed: int, width: float) -> list[float]:
    """Numbers below `width`, by the generator that the recording used too."""
    found = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        found.append(seed / 2**31 * width)
    return found


def order(values: list[float]) -> list[int]:
    """Places of the values after a sort that takes no notice of less than 1."""
    return java_sorted(range(len(values)), lambda one, other: int(values[one] - values[other]))


def digest(places: list[int]) -> int:
    """A short form of an order."""
    return zlib.crc32(" ".join(map(str, places)).encode())


def test_less_than_one_apart_is_equal_and_stays() -> None:
    """0.9 stays behind 1.8, and 0 behind 0.9: 0 is never compared with 1.8."""
    assert order([1.8, 0.9, 0.0]) == [0, 1, 2]
    assert order([1.8, 0.0, 0.9]) == [1, 0, 2]
    assert order([0.9, 0.0]) == [0, 1]
    assert order([1.0, 0.0]) == [1, 0]


def test_six_values_come_as_java_leaves_them() -> None:
    """Recorded from Java; a stable sort of the values would be another order."""
    values = drawn(6, seed=1, width=3.0)
    assert order(values) == [1, 0, 2, 5, 3, 4]
    assert sorted(range(6), key=values.__getitem__) != order(values)


@pytest.mark.parametrize(
    ("values", "recorded"),
    [
        (drawn(40, 1, 6.0), 2032083114),
        (drawn(300, 3, 30.0), 776383941),
        (drawn(1000, 4, 100.0), 2637575085),
        (drawn(1000, 17, 40.0), 3379723698),
        (sorted(drawn(300, 1, 20.0))[::-1] + sorted(drawn(200, 2, 20.0)) + drawn(100, 3, 20.0), 962086183),
    ],
    ids=["40", "300", "1000 wide", "1000 narrow", "long runs"],
)
def test_many_values_come_as_java_leaves_them(values: list[float], recorded: int) -> None:
    """Recorded from Java: runs, binary insertion, merges from both ends and galloping all take part."""
    assert digest(order(values)) == recorded


@pytest.mark.parametrize(
    "values", [drawn(64, 2, 10.0), drawn(1000, 5, 40.0), [i % 7 * 0.5 + i * 0.02 for i in range(200)]]
)
def test_a_contradiction_that_java_detects_is_reported(values: list[float]) -> None:
    """Java threw IllegalArgumentException for each of these."""
    with pytest.raises(ComparisonContractError):
        order(values)


@given(st.lists(st.integers(0, 50), max_size=300))
def test_an_order_without_contradictions_is_just_sorted(values: list[int]) -> None:
    """All stable sorts give the same order."""
    found = java_sorted(range(len(values)), lambda one, other: values[one] - values[other])
    assert found == sorted(range(len(values)), key=values.__getitem__)
