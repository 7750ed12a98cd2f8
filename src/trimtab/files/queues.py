"""Files of the balancer `queues`: recorded arrivals, snapshots and plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.recorded_rows import numbers, read_rows, require_finite, times
from trimtab.files.snapshot_format import small_format
from trimtab.model.queues import RESOURCES, Arrivals, PublicationKind, QueuesPlan, QueuesSnapshot
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


COLUMNS: Final = ("time", "class", "seconds")


def read_arrivals(path: Path) -> Arrivals:
    """The arrivals of a file.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, or a row holds no sound value.
    """
    import pyarrow as pa

    table = read_rows(path, COLUMNS, "messages")
    at, seconds = times(path, table["time"]), numbers(path, "seconds", table["seconds"])
    require_finite(path, table, "time", at, -np.inf, "a time")
    require_finite(path, table, "seconds", seconds, 0.0, "a number of seconds, 0 or more")
    if table["class"].null_count:
        row = table["class"].is_null().index(True).as_py()
        raise InputError(f"{path}: row {row}: class is missing, expected a name; correct it there")
    order = np.argsort(at, kind="stable")
    classes, of_class = named_places(table["class"].cast(pa.string()))
    keys: tuple[str | None, ...] = ()
    if "key" in table.column_names:
        told = table["key"].cast(pa.string()).to_pylist()
        keys = tuple(told[one] or None for one in order.tolist())
    return Arrivals(
        at[order],
        classes,
        of_class[order],
        seconds[order],
        keys if any(keys) else (),
    )


def named_places(column: Any) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The different texts of a column in the order of the alphabet, and the place of each row's in them."""
    coded = column.combine_chunks().dictionary_encode()
    texts = coded.dictionary.to_pylist()
    place = {text: number for number, text in enumerate(sorted(texts))}
    return tuple(place), np.array([place[text] for text in texts], dtype=np.int64)[np.asarray(coded.indices)]


SNAPSHOT_FORMAT: Final = small_format(
    "trimtab/queues-snapshot/1", QueuesSnapshot, {"queues": "queues", "classes": "classes"}
)


def _check(document: JsonDocument, plan: QueuesPlan) -> None:
    """Refuse moves that are not what assignments say, and weights that are none."""
    found = {}
    for row, one in enumerate(plan.assignments):
        if (one.kind, one.name) in found:
            raise second_assignment(document, f"$.assignments[{row}]", f"{one.kind} {one.name}")
        found[one.kind, one.name] = one
        if one.kind is PublicationKind.WEIGHT and not (
            isinstance(one.after, float | int) and 0 < one.after <= 1e6
        ):
            expected = "seconds above 0 and at most 1e6"
            raise document.error(f"$.assignments[{row}].after", one.after, expected)
    check_moves(document, plan, found, lambda move: ((move.kind, move.name), move.before, move.after))
    kinds = [move.kind for move in plan.moves]
    counted = {
        "weights": kinds.count(PublicationKind.WEIGHT),
        "settings": kinds.count(PublicationKind.SETTING),
    }
    check_cost(document, plan.cost, counted)


PLAN_FORMAT: Final = PlanFormat("queues", QueuesPlan, RESOURCES, _check)
