"""Columns that all balancers share, flags of rows, and the form of raw samples; no Spark is needed.

Types of columns are Spark's own names; `arrow_schema` has them as Arrow's. The meaning of each column:
docs/pipeline.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow


Columns = tuple[tuple[str, str], ...]
"""Name and type of each column of a table."""

Row = dict[str, Any]
"""A row of raw samples or of a table: values of many types, by column."""


def columns(text: str) -> Columns:
    """Columns from `name type` parted by a comma and a space; types hold neither of both together."""
    pairs = (column.split(" ") for column in text.split(", "))
    return tuple((name, kind) for name, kind in pairs)


SECOND: Final = 1_000_000
"""Times inside the pipeline are whole microseconds, so that they add up exactly."""
DAY: Final = 86_400 * SECOND

STATISTICS: Final = "struct<mean:double,latest:double,p50:double,p95:double,p99:double,max:double>"


class SampleFlag(IntFlag):
    """A fault of a sample or an interval; several may be set."""

    LATE = 1
    """Received too long after its tick: not used."""
    UNREADABLE = 2
    """No cluster, tick or known kind: not used."""
    NOT_A_NUMBER = 4
    """Some value was NaN or infinite; it counts as absent."""
    NEGATIVE = 8
    """Some size, offset or counter was below zero; it counts as absent."""
    RESET = 16
    """A counter fell: the system behind it restarted; no rates from this interval."""
    GAP = 32
    """No sample within `gap_seconds` before this one (the first one, or a hole): no rates from it."""
    CLOCK_BACK = 64
    """Read before the sample of the tick before: clocks disagree; no rates from this interval."""
    MISSED = 128
    """Other entities have a tick between this sample and the one before; the rate spans it."""
    CUT = 256
    """Retention or compaction shortened the log: bytes in come from offsets."""
    COPYING = 512
    """Some replica is being copied; its growth is not traffic."""
    LEADER_CHANGED = 1024
    """The leader moved within the interval; topic counters belong to two brokers."""


NO_RATE: Final = SampleFlag.RESET | SampleFlag.GAP | SampleFlag.CLOCK_BACK
"""Any of these, and the interval says nothing of how much was carried."""


QUALITY: Final[Columns] = (
    *columns("cluster string, tick timestamp, kind string, entities int, accepted int, duplicates int"),
    *((flag.name.lower(), "int") for flag in SampleFlag if flag.name is not None),
)

_IMBALANCE: Final[Columns] = columns(
    "cluster string, tick timestamp, resource string, brokers int, complete boolean, measured boolean, "
    "mean double, "
    "sigma double, worst_deviation double, peak_usage double, traffic_collapse boolean"
)

_RAW_TYPES: Final = {"ints": "array<int>", "longs": "array<bigint>", "long": "bigint"}


@dataclass(frozen=True)
class RawSchema:
    """The shape of a system's raw rows, and the values that cannot be in them.

    Attributes
    ----------
    columns
        Name and type of each.
    keys
        Two rows that agree in all of these are the same sample.
    kinds
        The kinds of entity that a row may describe.
    negative
        Columns that are never below zero.
    minus_one
        Columns in which -1 means that there is none; below that is dirt.
    """

    columns: Columns
    keys: tuple[str, ...]
    kinds: tuple[str, ...]
    negative: tuple[str, ...]
    minus_one: tuple[str, ...] = ()

    @property
    def cleaned(self) -> Columns:
        """Columns of the table `cleaned`: those of raw rows, and what is wrong with each."""
        return (
            *self.columns,
            ("accepted", "boolean"),
            ("flags", "int"),
            ("copies", "int"),
            ("late_copies", "int"),
        )


def numbers(columns: Columns, *kinds: str) -> tuple[str, ...]:
    """Names of the columns of some types."""
    return tuple(name for name, kind in columns if kind in kinds)


def of_raw(columns: Iterable[tuple[str, str]]) -> Columns:
    """Columns as collectors land them, with the types by which Spark knows them."""
    return tuple((name, _RAW_TYPES.get(kind, kind)) for name, kind in columns)


def broker_measures(broker: str) -> str:
    """Type of each broker's entry in `imbalance`, where brokers' own names are of type `broker`."""
    return f"struct<broker:{broker},load:double,capacity:double,usage:double,share:double,deviation:double>"


def imbalance_columns(broker: str) -> Columns:
    """Columns of the table `imbalance` of a balancer whose brokers' names are of type `broker`."""
    return (*_IMBALANCE, ("by_broker", f"array<{broker_measures(broker)}>"))


def ddl(columns: Columns) -> str:
    """Spark's text form of a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


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
