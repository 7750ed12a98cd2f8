"""Snapshots of small tables alone: a row in a file is a value of the model, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.files.records import record_of
from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat, SnapshotT
from trimtab.files.snapshot_source import SnapshotSource


@dataclass(frozen=True)
class RowTable:
    """A small table: the dataclass of its rows, and the field in which no two of them are the same."""

    kind: type
    unique: str


def small_format(
    name: str,
    kind: type[SnapshotT],
    *,
    head: Mapping[str, Any],
    tables: Mapping[str, RowTable],
    described: Callable[[SnapshotT], str],
    check: Callable[[SnapshotSource], None] = lambda source: None,
) -> SnapshotFormat[SnapshotT]:
    """The reader and the writer of snapshots whose fields are those of the head and a tuple for each table.

    Parameters
    ----------
    name, kind, described
        As of `SnapshotFormat`.
    head
        The balancer's own fields of the head, with their types.
    tables
        The tables, by name.
    check
        Refuses (`InputError`) what no type and no name that stands twice shows.
    """
    records = {table: record_of(one.kind) for table, one in tables.items()}

    def build(source: SnapshotSource) -> SnapshotT:
        told = {field: source.document.part(field, type_) for field, type_ in head.items()}
        for table, one in tables.items():
            source.check_unique(table, [str(getattr(row, one.unique)) for row in source.records[table]])
        check(source)
        rows: dict[str, Any] = {
            table: tuple(
                msgspec.convert(row, one.kind, from_attributes=True) for row in source.records[table]
            )
            for table, one in tables.items()
        }
        make: Callable[..., SnapshotT] = kind
        return make(source.reference, source.quality, **told, **rows)

    def contents(snapshot: SnapshotT) -> SnapshotContents:
        return SnapshotContents(
            {field: getattr(snapshot, field) for field in head},
            {
                table: [
                    msgspec.convert(row, record, from_attributes=True) for row in getattr(snapshot, table)
                ]
                for table, record in records.items()
            },
            {},
        )

    return SnapshotFormat(
        name=name,
        kind=kind,
        head=tuple(head),
        records=records,
        columns={},
        build=build,
        contents=contents,
        described=described,
    )
