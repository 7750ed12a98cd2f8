"""The effect of executions, by figures."""

import pytest

from trimtab.decide.effect import Load, effect_of
from trimtab.decide.events import Effect

BEFORE = Load(worst_deviation=0.40, peak_usage=0.70, mean_usage=0.50)
EVEN = Load(0.10, 0.60, 0.50)


@pytest.mark.parametrize(
    ("predicted", "after", "effect"),
    [
        (EVEN, Load(0.12, 0.61, 0.50), Effect.HELPED),
        (EVEN, Load(0.38, 0.70, 0.50), Effect.HELPED),
        (EVEN, Load(0.39, 0.70, 0.50), Effect.NOTHING),
        (EVEN, Load(0.45, 0.70, 0.50), Effect.NOTHING),
        (EVEN, Load(0.46, 0.60, 0.50), Effect.WORSE),
        (EVEN, Load(0.10, 0.76, 0.50), Effect.WORSE),
        (EVEN, Load(0.46, 0.90, 0.63), Effect.UNKNOWN),
        (Load(0.55, 0.84, 0.50), Load(0.55, 0.85, 0.50), Effect.HELPED),
        (Load(0.55, 0.84, 0.50), Load(0.61, 0.85, 0.50), Effect.WORSE),
    ],
    ids=[
        "as predicted",
        "2 points better",
        "1 point better",
        "5 points worse",
        "6 points worse",
        "peak 6 points higher",
        "load 26 % higher",
        "a predicted rise",
        "a rise above the prediction",
    ],
)
def test_effect_by_figures(predicted: Load, after: Load, effect: Effect) -> None:
    """Worse needs more than 5 points above both the load before and the prediction."""
    assert effect_of(BEFORE, predicted, after)[0] is effect
