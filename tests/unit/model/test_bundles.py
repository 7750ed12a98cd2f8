"""Usage of a broker, to the last bit: thresholds are decided by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.bundles import BrokerReport, ResourceUsage

ALL_ALIKE = (1.0, 1.0, 1.0, 1.0, 1.0)


def test_a_percentage_is_single_precision_throughout() -> None:
    """53 of 100 is a little less than 53 %, 60 of 100 a little more: in doubles both would be exact."""
    assert ResourceUsage(53, 100).percent_usage.dtype == np.float32
    assert float(ResourceUsage(53, 100).percent_usage) == 52.999996185302734
    assert float(ResourceUsage(60, 100).percent_usage) == 60.000003814697266


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_no_limit_is_no_usage(limit: float) -> None:
    """A broker that does not know its NIC reports a limit of 0 or -1: it is idle there, not full."""
    assert ResourceUsage(500.0, limit).percent_usage == 0


def test_more_than_the_limit_is_more_than_a_hundred() -> None:
    """Usage is not cut off: a burst over the NIC's nominal speed is told as it is."""
    assert ResourceUsage(150.0, 100.0).percent_usage == 150


def test_heap_memory_counts_in_the_article_only() -> None:
    """Pulsar 4 took it out because garbage collection makes it swing; direct memory stayed."""
    report = BrokerReport(
        cpu=ResourceUsage(10, 100), memory=ResourceUsage(90, 100), direct_memory=ResourceUsage(40, 100)
    )
    assert report.max_usage(with_memory=True) == pytest.approx(0.9)
    assert report.max_usage(with_memory=False) == pytest.approx(0.4)


def test_the_unweighted_maximum_is_divided_in_single_precision() -> None:
    """`float / int` stays `float` in Java: 86.7 % becomes 0.867 of single precision, not of double."""
    usage = BrokerReport(cpu=ResourceUsage(86.7, 100)).max_usage(with_memory=False)
    assert usage == float(np.float32(86.7) / np.float32(100))
    assert usage != float(np.float32(86.7)) / 100


def test_weights_are_applied_in_double_precision() -> None:
    """`float * double` is `double` in Java, and so is what it is divided by."""
    report = BrokerReport(cpu=ResourceUsage(33.3, 100), bandwidth_in=ResourceUsage(50, 100))
    assert report.weighted_usage((1.0, 0, 0, 0.5, 0)) == float(np.float32(33.3 / 100) * np.float32(100)) / 100
    assert report.weighted_usage((0.1, 0, 0, 0.5, 0)) == 0.25


def test_usage_within_the_limit_leaves_out_what_is_above() -> None:
    """What is above 100 % after its weight is left out; with nothing left the usage is 0."""
    report = BrokerReport(cpu=ResourceUsage(300, 100), bandwidth_in=ResourceUsage(60, 100))
    assert report.weighted_usage_within_limit(ALL_ALIKE) == float(np.float32(60) / 100 * 100) / 100
    assert report.weighted_usage_within_limit((0.25, 0, 0, 1, 0)) == 0.75
    assert report.weighted_usage_within_limit((1, 1, 1, 0, 0)) == 0.0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_weights_of_one_agree_with_no_weights(cpu: float, network: float, limit: float) -> None:
    """With all weights 1 the two maxima are the same resource, apart from the last rounding."""
    report = BrokerReport(cpu=ResourceUsage(cpu, limit), bandwidth_out=ResourceUsage(network, limit))
    assert report.weighted_usage(ALL_ALIKE) == pytest.approx(report.max_usage(with_memory=True), rel=1e-6)
