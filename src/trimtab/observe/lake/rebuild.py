"""Progress of a rebuild of the tables: raw files by ranges of days, and the tables as far as they are built.

What a long run has done lies beside the tables, as numbered documents that readers of the tables do not
look at. A run that was killed goes on after the last whole range; the tables that readers see are replaced
once, at the end.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import msgspec

from trimtab.files.store import remove_folder, written_at
from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import DAY
from trimtab.observe.lake.manifest import Manifest

if TYPE_CHECKING:
    from trimtab.files.store import Location
    from trimtab.observe.lake.parquet import ParquetFooter


HOUR = DAY // 24

MAX_ROWS = 3_000_000
"""Rows of a piece, unless a single hour has more: days of a small cluster are made together."""

MAX_HOURS = 48
"""Span of a file of which every hour is taken to hold rows."""

FOLDER = "rebuild"
"""Below the tables' folder."""

ABANDONED_SECONDS = 7 * 86400
"""A run that was not taken up again for so long is given up, and its files are swept."""


@dataclass(frozen=True)
class DayRange:
    """Some days of history.

    Attributes
    ----------
    begin, end
        Microseconds since 1970, half-open; pieces follow one another without gaps.
    files
        Raw files that may hold samples of these ticks.
    digest
        Of the period and the names of the files.
    """

    begin: int
    end: int
    files: tuple[Location, ...]
    digest: str


def day_ranges(
    files: Sequence[tuple[Location, ParquetFooter]], low: int, high: int, max_rows: int | None = None
) -> list[DayRange]:
    """Days of raw files in order, as many at a time as hold `max_rows`; a day that holds more, by the hour.

    Parameters
    ----------
    files
        With what their footers say; rows of a file count evenly for the hours that it spans.
    low, high
        Where the first piece begins and the last one ends, microseconds since 1970.
    max_rows
        None: `MAX_ROWS`. An hour may hold more.
    """
    most = MAX_ROWS if max_rows is None else max_rows
    rows: dict[int, float] = {}
    for _, footer in files:
        if footer.span is not None and low <= footer.span[1] and footer.span[0] < high:
            first, last = max(footer.span[0], low) // HOUR, min(footer.span[1], high - 1) // HOUR
            # One wrong time may make the span of a file that of years.
            hours = range(first, last + 1) if last - first < MAX_HOURS else (first, last)
            for hour in hours:
                rows[hour] = rows.get(hour, 0.0) + footer.rows / len(hours)
    bounds, held = [low], 0.0
    for day, group in groupby(sorted(rows), key=lambda hour: hour * HOUR // DAY):
        each = [(hour * HOUR, rows[hour]) for hour in group]
        whole = sum(count for _, count in each)
        for begin, count in [(day * DAY, whole)] if whole <= most else each:
            if held and held + count > most:
                bounds.append(begin)
                held = 0.0
            held += count
    bounds.append(high)
    return [_day_range(files, begin, end) for begin, end in pairwise(bounds)]


def _day_range(files: Sequence[tuple[Location, ParquetFooter]], begin: int, end: int) -> DayRange:
    # A file that does not say which ticks it holds may hold any.
    own = [
        (path, footer)
        for path, footer in files
        if footer.span is None or (footer.span[0] < end and begin <= footer.span[1])
    ]
    told = [begin, end, *((f"{path.parent.name}/{path.name}", footer.rows) for path, footer in own)]
    return DayRange(begin, end, tuple(path for path, _ in own), _digest(told))


@dataclass(frozen=True)
class BuildProgress:
    """The pieces that are done, and the tables of those.

    Attributes
    ----------
    key
        Digest of what the run was asked for, and of the tables that it began with.
    done
        Digests of the pieces.
    manifest
        The tables, not published.
    samples, ticks, received, rows
        As of `PipelineRun`, and when the last sample was received, microseconds since 1970.
    unreadable_files
        Those that were left out because their rows could not be read.
    """

    key: str
    manifest: Manifest
    done: tuple[str, ...] = ()
    samples: int = 0
    ticks: int = 0
    received: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    unreadable_files: tuple[str, ...] = ()

    def after(
        self,
        part: DayRange,
        manifest: Manifest,
        found: dict[str, int],
        rows: dict[str, int],
        unreadable_files: Sequence[Location] = (),
    ) -> BuildProgress:
        """With one piece more, in which `samples`, `ticks`, `received` were found."""
        return replace(
            self,
            manifest=manifest,
            done=(*self.done, part.digest),
            samples=self.samples + found["samples"],
            ticks=self.ticks + found["ticks"],
            received=max(self.received, found["received"]),
            rows={name: self.rows.get(name, 0) + rows.get(name, 0) for name in {**self.rows, **rows}},
            unreadable_files=(*self.unreadable_files, *map(str, unreadable_files)),
        )


def build_key(manifest: Manifest, *request: object) -> str:
    """Digest of tables, whoever published them, and of what was asked."""
    return _digest([asdict(replace(manifest, version=0, writer_epoch=0)), *request])


def resumed_progress(
    tables: Location, version: int, key: str, parts: Sequence[DayRange]
) -> BuildProgress | None:
    """What a run that was killed had done, if it was the same one over the same files; else None.

    Its tables are then to follow on `version`, the one published last: whoever succeeds a killed writer
    publishes once to shut it out, so that is not the one that the killed run began with.
    """
    found = unfinished_build(tables)
    if found is None or found.key != key or not 0 < len(found.done) < len(parts):
        return None
    if [piece.digest for piece in parts[: len(found.done)]] != list(found.done):
        return None
    return replace(found, manifest=replace(found.manifest, version=version))


def unfinished_build(tables: Location) -> BuildProgress | None:
    """The newest progress of a run that has not ended; None where there is none."""
    found = _numbered(tables).newest()
    if found is None:
        return None
    return msgspec.json.decode(found[1], type=BuildProgress)


def save_progress(tables: Location, progress: BuildProgress) -> None:
    """Remember what is done.

    Raises
    ------
    ObserveError
        If another process does the same.
    """
    numbered = _numbered(tables)
    found = numbered.newest()
    try:
        numbered.add(1 if found is None else found[0] + 1, msgspec.json.encode(progress))
    except VersionConflictError:
        raise ObserveError(
            f"{tables.parent}: another `trimtab pipeline run` builds its history at the same time, because "
            "this process gave no sign of life for too long; nothing was published: start again"
        ) from None


def forget_progress(tables: Location) -> None:
    """Delete the stored progress of a rebuild."""
    remove_folder(tables / FOLDER)


def named_by_unfinished(tables: Location) -> set[str]:
    """Folders of tables that a run which may be taken up again has made."""
    newest = _numbered(tables).newest()
    if newest is None:
        return set()
    if written_at(_numbered(tables).path(newest[0])) < time.time() - ABANDONED_SECONDS:
        forget_progress(tables)
        return set()
    found = unfinished_build(tables)
    entries = found.manifest.tables.values() if found is not None else ()
    return {entry.path for several in entries for entry in several}


def _numbered(tables: Location) -> VersionedDocuments:
    return VersionedDocuments(tables / FOLDER, retained=2)


def _digest(text: object) -> str:
    return hashlib.sha256(json.dumps(text, sort_keys=True, default=str).encode()).hexdigest()
