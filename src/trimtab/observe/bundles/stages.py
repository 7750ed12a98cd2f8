"""Transformations of the level `bundles`, from cleaned samples to the tables that snapshots are made of."""

from __future__ import annotations

from typing import Final

from trimtab.observe.bundles.averages import averages
from trimtab.observe.bundles.evenness import imbalance, quality
from trimtab.observe.bundles.forecasts import HOUR, forecast_errors, forecasts, hour_reach, hours
from trimtab.observe.bundles.loads import attributed, cpu_model
from trimtab.observe.bundles.reports import brokers, bundles, departures
from trimtab.observe.bundles.windows import windows
from trimtab.observe.level_pipeline import Stage, here

STAGES: Final = (
    Stage("brokers", {"cleaned": lambda s: s.gap}, lambda t, s: brokers(t["cleaned"], s)),
    Stage("bundles", {"cleaned": lambda s: s.gap}, lambda t, s: bundles(t["cleaned"], s)),
    Stage(
        "averages",
        {"cleaned": here},
        lambda t, s: averages(t["cleaned"], t["averages"], s),
        carries=True,
    ),
    Stage("departures", {"bundles": lambda s: s.departure}, lambda t, s: departures(t["bundles"], s)),
    Stage("imbalance", {"brokers": here}, lambda t, s: imbalance(t["brokers"], s)),
    Stage(
        "windows",
        {name: lambda s: s.window for name in ("cleaned", "brokers", "bundles")},
        lambda t, s: windows(t["cleaned"], t["brokers"], t["bundles"], s),
    ),
    Stage(
        "cpu_model", {"windows": lambda s: s.fit_windows * s.slide}, lambda t, s: cpu_model(t["windows"], s)
    ),
    Stage(
        "attributed",
        {"windows": here, "cpu_model": here},
        lambda t, s: attributed(t["windows"], t["cpu_model"]),
    ),
    Stage("hours", {"attributed": lambda _: HOUR}, lambda t, _: hours(t["attributed"])),
    Stage(
        "forecasts",
        {"attributed": lambda s: s.trend_windows * s.slide, "hours": hour_reach},
        lambda t, s: forecasts(t["attributed"], t["hours"], s),
    ),
    Stage(
        "forecast_errors",
        {
            "forecasts": lambda s: ((s.horizon, s.horizon),),
            "attributed": lambda s: ((0, 0), (s.horizon, s.horizon)),
        },
        lambda t, s: forecast_errors(t["forecasts"], t["attributed"], s),
    ),
    Stage(
        "quality",
        {"cleaned": here, "brokers": here, "bundles": here},
        lambda t, s: quality(t["cleaned"], t["brokers"], t["bundles"]),
    ),
)
