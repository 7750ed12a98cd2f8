"""Snapshots of all balancers as files: one JSON document, or a folder with `meta.json` and Parquet tables.

A folder is written as a whole or not at all. The fields of a model's class are the format of small tables.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from trimtab.files.columns import Columns, columns_from, records_from
from trimtab.files.document import JsonDocument, one_of
from trimtab.files.head import QualityRecord, quality_fields
from trimtab.files.records import names_of, record_of
from trimtab.files.snapshot_source import SnapshotSource, source_of
from trimtab.model.documents import Quality, SnapshotReference, collections_paused
from trimtab_common.documents import checked_format
from trimtab_common.errors import InputError
from trimtab_common.files import (
    GZIP_MAGIC,
    gunzip,
    in_the_making,
    read_bytes,
    sync_folder,
    write_atomically,
    writing,
)


def open_folder(folder: Path, files: tuple[str, ...], form: str, names: tuple[str, ...]) -> JsonDocument:
    """The `meta.json` of a snapshot folder, of which only keys and the format are checked so far.

    Parameters
    ----------
    files
        What the folder must hold, in order of name.
    form
        The format that it must name.
    names
        Every field name of the format, for "did you mean".

    Raises
    ------
    InputError
        If a file is missing, or `meta.json` is malformed or of another format.
    """
    for name in files:
        if not (folder / name).is_file():
            tables = [one for one in files if one != "meta.json"]
            expected = f"{', '.join(['meta.json', *tables[:-1]])} and {tables[-1]}"
            raise InputError(f"{folder}: has no {name}; a snapshot folder holds {expected}")
    meta = JsonDocument(folder / "meta.json", read_bytes(folder / "meta.json"), names)
    _ = meta.tree  # small: read strictly at once
    meta.require(("format",), tuple(meta.parts))
    checked_format(str(meta.path), meta.part("format", object), form)
    return meta


def write_folder(
    folder: Path, files: tuple[str, ...], meta: dict[str, object], tables: Callable[[Path], None]
) -> str:
    """Write the files beside the place, force them to disk, and rename the folder into it.

    Parameters
    ----------
    files
        As for `open_folder`.
    meta
        What `meta.json` holds.
    tables
        Writes the other files into the folder it is given.

    Returns
    -------
    str
        The folder's digest.

    Raises
    ------
    InputError
        If the place is taken by something else, or cannot be written.
    """
    making = in_the_making(folder)
    if folder.exists() and not (folder / "meta.json").is_file():
        raise InputError(f"{folder}: is there already and is no snapshot folder; name another place")
    with writing(folder):
        try:
            making.mkdir()
            (making / "meta.json").write_bytes(
                msgspec.json.format(msgspec.json.encode(meta), indent=1) + b"\n"
            )
            tables(making)
            for name in files:
                with open(making / name, "rb") as file:
                    os.fsync(file.fileno())
            sync_folder(making)
            digest = folder_digest(making, files)
            if folder.exists():
                old = in_the_making(folder)
                os.rename(folder, old)
                os.rename(making, folder)
                shutil.rmtree(old)
            else:
                os.rename(making, folder)
            sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return digest


def folder_digest(folder: Path, files: tuple[str, ...]) -> str:
    """SHA-256 of what `sha256sum` prints of the files, in order of name, within the folder."""
    lines = [f"{hashlib.sha256(read_bytes(folder / name)).hexdigest()}  {name}\n" for name in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class AnySnapshot(Protocol):
    """The part of a snapshot that every balancer has."""

    @property
    def reference(self) -> SnapshotReference:
        """The cluster, the time, and the digest of the bytes it was read from."""

    @property
    def quality(self) -> Quality:
        """The trust that the loads deserve."""


SnapshotT = TypeVar("SnapshotT", bound=AnySnapshot)


@dataclass(frozen=True)
class SnapshotContents:
    """A snapshot on its way to a file.

    Attributes
    ----------
    head
        The balancer's own fields of the head, as JSON values.
    records, columns
        Its small and its large tables, by name.
    """

    head: Mapping[str, object]
    records: Mapping[str, Sequence[Any]]
    columns: Mapping[str, Columns]


@dataclass(frozen=True)
class SnapshotFormat(Generic[SnapshotT]):
    """The reader and the writer of the snapshots of one balancer, as `.json`, `.json.gz` or a folder of
    tables.

    Attributes
    ----------
    name
        Of the format, as files name it: `trimtab/replicas-snapshot/1`.
    kind
        The class of its snapshots.
    head
        The balancer's own fields of the head, after format, cluster, time and quality.
    records, columns
        Small and large tables: the record that a row is, by name.
    build
        Checks what was read and makes the snapshot.
    contents
        The inverse.
    described
        One line for people: how much of what, of which cluster, of when.
    names
        Further field names, for "did you mean".
    """

    name: str
    kind: type[SnapshotT]
    head: tuple[str, ...]
    records: Mapping[str, object]
    columns: Mapping[str, object]
    build: Callable[[SnapshotSource], SnapshotT]
    contents: Callable[[SnapshotT], SnapshotContents]
    described: Callable[[SnapshotT], str]
    names: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that `meta.json` must hold, and the JSON form before its tables."""
        return ("format", "cluster", "taken_at", "quality", *self.head)

    @property
    def tables(self) -> dict[str, object]:
        """All tables, the small ones first."""
        return {**self.records, **self.columns}

    @cached_property
    def known_names(self) -> tuple[str, ...]:
        """Every field name of the format."""
        named = (name for record in (QualityRecord, *self.tables.values()) for name in names_of(record))
        return (*self.fields, *self.tables, *self.names, *dict.fromkeys(named))

    @property
    def files(self) -> tuple[str, ...]:
        """The files of a folder, in order of name."""
        return tuple(sorted(["meta.json", *(f"{table}.parquet" for table in self.tables)]))

    def read(self, path: Path) -> SnapshotT:
        """Read and check a snapshot.

        Parameters
        ----------
        path
            A JSON file, plain or compressed by gzip, or a folder with `meta.json` and the balancer's tables.

        Raises
        ------
        InputError
            If there is none, or it is malformed or contradicts itself; one line that names the file, the
            place in it, the value found, what was expected, and the remedy.
        """
        if not path.is_dir():
            data = read_bytes(path)
            return self.from_json(path, _json_text(path, data), hashlib.sha256(data).hexdigest())
        from trimtab.files.parquet import read_columns, read_records  # imports pyarrow

        document = open_folder(path, self.files, self.name, self.known_names)
        document.require(self.fields)
        source = source_of(path, document, folder_digest(path, self.files))
        for table, record in self.records.items():
            source.records[table] = read_records(source.file(table), record)
        for table, record in self.columns.items():
            source.columns[table] = read_columns(source.file(table), record)
        return self.build(source)

    def from_json(self, path: Path, data: bytes, sha256: str) -> SnapshotT:
        """The same from the JSON text of a file, whose digest is at hand."""
        with collections_paused():
            document = JsonDocument(path, data, self.known_names)
            document.require(("format",), tuple(document.parts))
            checked_format(str(path), document.part("format", object), self.name)
            document.require((*self.fields, *self.tables))
            source = source_of(path, document, sha256)
            rows = {table: document.part(table, list[record]) for table, record in self.tables.items()}  # type: ignore[valid-type]
            document.reject_duplicate_keys({table: rows[table] for table in self.columns})
            source.records.update({table: rows[table] for table in self.records})
            source.columns.update(
                {table: columns_from(rows[table], record) for table, record in self.columns.items()}
            )
            return self.build(source)

    def write(self, snapshot: SnapshotT, path: Path) -> SnapshotReference:
        """Write a snapshot; the form is chosen by the name: `.json`, `.json.gz`, else a folder.

        The same snapshot gives the same bytes. The file or folder appears as a whole or not at all.

        Returns
        -------
        SnapshotReference
            Of the written file: its digest may differ from that of the snapshot given.

        Raises
        ------
        InputError
            If the place cannot be written.
        """
        if path.suffix in (".json", ".gz"):
            data = self.to_json(snapshot)
            data = gzip.compress(data, compresslevel=6, mtime=0) if path.suffix == ".gz" else data
            write_atomically(path, data)
            return replace(snapshot.reference, sha256=hashlib.sha256(data).hexdigest())
        from trimtab.files.parquet import write_columns, write_records  # imports pyarrow

        contents = self.contents(snapshot)

        def tables(making: Path) -> None:
            for table, rows in contents.records.items():
                write_records(making / f"{table}.parquet", rows, self.records[table])
            for table, columns in contents.columns.items():
                write_columns(making / f"{table}.parquet", columns, self.columns[table])

        digest = write_folder(path, self.files, self._head(snapshot, contents), tables)
        return replace(snapshot.reference, sha256=digest)

    def to_json(self, snapshot: SnapshotT) -> bytes:
        """The JSON text of a snapshot, a row of a table a line; the same bytes for the same snapshot."""
        with collections_paused():
            contents = self.contents(snapshot)
            parts = [_field(name, value) for name, value in self._head(snapshot, contents).items()]
            for table, record in self.tables.items():
                rows = contents.records.get(table)
                found = records_from(contents.columns[table], record) if rows is None else rows
                parts.append(msgspec.json.encode(table) + b": " + _lines(found))
            return b"{" + b",\n ".join(parts) + b"}\n"

    def _head(self, snapshot: SnapshotT, contents: SnapshotContents) -> dict[str, object]:
        return {
            "format": self.name,
            "cluster": snapshot.reference.cluster,
            "taken_at": snapshot.reference.taken_at,
            "quality": quality_fields(snapshot.quality),
            **contents.head,
        }


