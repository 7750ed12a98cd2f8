"""Texts of reasons: percent of what is known, loads in their unit where no capacity is."""

import numpy as np
import pytest

from trimtab.plan.search.reasons import UnitScale, change, limit_text
from trimtab.plan.search.verdicts import too_few_brokers


@pytest.mark.parametrize(
    ("pair", "scale", "told"),
    [
        ((0.088, 0.086), None, "8.8% -> 8.6%"),
        ((0.5, 0.50001), None, "50.000% -> 50.001%"),
        ((0.5, 0.5), None, "stays 50.0%"),
        ((0.088, 0.086), UnitScale(16.8e6, "bytes per second"), "1.5 MB/s -> 1.4 MB/s"),
        ((0.0, 1e-6), UnitScale(16.8e6, "bytes per second"), "0.0 B/s -> 16.8 B/s"),
        ((0.5, 0.25), UnitScale(4e12, "bytes"), "2.0 TB -> 1.0 TB"),
        ((0.5, 0.25), UnitScale(8.0, "cores"), "4.0 cores -> 2.0 cores"),
        (
            (0.5, 0.25),
            UnitScale(100.0, "messages per second, in and out"),
            "50.0 messages/s -> 25.0 messages/s",
        ),
    ],
)
def test_a_change_is_printed_in_percent_or_as_a_load(
    pair: tuple[float, float], scale: UnitScale | None, told: str
) -> None:
    """As many digits as distinguish both; no percentage of a nominal capacity."""
    assert change(*pair, scale) == told


def test_a_limit_is_printed_in_the_same_form() -> None:
    """In percent, or as a load."""
    assert limit_text(0.05) == "5.0%"
    assert limit_text(0.05, UnitScale(16.8e6, "bytes per second")) == "840.0 kB/s"


@pytest.mark.parametrize(("times", "doubted"), [(1.5, False), (17.7, True)])
def test_a_load_far_above_all_capacity_questions_the_unit(times: float, doubted: bool) -> None:
    """Disks that hold many times what they can: brokers to add are no remedy for a wrong unit."""
    capacity = np.full(3, 10_000.0)
    found = too_few_brokers("disk", "disk", "bytes", 30_000.0 * times, capacity, 0.8, {})
    assert found is not None
    assert ("check that the capacity is in bytes" in found.text) == doubted
