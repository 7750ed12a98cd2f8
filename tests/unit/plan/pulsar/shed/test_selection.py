"""How many of the busiest bundles are taken, at the edges."""

import math

import pytest

from support.bundle_views import MB, key, report, stats, view_of
from trimtab.plan.pulsar.threshold_shedders import busiest_until


@pytest.mark.parametrize(
    ("need", "taken"),
    [
        (0.0, 1),
        (30.0 * MB, 1),
        (math.nextafter(30.0 * MB, math.inf), 2),
        (math.nextafter(50.0 * MB, 0.0), 2),
        (50.0 * MB, 2),
        (math.nextafter(50.0 * MB, math.inf), 3),
        (1e12, 3),
    ],
)
def test_the_selection_ends_at_exactly_the_required_load(need: float, taken: int) -> None:
    """Of 10, 20 and 30 MiB/s, one at least, and one more only while what is taken is less than needed."""
    held = {key(number): stats(number * 10.0 * MB) for number in (1, 2, 3)}
    chosen, total = busiest_until(view_of({"a:1": report(held)}), held, need)
    assert chosen == (key(3), key(2), key(1))[:taken]
    assert total == (30.0, 50.0, 60.0)[taken - 1] * MB
