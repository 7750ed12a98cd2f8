"""A node's write-ahead log: segments for all its groups together, synced once for whatever came together."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final, NamedTuple

from trimtab_store.core.log_retention import RetainedLog
from trimtab_store.format import segments
from trimtab_store.format.compaction import FrameLocation, LogCompaction
from trimtab_store.format.frames import encoded
from trimtab_store.format.segments import FIRST_FORMAT, FORMAT, disk_error_text, first_frame, lost, segment

SEGMENT_BYTES: Final = 16 << 20
"""A segment is closed at the first sync behind so many bytes."""


class FlushBatch(NamedTuple):
    """What is to be put on disk, the segment to begin behind it, and what is due once that is done."""

    data: bytes
    then: int | None = None
    planned: LogCompaction | None = None


class NodeLog:
    """The log of one node: a head that says whose it is, and frames (group, message) in segments.

    After a crash the end may be torn: frames behind the last sync of which nobody was told. They are cut off.
    What was synced and cannot be read is another matter, and refused.

    It stays bounded: closed segments are written anew as one, of what is needed, when they hold more than
    twice that and a segment (`compaction_due`, `compact`), so that no byte is copied more than twice or so.

    Parameters
    ----------
    path
        The head; segments lie beside it. Made if it is not there.
    cluster, node
        Whose log it must be.

    Attributes
    ----------
    recovered
        Group to what is needed of all that was written for it, in order.
    torn_bytes
        Bytes that were cut off the end.
    needs_compaction
        Whether `compact` has something to do.

    Raises
    ------
    InputError
        If it is another node's, of another version, damaged before its end, or in use.
    DiskError
        If the disk does not take it.
    """

    def __init__(self, path: Path, cluster: str, node: int, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.path, self._cluster, self._node, self._segment_bytes = path, cluster, node, segment_bytes
        self.recovered: dict[int, list[Any]] = {}
        self.torn_bytes = 0
        self._lines: defaultdict[int, RetainedLog[Any]] = defaultdict(RetainedLog)
        self._retained: defaultdict[int, RetainedLog[FrameLocation]] = defaultdict(RetainedLog)
        self._needed_bytes = 0
        self._pending: list[bytes] = []
        self._closed: dict[int, int] = {}
        self._number = self._offset = 0
        self._planned: LogCompaction | None = None
        self._compacting = False
        self._stopping, self._sizes = Event(), Lock()
        self._file = -1
        self._head = -1
        try:
            with disk_error_text(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._head = segments.lock(path)
                self._open()
        except BaseException:
            self.close()
            raise
        self.recovered = {
            group: [*kept.places(), *kept.state_records()] for group, kept in self._lines.items()
        }
        self._lines.clear()

    # ------------------------------------------------------------ at a start

    def _open(self) -> None:
        segments.remove_unfinished(self.path)
        form = segments.log_format(self.path, self._cluster, self._node)
        if form is None:
            self._begin()
        elif form == FIRST_FORMAT:
            self._rewrite()
        else:
            self._read_segments()
        if self._is_compaction_worthwhile(self._offset):
            # Needed or not, all of it was read: the next start is to be quicker.
            self._put(self._collect_writes(roll=True))

    def _begin(self) -> None:
        for number in segments.segments(self.path):
            # The head is written last, so nobody has been told anything.
            if segment(self.path, number).stat().st_size > len(self._first(1, whole=True)):
                raise lost(
                    f"{self.path} does not say whose log it is, and {segment(self.path, number)} is there"
                )
        self._begin_segment(1, whole=True)
        os.ftruncate(self._head, 0)
        segments.write_all(self._head, encoded((FORMAT, self._cluster, self._node)))
        os.fsync(self._head)
        segments.sync_folder(self.path.parent)

    def _rewrite(self) -> None:
        """Make segments of a log of the first format, which stays what counts until its head is replaced."""
        for number in segments.segments(self.path):
            os.unlink(segment(self.path, number))
        size = self._read(self.path, 0, may_be_torn=True)
        self.torn_bytes = self.path.stat().st_size - size
        compaction = LogCompaction({0: self.path}, self._retained, 1)
        made = compaction.write(segment(self.path, 1), self._first(1, whole=True), self._stopping)
        assert made is not None
        self._closed[1] = made
        self._begin_segment(2, whole=False)
        before = self._head
        self._head = segments.replace_head(self.path, encoded((FORMAT, self._cluster, self._node)))
        os.close(before)

    def _read_segments(self) -> None:
        numbers = segments.segments(self.path)
        firsts = [number for number in numbers if segments.is_complete(segment(self.path, number))]
        if not firsts:
            raise lost(f"{self.path} has no segment that begins it beside it")
        for number in numbers:
            if number < firsts[-1]:
                os.unlink(segment(self.path, number))
        last = numbers[-1]
        for number in range(firsts[-1], last + 1):
            file = segment(self.path, number)
            if number not in numbers:
                raise lost(f"{file} is missing")
            self._closed[number] = self._read(file, number, may_be_torn=number == last)
        good = self._closed.pop(last)
        self.torn_bytes = segment(self.path, last).stat().st_size - good
        self._file = os.open(segment(self.path, last), os.O_RDWR)
        os.ftruncate(self._file, good)
        os.lseek(self._file, good, os.SEEK_SET)
        # What was read may never have been synced, and is acted upon from now on.
        os.fdatasync(self._file)
        self._number, self._offset = last, good

    def _read(self, path: Path, number: int, *, may_be_torn: bool) -> int:
        """Take in a file; its bytes up to where it is torn."""
        at, first = 0, True
        for end, message in segments.read(path, may_be_torn=may_be_torn):
            if first:
                if number and message[:4] != (FORMAT, self._cluster, self._node, number):
                    raise lost(f"{path} begins with {message}, not as segment {number} of this log")
            else:
                group, written = message
                self._lines[group].absorb(written, written)
                self._note(group, written, FrameLocation(number, at, end - at))
            at, first = end, False
        return at

    # ------------------------------------------------------------ while it runs

    def write(self, group: int, written: Any) -> None:
        """Take a line in; it is on disk after the next `sync`.

        Raises
        ------
        InputError
            If it is no line of a log, or too long.
        """
        frame = encoded((group, written))
        self._note(group, written, FrameLocation(self._number, self._offset, len(frame)))
        self._offset += len(frame)
        self._pending.append(frame)

    def next_flush(self) -> FlushBatch:
        """What was written since, to be put."""
        return self._collect_writes(roll=self._offset >= self._segment_bytes)

    def put(self, taken: FlushBatch) -> None:
        """Put it on disk; may run beside further writes and a compaction, in another thread.

        Raises
        ------
        DiskError
            If the disk does not: nobody can say then what is on it, so the node must end.
        """
        with disk_error_text(self.path.parent):
            self._put(taken)

    def sync(self) -> None:
        """Put on disk whatever was written since; see `put`."""
        self.put(self.next_flush())

    @property
    def needs_compaction(self) -> bool:
        """See above."""
        return self._planned is not None

    def compact(self) -> None:
        """Write closed segments anew as one; may run beside writes and puts, in another thread.

        Raises
        ------
        DiskError
            If the disk does not take it. If it is full, the log is as it was, and is tried again later.
        """
        planned, self._planned = self._planned, None
        if planned is None:
            return
        first = self._first(planned.target, whole=True)
        try:
            with disk_error_text(self.path.parent):
                size = planned.write(segment(self.path, planned.target), first, self._stopping)
                if size is None:
                    return
                with self._sizes:
                    gone = [number for number in self._closed if number < planned.target]
                    self._closed[planned.target] = size
                    for number in gone:
                        del self._closed[number]
                segments.sync_folder(self.path.parent)
                for number in gone:
                    os.unlink(segment(self.path, number))
        finally:
            self._compacting = False

    def stop(self) -> None:
        """Have a compaction that runs end soon; a start goes on with it."""
        self._stopping.set()

    def close(self) -> None:
        """Let go of the files; what was not synced is lost."""
        for file in (self._file, self._head):
            if file >= 0:
                os.close(file)
        self._file = self._head = -1

    # ------------------------------------------------------------ in parts

    def _first(self, number: int, *, whole: bool) -> bytes:
        return first_frame(self._cluster, self._node, number, whole=whole)

    def _begin_segment(self, number: int, *, whole: bool) -> None:
        first = self._first(number, whole=whole)
        self._file = segments.begin(segment(self.path, number), first)
        self._number, self._offset = number, len(first)

    def _note(self, group: int, written: Any, place: FrameLocation) -> None:
        self._needed_bytes += place.length
        for freed in self._retained[group].absorb(written, place):
            self._needed_bytes -= freed.length

    def _is_compaction_worthwhile(self, open_bytes: int) -> bool:
        with self._sizes:
            size = sum(self._closed.values()) + open_bytes
        return size >= self._segment_bytes + 2 * self._needed_bytes

    def _collect_writes(self, *, roll: bool) -> FlushBatch:
        data, self._pending = b"".join(self._pending), []
        if not roll:
            return FlushBatch(data, None)
        with self._sizes:
            self._closed[self._number] = self._offset
        self._number += 1
        self._offset = len(self._first(self._number, whole=False))
        if self._compacting or not self._is_compaction_worthwhile(0):
            return FlushBatch(data, self._number)
        # All that is needed stands in closed segments, as soon as this is put.
        self._compacting = True
        files = {number: segment(self.path, number) for number in self._closed}
        return FlushBatch(data, self._number, LogCompaction(files, self._retained, self._number - 1))

    def _put(self, taken: FlushBatch) -> None:
        segments.write_all(self._file, taken.data)
        os.fdatasync(self._file)
        if taken.then is not None:
            before = self._file
            self._file = segments.begin(segment(self.path, taken.then), self._first(taken.then, whole=False))
            os.close(before)
        self._planned = taken.planned or self._planned
