"""The settings of plans that answer triggers, and the text of a measured effect."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.measured import from_imbalances
from trimtab.balancers import BALANCERS
from trimtab.balancers.settings import read_settings
from trimtab.decide.events import Effect
from trimtab.executions.measuring import Measurement
from trimtab.model.load import imbalance
from trimtab.report.comparison import MeasurementComparison, MeasurementGoals
from trimtab.report.measured import MeasuredLoad
from trimtab.serve.target import WIDEST_EPSILON, _effect_text, settings_of_policy

DRIFT = {"epsilon": 0.1, "load": "forecast", "recent_move_hours": 24.0}
LIMIT = {"goals": ("theta",), "load": "recent", "theta.cpu": 0.76}
LOST, ADDED, UNDO = {"fix_offline_replicas": True}, {"add": ("6",)}, {"undo": 3}


@pytest.mark.parametrize("settings", [DRIFT, LIMIT, LOST, ADDED, UNDO])
def test_plans_of_replicas_have_all_settings_of_triggers(settings: dict[str, object]) -> None:
    """The triggers are made for them."""
    configured = read_settings(None, (), {}).of(BALANCERS["replicas"].settings())
    assert settings_of_policy(settings, configured) == settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (DRIFT, {"epsilon": 0.1}),
        (LIMIT, {"theta.cpu": 0.76, "epsilon": WIDEST_EPSILON}),
        (LOST, {}),
        (ADDED, {}),
        (UNDO, UNDO),
    ],
)
def test_plans_of_bundles_have_fewer_settings(
    settings: dict[str, object], expected: dict[str, object]
) -> None:
    """No load of other hours, no copies; only θ counts where the widest ε is allowed."""
    section = BALANCERS["bundles"].settings()
    chosen = settings_of_policy(settings, read_settings(None, (), {}).of(section))
    assert chosen == expected
    words = [f"bundles.{name}={value}" for name, value in chosen.items() if name != "undo"]
    read_settings(None, words, {}).of(section)


def measured(first: float, second: float) -> MeasuredLoad:
    """Two brokers whose processors have these loads of 10 cores; the network is even."""
    loads = np.array([[first, 5.0], [second, 5.0]])
    one = imbalance(loads, np.full((2, 2), 10.0), np.ones(2, dtype=np.bool_), ("cpu", "network_in"))
    return replace(from_imbalances((1, 2), ("", ""), [one]), load=loads[None])


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ((9.0, 3.0), (6.3, 5.7), "more even: CPU 50.0% → 5.0%"),
        ((6.0, 6.0), (6.0, 6.0), "as even as before: CPU 0.0% → 0.0%, network in 0.0% → 0.0%"),
        ((6.6, 5.4), (9.0, 3.0), "worse: CPU 10.0% → 50.0%; goal missed: CPU 10.0% → 50.0%"),
    ],
)
def test_the_text_of_an_effect_has_figures(
    before: tuple[float, float], after: tuple[float, float], text: str
) -> None:
    """The worst deviation from the mean, before and after: 9 of 9 and 3 cores is 50 % above 6."""
    goals = MeasurementGoals({"cpu": 0.95, "network_in": 0.95}, {"cpu": 0.1, "network_in": 0.1}, 2)
    loads = measured(*before), measured(*after)
    comparison = MeasurementComparison(*loads, loads[1].means(), goals, ())
    found: Any = SimpleNamespace(comparison=comparison, counterfactual=None)
    assert _effect_text(found) == text


@pytest.mark.parametrize(
    ("before", "after", "now", "effect"),
    [
        ((6.6, 5.4), (6.8, 5.2), None, Effect.NOTHING),  # 10 % and 13.3 % above the mean of 6
        ((6.6, 5.4), (7.0, 5.0), None, Effect.WORSE),  # 10 % and 16.7 %
        ((6.6, 5.4), (6.8, 5.2), Effect.HELPED, Effect.HELPED),
        ((9.0, 3.0), (6.3, 5.7), Effect.NOTHING, Effect.HELPED),
        ((9.0, 3.0), (6.3, 5.7), Effect.WORSE, Effect.WORSE),
        ((6.6, 5.4), (14.0, 6.0), None, Effect.NOTHING),  # another load: 20 instead of 12 cores
        ((6.6, 5.4), (14.0, 6.0), Effect.WORSE, Effect.WORSE),
    ],
)
def test_an_effect_is_worse_by_more_than_five_points(
    before: tuple[float, float], after: tuple[float, float], now: Effect | None, effect: Effect
) -> None:
    """Of a deviation or a peak by samples under the same load, or by the load of now without the moves."""
    goals = MeasurementGoals({"cpu": 0.95, "network_in": 0.95}, {"cpu": 0.05, "network_in": 0.05}, 2)
    loads = measured(*before), measured(*after)
    comparison = MeasurementComparison(*loads, loads[1].means(), goals, ())
    counterfactual = None if now is None else (now, "")
    unused: Any = None
    assert Measurement(unused, unused, unused, comparison, counterfactual).effect is effect
