"""Columns of every table of the level `bundles`. What each column means: docs/pipeline.md."""

from __future__ import annotations

from typing import Final

from trimtab.model.bundles import TRAFFIC
from trimtab.observe.clean import RawForm, numbers
from trimtab.observe.raw_bundles import COLUMNS, KEYS, KINDS
from trimtab.observe.schemas import QUALITY, STATISTICS, Columns, imbalance_columns

_RAW_TYPES: Final = {"longs": "array<bigint>", "long": "bigint"}
_RAW: Final[Columns] = tuple((name, _RAW_TYPES.get(kind, kind)) for name, kind in COLUMNS)

PULSAR: Final = RawForm(
    columns=_RAW, keys=KEYS, kinds=KINDS, negative=numbers(_RAW, "bigint", "double"), minus_one=()
)
"""No figure of Pulsar's is ever below zero."""

_TRAFFIC_COLUMNS: Final[Columns] = tuple((name, "double") for name in TRAFFIC)
_CLUSTER_TICK: Final[Columns] = (("cluster", "string"), ("tick", "timestamp"))
_CLUSTER_WINDOW: Final[Columns] = (("cluster", "string"), ("window_end", "timestamp"))

BROKERS: Final[Columns] = (
    *_CLUSTER_TICK,
    ("broker", "string"),
    ("broker_state", "string"),
    ("is_leader", "boolean"),
    ("load_manager", "string"),
    ("usage_source", "string"),
    ("elapsed_us", "bigint"),
    ("cpu", "double"),
    ("bandwidth_in", "double"),
    ("bandwidth_out", "double"),
    ("message_rate", "double"),
    *_TRAFFIC_COLUMNS,
    ("cpu_capacity", "double"),
    ("bandwidth_in_capacity", "double"),
    ("bandwidth_out_capacity", "double"),
    ("message_rate_capacity", "double"),
    ("bundles", "bigint"),
    ("weighted_max_ema", "double"),
    ("flags", "int"),
)

BUNDLES: Final[Columns] = (
    *_CLUSTER_TICK,
    ("bundle", "string"),
    ("owner", "string"),
    ("claims", "int"),
    ("told", "boolean"),
    ("elapsed_us", "bigint"),
    *_TRAFFIC_COLUMNS,
    ("topics", "bigint"),
    ("sessions", "bigint"),
    ("flags", "int"),
)

DEPARTURES: Final[Columns] = (
    *_CLUSTER_TICK,
    ("bundle", "string"),
    ("broker", "string"),
    ("target", "string"),
    ("last_seen", "timestamp"),
)

TIME_AVERAGE: Final = "struct<samples:int,means:array<double>>"
"""Means in the order of `TRAFFIC`."""

AVERAGES: Final[Columns] = (
    *_CLUSTER_TICK,
    ("kind", "string"),
    ("name", "string"),
    ("topics", "bigint"),
    ("short", TIME_AVERAGE),
    ("long", TIME_AVERAGE),
    ("usage", "double"),
    ("usage_ema", "double"),
)

WINDOWS: Final[Columns] = (
    *_CLUSTER_WINDOW,
    ("kind", "string"),
    ("broker", "string"),
    ("bundle", "string"),
    ("topic", "string"),
    ("cpu", STATISTICS),
    ("bandwidth_in", STATISTICS),
    ("bandwidth_out", STATISTICS),
    ("message_rate", STATISTICS),
    *_TRAFFIC_COLUMNS,
    ("topics", "bigint"),
    ("sessions", "bigint"),
    ("samples", "int"),
    ("valid_share", "double"),
    ("extrapolated", "boolean"),
)

CPU_MODEL: Final[Columns] = (
    *_CLUSTER_WINDOW,
    ("method", "string"),
    *_TRAFFIC_COLUMNS,
    ("idle_cores", "double"),
    ("r2", "double"),
    ("rows", "int"),
    ("base", "array<struct<broker:string,cores:double>>"),
)

LOAD: Final = "struct<cpu:double,bandwidth_in:double,bandwidth_out:double,message_rate:double>"
"""Fields in the order of `trimtab.model.bundles_snapshot.RESOURCES`."""

ATTRIBUTED: Final[Columns] = (
    *_CLUSTER_WINDOW,
    ("kind", "string"),
    ("bundle", "string"),
    ("topic", "string"),
    ("broker", "string"),
    ("load", LOAD),
    ("topics", "bigint"),
    ("sessions", "bigint"),
    ("cpu_method", "string"),
    ("valid_share", "double"),
    ("extrapolated", "boolean"),
)

HOURS: Final[Columns] = (
    *_CLUSTER_WINDOW,
    ("bundle", "string"),
    ("load", LOAD),
    ("windows", "int"),
)

FORECASTS: Final[Columns] = (
    *_CLUSTER_WINDOW,
    ("bundle", "string"),
    ("target", "timestamp"),
    ("load", LOAD),
    ("level", LOAD),
    ("trend", LOAD),
    ("hour_of_week", LOAD),
    ("windows", "int"),
    ("weeks", "int"),
)

FORECAST_ERRORS: Final[Columns] = (
    *_CLUSTER_WINDOW,
    ("bundle", "string"),
    ("made", "timestamp"),
    ("actual", LOAD),
    ("error", LOAD),
    ("error_of_latest", LOAD),
)

IMBALANCE: Final[Columns] = (*imbalance_columns("string"), ("usage_source", "string"))

TABLES: Final[dict[str, Columns]] = {
    "cleaned": PULSAR.cleaned,
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
