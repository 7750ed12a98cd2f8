"""Snapshots of small tables alone: the fields of the model's class are the format."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping

import msgspec

from trimtab.files.records import record_of
from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat, SnapshotT
from trimtab.files.snapshot_source import SnapshotSource


def small_format(
    name: str,
    kind: type[SnapshotT],
    counted: Mapping[str, str],
    check: Callable[[SnapshotSource], None] = lambda source: None,
) -> SnapshotFormat[SnapshotT]:
    """The reader and the writer of snapshots whose fields have types that msgspec reads.

    A field that is a tuple of dataclasses is a table. The first field of its rows is unique. All other fields
    but the reference and the quality stand in the head.

    Parameters
    ----------
    name, kind
        As of `SnapshotFormat`.
    counted
        Tables whose rows the description for people counts, with the name of the rows.
    check
        Refuses (`InputError`) contradictions between rows.
    """
    head = typing.get_type_hints(kind, include_extras=True)
    del head["reference"], head["quality"]
    rows_of = {field: typing.get_args(head.pop(field))[0] for field in [*head] if _is_table(head[field])}
    records = {table: record_of(row) for table, row in rows_of.items()}

    def build(source: SnapshotSource) -> SnapshotT:
        fields = {field: source.document.part(field, type_) for field, type_ in head.items()}
        for table, rows in source.records.items():
            source.check_unique(table, [str(msgspec.structs.astuple(row)[0]) for row in rows])
        check(source)
        for table, row_kind in rows_of.items():
            rows = source.records[table]
            fields[table] = tuple(msgspec.convert(row, row_kind, from_attributes=True) for row in rows)
        make: Callable[..., SnapshotT] = kind
        return make(reference=source.reference, quality=source.quality, **fields)

    def contents(snapshot: SnapshotT) -> SnapshotContents:
        rows = {
            table: [msgspec.convert(row, record, from_attributes=True) for row in getattr(snapshot, table)]
            for table, record in records.items()
        }
        return SnapshotContents({field: getattr(snapshot, field) for field in head}, rows, {})

    def described(snapshot: SnapshotT) -> str:
        numbers = (f"{len(getattr(snapshot, table))} {rows}" for table, rows in counted.items())
        return f"{' and '.join(numbers)} of {snapshot.reference.cluster}, {snapshot.reference.taken_at}"

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


def _is_table(hint: object) -> bool:
    return typing.get_origin(hint) is tuple
