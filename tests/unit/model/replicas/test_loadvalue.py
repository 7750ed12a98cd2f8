"""Which load a decision is based on."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.model.replicas.settings import load_value
from trimtab_common.errors import SettingsError

# Three windows of one broker: (cpu, disk, network in, network out).
WINDOWS = np.array([[[1.0, 10.0, 100.0, 1000.0]], [[2.0, 20.0, 200.0, 2000.0]], [[6.0, 30.0, 600.0, 6000.0]]])


def test_repaired_averages_the_resources_that_leaders_use_more() -> None:
    """CPU and network out are means over the windows; disk and network in are the latest window's."""
    np.testing.assert_array_equal(load_value(WINDOWS), [[3.0, 30.0, 600.0, 3000.0]])


def test_literal_follows_the_printed_step() -> None:
    """As printed, network in is averaged and network out is the latest: the slip is reproduced, on
    request.
    """
    np.testing.assert_array_equal(load_value(WINDOWS, "literal"), [[3.0, 30.0, 300.0, 6000.0]])


def test_missing_windows_are_passed_over() -> None:
    """A mean is over the windows that have a value; a latest value is the newest there is."""
    windows = WINDOWS.copy()
    windows[2] = np.nan
    np.testing.assert_array_equal(load_value(windows), [[1.5, 20.0, 200.0, 1500.0]])


def test_nothing_known_stays_unknown() -> None:
    """Without any window there is no value, and none is made up."""
    assert np.isnan(load_value(np.full((3, 2, 4), np.nan))).all()


def test_unknown_rule_names_the_known_ones() -> None:
    """A misspelt rule is a settings error, not silently the default."""
    with pytest.raises(SettingsError, match="repaired or literal"):
        load_value(WINDOWS, "median")
