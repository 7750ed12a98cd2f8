"""The files that make up each table: published as the next of numbered documents, wholly or not at all."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trimtab.files.versioned_documents import VersionedDocuments
from trimtab.model.errors import ObserveError

if TYPE_CHECKING:
    from trimtab.files.store import Location

FORMAT = "trimtab/tables/1"
FOLDER = "manifests"
"""Below the tables' folder; the newest counts."""

FILE = "manifest.json"
"""The only one that there was before manifests were numbered; read where there is no other."""

RETAINED_MANIFESTS = 20
"""For readers that have looked which is the newest, and for us to see what went before."""

Ranges = list[tuple[int, int]]
"""Instants as sorted, disjoint, half-open ranges of microseconds."""


def merged(ranges: Iterable[tuple[int, int]], apart: int = 0) -> Ranges:
    """The union, with ranges that lie at most `apart` from one another made one."""
    union: Ranges = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if union and begin <= union[-1][1] + apart:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, end))
    return union


@dataclass(frozen=True)
class ManifestEntry:
    """The rows of one folder of Parquet files whose time lies in [begin, end).

    A later step that computes some ticks anew cuts them out of older entries, so entries of a table never
    overlap and every row is there once.

    Attributes
    ----------
    path
        Relative to the tables' folder.
    begin, end
        Microseconds since the epoch, half-open.
    first, last
        Time of the first and of the last row in the folder, whether it counts or not.
    """

    path: str
    begin: int
    end: int
    first: int
    last: int

    @property
    def is_complete(self) -> bool:
        """True if every row in the folder counts."""
        return self.begin <= self.first and self.last < self.end


@dataclass(frozen=True)
class Manifest:
    """All tables at one moment.

    Attributes
    ----------
    version
        Counts publications.
    tables
        Entries of each table, in order of time.
    streams
        For every stream (by the id in its checkpoint) the last micro-batch that is in the tables.
    watermark
        Microseconds since the epoch: ticks up to here are final, whatever still arrives for them is late.
    settings
        The pipeline settings that the tables were made with.
    writer_epoch
        Of the writer that published it (`trimtab.observe.lake.writer_lock`); 0 where none was asked for.
    """

    version: int = 0
    tables: dict[str, tuple[ManifestEntry, ...]] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)
    watermark: int = 0
    settings: dict[str, object] = field(default_factory=dict)
    writer_epoch: int = 0

    def replaced(self, table: str, ranges: Ranges, path: str, span: tuple[int, int] | None) -> Manifest:
        """The manifest with `ranges` of `table` taken from `path` instead of from wherever they were.

        `span` is the time of the first and last row in `path`; None where it holds no row.
        """
        kept = [piece for entry in self.tables.get(table, ()) for piece in _without(entry, ranges)]
        if span is not None:
            kept += [
                ManifestEntry(path, begin, end, *span)
                for begin, end in ranges
                if span[0] < end and begin <= span[1]
            ]
        ordered = tuple(sorted(kept, key=lambda entry: entry.begin))
        return replace(self, tables={**self.tables, table: ordered})

    def before(self, instant: int) -> Manifest:
        """The manifest without the rows of an instant (microseconds since 1970) and of all later ones."""
        tables = {
            table: tuple(piece for entry in entries for piece in _without(entry, [(instant, 2**62)]))
            for table, entries in self.tables.items()
        }
        return replace(self, tables={table: kept for table, kept in tables.items() if kept})


def _without(entry: ManifestEntry, ranges: Ranges) -> list[ManifestEntry]:
    pieces = [entry]
    for begin, end in ranges:
        pieces = [
            part
            for piece in pieces
            for part in (
                replace(piece, end=min(piece.end, begin)),
                replace(piece, begin=max(piece.begin, end)),
            )
            # An entry none of whose rows can be left is let go of.
            if max(part.begin, part.first) < min(part.end, part.last + 1)
        ]
    return pieces


def new_path(table: str) -> str:
    """A path that no process has used, relative to the tables' folder."""
    return f"{table}/{time.time_ns():020d}-{secrets.token_hex(4)}"


def read_manifest(tables: Location) -> Manifest:
    """The manifest published last; an empty one where there is none.

    Raises
    ------
    ObserveError
        If it is not a manifest that this version can read.
    """
    numbered = _numbered(tables)
    found = numbered.newest()
    if found is not None:
        return _decoded(numbered.path(found[0]), found[1])
    path = tables / FILE
    try:
        return _decoded(path, path.read_bytes())
    except FileNotFoundError:
        return Manifest()


def publish_manifest(tables: Location, manifest: Manifest) -> Manifest:
    """Make `manifest` what readers see from now on; returns it with its version counted up.

    Raises
    ------
    NumberTakenError
        If another one was published since the one that `manifest` was made from.
    """
    numbered = replace(manifest, version=manifest.version + 1)
    document = manifest_document(numbered)
    _numbered(tables).add(numbered.version, json.dumps(document, indent=1).encode())
    # A trimtab of before then finds no tables, instead of old ones whose files are about to go.
    with contextlib.suppress(FileNotFoundError):
        (tables / FILE).unlink()
    return numbered


def _numbered(tables: Location) -> VersionedDocuments:
    return VersionedDocuments(tables / FOLDER, RETAINED_MANIFESTS)


def _decoded(path: Location, text: bytes) -> Manifest:
    try:
        return manifest_from(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise ObserveError(
            f"{path} is not a manifest of format {FORMAT} ({error}): "
            "remove the tables folder and run `trimtab pipeline run` to build it anew from raw samples"
        ) from None


def manifest_document(manifest: Manifest) -> dict[str, object]:
    """A manifest as JSON has it."""
    return {
        "format": FORMAT,
        "version": manifest.version,
        "writer_epoch": manifest.writer_epoch,
        "watermark": manifest.watermark,
        "streams": manifest.streams,
        "settings": manifest.settings,
        "tables": {
            name: [asdict(entry) for entry in entries] for name, entries in sorted(manifest.tables.items())
        },
    }


def manifest_from(found: dict[str, Any]) -> Manifest:
    """The manifest that JSON tells; what is no manifest raises `KeyError`, `TypeError` or `ValueError`."""
    if found["format"] != FORMAT:
        raise ValueError(found["format"])
    return Manifest(
        version=found["version"],
        tables={
            name: tuple(ManifestEntry(**entry) for entry in entries)
            for name, entries in found["tables"].items()
        },
        streams=found["streams"],
        watermark=found["watermark"],
        settings=found["settings"],
        writer_epoch=found.get("writer_epoch", 0),
    )
