"""Partition similarity (PS): IPOOA's formula (3), a weighted Minkowski distance; smaller is more similar."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from trimtab_keys.core.load import PartitionLoadView


def minkowski(differences: Sequence[float], weights: Sequence[float], power: int) -> float:
    """The distance (Σ θi·|xi(a) - xi(b)|^p)^(1/p)."""
    return float(
        sum(weight * abs(one) ** power for weight, one in zip(weights, differences, strict=True))
        ** (1 / power)
    )


def by_content(view: PartitionLoadView, one: int, other: int, weights: Sequence[float], power: int) -> float:
    """PS of what lies in two partitions: key groups and record sizes.

    The two features are histograms; they differ by half the sum of what their shares differ by, which is 0
    for equal and 1 for disjoint ones. The paper's θ, each 0.1 or more and together 1, can weigh nine features
    at most, so that they cannot stand for a thousand shares.
    """
    a, b = view.content[one], view.content[other]
    return minkowski((_apart(a.groups, b.groups), _apart(a.sizes, b.sizes)), weights, power)


def by_load(view: PartitionLoadView, one: int, other: int, weights: Sequence[float], power: int) -> float:
    """PS of two partitions' rates, backlogs and record sizes, each as a share of the greatest of all."""
    differences = [
        abs(values[one] - values[other]) / (max(values) or 1)
        for values in (view.rate, view.load, view.record_bytes)
    ]
    return minkowski(differences, weights, power)


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    if not one or not other:
        return 0.0 if len(one) == len(other) else 1.0
    # Without a loop of Python's own: a thousand shares, for each pair of partitions at each look.
    total: float = sum(map(abs, map(sub, one, other)))
    return total / 2
