"""Settings of the forecast and of balance scheduling, with the readings of the paper as switches."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

from trimtab_common.errors import SettingsError

CHOICES: Final = {
    "trend_sign": ("corrected", "literal"),
    "forecast_weight": ("mean", "queue"),
    "balance_by": ("work", "count"),
    "when_full": ("block", "drop"),
    "threshold_unit": ("share", "messages", "seconds"),
    "trend": ("rates", "none"),
    "idle_transfer": ("share", "nothing"),
}
"""The words that a setting may have, the default first."""


@dataclass(frozen=True, slots=True)
class SchedulingSettings:
    """Settings of balance scheduling.

    Attributes
    ----------
    window_seconds
        ε: period of checks of the queues, and the window of their rates.
    cycle_seconds
        T: time without overload after which queues are balanced anyway. The end of the cycle is the horizon
        of the forecast.
    light_threshold
        Queues below this are light (β of the paper).
    overload_threshold
        Queues above this are overloaded (α of the paper); between `light_threshold` and this they are
        moderate.
    threshold_unit
        Unit of both thresholds: `share` of the queue's capacity, `messages`, or `seconds` that the worker
        needs to drain the queue.
    trend
        Basis of the forecast. `rates`: arrivals and departures of the last window; `none`: the current
        content.
    trend_sign
        `corrected`: D = (Rin - Rout)/ε; `literal`: the opposite sign, as printed in the paper, which
        forecasts growth as decrease.
    forecast_weight
        Weight that converts forecast work into messages. `mean`: the mean class weight; `queue`: that of the
        queue's own messages, as in the paper. With `queue` the weight cancels: 900 messages of 1 s count less
        than 1,100 of 0.1 s.
    balance_by
        Balanced quantity: `work`, or the `count` of messages (the paper's literal text).
    when_full
        Treatment of a message if no queue is open: `block` its sender, or `drop` the message.
    trend_damping
        φ of a damped trend, 0 < φ <= 1: the change of each further window is φ times the previous one; 1: a
        straight line.
    trend_smoothing
        Share of the newest window in the trend, 0 < share <= 1; the rest is the previous damped trend.
    move_cooldown_seconds
        Minimum time between two moves of a message.
    idle_transfer
        Messages that idle workers receive. `share`: a share of the messages that wait elsewhere for longer
        than a window, and all messages behind a late worker; `nothing`: none, as in the paper. A worker is
        late if it has finished nothing for a window plus three times the weight of its current messages; its
        queue is paused meanwhile.

    Raises
    ------
    SettingsError
        If one is out of range.

    References
    ----------
    Ji, Ni, Liu (2009), Computer Engineering 35(8), sections 2 and 3; the damped trend is Gardner and
    McKenzie's (1985).
    """

    window_seconds: float = 1.0
    cycle_seconds: float = 10.0
    light_threshold: float = 0.1
    overload_threshold: float = 0.8
    threshold_unit: str = "share"
    trend: str = "rates"
    trend_sign: str = "corrected"
    forecast_weight: str = "mean"
    balance_by: str = "work"
    when_full: str = "block"
    trend_damping: float = 1.0
    trend_smoothing: float = 1.0
    move_cooldown_seconds: float = 0.0
    idle_transfer: str = "share"

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise _refused(name, getattr(self, name), f"one of {', '.join(words)}")
        for name in ("window_seconds", "cycle_seconds"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise _refused(name, getattr(self, name), "seconds above 0")
        for name in ("trend_damping", "trend_smoothing"):
            if not 0 < getattr(self, name) <= 1:
                raise _refused(name, getattr(self, name), "above 0 and at most 1")
        if not self.move_cooldown_seconds >= 0:
            raise _refused("move_cooldown_seconds", self.move_cooldown_seconds, "seconds, 0 or more")
        if not (isfinite(self.overload_threshold) and 0 <= self.light_threshold <= self.overload_threshold):
            limits = (
                "light_threshold <= overload_threshold, both 0 or more; "
                f"light_threshold is {self.light_threshold:g}"
            )
            raise _refused("overload_threshold", self.overload_threshold, limits)


def _refused(name: str, value: object, expected: str) -> SettingsError:
    return SettingsError(f"queues.{name} is {value!r}, expected {expected}")
