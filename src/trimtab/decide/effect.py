"""The effect of an execution: the load before, as predicted, and as measured afterwards."""

from dataclasses import dataclass
from typing import Final

from trimtab.decide.events import Effect
from trimtab.model.load import Imbalance, ImbalanceSummary

WORSE_BY: Final = 0.05
"""A deviation or a peak that is higher by more than this, and than predicted, is worse."""
HELPED_BY: Final = 0.02
"""A deviation or a peak that is lower by at least this has helped."""
COMPARABLE: Final = 0.25
"""Loads that differ by more than this share of the load before are not compared."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a cluster in three figures.

    Attributes
    ----------
    worst_deviation, peak_usage
        The largest of all resources, as fractions of the mean and of capacity.
    mean_usage
        The largest mean of all resources: it tells whether two loads can be compared.
    """

    worst_deviation: float
    peak_usage: float
    mean_usage: float

    @property
    def text(self) -> str:
        """The two figures that are compared."""
        return f"γ {self.worst_deviation:.2f}, peak {self.peak_usage:.0%}"


def load_of(measured: Imbalance, worst_deviation: float) -> Load:
    """The figures of a measurement; the deviation is that of resources in use."""
    known = [row for row in range(len(measured.resources)) if measured.mean[row] == measured.mean[row]]
    return Load(
        worst_deviation,
        max((float(measured.peak_usage[row]) for row in known), default=0.0),
        max((float(measured.mean[row]) for row in known), default=0.0),
    )


def predicted_load(predicted: ImbalanceSummary, before: Load) -> Load:
    """The figures that a plan predicts; the mean stays as it is."""
    return Load(
        max(predicted.worst_deviation.values(), default=0.0),
        max(predicted.peak_usage.values(), default=0.0),
        before.mean_usage,
    )


def effect_of(before: Load, predicted: Load, after: Load) -> tuple[Effect, str]:
    """What an execution has done, with the figures as text.

    An execution that moves replicas off a lost broker raises the load of the others. It is worse only if the
    load is also higher than the plan predicted.
    """
    text = f"before {before.text}; predicted {predicted.text}; measured {after.text}"
    if abs(after.mean_usage - before.mean_usage) > COMPARABLE * before.mean_usage:
        change = f"mean usage {before.mean_usage:.0%} → {after.mean_usage:.0%}"
        return Effect.UNKNOWN, f"{text}; the load itself has changed too much to compare ({change})"
    pairs = (
        (before.worst_deviation, predicted.worst_deviation, after.worst_deviation),
        (before.peak_usage, predicted.peak_usage, after.peak_usage),
    )
    if any(now > max(was, expected) + WORSE_BY for was, expected, now in pairs):
        return Effect.WORSE, text
    if any(was - now >= HELPED_BY for was, _, now in pairs):
        return Effect.HELPED, text
    # Predicted to rise, as without a lost broker, and risen no further: the plan did what it was made for.
    if any(expected > was for was, expected, _ in pairs):
        return Effect.HELPED, text
    return Effect.NOTHING, text
