"""Settings that cannot be are refused, whatever they would add up to."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from trimtab_common.errors import SettingsError
from trimtab_store.core.settings import StoreSettings, TransferScheme

ABOVE_ZERO = "a finite number above 0"
ZERO_TOO = "a finite number, 0 or more"
SHARE = "a share, 0 or more and below 1"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lease_seconds": nan}, f"lease_seconds is nan, expected {ABOVE_ZERO}"),
        ({"lease_seconds": inf}, f"lease_seconds is inf, expected {ABOVE_ZERO}"),
        ({"lease_seconds": -1.0}, f"lease_seconds is -1, expected {ABOVE_ZERO}"),
        ({"renewal_seconds": 0.0}, f"renewal_seconds is 0, expected {ABOVE_ZERO}"),
        ({"renewal_seconds": -1.0}, f"renewal_seconds is -1, expected {ABOVE_ZERO}"),
        ({"failover_seconds": 0.0}, f"failover_seconds is 0, expected {ABOVE_ZERO}"),
        ({"failover_seconds": -3.0}, f"failover_seconds is -3, expected {ABOVE_ZERO}"),
        ({"propose_seconds": 0.0}, f"propose_seconds is 0, expected {ABOVE_ZERO}"),
        ({"retry_seconds": 0.0}, f"retry_seconds is 0, expected {ABOVE_ZERO}"),
        ({"cycle_seconds": inf}, f"cycle_seconds is inf, expected {ABOVE_ZERO}"),
        ({"sync_seconds": 0.0}, f"sync_seconds is 0, expected {ABOVE_ZERO}"),
        ({"upload_seconds": -1.0}, f"upload_seconds is -1, expected {ZERO_TOO}"),
        ({"backoff_seconds": nan}, f"backoff_seconds is nan, expected {ZERO_TOO}"),
        ({"batch_seconds": -0.1}, f"batch_seconds is -0.1, expected {ZERO_TOO}"),
        ({"max_lag_entries": -1}, f"max_lag_entries is -1, expected {ZERO_TOO}"),
        ({"drift": -1.0, "margin": -0.4}, f"drift is -1, expected {SHARE}"),
        ({"drift": nan}, f"drift is nan, expected {SHARE}"),
        ({"drift": 0.0, "margin": -0.4}, f"margin is -0.4, expected {SHARE}"),
        ({"margin": 2.0}, f"margin is 2, expected {SHARE}"),
        ({"margin": 1.0}, f"margin is 1, expected {SHARE}"),
        ({"batch_bytes": 0}, "batch_bytes is 0, expected a whole number, 1 or more"),
        ({"window": 0}, "window is 0, expected a whole number, 1 or more"),
        ({"snapshot_entries": 1}, "snapshot_entries is 1, expected a whole number, 2 or more"),
        ({"keep_bytes": 0}, "keep_bytes is 0, expected a whole number, 1 or more"),
    ],
)
def test_a_value_out_of_range_is_refused(changes: dict[str, float], told: str) -> None:
    """Alone, even where the sums of the protocol would come out right with it."""
    with pytest.raises(SettingsError, match=f"^masters.{told}: correct it$"):
        StoreSettings(**changes)  # type: ignore[arg-type]


def test_settings_that_decide_mastership_and_retention_must_be_equal_on_all_nodes() -> None:
    """Terms, clocks, schemes and how much is kept; how often one asks again is each node's own business."""
    settings = StoreSettings()
    assert settings.shared == {
        "lease_seconds": 10.0, "drift": 0.005, "margin": 0.02, "cycle_seconds": 20.0,
        "scheme": TransferScheme.EXPIRE, "keep_bytes": 16 << 20,
    }  # fmt: skip
    assert replace(settings, retry_seconds=0.1, batch_bytes=1, window=2).shared == settings.shared
