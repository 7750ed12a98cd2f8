"""Closed segments of a node's log become one, of what is still needed of them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Final

from trimtab_store.core.log_retention import RetainedLog
from trimtab_store.format.frames import encoded
from trimtab_store.format.segments import MAKING, write_all

CHUNK_BYTES: Final = 1 << 20
SYNC_BYTES: Final = 8 << 20
"""Written between two syncs: a node's own sync waits behind what a disk has still to write."""


class FrameLocation:
    """Where a frame stands; a compaction moves it."""

    __slots__ = ("length", "offset", "segment")

    def __init__(self, segment: int, offset: int, length: int) -> None:
        self.segment, self.offset, self.length = segment, offset, length


class LogCompaction:
    """What all lines until now come to, to be written into one file that takes the place of others.

    Frames are copied byte by byte, so that none is decoded; what is written into the log meanwhile does not
    matter to it, for it stands in a later segment.

    Parameters
    ----------
    files
        Number to file of all that is there; all is on disk.
    retained
        What is needed of them, by group.
    target
        The number of the new segment: the last of them, which it replaces, or a new one.
    """

    def __init__(
        self, files: Mapping[int, Path], retained: Mapping[int, RetainedLog[FrameLocation]], target: int
    ) -> None:
        self.target, self._files = target, dict(files)
        self._places = list(chain.from_iterable(one.places() for one in retained.values()))
        self._logged = b"".join(
            encoded((group, line)) for group, one in retained.items() for line in one.state_records()
        )

    def write(self, path: Path, first: bytes, stopping: Event) -> int | None:
        """Make the segment, on disk; its bytes, or None if it was told to stop.

        Its name is on disk with the next sync of the folder: until then the old files must stay.

        Parameters
        ----------
        first
            Its first frame.

        Raises
        ------
        OSError
            If the disk does not take it; all is then as it was.
        """
        by_segment: defaultdict[int, list[FrameLocation]] = defaultdict(list)
        for place in self._places:
            by_segment[place.segment].append(place)
        for places in by_segment.values():
            places.sort(key=lambda place: place.offset)
        making = path.with_name(path.name + MAKING)
        try:
            file = os.open(making, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                size = unsynced = 0
                for piece in chain((first,), self._chunks(by_segment), (self._logged,)):
                    if stopping.is_set():
                        os.unlink(making)
                        return None
                    write_all(file, piece)
                    size += len(piece)
                    unsynced += len(piece)
                    if unsynced >= SYNC_BYTES:
                        os.fdatasync(file)
                        unsynced = 0
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(making, path)
        except OSError:
            making.unlink(missing_ok=True)
            raise
        offset = len(first)
        for number in sorted(by_segment):
            for place in by_segment[number]:
                place.segment, place.offset = self.target, offset
                offset += place.length
        return size

    def _chunks(self, by_segment: Mapping[int, list[FrameLocation]]) -> Iterator[bytes]:
        """What stands at all places, in the order in which it was written."""
        buffer = bytearray()
        for number in sorted(by_segment):
            source = os.open(self._files[number], os.O_RDONLY)
            try:
                for start, end in _runs(by_segment[number]):
                    for at in range(start, end, CHUNK_BYTES):
                        wanted = min(CHUNK_BYTES, end - at)
                        found = os.pread(source, wanted, at)
                        if len(found) < wanted:
                            raise OSError(f"{self._files[number]} ends before byte {at + wanted:,}")
                        buffer += found
                        if len(buffer) >= CHUNK_BYTES:
                            yield bytes(buffer)
                            buffer.clear()
            finally:
                os.close(source)
        yield bytes(buffer)


def _runs(places: list[FrameLocation]) -> Iterator[tuple[int, int]]:
    """Places that follow one another, together."""
    start = end = -1
    for place in places:
        if place.offset != end:
            if end >= 0:
                yield start, end
            start = place.offset
        end = place.offset + place.length
    if end >= 0:
        yield start, end
