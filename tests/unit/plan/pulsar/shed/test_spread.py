"""How unevenly loads lie, and what is predicted of a move."""

import math

import pytest

from trimtab.plan.pulsar.transfer_shedder import UsageSpread, spread_of
from trimtab.plan.pulsar.view import PublishedLoad


def spread(**loads: float) -> UsageSpread:
    """Of brokers that all count."""
    return spread_of({name: PublishedLoad(load, 0.0, 0.0) for name, load in loads.items()}, loads)


def test_average_and_deviation_of_the_loads() -> None:
    """.75 and .25 lie .25 from their average."""
    found = spread(a=0.75, b=0.25)
    assert (found.average, found.deviation, found.ordered) == (0.5, 0.25, ("b", "a"))
    assert (found.giver, found.destination) == ("a", "b")


def test_equal_loads_keep_their_order() -> None:
    """The sort is stable: the last of the fullest gives first."""
    found = spread(a=0.5, b=0.5, c=0.25, d=0.25)
    assert found.ordered == ("c", "d", "a", "b")


def test_a_move_is_predicted_by_its_squares() -> None:
    """Half the difference moved: both are on the average, and the next broker takes."""
    found = spread(a=0.75, b=0.25, c=0.5).without_giver().after_moving(0.75, 0.25, 0.25)
    assert found.deviation == pytest.approx(0.0, abs=1e-12)
    assert (found.givers, found.destination) == (1, "c")


def test_no_broker_is_predicted_below_nothing() -> None:
    """More is moved than there is: the fuller one counts as empty, the other takes it all."""
    found = spread(a=0.75, b=0.25).after_moving(0.75, 0.25, 1.0)
    assert found.square_sum == pytest.approx(1.25**2)


def test_nan_stays_nan() -> None:
    """As in Java, where no comparison with it holds afterwards."""
    assert math.isnan(spread(a=0.75, b=0.25).after_moving(0.75, 0.25, math.nan).deviation)


def test_equal_loads_deviate_by_nothing() -> None:
    """The root of exactly 0 is a number."""
    assert spread(a=0.5, b=0.5).deviation == 0.0


def test_a_variance_that_rounds_below_zero_is_not_a_number() -> None:
    """Three loads of .05: their mean square is a last digit below the square of their mean."""
    found = spread(a=0.05, b=0.05, c=0.05)
    assert math.isnan(found.deviation)
    assert not found.deviation > 0


def test_a_predicted_variance_below_zero_loses_its_sign() -> None:
    """Pulsar takes the absolute value once something has moved: a last digit, not a stop."""
    found = UsageSpread(("a", "b"), 2, 0.5, 0.5, 0.0, 0, 1).after_moving(0.5, 0.5, 0.0)
    assert found.deviation == 0.0
    below = UsageSpread(("a", "b"), 2, 0.75, 0.625, 0.0, 0, 1).after_moving(0.75, 0.25, 0.25)
    assert below.deviation == (0.75 * 0.75 - 0.25) ** 0.5


def test_brokers_of_old_data_are_in_the_order_and_in_nothing_else() -> None:
    """They are not among those counted."""
    loads = {"a": PublishedLoad(0.75, 0.0, 0.0), "b": PublishedLoad(0.0, 0.0, 0.0)}
    found = spread_of(loads, ["a"])
    assert (found.average, found.counted, found.ordered) == (0.75, 1, ("b", "a"))
