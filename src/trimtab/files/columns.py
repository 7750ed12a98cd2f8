"""Tables of snapshots as columns: arrays of what a record declares, from records and back to records."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from trimtab.model.load import FloatArray

LongArray = NDArray[np.int64]
Columns = Mapping[str, Any]
"""By field: `TextColumn`, an array of whole numbers or flags, loads of shape (rows, resources), or
`ListColumn`.
"""

LEFT_OUT = -1
"""Stands in `ListColumn.count` for a list that the file leaves out, and in numbers and codes for null."""


class TextColumn:
    """A column of texts, kept as it came: as the texts, or as distinct ones and the index of each.

    Parameters
    ----------
    values
        The texts, None for null.
    coded
        Instead: the distinct texts, ascending, and the index of each row's, `LEFT_OUT` for null.
    """

    def __init__(
        self,
        values: Sequence[str | None] | None = None,
        coded: tuple[tuple[str, ...], LongArray] | None = None,
    ) -> None:
        self.is_coded = coded is not None
        if values is not None:
            self.values = list(values)
        if coded is not None:
            self.coded = coded

    @cached_property
    def values(self) -> list[str | None]:
        """The texts, None for null."""
        words = (*self.coded[0], None)
        return [words[code] for code in self.coded[1].tolist()]

    @cached_property
    def coded(self) -> tuple[tuple[str, ...], LongArray]:
        """Distinct texts, ascending, and the index of each row's."""
        words = tuple(sorted({word for word in set(self.values) if word is not None}))
        code: dict[str | None, int] = {word: index for index, word in enumerate(words)}
        code[None] = LEFT_OUT
        return words, longs(map(code.__getitem__, self.values), len(self.values))


@dataclass(frozen=True, eq=False)
class ListColumn:
    """One list a row, end to end.

    Attributes
    ----------
    count
        Shape (rows,): length of each list, `LEFT_OUT` where the file has none.
    values
        The column of all elements, in file order.
    """

    count: LongArray
    values: Any

    @property
    def row(self) -> LongArray:
        """The row of each value."""
        return np.asarray(np.repeat(np.arange(len(self.count)), np.maximum(self.count, 0)))

    @property
    def column(self) -> LongArray:
        """The position of each value in its list."""
        count = np.maximum(self.count, 0)
        total = int(count.sum())
        return np.asarray(np.arange(total) - np.repeat(np.cumsum(count) - count, count))


@dataclass(frozen=True)
class ColumnField:
    """A field of a record as a column.

    Attributes
    ----------
    kind
        `text`, `number`, `flag` or `load`; of its elements, if `listed`.
    null, optional
        Whether a value (or an element) may be null, and whether the file may leave the column out.
    record
        The struct of a load, its fields the resources.
    """

    name: str
    kind: str
    listed: bool
    null: bool
    optional: bool
    record: Any = None

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of a load's parts."""
        return tuple(self.record.__struct_fields__)


_KINDS = {"StrType": "text", "IntType": "number", "BoolType": "flag", "StructType": "load"}


def fields_of(record: Any) -> list[ColumnField]:
    """The columns that a record declares."""
    found = []
    for field in msgspec.inspect.type_info(record).fields:  # type: ignore[attr-defined]
        kinds = members(field.type)
        listed = "ListType" in kinds
        if listed:
            kinds = members(kinds["ListType"].item_type)
        (name,) = _KINDS.keys() & kinds.keys()
        load = getattr(kinds[name], "cls", None)
        found.append(
            ColumnField(field.name, _KINDS[name], listed, "NoneType" in kinds, not field.required, load)
        )
    return found


def columns_from(records: Sequence[Any], record: Any) -> Columns:
    """The columns of records, whose types msgspec has checked."""
    columns: dict[str, Any] = {}
    for field in fields_of(record):
        values = list(map(attrgetter(field.name), records))
        if field.listed:
            count = longs((LEFT_OUT if one is UNSET else len(one) for one in values), len(values))
            elements = list(chain.from_iterable(one for one in values if one is not UNSET))
            columns[field.name] = ListColumn(count, _column(field, elements))
        else:
            columns[field.name] = _column(field, values)
    return columns


def records_from(columns: Columns, record: Any) -> list[Any]:
    """Records from columns; the inverse of `columns_from`."""
    fields = fields_of(record)
    rows = zip(*(_values(field, columns[field.name]) for field in fields), strict=True)
    if not any(field.optional for field in fields):  # others take their fields by name
        return [record(*row) for row in rows]
    names = [field.name for field in fields]
    return [record(**dict(zip(names, row, strict=True))) for row in rows]


def members(kind: Any) -> dict[str, Any]:
    """The types that a value may have, by the name that msgspec gives to each sort of types."""
    parts = (getattr(one, "type", one) for one in getattr(kind, "types", (kind,)))  # without further metadata
    return {type(one).__name__: one for one in parts}


def longs(values: Iterable[int], count: int = -1) -> LongArray:
    """Whole numbers as an array."""
    return np.fromiter(values, dtype=np.int64, count=count)


def _column(field: ColumnField, values: list[Any]) -> Any:
    if field.kind == "text":
        return TextColumn(values)
    if field.kind == "flag":
        return np.fromiter(values, np.bool_, len(values))
    if field.kind == "number":
        return longs(
            (LEFT_OUT if one is None else one for one in values) if field.null else values, len(values)
        )
    amounts = chain.from_iterable(map(msgspec.structs.astuple, values))
    flat = np.fromiter(amounts, dtype=np.float64, count=len(values) * len(field.resources))
    return flat.reshape(len(values), len(field.resources))


def _values(field: ColumnField, column: Any) -> Iterable[Any]:
    if field.listed:
        elements = list(_elements(field, column.values))
        ends = np.cumsum(np.maximum(column.count, 0)).tolist()
        return [
            UNSET if count == LEFT_OUT else elements[end - count : end]
            for count, end in zip(column.count.tolist(), ends, strict=True)
        ]
    return _elements(field, column)


def _elements(field: ColumnField, column: Any) -> Iterable[Any]:
    if field.kind == "text":
        return column.values  # type: ignore[no-any-return]
    if field.kind == "load":
        load: FloatArray = column
        make: Callable[..., Any] = field.record
        return [make(*row) for row in load.tolist()]
    if field.null:
        return [None if one == LEFT_OUT else one for one in column.tolist()]
    return column.tolist()  # type: ignore[no-any-return]
