"""The error of a cluster's forecasts, lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.lake import instant

if TYPE_CHECKING:
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest


def forecast_error(
    lake: Lake, manifest: Manifest, settings: BundlesPipelineSettings, cluster: str, end: int
) -> dict[str, dict[str, float]]:
    """Σ|forecast − actual| / Σ actual over bundles and the last `trend_windows` windows, by resource.

    Parameters
    ----------
    lake, manifest, settings
        The tables, and over how many windows.
    cluster, end
        Which one; the end of the newest window, microseconds.

    Returns
    -------
    dict
        `forecast`, and `latest`: what the load at the time of the forecast would have been off. Resources
        that nobody carried are left out; empty where no forecast's time has come.
    """
    rows = lake.table(
        "forecast_errors",
        ["actual", "error", "error_of_latest"],
        since=instant(end - (settings.trend_windows - 1) * settings.slide),
        until=instant(end + 1),
        where=pc.field("cluster") == cluster,
        manifest=manifest,
    )
    found: dict[str, dict[str, float]] = {}
    if not rows.num_rows:
        return found
    for name in RESOURCES:
        actual, error, latest = (
            pc.struct_field(rows[column].combine_chunks(), name)
            .to_numpy(zero_copy_only=False)
            .astype(np.float64)
            for column in ("actual", "error", "error_of_latest")
        )
        total = np.nansum(actual)
        if total > 0:
            found.setdefault("forecast", {})[name] = float(np.nansum(np.abs(error)) / total)
            found.setdefault("latest", {})[name] = float(np.nansum(np.abs(latest)) / total)
    return found
