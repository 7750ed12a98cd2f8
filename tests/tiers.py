"""The three sizes of a test run: `pytest --tier check`, `--tier test` (the default) and `--tier long`.

Each tier also runs the tests of the one before it. A test is of tier `check` unless it starts a cluster or
Spark, is in tests/integration or is marked `slow` (all these are of tier `test`), or is marked `long`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import pytest

TIERS: Final = ("check", "test", "long")
DEFAULT: Final = "test"
INTEGRATION: Final = Path(__file__).with_name("integration")

_MARKED: Final = {
    "long": "long",
    "slow": "test",
    "alone": "test",
    "kafka": "test",
    "pulsar": "test",
    "spark": "test",
}
"""Tier by marker; the first that a test has decides."""
_EXAMPLES: Final = {"check": 20, "test": 100, "long": 400}

T = TypeVar("T")
_current = DEFAULT


def begin(tier: str) -> None:
    """Set the tier of this run, before test files are imported: their parameters depend on it."""
    global _current
    _current = tier


def by_tier(check: T, test: T, long: T) -> T:
    """Return the value for the tier of this run, such as a number of seeds."""
    return {"check": check, "test": test, "long": long}[_current]


def examples() -> int:
    """Return how many examples Hypothesis tries where a test does not set a number."""
    return _EXAMPLES[_current]


def tier_of(item: pytest.Item) -> str:
    """Return the smallest tier that runs a test."""
    marked = (tier for marker, tier in _MARKED.items() if item.get_closest_marker(marker))
    return next(marked, "test" if item.path.is_relative_to(INTEGRATION) else "check")


def is_in_tier(item: pytest.Item) -> bool:
    """Return whether this run's tier includes a test."""
    return TIERS.index(tier_of(item)) <= TIERS.index(_current)
