"""Whether two engines made the same tables, to the last whole number and nearly the last bit of a
fraction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow

# Sums of doubles are ordered in Spark alone; the others may differ in the last bits.
TOLERANCE = 1e-9
KEYS = {
    "traffic": ("cluster", "tick", "topic", "partition"),
    "windows": ("cluster", "window_end", "kind", "broker", "topic", "partition"),
    "imbalance": ("cluster", "tick", "resource"),
}
FIGURES = {
    "traffic": (
        "leader",
        "elapsed_us",
        "size_bytes",
        "log_bytes",
        "bytes_in",
        "bytes_out",
        "bytes_per_record",
        "flags",
    ),
    "windows": (
        "leader_in",
        "follower_in",
        "requests",
        "samples",
        "valid_share",
        "cpu",
        "disk",
        "network_in",
        "network_out",
    ),
    "imbalance": ("brokers", "mean", "sigma", "worst_deviation", "peak_usage"),
}


def difference(one: dict[str, pyarrow.Table], other: dict[str, pyarrow.Table]) -> str | None:
    """The first difference between two sets of tables, or None where they hold the same."""
    for table, keys in KEYS.items():
        rows = [by_key(tables[table], keys) for tables in (one, other)]
        if rows[0].keys() != rows[1].keys():
            return f"{table}: {len(rows[0])} and {len(rows[1])} rows"
        for key, row in rows[0].items():
            for name in FIGURES[table]:
                first, second = figures(row[name]), figures(rows[1][key][name])
                if len(first) != len(second) or not np.allclose(
                    first, second, rtol=TOLERANCE, atol=1e-12, equal_nan=True
                ):
                    return f"{table} {key} {name}: {row[name]} and {rows[1][key][name]}"
    return None


def by_key(table: pyarrow.Table, keys: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of a table by their key; instants as whole seconds of the epoch."""
    columns = {*keys, *FIGURES[_name(keys)]}
    rows = table.select(sorted(columns)).to_pylist()
    return {
        tuple(row[key].timestamp() if hasattr(row[key], "timestamp") else row[key] for key in keys): row
        for row in rows
    }


def figures(value: Any) -> list[float]:
    """A value as numbers: absent is NaN, statistics are mean, latest, p50, p95, p99, max."""
    if value is None:
        return [float("nan")]
    if isinstance(value, dict):
        if value.get("mean") is None:
            return [float("nan")]
        middle = value["q"] if "q" in value else [value["p50"], value["p95"], value["p99"]]
        return [value["mean"], value["latest"], *middle, value["max"]]
    return [float(value)]


def _name(keys: tuple[str, ...]) -> str:
    return next(name for name, those in KEYS.items() if those == keys)
