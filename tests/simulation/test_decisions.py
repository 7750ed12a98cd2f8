"""Decisions over simulated weeks of faults: no invariant breaks, and a balanced cluster is left alone."""

from collections import Counter

import pytest

from simulate.decisions import play
from tiers import by_tier

SEEDS, HOURS = by_tier((8, 150.0), (16, 400.0), (100, 1000.0))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_invariant_breaks_over_weeks_of_faults(seed: int) -> None:
    """The world draws outages, restarts, stale snapshots, foreign work, pauses, approvals and failures."""
    play(seed, HOURS)


def test_the_simulation_reaches_every_kind_of_decision() -> None:
    """A simulation that never executes, stops or withdraws would show nothing."""
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts.update(play(seed, 150.0).counts)
    for kind in (
        "MakePlan",
        "Propose",
        "Execute",
        "Measure",
        "Notify",
        "Stop",
        "Resume",
        "Withdraw",
        "Refuse",
    ):
        assert counts[kind] > 0, kind
