"""What a byte costs in cores, found from what brokers carry."""

from __future__ import annotations

import numpy as np

from trimtab.observe.bundles.stages import by_messages
from trimtab.observe.replicas.pipeline import FIXED_SHARES
from trimtab.observe.steps.cpu_fit import base_cores, by_fixed_shares, fit_cpu

SHARES = by_fixed_shares(FIXED_SHARES)
COST = np.array([5e-8, 1e-8, 4e-9])


def carried(rows: int, seed: int = 1) -> np.ndarray:
    """Bytes per second of each cause on `rows` brokers."""
    return np.random.default_rng(seed).uniform(1e5, 5e6, (rows, 3))


def test_costs_and_idle_cores_come_back_from_noisy_brokers() -> None:
    """Two hundred rows with 2 % noise yield the costs of leading and reading within a few per cent."""
    load = carried(200)
    noise = np.random.default_rng(2).normal(1.0, 0.02, 200)
    fit = fit_cpu((0.04 + load @ COST) * noise, load, SHARES)
    assert fit.method == "measured"
    np.testing.assert_allclose(fit.cost[:2], COST[:2], rtol=0.1)
    np.testing.assert_allclose(fit.idle_cores, 0.04, atol=0.01)
    assert fit.r2 > 0.98


def test_no_cost_is_ever_negative() -> None:
    """If plain least squares would give followers a negative cost, the fit gives them zero."""
    rng = np.random.default_rng(4)
    load = carried(40)
    cores = 0.03 + load[:, 0] * 4e-8 - load[:, 2] * 1e-9 + rng.normal(0, 1e-3, 40)
    fit = fit_cpu(cores, load, SHARES)
    assert (fit.cost >= 0).all()
    assert fit.idle_cores >= 0
    assert fit.cost[2] == 0


def test_fit_is_the_best_non_negative_one() -> None:
    """No point of a fine grid around it explains the same rows better."""
    rng = np.random.default_rng(9)
    load = carried(30)
    cores = 0.02 + load @ np.array([3e-8, 0.0, 2e-9]) + rng.normal(0, 5e-3, 30)
    fit = fit_cpu(cores, load, SHARES)

    def error(cost: np.ndarray, idle: float) -> float:
        return float(((cores - idle - load @ cost) ** 2).sum())

    best = error(fit.cost, fit.idle_cores)
    for _ in range(2000):
        cost = np.maximum(0.0, fit.cost + rng.normal(0, 3e-9, 3))
        assert error(cost, max(0.0, fit.idle_cores + rng.normal(0, 3e-3))) >= best - 1e-12


def test_too_few_rows_fall_back_to_fixed_shares_of_the_whole_cpu() -> None:
    """Six brokers in one window cannot carry a fit of four unknowns; the CPU is then split, all of it."""
    load = carried(6)
    cores = 0.04 + load @ COST
    fit = fit_cpu(cores, load, SHARES)
    assert fit.method == "shares"
    np.testing.assert_allclose(fit.cost * load.sum(axis=0), np.array(FIXED_SHARES) * cores.sum())
    assert base_cores(fit, cores, load) == 0.0


def test_a_fit_that_explains_nothing_is_not_used() -> None:
    """CPU that does not follow the load: costs near zero would claim that moves change nothing."""
    rng = np.random.default_rng(5)
    load = 1e6 * (1 + 0.002 * rng.normal(size=(60, 3)))
    cores = 0.256 * (1 + 0.01 * rng.normal(size=60))
    fit = fit_cpu(cores, load, SHARES)
    assert fit.method == "shares"
    np.testing.assert_allclose((load @ fit.cost).mean(), cores.mean())


def test_share_of_an_absent_cause_is_assigned_to_the_others() -> None:
    """Without consumers the CPU is what producing and replicating cost."""
    load = carried(3)
    load[:, 1] = 0.0
    fit = fit_cpu(np.full(3, 0.5), load, SHARES)
    np.testing.assert_allclose(
        fit.cost[[0, 2]] * load.sum(axis=0)[[0, 2]], [1.5 * 0.7 / 0.85, 1.5 * 0.15 / 0.85]
    )
    assert fit.cost[1] == 0.0


def test_idle_cluster_costs_nothing() -> None:
    """No traffic at all: no cost is invented, and nothing divides by zero."""
    fit = fit_cpu(np.full(30, 0.02), np.zeros((30, 3)), SHARES)
    assert (fit.cost == 0).all()


def test_broker_with_work_of_its_own_has_a_base_of_its_own() -> None:
    """A broker that is also the controller takes more than its load explains: that part is its base."""
    load = carried(60)
    cores = 0.03 + load @ COST
    broker = np.arange(60) % 6
    cores[broker == 2] += 0.05
    fit = fit_cpu(cores, load, SHARES)
    bases = [base_cores(fit, cores[broker == one], load[broker == one]) for one in range(6)]
    assert np.argmax(bases) == 2
    for one in range(6):
        its = broker == one
        np.testing.assert_allclose(bases[one] + (load[its] @ fit.cost).mean(), cores[its].mean())


def test_rows_with_gaps_are_left_out() -> None:
    """A window with a broker without CPU does not spoil the fit."""
    load = carried(50)
    cores = 0.01 + load @ COST
    cores[7] = np.nan
    load[9, 1] = np.nan
    fit = fit_cpu(cores, load, SHARES)
    assert fit.rows == 48
    np.testing.assert_allclose(fit.cost, COST, rtol=1e-6)


def test_four_causes_and_shares_of_ones_own() -> None:
    """Pulsar's brokers: messages and bytes, each way; with too few rows every message costs the same."""
    load = np.random.default_rng(1).uniform(1e2, 1e4, (60, 4))
    cost = np.array([2e-8, 1e-8, 2e-4, 1e-4])
    fit = fit_cpu(0.3 + load @ cost, load, SHARES)
    np.testing.assert_allclose(fit.cost[2:], cost[2:], rtol=1e-3)
    np.testing.assert_allclose(fit.idle_cores, 0.3, rtol=1e-3)
    few = fit_cpu(load[:3] @ cost, load[:3], by_messages)
    assert few.method == "shares"
    assert few.cost[:2].tolist() == [0.0, 0.0]
    assert few.cost[2] == few.cost[3]
    np.testing.assert_allclose((load[:3] @ few.cost).sum(), (load[:3] @ cost).sum())
