"""The weight-load forecast by worked examples."""

import math

import pytest

from trimtab_common.errors import SettingsError
from trimtab_queues.core.scheduling import (
    QueueState,
    SchedulingSettings,
    forecast_length,
    forecast_work,
    state_of,
    trend,
)

DEFAULT = SchedulingSettings()


def test_growth_is_inflow_minus_outflow_and_the_literal_variant_has_the_opposite_sign() -> None:
    """20 s of work arrived and 1 s was done in a window of a second: 19 a second."""
    assert trend(20.0, 1.0, 1.0, 0.0, DEFAULT) == 19.0
    assert trend(20.0, 1.0, 1.0, 0.0, SchedulingSettings(trend_sign="literal")) == -19.0
    assert trend(20.0, 1.0, 2.0, 0.0, DEFAULT) == 9.5, "a window that was two seconds long"
    assert trend(20.0, 1.0, 1.0, 0.0, SchedulingSettings(trend="none")) == 0.0
    assert trend(20.0, 1.0, 0.0, 0.0, DEFAULT) == 0.0, "two looks at one instant tell no rate"


def test_a_smoothed_trend_keeps_the_damped_rest_of_the_one_before() -> None:
    """A quarter of 19, and three quarters of 0.8 times 10."""
    settings = SchedulingSettings(trend_smoothing=0.25, trend_damping=0.8)
    assert trend(20.0, 1.0, 1.0, 10.0, settings) == pytest.approx(0.25 * 19 + 0.75 * 0.8 * 10)


def test_the_forecast_is_linear_and_ends_at_zero() -> None:
    """100 s of work, 19 more each second, 4 seconds to go; and a queue that drains is empty, not negative."""
    assert forecast_work(100.0, 19.0, 4.0, DEFAULT) == 176.0
    assert forecast_work(3.0, -1.0, 4.0, DEFAULT) == 0.0
    assert forecast_work(100.0, 19.0, -2.0, DEFAULT) == 100.0, "the horizon is passed"


def test_a_damped_trend_counts_each_further_window_less() -> None:
    """Windows of 2 s, φ = 0.5, three of them: 2 · (0.5 + 0.25 + 0.125) s of the trend."""
    damped = SchedulingSettings(trend_damping=0.5, window_seconds=2.0)
    assert forecast_work(10.0, 4.0, 6.0, damped) == pytest.approx(10 + 4 * 2 * 0.875)
    assert forecast_work(10.0, 4.0, 6.0, SchedulingSettings(window_seconds=2.0)) == 34.0


def test_with_its_own_mean_the_weight_of_a_queue_cancels() -> None:
    """900 messages of a second are 9,000 common ones of a tenth; by the paper's own mean they are 900."""
    own = SchedulingSettings(forecast_weight="queue")
    assert forecast_length(900.0, 900, 900.0, 0.1, DEFAULT) == pytest.approx(9000)
    assert forecast_length(900.0, 900, 900.0, 0.1, own) == pytest.approx(900)
    assert forecast_length(110.0, 1100, 110.0, 0.48, own) == pytest.approx(1100)
    assert forecast_length(48.0, 0, 0.0, 0.48, own) == pytest.approx(100), "empty: the mean class weight"


def test_without_any_weight_known_some_work_is_endless() -> None:
    """Nothing divided by nothing is nothing."""
    assert forecast_length(1.0, 3, 1.0, 0.0, DEFAULT) == math.inf
    assert forecast_length(0.0, 0, 0.0, 0.0, DEFAULT) == 0.0


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        (999.9, QueueState.LIGHT),
        (1000.0, QueueState.MODERATE),
        (8000.0, QueueState.MODERATE),
        (8000.1, QueueState.OVERLOAD),
    ],
)
def test_on_a_limit_a_queue_is_moderate(messages: float, state: QueueState) -> None:
    """β = 0.1 and α = 0.8 of 10,000."""
    assert state_of(messages, 0.0, 10_000, DEFAULT) is state


def test_limits_can_be_messages_or_seconds_of_work() -> None:
    """The capacity has no part in either."""
    counted = SchedulingSettings(threshold_unit="messages", light_threshold=3000, overload_threshold=3000)
    assert state_of(3000.0, 0.0, 10, counted) is QueueState.MODERATE
    assert state_of(3001.0, 0.0, 10, counted) is QueueState.OVERLOAD
    drained = SchedulingSettings(threshold_unit="seconds", light_threshold=1.0, overload_threshold=30.0)
    assert state_of(9e9, 0.5, 10, drained) is QueueState.LIGHT
    assert state_of(0.0, 31.0, 10, drained) is QueueState.OVERLOAD


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"trend_sign": "other"}, "queues.trend_sign is 'other', expected one of corrected, literal"),
        ({"window_seconds": 0.0}, "queues.window_seconds is 0.0, expected seconds above 0"),
        ({"cycle_seconds": math.inf}, "queues.cycle_seconds is inf"),
        ({"trend_damping": 1.1}, "queues.trend_damping is 1.1, expected above 0 and at most 1"),
        (
            {"light_threshold": 0.9},
            "queues.overload_threshold is 0.8, expected light_threshold <= overload_threshold",
        ),
        (
            {"light_threshold": math.nan},
            "queues.overload_threshold is 0.8, expected light_threshold <= overload_threshold",
        ),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], said: str) -> None:
    """The error names the setting, what it is and what it may be."""
    with pytest.raises(SettingsError, match=said):
        SchedulingSettings(**wrong)  # type: ignore[arg-type]
