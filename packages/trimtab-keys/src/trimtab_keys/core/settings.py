"""Settings of IPOOA, with the readings of the paper as switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab_common.errors import SettingsError

CHOICES: Final = {"isc": ("repaired", "literal"), "candidate": ("content", "load", "least")}
"""The words that a setting may have, the default first."""
FEATURES: Final = {"content": 2, "load": 3, "least": 0}
"""How many features partitions are compared by."""
ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class IpooaSettings:
    """Settings of IPOOA.

    Attributes
    ----------
    isc
        `repaired`: by arrival rate and backlog against the consumer's capacity; `literal`: by what formula
        (2) adds up, subscriptions and connections of the keys that lie in a partition.
    candidate
        What is tried next: the partition most similar by `content` (the paper's), the one most similar by
        `load`, or the one with the `least` load, which the paper should have taken.
    weight
        λ1, 0.35 to 0.65; λ2 is the rest.
    power
        p of the Minkowski distance, 1 or 2.
    feature_weights
        θ, each 0.1 to 0.9, together 1: of key groups and record sizes by `content`, of rate, backlog and
        record size by `load`; empty for equal ones.
    threshold
        Θ on the ISC, 0.5 to 0.65.
    tries
        Candidates tried before a partition is added; None for half of the partitions, rounded down.

    Raises
    ------
    SettingsError
        If one is out of the paper's range.
    """

    isc: str = "repaired"
    candidate: str = "content"
    weight: float = 0.5
    power: int = 2
    feature_weights: tuple[float, ...] = ()
    threshold: float = 0.6
    tries: int | None = None

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise _refused(name, getattr(self, name), f"one of {', '.join(words)}")
        for name, low, high in (("weight", 0.35, 0.65), ("threshold", 0.5, 0.65)):
            if not low <= getattr(self, name) <= high:
                raise _refused(name, getattr(self, name), f"{low} to {high}, the paper's range")
        if self.power not in (1, 2):
            raise _refused("power", self.power, "1 or 2")
        if self.tries is not None and self.tries < 0:
            raise _refused("tries", self.tries, "0 or more candidates")
        weights, count = self.feature_weights, FEATURES[self.candidate]
        if weights and (
            len(weights) != count
            or not all(0.1 <= one <= 0.9 for one in weights)
            or abs(sum(weights) - 1) > ROUNDING
        ):
            raise _refused("feature_weights", weights, f"{count} of 0.1 to 0.9 that add up to 1")

    @property
    def uses_content(self) -> bool:
        """Whether it matters what lies in the partitions, beside how much."""
        return self.candidate == "content" or self.isc == "literal"

    @property
    def thetas(self) -> tuple[float, ...]:
        """The feature weights, equal ones where none are given."""
        count = FEATURES[self.candidate]
        return self.feature_weights or (1 / count,) * count if count else ()


def _refused(name: str, value: object, expected: str) -> SettingsError:
    return SettingsError(f"Ipooa.{name} is {value!r}, expected {expected}")
