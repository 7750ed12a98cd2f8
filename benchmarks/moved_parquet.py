"""Parquet files whose times are moved, without encoding anything but times again.

A month of tables would take an hour to encode, and all of its columns but the times are those of one day: the
bytes of their chunks are copied, and the footer is written anew (Thrift's compact protocol, as of the Parquet
format's `FileMetaData`).
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from pathlib import Path

MAGIC = b"PAR1"
Struct = dict[int, tuple[int, Any]]
"""A struct of Thrift's: by number of a field its type and value."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
# Fields, by their numbers in parquet.thrift.
ROW_GROUPS = 4
COLUMNS, BYTES_OF_GROUP, ROWS, OFFSET_OF_GROUP, COMPRESSED_OF_GROUP = 1, 2, 3, 5, 6
FILE_OFFSET, OF_COLUMN = 2, 3
PATH, UNCOMPRESSED, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = 3, 6, 7, 9, 11
KEPT_OF_COLUMN = range(1, 14)
"""Not what lies outside of the chunks: Bloom filters."""


def later(rows: pa.Table, by: timedelta) -> pa.Table:
    """The same rows with all their times moved."""
    shift = pa.scalar(by, pa.duration("us"))
    for at, item in enumerate(rows.schema):
        if pa.types.is_timestamp(item.type):
            rows = rows.set_column(at, item, pc.add(rows.column(at), shift))
    return rows


def write_moved(source: Path, target: Path, shifts: Sequence[timedelta]) -> int:
    """Write a file's rows as often as there are shifts, with times moved by each; returns how many rows."""
    content = source.read_bytes()
    with pq.ParquetFile(source) as file:
        names = [item.name for item in file.schema_arrow if pa.types.is_timestamp(item.type)]
        times = file.read(names)
    groups = _footer(content)[ROW_GROUPS][1][1]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        _write(out, content, [_encoded(later(times, by), groups) for by in shifts])
    return times.num_rows * len(shifts)


def _encoded(times: pa.Table, groups: list[Struct]) -> bytes:
    """A file of the times alone, in groups of as many rows."""
    held, first = io.BytesIO(), 0
    with pq.ParquetWriter(held, times.schema, compression="zstd") as writer:
        for group in groups:
            rows = group[ROWS][1]
            writer.write_table(times.slice(first, rows), row_group_size=rows)
            first += rows
    return held.getvalue()


def _write(out: Any, content: bytes, moved: Sequence[bytes]) -> None:
    footer = _footer(content)
    rows, groups = 0, []
    out.write(MAGIC)
    for one in moved:
        others = _footer(one)[ROW_GROUPS][1][1]
        for group, times in zip(_footer(content)[ROW_GROUPS][1][1], others, strict=True):
            rows += group[ROWS][1]
            groups.append(_write_group(out, group, content, times, one))
    footer[ROWS] = (I64, rows)
    footer[ROW_GROUPS] = (LIST, (STRUCT, groups))
    end = io.BytesIO()
    _put_struct(end, footer)
    out.write(end.getvalue() + struct.pack("<I", end.tell()) + MAGIC)


def _write_group(out: Any, group: Struct, content: bytes, times: Struct, moved: bytes) -> Struct:
    """A group of rows: chunks of `moved` where it has the column, else of `content`."""
    replaced = {_path(chunk): chunk for chunk in times[COLUMNS][1][1]}
    chunks, compressed, uncompressed, begun = [], 0, 0, out.tell()
    for chunk in group[COLUMNS][1][1]:
        given = replaced.get(_path(chunk))
        taken = (chunk if given is None else given)[OF_COLUMN][1]
        start = min(taken[name][1] for name in (DATA_PAGE, DICTIONARY_PAGE) if name in taken)
        at, size = out.tell(), taken[COMPRESSED][1]
        out.write(memoryview(content if given is None else moved)[start : start + size])
        kept = {name: one for name, one in taken.items() if name in KEPT_OF_COLUMN}
        for name in (DATA_PAGE, DICTIONARY_PAGE):
            if name in kept:
                kept[name] = (I64, kept[name][1] - start + at)
        chunks.append({FILE_OFFSET: (I64, at), OF_COLUMN: (STRUCT, kept)})
        compressed, uncompressed = compressed + size, uncompressed + taken[UNCOMPRESSED][1]
    told = {BYTES_OF_GROUP: uncompressed, OFFSET_OF_GROUP: begun, COMPRESSED_OF_GROUP: compressed}
    numbers = {name: (I64, value) for name, value in told.items()}
    # Its place among the others is left out: there are more of them now than were written.
    return {COLUMNS: (LIST, (STRUCT, chunks)), ROWS: group[ROWS], **numbers}


def _path(chunk: Struct) -> tuple[bytes, ...]:
    return tuple(chunk[OF_COLUMN][1][PATH][1][1])


def _footer(content: bytes) -> Struct:
    (length,) = struct.unpack("<I", content[-8:-4])
    return _struct(io.BytesIO(content[-8 - length : -8]))


def _struct(read: io.BytesIO) -> Struct:
    found: Struct = {}
    number = 0
    while head := read.read(1)[0]:
        kind = head & 15
        number = number + (head >> 4) if head >> 4 else _signed(read)
        found[number] = (kind, kind == TRUE if kind in (TRUE, FALSE) else _value(read, kind))
    return found


def _value(read: io.BytesIO, kind: int) -> Any:
    if kind in (TRUE, FALSE, BYTE):
        return read.read(1)[0]
    if kind in (I16, I32, I64):
        return _signed(read)
    if kind == DOUBLE:
        return read.read(8)
    if kind == BINARY:
        return read.read(_unsigned(read))
    if kind in (LIST, SET):
        head = read.read(1)[0]
        size = head >> 4 if head >> 4 < 15 else _unsigned(read)
        return head & 15, [_value(read, head & 15) for _ in range(size)]
    if kind == STRUCT:
        return _struct(read)
    raise ValueError(f"type {kind} does not occur in footers of Parquet")


def _unsigned(read: io.BytesIO) -> int:
    value, shift = 0, 0
    while True:
        byte = read.read(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
        shift += 7


def _signed(read: io.BytesIO) -> int:
    value = _unsigned(read)
    return (value >> 1) ^ -(value & 1)


def _put_struct(out: io.BytesIO, fields: Struct) -> None:
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if number - last < 16:
            out.write(bytes([(number - last) << 4 | kind]))
        else:
            out.write(bytes([kind]))
            _put_signed(out, number)
        if kind not in (TRUE, FALSE):
            _put(out, kind, value)
        last = number
    out.write(b"\0")


def _put(out: io.BytesIO, kind: int, value: Any) -> None:
    if kind in (TRUE, FALSE, BYTE):
        out.write(bytes([value]))
    elif kind in (I16, I32, I64):
        _put_signed(out, value)
    elif kind == DOUBLE:
        out.write(value)
    elif kind == BINARY:
        _put_unsigned(out, len(value))
        out.write(value)
    elif kind == STRUCT:
        _put_struct(out, value)
    else:
        of, items = value
        out.write(bytes([min(len(items), 15) << 4 | of]))
        if len(items) >= 15:
            _put_unsigned(out, len(items))
        for item in items:
            _put(out, of, item)


def _put_unsigned(out: io.BytesIO, value: int) -> None:
    while value > 127:
        out.write(bytes([value & 127 | 128]))
        value >>= 7
    out.write(bytes([value]))


def _put_signed(out: io.BytesIO, value: int) -> None:
    _put_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)
