"""Rows of one kind, kept by column: a large cluster has tens of thousands of rows a tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Batch:
    """Raw samples of one kind, not yet bound to a cluster and a tick.

    Attributes
    ----------
    kind
        One of the kinds that the raw form of the system names.
    columns
        Lists of equal length, by column name; None where a row has no value.
    common
        Values that all rows share, by column name.
    """

    kind: str
    columns: Mapping[str, list[object]]
    common: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> Iterator[dict[str, object]]:
        """One mapping per row, values that are not there left out."""
        names = tuple(self.columns)
        shared = {"kind": self.kind} | {
            name: value for name, value in self.common.items() if value is not None
        }
        for values in zip(*self.columns.values(), strict=True):
            yield shared | {
                name: value for name, value in zip(names, values, strict=True) if value is not None
            }


class BatchWriter:
    """Collects rows of one kind; `columns` fixes which values a row has, in which order."""

    def __init__(self, kind: str, *columns: str, **common: object) -> None:
        self._kind = kind
        self._columns: dict[str, list[object]] = {name: [] for name in columns}
        self._appends = tuple(values.append for values in self._columns.values())
        self._common = common

    def add(self, *values: object) -> None:
        """Append one row; as many values as there are columns."""
        for append, value in zip(self._appends, values, strict=True):
            append(value)

    def batch(self) -> Batch:
        """The rows collected."""
        return Batch(self._kind, self._columns, self._common)
