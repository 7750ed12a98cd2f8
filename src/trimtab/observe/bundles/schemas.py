"""Columns of every table of the level `bundles`. The meaning of each column: docs/pipeline.md."""

from __future__ import annotations

from typing import Final

from trimtab.model.bundles.reports import TRAFFIC
from trimtab.observe.collect.pulsar.raw import FORM
from trimtab.observe.columns import QUALITY, STATISTICS, Columns, columns, imbalance_columns

_TRAFFIC_COLUMNS: Final[Columns] = tuple((name, "double") for name in TRAFFIC)
_CLUSTER_TICK: Final[Columns] = (("cluster", "string"), ("tick", "timestamp"))
_CLUSTER_WINDOW: Final[Columns] = (("cluster", "string"), ("window_end", "timestamp"))

BROKERS: Final[Columns] = (
    _CLUSTER_TICK
    + columns(
        "broker string, broker_state string, is_leader boolean, load_manager string, usage_source string, "
        "elapsed_us bigint, cpu double, bandwidth_in double, bandwidth_out double, message_rate double"
    )
    + _TRAFFIC_COLUMNS
    + columns(
        "cpu_capacity double, bandwidth_in_capacity double, bandwidth_out_capacity double, "
        "message_rate_capacity double, bundles bigint, weighted_max_ema double, flags int"
    )
)

BUNDLES: Final[Columns] = (
    _CLUSTER_TICK
    + columns("bundle string, owner string, claims int, told boolean, elapsed_us bigint")
    + _TRAFFIC_COLUMNS
    + columns("topics bigint, sessions bigint, flags int")
)

DEPARTURES: Final[Columns] = _CLUSTER_TICK + columns(
    "bundle string, broker string, target string, last_seen timestamp"
)

TIME_AVERAGE: Final = "struct<samples:int,means:array<double>>"
"""Means in the order of `TRAFFIC`."""

AVERAGES: Final[Columns] = _CLUSTER_TICK + columns(
    f"kind string, name string, topics bigint, short {TIME_AVERAGE}, long {TIME_AVERAGE}, usage double, "
    "usage_ema double"
)

WINDOWS: Final[Columns] = (
    _CLUSTER_WINDOW
    + columns(
        f"kind string, broker string, bundle string, topic string, cpu {STATISTICS}, "
        f"bandwidth_in {STATISTICS}, bandwidth_out {STATISTICS}, message_rate {STATISTICS}"
    )
    + _TRAFFIC_COLUMNS
    + columns("topics bigint, sessions bigint, samples int, valid_share double, extrapolated boolean")
)

CPU_MODEL: Final[Columns] = (
    _CLUSTER_WINDOW
    + columns("method string")
    + _TRAFFIC_COLUMNS
    + columns("idle_cores double, r2 double, rows int, base array<struct<broker:string,cores:double>>")
)

LOAD: Final = "struct<cpu:double,bandwidth_in:double,bandwidth_out:double,message_rate:double>"
"""Fields in the order of `trimtab.model.bundles.snapshot.RESOURCES`."""

ATTRIBUTED: Final[Columns] = _CLUSTER_WINDOW + columns(
    f"kind string, bundle string, topic string, broker string, load {LOAD}, topics bigint, "
    "sessions bigint, cpu_method string, valid_share double, extrapolated boolean"
)

HOURS: Final[Columns] = _CLUSTER_WINDOW + columns(f"bundle string, load {LOAD}, windows int")

FORECASTS: Final[Columns] = _CLUSTER_WINDOW + columns(
    f"bundle string, target timestamp, load {LOAD}, level {LOAD}, trend {LOAD}, hour_of_week {LOAD}, "
    "windows int, weeks int"
)

FORECAST_ERRORS: Final[Columns] = _CLUSTER_WINDOW + columns(
    f"bundle string, made timestamp, actual {LOAD}, error {LOAD}, error_of_latest {LOAD}"
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
