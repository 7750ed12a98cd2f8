"""The files that make up each table: published as the next of numbered documents, wholly or not at all."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import msgspec

from trimtab.files.versioned_documents import VersionedDocuments
from trimtab.model.errors import ObserveError
from trimtab_common.documents import one_of

if TYPE_CHECKING:
    from trimtab.files.store import Location

FORMAT = "trimtab/tables/1"
FOLDER = "manifests"
"""Below the tables' folder; the newest counts."""

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
    format
        Format of the document.
    """

    version: int = 0
    tables: dict[str, tuple[ManifestEntry, ...]] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)
    watermark: int = 0
    settings: dict[str, object] = field(default_factory=dict)
    writer_epoch: int = 0
    format: Annotated[str, one_of(FORMAT)] = FORMAT

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
    if found is None:
        return Manifest()
    try:
        manifest = msgspec.json.decode(found[1], type=Manifest)
    except msgspec.MsgspecError as error:
        raise _unreadable(numbered.path(found[0]), str(error)) from None
    if not manifest.version:
        raise _unreadable(numbered.path(found[0]), "it has no version")
    return manifest


def publish_manifest(tables: Location, manifest: Manifest) -> Manifest:
    """Make `manifest` what readers see from now on; returns it with its version counted up.

    Raises
    ------
    VersionConflictError
        If another one was published since the one that `manifest` was made from.
    """
    numbered = replace(manifest, version=manifest.version + 1)
    content = msgspec.json.format(msgspec.json.encode(numbered, order="deterministic"), indent=1)
    _numbered(tables).add(numbered.version, content)
    return numbered


def _numbered(tables: Location) -> VersionedDocuments:
    return VersionedDocuments(tables / FOLDER, RETAINED_MANIFESTS)


def _unreadable(path: Location, reason: str) -> ObserveError:
    return ObserveError(
        f"{path} is not a manifest of format {FORMAT} ({reason}): "
        "remove the tables folder and run `trimtab pipeline run` to build it anew from raw samples"
    )
