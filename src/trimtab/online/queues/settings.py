"""Settings of the forecast and of balance scheduling, with the readings of the paper as switches."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

from trimtab.model.errors import SettingsError

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
        ε: how often queues are looked at, and over how long their rates are taken.
    cycle_seconds
        T: the time without overload after which queues are balanced all the same; the end of the cycle is
        the forecast's horizon.
    light_threshold
        A queue with less than this is light (β of the paper).
    overload_threshold
        A queue with more than this is overloaded (α of the paper); from `light_threshold` up to it, moderate.
    threshold_unit
        The unit of both: `share` of the queue's capacity, `messages`, or `seconds` of work, as a worker
        needs them to drain the queue.
    trend
        `rates`: by what came in and went out in the last window; `none`: what lies there now.
    trend_sign
        `corrected`: D = (Rin - Rout)/ε; `literal`: the opposite, as printed in the paper, which forecasts
        growth as shrinkage.
    forecast_weight
        The weight that converts forecast work into messages: `mean`, the mean class weight, or `queue`, that
        of the queue's own messages, as the paper has it: then the weight cancels, and 900 messages of a
        second are fewer than 1,100 of a tenth.
    balance_by
        What is balanced: `work`, or the `count` of messages, which is the paper's literal text.
    when_full
        What becomes of a message where no queue is open: `block` its sender, or `drop` it.
    trend_damping
        φ of a damped trend, 0 < φ <= 1: each further window's change is φ times the one before; 1 is a
        straight line.
    trend_smoothing
        Share of the newest window in the trend, 0 < share <= 1; the rest is the damped trend before it.
    move_cooldown_seconds
        Interval between two moves of a message: one that was moved less than so long ago stays.
    idle_transfer
        What workers get that have nothing to do: a `share` of what waits elsewhere for longer than a window,
        and all that waits behind a worker which is late; or `nothing`, as in the paper. A worker is late that
        has finished nothing for a window and for three times the work that it has in hand; its queue is
        paused until it does.

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
