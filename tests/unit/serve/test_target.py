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
from trimtab.executions.measuring import Counterfactual, Measurement
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


def measured(first: float, second: float, network: tuple[float, float] = (5.0, 5.0)) -> MeasuredLoad:
    """Two brokers whose processors have these loads of 10 cores; the network is even if it is not given."""
    loads = np.array([[first, network[0]], [second, network[1]]])
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
    ("before", "after", "without", "effect"),
    [
        ((6.6, 5.4), (6.8, 5.2), None, Effect.NOTHING),  # 10 % and 13.3 % above the mean of 6
        ((6.6, 5.4), (7.0, 5.0), None, Effect.WORSE),  # 10 % and 16.7 %
        ((6.6, 5.4), (6.8, 5.2), (7.0, 5.0), Effect.HELPED),
        ((9.0, 3.0), (6.3, 5.7), (6.3, 5.7), Effect.HELPED),
        ((9.0, 3.0), (7.0, 5.0), (6.0, 6.0), Effect.WORSE),
        ((6.6, 5.4), (14.0, 6.0), None, Effect.NOTHING),  # another load: 20 instead of 12 cores
        ((6.6, 5.4), (14.0, 6.0), (10.0, 10.0), Effect.WORSE),
        ((6.6, 5.4), (7.0, 5.0), (9.0, 3.0), Effect.HELPED),  # 50 % without the moves
        ((6.6, 5.4), (7.0, 5.0), (7.0, 5.0), Effect.NOTHING),
    ],
)
def test_an_effect_is_worse_by_more_than_five_points(
    before: tuple[float, float],
    after: tuple[float, float],
    without: tuple[float, float] | None,
    effect: Effect,
) -> None:
    """Of a deviation or a peak: by samples under the same load, unless the load of now contradicts; or by the
    load of now alone.
    """
    counterfactual = None
    if without is not None:
        counterfactual = Counterfactual.of(measured(*without).means(), measured(*after).means(), ("cpu",))
    assert effect_by(measured(*before), measured(*after), counterfactual) is effect


def test_an_effect_is_worse_by_any_resource() -> None:
    """CPU stays 50 % above the mean, the largest figure; the network goes from 0 to 20 %.

    Samples and the load of now, without the moves and with them, must agree.
    """
    before, after = measured(9.0, 3.0), measured(9.0, 3.0, (6.0, 4.0))
    both = ("cpu", "network_in")
    assert effect_by(before, after, Counterfactual.of(before.means(), after.means(), both)) is Effect.WORSE
    assert effect_by(before, after, Counterfactual.of(after.means(), after.means(), both)) is Effect.NOTHING
    first, second = measured(9.0, 3.0, (5.2, 4.8)), measured(9.0, 3.0, (5.4, 4.6))  # 4 and 8 %
    assert effect_by(first, second, Counterfactual.of(before.means(), after.means(), both)) is Effect.NOTHING


def effect_by(before: MeasuredLoad, after: MeasuredLoad, counterfactual: Counterfactual | None) -> Effect:
    """The effect where ε is 5 %."""
    goals = MeasurementGoals({"cpu": 0.95, "network_in": 0.95}, {"cpu": 0.05, "network_in": 0.05}, 2)
    comparison = MeasurementComparison(before, after, after.means(), goals, ())
    unused: Any = None
    return Measurement(unused, unused, unused, comparison, counterfactual).effect
