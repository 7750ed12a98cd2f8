"""A snapshot between its file and its level: tables with their places, and errors that name them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.files.columns import Columns, ListColumn
from trimtab.files.document import JsonDocument
from trimtab.files.head import checked_cluster, checked_quality, checked_time
from trimtab.model.documents import Quality, SnapshotReference
from trimtab_common.documents import quote
from trimtab_common.errors import InputError


@dataclass(frozen=True)
class SnapshotSource:
    """A snapshot as it was read: types are checked, contents are not.

    Attributes
    ----------
    path
        The file or folder.
    document
        The JSON document; of a folder, its `meta.json`.
    reference, quality
        Of the head, checked.
    records, columns
        Small and large tables, by name.
    """

    path: Path
    document: JsonDocument
    reference: SnapshotReference
    quality: Quality
    records: dict[str, list[Any]] = field(default_factory=dict)
    columns: dict[str, Columns] = field(default_factory=dict)

    def at(self, table: str, row: int, field: str = "", item: int | None = None) -> str:
        """A place for a message: the JSON path, or row and column of a table."""
        index = "" if item is None else f"[{item}]"
        if self.document.path == self.path:
            return f"$.{table}[{row}]" + (f".{field}" if field else "") + index
        between = "." if table in self.records else ", "
        return f"row {row}" + (f"{between}{field}" if field else "") + index

    def file(self, table: str) -> Path:
        """The file that a table stands in."""
        return self.path if self.document.path == self.path else self.path / f"{table}.parquet"

    def error(
        self,
        table: str,
        row: int,
        field: str,
        found: object,
        expected: str,
        *,
        item: int | None = None,
        remedy: str = "correct it there",
    ) -> InputError:
        """The error for a value that contradicts others."""
        where = f"{self.file(table)}: {self.at(table, row, field, item)}"
        return InputError(f"{where} is {quote(found)}, expected {expected}; {remedy}")

    def length_error(self, table: str, row: int, field: str, found: int, expected: str) -> InputError:
        """The error for a list that has not as many elements as others ask for."""
        where = f"{self.file(table)}: {self.at(table, row, field)}"
        return InputError(f"{where} is a list of {found}, expected {expected}; correct it there")

    def check_loads(self, table: str, field: str, resources: tuple[str, ...]) -> None:
        """Refuse loads, or lists of them, that are not finite or below 0."""
        column = self.columns[table][field]
        load = column.values if isinstance(column, ListColumn) else column
        sound = np.isfinite(load) & (load >= 0)
        if sound.all():
            return
        number, resource = (int(index) for index in np.argwhere(~sound)[0])
        row, item = number, None
        if isinstance(column, ListColumn):
            row, item = int(column.row[number]), int(column.column[number])
        where = f"{self.file(table)}: {self.at(table, row, field, item)}.{resources[resource]}"
        found = float(load[number, resource])
        raise InputError(f"{where} is {found:g}, expected a finite number, 0 or more; correct it there")

    def twice(self, table: str, row: int, other: int, what: str) -> InputError:
        """The error for two rows that describe the same."""
        places = f"{self.at(table, row)} and {self.at(table, other)}"
        return InputError(f"{self.file(table)}: {places} both describe {what}; keep one of them")

    def check_unique(self, table: str, names: Sequence[str | None]) -> None:
        """Refuse a table in which a name stands twice."""
        if len(set(names)) == len(names):
            return
        first: dict[str | None, int] = {}
        for row, name in enumerate(names):
            if name in first:
                raise self.twice(table, first[name], row, str(name))
            first[name] = row


def source_of(path: Path, document: JsonDocument, sha256: str) -> SnapshotSource:
    """A snapshot of which the head is read and checked, and no table yet."""
    cluster = checked_cluster(document)
    taken_at = checked_time(str(document.path), "$.taken_at", document.part("taken_at", object))
    return SnapshotSource(
        path, document, SnapshotReference(cluster, taken_at, sha256), checked_quality(document)
    )
