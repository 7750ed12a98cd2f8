"""Columns as Arrow knows them, from Spark's names of their types; importing this needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow

    from trimtab.observe.columns import Columns

_PLAIN: Final = {
    "string": "string",
    "int": "int32",
    "bigint": "int64",
    "double": "float64",
    "boolean": "bool_",
    "binary": "binary",
}


def arrow_schema(columns: Columns) -> pyarrow.Schema:
    """The schema of a table or of raw rows; times are microseconds, UTC."""
    import pyarrow

    return pyarrow.schema([(name, arrow_type(kind)) for name, kind in columns])


def arrow_type(kind: str) -> pyarrow.DataType:
    """The type that Spark calls `kind`: a plain one, an array, a map or a struct of such."""
    import pyarrow

    if kind == "timestamp":
        return pyarrow.timestamp("us", tz="UTC")
    if kind in _PLAIN:
        return getattr(pyarrow, _PLAIN[kind])()
    if kind.startswith("decimal("):
        digits, places = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pyarrow.decimal128(int(digits), int(places))
    outer, _, inside = kind.removesuffix(">").partition("<")
    if outer == "array":
        return pyarrow.list_(pyarrow.field("element", arrow_type(inside)))
    parts = _parted(inside)
    if outer == "map":
        return pyarrow.map_(*(arrow_type(part) for part in parts))
    assert outer == "struct", f"no Arrow type is known for {kind}"
    pairs = (part.partition(":") for part in parts)
    return pyarrow.struct([(name.strip("`"), arrow_type(inner)) for name, _, inner in pairs])


def _parted(text: str) -> list[str]:
    """What commas part that stand in no inner brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
