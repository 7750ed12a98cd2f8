"""From the pipeline's table to the figures of a report."""

import datetime
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow
import pytest

from demos.broker_demo import missed_goals
from demos.machine import SampleValidity
from demos.sampling import MeasuredPeriod, measured_load
from trimtab.model.errors import ObserveError
from trimtab.model.load import ImbalanceSummary
from trimtab.model.replicas.settings import RESOURCES
from trimtab.observe.lake.lake import Lake
from trimtab.report.comparison import MeasurementGoals, MeasurementVerdict

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class TableOnly:
    """A lake that holds nothing but one table."""

    def __init__(self, rows: list[dict]) -> None:
        self.rows = rows

    def table(self, name, since, until):
        """Rows of a half-open period, as `Lake.table` gives them."""
        assert name == "imbalance"
        return pyarrow.Table.from_pylist([row for row in self.rows if since <= row["tick"] < until])


def table_only(rows: list[dict]) -> Lake:
    """A lake, as far as it is looked at."""
    return cast("Lake", TableOnly(rows))


def row(tick: int, resource: str, usage: tuple[float, float], complete: bool = True) -> dict:
    """One row of the table for brokers 1 and 2."""
    mean = sum(usage) / 2
    return {
        "tick": START + datetime.timedelta(seconds=tick),
        "resource": resource,
        "complete": complete,
        "mean": mean if complete else None,
        "sigma": abs(usage[0] - mean) / (2 * mean) if complete else None,
        "by_broker": [
            {"broker": broker, "usage": value, "deviation": abs(value - mean) / mean}
            for broker, value in zip((1, 2), usage, strict=True)
        ],
    }


def rows(tick: int, usage: tuple[float, float], **changed: bool) -> list[dict]:
    """All resources of a tick."""
    return [row(tick, name, usage, **changed) for name in RESOURCES]


SOUND = SampleValidity(1.0, 0.0, 2.0, 0, 0, 1.0)
DISTURBED = SampleValidity(1.0, 1.9, 0.0, 0, 0, 1.0)


def second(number: int) -> datetime.datetime:
    """A tick."""
    return START + datetime.timedelta(seconds=number)


def period(first: int, last: int) -> MeasuredPeriod:
    """Ticks of a second each, both ends included."""
    return MeasuredPeriod(
        START + datetime.timedelta(seconds=first), START + datetime.timedelta(seconds=last), 1
    )


def test_only_the_ticks_of_the_period_count():
    """What was sampled while brokers warmed up, or after the moves, does not get into the figures."""
    lake = table_only(rows(0, (0.9, 0.1)) + rows(1, (0.6, 0.4)) + rows(2, (0.6, 0.4)) + rows(3, (0.5, 0.5)))
    found = measured_load(lake, period(1, 2), {1: "h1", 2: "h2"})
    assert found.instants == 2
    assert found.hosts == ("h1", "h2")
    assert found.sigma == pytest.approx(np.full((2, 4), 0.1))
    assert found.measures().peak_usage["cpu"] == pytest.approx(0.6)


def test_a_disturbed_tick_is_left_out_unless_too_few_are_left():
    """Samples that something else disturbed are in no figure, as long as enough others are there."""
    lake = table_only(rows(1, (0.6, 0.4)) + rows(2, (0.9, 0.1)))
    found = replace(period(1, 2), ticks=2, each=(second(1), second(2)), checks=(SOUND, DISTURBED), required=1)
    assert measured_load(lake, found, {}).measures().peak_usage["cpu"] == pytest.approx(0.6)
    for few in (replace(found, checks=(DISTURBED, DISTURBED)), replace(found, required=2)):
        assert measured_load(lake, few, {}).instants == 2


def test_a_tick_that_misses_a_broker_is_left_out():
    """A tick counts only if every broker was sampled at it, for every resource."""
    broken = [row(2, name, (0.9, 0.1), complete=name != "cpu") for name in RESOURCES]
    found = measured_load(table_only(rows(1, (0.6, 0.4)) + broken), period(1, 2), {})
    assert found.instants == 1
    assert found.ticks == (START + datetime.timedelta(seconds=1),)


def test_a_resource_that_is_never_measured_is_unknown_not_zero():
    """Without a metrics endpoint there is no CPU: the other three are reported, and CPU is left out."""
    table = [row(1, name, (0.6, 0.4), complete=name != "cpu") for name in RESOURCES]
    found = measured_load(table_only(table), period(1, 1), {})
    assert np.isnan(found.sigma[:, 0]).all()
    assert "cpu" not in found.measures().sigma
    assert found.measures().sigma["disk"] == pytest.approx(0.1)


def test_without_a_complete_tick_there_is_an_error():
    """Figures are never made of nothing."""
    with pytest.raises(ObserveError, match="none of the 1 ticks"):
        measured_load(table_only(rows(1, (0.6, 0.4), complete=False)), period(1, 1), {})


@pytest.mark.parametrize(
    ("resource", "by_loads", "cause"),
    [
        ("cpu", 0.24, "24.0% by the loads of now: the fit of CPU to partitions has changed"),
        ("disk", 0.24, "24.0% by the loads of now: the loads have changed"),
        ("cpu", 0.06, "6.0% by the loads of now: the brokers' use beside their partitions differs"),
    ],
)
def test_a_missed_goal_is_reported_with_its_cause(resource: str, by_loads: float, cause: str) -> None:
    """Measured 25 %, predicted 5 %: the newest snapshot of the same placement distinguishes the causes."""

    def figures(deviation: float) -> ImbalanceSummary:
        return ImbalanceSummary(*(dict.fromkeys(RESOURCES, value) for value in (0.01, deviation, 0.5)))

    goals = MeasurementGoals(dict.fromkeys(RESOURCES, 0.8), dict.fromkeys(RESOURCES, 0.1), 6)
    outcome = MeasurementVerdict(improved=RESOURCES, worse=(), unmet=(resource,))
    (line,) = missed_goals(outcome, figures(0.05), figures(0.25), {resource: by_loads}, goals)
    assert line.endswith(f"25.0% from the mean, goal 10.0%; the plan predicted 5.0%, and {cause}")