def format_of(path: Path, names: tuple[str, ...]) -> str:
    """The format that a snapshot file or folder names, of which no more is looked at.

    Parameters
    ----------
    names
        Of the formats that are known.

    Raises
    ------
    InputError
        If there is no such file, it names no format, or none of those.
    """
    place = path / "meta.json" if path.is_dir() else path
    document = JsonDocument(place, _json_text(place, read_bytes(place)), ("format",))
    document.require(("format",), tuple(document.parts))
    found = document.part("format", str)
    one_of(document, "$.format", found, names)
    return found


def _json_text(path: Path, data: bytes) -> bytes:
    """The JSON text in the bytes of a file, plain or compressed by gzip."""
    if data.startswith(GZIP_MAGIC) or path.suffix == ".gz":
        return gunzip(path, data)
    if data.startswith(b"PAR1"):
        raise InputError(f"{path}: is a Parquet file; name the folder that holds it, or a JSON file")
    return data


def _field(name: str, value: object) -> bytes:
    return msgspec.json.encode(name) + b": " + msgspec.json.encode(value)


def _lines(records: Sequence[Any]) -> bytes:
    """A JSON list with a record a line: raw line breaks never stand within JSON strings."""
    if not records:
        return b"[]"
    lines = msgspec.json.Encoder().encode_lines(records).rstrip(b"\n")
    return b"[\n  " + lines.replace(b"\n", b",\n  ") + b"\n ]"


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
