"""Columns of every table of the balancer `bundles`. The meaning of each column: docs/pipeline.md."""

from __future__ import annotations

from typing import Final

from trimtab.model.bundles.reports import TRAFFIC
from trimtab.observe.bundles.raw import FORM
from trimtab.observe.columns import QUALITY, STATISTICS, Columns, columns, imbalance_columns

_TRAFFIC: Final = ", ".join(f"{name} double" for name in TRAFFIC)

BROKERS: Final[Columns] = columns(
    "cluster string, tick timestamp, broker string, broker_state string, is_leader boolean, "
    "load_manager string, usage_source string, elapsed_us bigint, cpu double, bandwidth_in double, "
    f"bandwidth_out double, message_rate double, {_TRAFFIC}, cpu_capacity double, "
    "bandwidth_in_capacity double, bandwidth_out_capacity double, message_rate_capacity double, "
    "bundles bigint, weighted_max_ema double, flags int"
)

BUNDLES: Final[Columns] = columns(
    "cluster string, tick timestamp, bundle string, owner string, claims int, is_known boolean, "
    f"elapsed_us bigint, {_TRAFFIC}, topics bigint, sessions bigint, flags int"
)

DEPARTURES: Final[Columns] = columns(
    "cluster string, tick timestamp, bundle string, broker string, target string, last_observed timestamp"
)

TIME_AVERAGE: Final = "struct<samples:int,means:array<double>>"
"""Means in the order of `TRAFFIC`."""

AVERAGES: Final[Columns] = columns(
    f"cluster string, tick timestamp, kind string, name string, topics bigint, short {TIME_AVERAGE}, "
    f"long {TIME_AVERAGE}, usage double, usage_ema double"
)

WINDOWS: Final[Columns] = columns(
    "cluster string, window_end timestamp, kind string, broker string, bundle string, topic string, "
    f"cpu {STATISTICS}, bandwidth_in {STATISTICS}, bandwidth_out {STATISTICS}, "
    f"message_rate {STATISTICS}, {_TRAFFIC}, topics bigint, sessions bigint, samples int, "
    "valid_share double, extrapolated boolean"
)

CPU_MODEL: Final[Columns] = columns(
    f"cluster string, window_end timestamp, method string, {_TRAFFIC}, idle_cores double, r2 double, "
    "rows int, base array<struct<broker:string,cores:double>>"
)

LOAD: Final = "struct<cpu:double,bandwidth_in:double,bandwidth_out:double,message_rate:double>"
"""Fields in the order of `trimtab.model.bundles.snapshot.RESOURCES`."""

ATTRIBUTED: Final[Columns] = columns(
    "cluster string, window_end timestamp, kind string, bundle string, topic string, broker string, "
    f"load {LOAD}, topics bigint, sessions bigint, cpu_method string, valid_share double, "
    "extrapolated boolean"
)

HOURS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, bundle string, load {LOAD}, windows int"
)

FORECASTS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, bundle string, target timestamp, load {LOAD}, intercept {LOAD}, "
    f"trend {LOAD}, hour_of_week {LOAD}, windows int, weeks int"
)

FORECAST_ERRORS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, bundle string, made timestamp, actual {LOAD}, "
    f"error {LOAD}, error_of_latest {LOAD}"
)

IMBALANCE: Final[Columns] = (*imbalance_columns("string"), ("usage_source", "string"))

TABLES: Final[dict[str, Columns]] = {
    "cleaned": FORM.cleaned,
    "brokers": BROKERS,
    "bundles": BUNDLES,
    "departures": DEPARTURES,
    "averages": AVERAGES,
    "windows": WINDOWS,
    "cpu_model": CPU_MODEL,
    "attributed": ATTRIBUTED,
    "hours": HOURS,
    "forecasts": FORECASTS,
    "forecast_errors": FORECAST_ERRORS,
    "imbalance": IMBALANCE,
    "quality": QUALITY,
}
