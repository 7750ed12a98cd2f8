"""Usage of a broker, to the last bit: thresholds are decided by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.bundles.reports import BrokerReport, ResourceUsage

ALL_ALIKE = (1.0, 1.0, 1.0, 1.0, 1.0)


def test_a_percentage_is_single_precision_throughout() -> None:
    """53 of 100 is a little less than 53 %, 60 of 100 a little more: in doubles both would be exact."""
    percents = BrokerReport(cpu=ResourceUsage(53, 100), memory=ResourceUsage(60, 100)).percents
    assert percents.dtype == np.float32
    assert percents[:2].tolist() == [52.999996185302734, 60.000003814697266]


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_no_limit_is_no_usage(limit: float) -> None:
    """A broker that does not know its NIC reports a limit of 0 or -1: it is idle there, not full."""
    assert BrokerReport(cpu=ResourceUsage(500.0, limit)).percents[0] == 0


def test_more_than_the_limit_is_more_than_a_hundred() -> None:
    """Usage is not capped: a burst above the NIC's nominal speed is reported unchanged."""
    assert BrokerReport(cpu=ResourceUsage(150.0, 100.0)).percents[0] == 150


def test_weights_are_applied_in_double_precision() -> None:
    """`float * double` is `double` in Java, and so is what it is divided by."""
    report = BrokerReport(cpu=ResourceUsage(33.3, 100), bandwidth_in=ResourceUsage(50, 100))
    assert report.weighted_usage((1.0, 0, 0, 0.5, 0)) == float(np.float32(33.3 / 100) * np.float32(100)) / 100
    assert report.weighted_usage((0.1, 0, 0, 0.5, 0)) == 0.25


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_weights_of_one_leave_the_most_used_resource_as_it_is(
    cpu: float, network: float, limit: float
) -> None:
    """With all weights 1 it is the larger of the two percentages."""
    report = BrokerReport(cpu=ResourceUsage(cpu, limit), bandwidth_out=ResourceUsage(network, limit))
    assert report.weighted_usage(ALL_ALIKE) == float(report.percents.max()) / 100


def percent_of(one: ResourceUsage) -> np.float32:
    """`ResourceUsage.percentUsage` of one resource."""
    if not one.limit > 0:
        return np.float32(0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        return np.float32(np.float32(one.usage) / np.float32(one.limit) * np.float32(100))


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), min_size=5, max_size=5))
def test_the_percentages_of_a_report_are_those_of_its_resources_bit_for_bit(
    amounts: list[tuple[float, float]],
) -> None:
    """Computed all at once and kept, also where a figure is too large or too small for single precision."""
    resources = [ResourceUsage(usage, limit) for usage, limit in amounts]
    cpu, memory, direct_memory, inward, outward = resources
    report = BrokerReport(cpu, memory, direct_memory, inward, outward)
    each = np.array([percent_of(one) for one in resources], dtype=np.float32)
    assert report.percents.dtype == np.float32
    assert np.array_equal(report.percents, each, equal_nan=True)
    with pytest.raises(ValueError, match="read-only"):
        report.percents[0] = 1
