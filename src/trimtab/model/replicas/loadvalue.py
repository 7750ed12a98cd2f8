"""The value of B(j): which load a decision is based on, from the loads of the recent windows.

Source: Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services".
Its section 2 and table 1 group CPU with network out (a leader costs more than a follower) and disk with
network in (both roles cost the same); step 2 of its procedure prints network in and out the other way
round. `repaired` follows section 2, `literal` the print.
"""

from typing import Final

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.model.replicas.resources import CPU, DISK, NETWORK_IN, NETWORK_OUT
from trimtab_common.errors import SettingsError

AVERAGED: Final = {"repaired": (CPU, NETWORK_OUT), "literal": (CPU, NETWORK_IN)}
"""Resources whose value is the mean over the windows; the others' is the latest window's."""

LATEST: Final = {"repaired": (DISK, NETWORK_IN), "literal": (DISK, NETWORK_OUT)}


def load_value(windows: FloatArray, rule: str = "repaired") -> FloatArray:
    """One load per holder and resource from the loads of the recent windows.

    Parameters
    ----------
    windows
        Shape (windows, ..., resources), oldest window first, in `UNITS`; NaN where a window has no value.
    rule
        `repaired` or `literal`.

    Returns
    -------
    FloatArray
        Shape (..., resources): the mean over the windows that have a value, or the newest value; NaN where
        no window has one.

    Raises
    ------
    SettingsError
        If the rule is unknown.
    """
    if rule not in AVERAGED:
        raise SettingsError(f"load value {rule!r} is unknown: give {' or '.join(AVERAGED)}")
    value = np.full(windows.shape[1:], np.nan)
    for resource in AVERAGED[rule]:
        loads = windows[..., resource]
        known = np.isfinite(loads)
        count = known.sum(axis=0)
        # One addition after the other, oldest first: numpy's own sum regroups by shape, and then two
        # readers of the same windows would differ in the last bit.
        total = np.zeros(loads.shape[1:])
        for row, there in zip(loads, known, strict=True):
            total = total + np.where(there, row, 0.0)
        value[..., resource] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    for resource in LATEST[rule]:
        for row in windows[..., resource]:
            value[..., resource] = np.where(np.isfinite(row), row, value[..., resource])
    return value
