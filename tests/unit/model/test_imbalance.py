"""Equations 1 to 6 on cases that can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trimtab.model.load import imbalance, sigma_threshold
from trimtab.model.replicas.settings import RESOURCES


def four(column: list[float]) -> np.ndarray:
    """One column of load for each of the four resources."""
    return np.tile(np.array(column, dtype=float)[:, None], (1, 4))


def test_the_papers_disk_column_is_reproduced() -> None:
    """Six brokers at 75, 62, 45, 40, 20 and 18 % give the σ that the source's default run shows for disk."""
    found = imbalance(
        four([0.75, 0.62, 0.45, 0.40, 0.20, 0.18]), np.ones((6, 4)), np.ones(6, dtype=bool), RESOURCES
    )
    assert found.sigma[1] == pytest.approx(0.0793, abs=5e-5)
    assert found.mean[1] == pytest.approx(2.6 / 6)
    assert found.peak_usage[1] == 0.75
    assert found.worst_deviation[1] == pytest.approx((0.75 - 2.6 / 6) / (2.6 / 6))


def test_deviation_is_share_times_brokers_minus_one() -> None:
    """Both forms of equation 4 agree for equal capacities."""
    found = imbalance(four([3.0, 1.0, 2.0]), np.full((3, 4), 10.0), np.ones(3, dtype=bool), RESOURCES)
    assert found.deviation == pytest.approx(np.abs(found.share - 1 / 3) * 3)


def test_unequal_brokers_are_balanced_at_equal_utilisation() -> None:
    """A broker twice as large carries twice the load, and nothing deviates."""
    found = imbalance(four([4.0, 8.0]), four([10.0, 20.0]), np.ones(2, dtype=bool), RESOURCES)
    assert found.sigma == pytest.approx(0)
    assert found.worst_deviation == pytest.approx(0)


def test_unequal_brokers_are_compared_with_the_common_mean() -> None:
    """6 of 10 and 6 of 20: 60 % and 30 %. The mean is 12 of 30, 40 % (and not 45 %, that of the two figures):
    the one is half above it, the other a quarter below. Their shares are 2/3 and 1/3.
    """
    found = imbalance(four([6.0, 6.0]), four([10.0, 20.0]), np.ones(2, dtype=bool), RESOURCES)
    assert found.mean == pytest.approx(0.4)
    assert found.deviation[:, 0] == pytest.approx([0.5, 0.25])
    assert found.share[:, 0] == pytest.approx([2 / 3, 1 / 3])
    assert found.sigma == pytest.approx(1 / 6)


def test_eta_is_epsilon_over_the_brokers() -> None:
    """Equation 6: the source's ten per cent on six brokers is .017."""
    assert sigma_threshold(0.1, 6) == pytest.approx(0.0167, abs=5e-5)


def test_dead_and_unlimited_brokers_do_not_count() -> None:
    """A broker without a capacity is not balanced; one that is out of service is not measured."""
    capacity = four([10.0, 10.0, 10.0, np.inf])
    found = imbalance(four([4.0, 4.0, 9.0, 9.0]), capacity, np.array([True, True, False, True]), RESOURCES)
    assert found.peak_usage == pytest.approx(0.4)
    assert found.sigma == pytest.approx(0)


def test_a_resource_without_capacity_is_left_out_of_the_measures() -> None:
    """Without any CPU capacity there is no CPU figure, rather than a misleading zero."""
    capacity = four([10.0, 10.0])
    capacity[:, 0] = np.inf
    measures = imbalance(four([1.0, 2.0]), capacity, np.ones(2, dtype=bool), RESOURCES).measures()
    assert "cpu" not in measures.sigma
    assert set(measures.sigma) == set(RESOURCES) - {"cpu"}


def test_no_load_at_all_is_balanced() -> None:
    """An idle cluster has no deviation and no division by zero."""
    found = imbalance(four([0.0, 0.0]), four([1.0, 1.0]), np.ones(2, dtype=bool), RESOURCES)
    assert found.sigma == pytest.approx(0)
    assert found.worst_deviation == pytest.approx(0)


@given(
    arrays(float, 6, elements=st.floats(0.01, 1e3)),
    st.floats(0.01, 0.9),
)
def test_sigma_holds_whenever_every_deviation_does(load: np.ndarray, epsilon: float) -> None:
    """γ(j) <= ε for all j implies σ <= η (the reverse does not hold)."""
    found = imbalance(np.tile(load[:, None], (1, 4)), np.full((6, 4), 1e4), np.ones(6, dtype=bool), RESOURCES)
    if (found.deviation <= epsilon).all():
        assert (found.sigma <= sigma_threshold(epsilon, 6) * (1 + 1e-9)).all()
