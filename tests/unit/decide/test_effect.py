"""The effect of executions, by figures: the load of now without the moves, and with them."""

import numpy as np
import pytest

from trimtab.decide.events import Effect
from trimtab.decide.loads import PlacementLoad, effect_of, placement_load
from trimtab.model.load import imbalance

BEFORE = PlacementLoad(worst_deviation=0.40, peak_usage=0.70)


@pytest.mark.parametrize(
    ("after", "effect"),
    [
        (PlacementLoad(0.10, 0.60), Effect.HELPED),
        (PlacementLoad(0.38, 0.70), Effect.HELPED),
        (PlacementLoad(0.39, 0.70), Effect.NOTHING),
        (PlacementLoad(0.45, 0.70), Effect.NOTHING),
        (PlacementLoad(0.46, 0.60), Effect.WORSE),
        (PlacementLoad(0.10, 0.76), Effect.WORSE),
    ],
    ids=["even", "2 points", "1 point", "5 points up", "6 points up", "peak 6 points up"],
)
def test_effect_by_figures(after: PlacementLoad, effect: Effect) -> None:
    """Worse needs more than 5 points, help at least 2."""
    found, text = effect_of(BEFORE, after)
    assert found is effect
    assert text.startswith("the load of now without the moves: γ 0.40 and peak 70%; with them: γ ")


def test_only_the_peak_counts_for_a_plan_for_a_limit() -> None:
    """The fewest moves below a limit may make other resources less even."""
    assert effect_of(BEFORE, PlacementLoad(0.60, 0.60), peak_only=True)[0] is Effect.HELPED


def test_unused_resources_do_not_count() -> None:
    """The second resource is at 10 and 0 % of capacity, below the utilization that is balanced."""
    load = np.array([[30.0, 10.0], [10.0, 0.0]])
    measured = imbalance(load, np.full((2, 2), 100.0), np.ones(2, dtype=np.bool_), ("cpu", "disk"))
    found = placement_load(measured, np.array([True, False]))
    assert found == PlacementLoad(worst_deviation=0.5, peak_usage=0.3)
