"""How unevenly published loads lie over brokers, now and as predicted (`TransferShedder.LoadStats`)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trimtab.plan.bundles.published import PublishedLoad


@dataclass(frozen=True)
class Spread:
    """Average and deviation, and which brokers come next.

    Attributes
    ----------
    ordered
        Brokers by published load, from the lowest; brokers whose data are too old are among them.
    counted
        How many brokers average and deviation are over.
    average, square_sum, deviation
        Of their loads: fractions, and of fractions squared. At first the deviation is not a number where
        rounding makes the difference that it is the root of negative; once something has moved, Pulsar takes
        the difference without its sign.
    lowest, highest
        Places in `ordered` of the broker that takes next and of the one that gives next.
    givers
        How many brokers have given up something so far.
    """

    ordered: tuple[str, ...]
    counted: int
    average: float
    square_sum: float
    deviation: float
    lowest: int
    highest: int
    givers: int = 0

    @property
    def taker(self) -> str:
        """The broker that takes next."""
        return self.ordered[self.lowest]

    @property
    def giver(self) -> str:
        """The broker that gives next."""
        return self.ordered[self.highest]

    def without_giver(self) -> "Spread":
        """After the fullest broker was looked at, whatever came of it."""
        return replace(self, highest=self.highest - 1)

    def after_moving(self, fuller: float, emptier: float, moved: float) -> "Spread":
        """As predicted once `moved` (a fraction of load) has gone from one broker to the other.

        Pulsar subtracts both squares in one sum, and never lets a load fall below zero.
        """
        left, grown = fuller - moved, emptier + moved
        if left < 0:  # and not max(): what is not a number must stay so, as in Java
            left = 0.0
        square_sum = self.square_sum - (fuller * fuller + emptier * emptier)
        square_sum += left * left + grown * grown
        return replace(
            self,
            square_sum=square_sum,
            deviation=math.sqrt(abs(_variance(square_sum, self.counted, self.average))),
            lowest=self.lowest + 1,
            givers=self.givers + 1,
        )


def spread_of(loads: Mapping[str, PublishedLoad], counted: Iterable[str]) -> Spread:
    """The spread before anything has moved.

    Parameters
    ----------
    loads
        All published loads, at least one; brokers of equal load stay in this order.
    counted
        At least one broker whose data are recent enough, in the order in which they are added up.
    """
    total = square_sum = 0.0
    brokers = 0
    for name in counted:
        load = loads[name].weighted_max_ema
        total += load
        square_sum += load * load
        brokers += 1
    average = total / brokers
    ordered = tuple(sorted(loads, key=lambda name: loads[name].weighted_max_ema))
    variance = _variance(square_sum, brokers, average)
    deviation = math.sqrt(variance) if variance >= 0 else math.nan
    return Spread(ordered, brokers, average, square_sum, deviation, 0, len(ordered) - 1)


def _variance(square_sum: float, brokers: int, average: float) -> float:
    return square_sum / brokers - average * average
