"""The weight-load forecast: work a queue will hold at the end of the cycle, and its state by that."""

from __future__ import annotations

from enum import Enum
from math import inf

from trimtab_queues.core.settings import SchedulingSettings


class QueueState(Enum):
    """What a queue's forecast says of it."""

    LIGHT = "light"
    MODERATE = "moderate"
    OVERLOAD = "overload"


def trend(
    arrived: float, went_out: float, elapsed_seconds: float, before: float, settings: SchedulingSettings
) -> float:
    """Change of a queue's work, in seconds of work a second (the paper's D).

    Parameters
    ----------
    arrived, went_out
        Seconds of work over the window; what was moved counts in neither.
    elapsed_seconds
        Length of the window as it was: a late observation must not make rates look higher.
    before
        The trend one window ago.
    """
    if settings.trend == "none" or elapsed_seconds <= 0:
        return 0.0
    rate = (arrived - went_out) / elapsed_seconds
    if settings.trend_sign == "literal":
        rate = -rate
    if settings.trend_smoothing == 1.0:
        return rate
    return settings.trend_smoothing * rate + (1 - settings.trend_smoothing) * settings.trend_damping * before


def forecast_work(work: float, trend: float, horizon_seconds: float, settings: SchedulingSettings) -> float:
    """Seconds of work at the horizon, never below nothing: R_T = max(0, R + D·(T - t)).

    With damping φ < 1 window k of the way adds φ to the power of k of what the first would.
    """
    reach, damping = max(0.0, horizon_seconds), settings.trend_damping
    if damping < 1.0:
        window = settings.window_seconds
        reach = window * damping * (1 - damping ** (reach / window)) / (1 - damping)
    return max(0.0, work + trend * reach)


def forecast_length(
    forecast: float, length: int, work: float, mean_weight: float, settings: SchedulingSettings
) -> float:
    """Messages that the forecast work amounts to: L_T = R_T / r̄.

    Parameters
    ----------
    forecast
        Seconds of work at the horizon.
    length, work
        The queue now.
    mean_weight
        Mean weight of the classes, seconds: r̄ itself, and with `forecast_weight="queue"` that of an empty
        queue.
    """
    mean = work / length if settings.forecast_weight == "queue" and length and work > 0 else mean_weight
    if mean > 0:
        return forecast / mean
    return inf if forecast > 0 else 0.0


def state_of(messages: float, seconds: float, capacity: int, settings: SchedulingSettings) -> QueueState:
    """A queue's state by its forecast, in messages and in seconds of work; on a limit it is moderate."""
    value = seconds if settings.threshold_unit == "seconds" else messages
    unit = capacity if settings.threshold_unit == "share" else 1
    if value < settings.light_threshold * unit:
        return QueueState.LIGHT
    return QueueState.OVERLOAD if value > settings.overload_threshold * unit else QueueState.MODERATE
