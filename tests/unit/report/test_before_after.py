"""The table of before and after, and the verdict under it."""

import io

import numpy as np
import pytest
from rich.console import Console

from demos.broker_demo import before_after_table
from support.measured import from_imbalances
from trimtab.model.load import ImbalanceSummary, imbalance
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report.comparison import MeasurementGoals, compare_measurements
from trimtab.report.formats import bytes_text
from trimtab.report.replicas.renderer import ExecutionCost, cost_text

GOALS = MeasurementGoals(dict.fromkeys(RESOURCES, 0.8), dict.fromkeys(RESOURCES, 0.1), 6)


def measures(sigma: float, peak: float = 0.6, deviation: float = 0.05, **others: float) -> ImbalanceSummary:
    """The same figures for every resource but the named ones, whose σ is given."""
    return ImbalanceSummary(
        sigma=dict.fromkeys(RESOURCES, sigma) | others,
        worst_deviation=dict.fromkeys(RESOURCES, deviation),
        peak_usage=dict.fromkeys(RESOURCES, peak),
    )


def text(renderable: object) -> str:
    """As a terminal without colours shows it."""
    written = io.StringIO()
    console = Console(file=written, width=120)
    console.print(renderable)
    return written.getvalue()


def test_a_real_drop_counts_as_help():
    """σ falls from .045 to .010 everywhere: helped, nothing unmet."""
    outcome = compare_measurements(measures(0.045, deviation=0.4), measures(0.010), GOALS)
    assert outcome.helped
    assert outcome.improved == RESOURCES
    assert not outcome.unmet


def test_a_resource_made_uneven_is_not_help():
    """Three resources improve while network out becomes uneven: not called help."""
    before, after = measures(0.045, deviation=0.4, network_out=0.002), measures(0.010, network_out=0.030)
    before.worst_deviation["network_out"], after.worst_deviation["network_out"] = 0.03, 0.3
    outcome = compare_measurements(before, after, GOALS)
    assert outcome.worse == ("network_out",)
    assert not outcome.helped


def test_noise_below_the_threshold_is_neither():
    """A resource that was even and stays even is not blamed for its last digit."""
    before = measures(0.045, deviation=0.4, disk=0.001)
    before.worst_deviation["disk"] = 0.01
    outcome = compare_measurements(before, measures(0.010, disk=0.003), GOALS)
    assert outcome.helped
    assert not outcome.worse
    assert "disk" not in outcome.improved


def test_nothing_better_is_not_help():
    """The same figures before and after: balancing did not help, whatever was predicted."""
    assert not compare_measurements(
        measures(0.045, deviation=0.4), measures(0.045, deviation=0.4), GOALS
    ).helped


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (measures(0.010, peak=0.81), "peak"),
        (measures(0.010, deviation=0.11), "deviation"),
    ],
)
def test_each_goal_alone_makes_a_resource_unmet(after, why):
    """θ and ε each name the resources that miss them."""
    assert compare_measurements(measures(0.045), after, GOALS).unmet == RESOURCES, why


def test_eta_decides_nothing():
    """A σ above η with every broker within ε and θ is balanced, as it is for the planner."""
    before, after = measures(0.045, deviation=0.4), measures(0.02)
    assert after.sigma["cpu"] > GOALS.eta("cpu")
    outcome = compare_measurements(before, after, GOALS)
    assert (outcome.unmet, outcome.helped) == ((), True)


def test_the_table_marks_missing_measurements():
    """Without a CPU signal the row states that instead of a zero."""
    before, after = measures(0.045), measures(0.010)
    del before.sigma["cpu"]
    shown = text(before_after_table(before, after, GOALS))
    row = next(line for line in shown.splitlines() if line.startswith("CPU"))
    assert "–" in row and "0." not in row
    assert "77.8%" in shown


def test_the_cost_names_moves_bytes_and_seconds():
    """One replica is one replica, and the rate is bytes over seconds."""
    assert cost_text(ExecutionCost(1, 2, 380_000_000, 10.0)) == (
        "1 replica copied (380 MB, 38.0 MB/s), 2 leader roles handed over, in 10.0 s"
    )
    assert "2 leader roles handed over, 3 more along with their replica, in" in cost_text(
        ExecutionCost(4, 2, 380_000_000, 10.0, led_along=3)
    )
    assert cost_text(ExecutionCost(1, 2, 380_000_000, 10.0, log_dir_moves=2, log_dir_bytes=5_000_000)) == (
        "1 replica copied (380 MB, 38.0 MB/s), 2 replicas to another log dir (5.0 MB), "
        "2 leader roles handed over, in 10.0 s"
    )


def test_bytes_are_decimal():
    """Disks and networks count in thousands."""
    assert [bytes_text(number) for number in (0, 999, 1000, 1.5e6, 123e9)] == [
        "0 B", "999 B", "1.0 kB", "1.5 MB", "123 GB",
    ]  # fmt: skip


def test_sigma_is_averaged_over_instants_not_taken_from_their_mean():
    """Two brokers hot in turn: each instant is uneven although the mean of the two is balanced."""
    one = np.tile([[0.9], [0.1]], (1, 4))
    series = [
        imbalance(load, np.ones((2, 4)), np.ones(2, dtype=bool), RESOURCES) for load in (one, one[::-1])
    ]
    measured = from_imbalances((1, 2), ("h1", "h2"), series).measures()
    assert measured.sigma["cpu"] == pytest.approx(0.4)
    assert measured.worst_deviation["cpu"] == pytest.approx(0.0)
    assert measured.peak_usage["cpu"] == pytest.approx(0.9)


def test_the_verdict_takes_the_peak_of_the_means_as_the_planner_does():
    """A broker that is at .9 for one instant of two, and at .5 on average, keeps θ = .8."""
    one = np.tile([[0.9], [0.1]], (1, 4))
    series = [
        imbalance(load, np.ones((2, 4)), np.ones(2, dtype=bool), RESOURCES) for load in (one, one[::-1])
    ]
    assert from_imbalances((1, 2), ("h1", "h2"), series).means().peak_usage["cpu"] == pytest.approx(0.5)


def test_the_noise_of_rates_is_two_standard_errors_and_that_of_sizes_their_range():
    """CPU .3, .5, .3, .5 around a mean of .4: .1155 / 2 / .4 = .1443, of two such means 2 √2 times that.

    The disk of the same broker goes from .50 to .54 and back: .04 of a mean of .52.
    """
    capacity, alive = np.ones((2, 4)), np.ones(2, dtype=bool)
    instants = [
        imbalance(np.array([[cpu, disk, 0.2, 0.2], [0.4, 0.52, 0.2, 0.2]]), capacity, alive, RESOURCES)
        for cpu, disk in [(0.3, 0.50), (0.5, 0.54), (0.3, 0.50), (0.5, 0.54)]
    ]
    noise = from_imbalances((1, 2), ("h", "h"), instants).noise()
    assert noise["cpu"] == pytest.approx(2 * np.sqrt(2) * 0.11547 / 2 / 0.4, rel=1e-4)
    assert noise["disk"] == pytest.approx(0.04 / 0.52)
    assert noise["network_in"] == 0
