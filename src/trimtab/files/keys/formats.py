"""Files of the balancer `keys`: recorded records, snapshots and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.recorded_rows import read_rows, require_finite, times
from trimtab.files.snapshot_format import small_format
from trimtab.model.keys import (
    RESOURCES,
    KeyedRecords,
    KeysPlan,
    KeysSnapshot,
    RoutingMoveKind,
)
from trimtab_common.errors import InputError
from trimtab_keys.core.routing import group_count

COLUMNS: Final = ("time", "key")


def read_records(path: Path) -> KeyedRecords:
    """The records of a file.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, a time is none, or no record has a key.
    """
    import pyarrow as pa

    table = read_rows(path, COLUMNS, "records", texts=("key",))
    at = times(path, table["time"])
    require_finite(path, table, "time", at, -np.inf, "a time")
    column = table["key"]
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    told = (column if binary else column.cast(pa.string())).to_pylist()
    keys: list[bytes | None] = [None if one is None else one if binary else one.encode() for one in told]
    if path.name.removesuffix(".gz").endswith(".csv"):
        keys = [one or None for one in keys]
    order = [one for one in np.argsort(at, kind="stable").tolist() if keys[one] is not None]
    if not order:
        raise InputError(f"{path}: no record has a key; name a recording of records with keys")
    place = {key: number for number, key in enumerate(sorted({one for one in keys if one is not None}))}
    which = np.array([place[keys[one] or b""] for one in order], dtype=np.int64)
    return KeyedRecords(at[order], which, tuple(place), len(keys) - len(order))


SNAPSHOT_FORMAT: Final = small_format(
    "trimtab/keys-snapshot/1", KeysSnapshot, {"partitions": "partitions", "keys": "hot keys"}
)


def _check(document: JsonDocument, plan: KeysPlan) -> None:
    """Refuse moves that are not what assignments say, and routes to what is not there."""
    found = {}
    for row, one in enumerate(plan.assignments):
        where = f"$.assignments[{row}]"
        if (one.kind, one.name) in found:
            raise second_assignment(document, where, f"{one.kind} {one.name}")
        found[one.kind, one.name] = one
        if one.kind is RoutingMoveKind.ADD:
            if one.after != (plan.partitions,) or len(one.before) != 1 or one.before > one.after:
                raise document.error(f"{where}.after", one.after, f"[{plan.partitions}], and not fewer")
            continue
        if not one.after or len(set(one.after)) < len(one.after) or max(one.after) >= plan.partitions:
            expected = f"different partitions, 0 to {plan.partitions - 1}"
            raise document.error(f"{where}.after", one.after, expected)
        if one.kind is RoutingMoveKind.GROUP:
            groups = group_count(max(1, plan.base))
            if not (one.name.isascii() and one.name.isdigit() and int(one.name) < groups):
                raise document.error(f"{where}.name", one.name, f"a key group, 0 to {groups - 1}")
            if len(one.after) > 1:
                raise document.error(f"{where}.after", one.after, "one partition: only keys are split")
    check_moves(
        document, plan, found, lambda move: ((move.kind, move.name), move.before, move.after), idle=False
    )
    counted = {
        "groups": sum(move.kind is RoutingMoveKind.GROUP for move in plan.moves),
        "keys": sum(move.kind is RoutingMoveKind.KEY for move in plan.moves),
        "partitions": sum(m.after[0] - m.before[0] for m in plan.moves if m.kind is RoutingMoveKind.ADD),
    }
    check_cost(document, plan.cost, counted)


PLAN_FORMAT: Final = PlanFormat("keys", KeysPlan, RESOURCES, _check)
