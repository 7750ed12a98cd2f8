"""The log of a node on disk: segments of frames, synced in batches, and compacted while the node runs.

A frame that was torn by a crash ends the log; one that is damaged before sound frames is an error.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final, NamedTuple

from trimtab_common.errors import InputError, NodeError
from trimtab_common.files import sync_folder
from trimtab_store.core.paxos import RetainedLog
from trimtab_store.format.wire import TornFrameError, encoded, frames

FORMAT: Final = "trimtab/masters-log/3"
MAKING: Final = ".making"
_HINTS: Final = {
    errno.ENOSPC: "is full: free space there",
    errno.EDQUOT: "has no more room for this user: free space there, or raise the quota",
    errno.EROFS: "is read-only: see why (a file system that found a fault becomes so), mount it for writing",
    errno.EACCES: "may not be written by this user: change its owner",
}


class DiskError(NodeError):
    """A disk does not take what has to be on it.

    Attributes
    ----------
    full
        Whether space is all that is missing.
    """

    def __init__(self, folder: Path, error: OSError) -> None:
        self.full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = _HINTS.get(error.errno or 0, f"failed ({error.strerror or error}): replace it, or mend it")
        super().__init__(f"the disk of {folder} {hint}")


def unreadable_log(what: str) -> InputError:
    """The error of a log that cannot be read as it was written; what is wrong with it stands first."""
    # With a log that lacks its end or its middle it would vote, and not know for what it had voted.
    return InputError(
        f"{what}, and what this node has promised is lost; start it with an empty folder, never with an "
        "older copy of this one: it votes again once all other nodes have answered and it has caught up"
    )


@contextmanager
def disk_error_text(folder: Path) -> Iterator[None]:
    """Say in one sentence what is wrong with the disk.

    Raises
    ------
    DiskError
        For every fault of the system inside.
    """
    try:
        yield
    except OSError as error:
        raise DiskError(folder, error) from error


def lock(path: Path) -> int:
    """Open a log's head, made if it is not there, for this process alone.

    Raises
    ------
    InputError
        If another process has it.
    """
    head = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(head, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been replaced between the two.
        alone = os.fstat(head).st_ino == os.stat(path).st_ino
    except BlockingIOError:
        alone = False
    except BaseException:
        os.close(head)
        raise
    if not alone:
        os.close(head)
        raise InputError(f"{path} is in use by another process: this node runs already; stop that one first")
    return head


def has_head(path: Path, cluster: str, node: int) -> bool:
    """Whether a node's log has its head already.

    Raises
    ------
    InputError
        If it is another node's, of a version that is not known here, or damaged.
    """
    for _, found in read(path, may_be_torn=True):
        if found == (FORMAT, cluster, node):
            return True
        form = found[0] if isinstance(found, tuple) and found else found
        if form != FORMAT:
            raise InputError(
                f"{path} has format {form!r}, expected {FORMAT!r}: run this node with the version of trimtab "
                "that wrote it"
            )
        raise InputError(
            f"{path} is the log of {found}, expected {(form, cluster, node)}: give this node its own folder"
        )
    return False


def segment_path(path: Path, number: int) -> Path:
    """The file of a segment."""
    return path.with_name(f"{path.name}.{number:08}")


def segments(path: Path) -> list[int]:
    """Numbers of the segments that are there, in order."""
    name = re.compile(re.escape(path.name) + r"\.(\d{8,})")
    return sorted(int(found[1]) for one in path.parent.iterdir() if (found := name.fullmatch(one.name)))


def remove_unfinished(path: Path) -> None:
    """Remove what a process was making when it was killed."""
    for one in path.parent.glob(f"{path.name}*{MAKING}"):
        os.unlink(one)


def first_frame(cluster: str, node: int, number: int, *, whole: bool) -> bytes:
    """How a segment begins; `whole` says that it holds all that stood in those before it, too."""
    return encoded((FORMAT, cluster, node, number, whole))


def begin(path: Path, data: bytes) -> int:
    """A new file of these bytes, on disk with its name; open for writing behind them."""
    making = path.with_name(path.name + MAKING)
    file = os.open(making, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write_all(file, data)
        os.fsync(file)
        os.replace(making, path)
        sync_folder(path.parent)
    except BaseException:
        os.close(file)
        raise
    return file


def is_complete(path: Path) -> bool:
    """Whether a segment holds all that stood in those before it, too.

    Raises
    ------
    InputError
        If it does not begin as a segment does; it was on disk before it had its name.
    """
    with open(path, "rb") as file:
        start = file.read(4096)
    try:
        _, message = next(frames(memoryview(start)))
        form, _, _, _, whole = message
    except (TornFrameError, InputError, StopIteration, ValueError, TypeError):
        form, whole = None, False
    if form != FORMAT:
        raise unreadable_log(f"{path} does not begin as a segment of {FORMAT!r} does")
    return bool(whole)


def write_all(file: int, data: bytes) -> None:
    """Write at the end, all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def read(path: Path, *, may_be_torn: bool) -> Iterator[tuple[int, Any]]:
    """Messages of a file, each with the offset behind it, up to where it is torn.

    Raises
    ------
    InputError
        If it is damaged: torn before its end, or torn at all though it may not be.
    """
    data, good = memoryview(path.read_bytes()), 0
    try:
        for good, message in frames(data):
            yield good, message
    except TornFrameError:
        if not may_be_torn or _continues(data, good):
            raise unreadable_log(
                f"{path} is damaged at byte {good:,}, with more of the log behind it"
            ) from None


def _continues(data: memoryview, good: int) -> bool:
    """A torn frame with a whole one right behind it was not torn by a crash while it was written last."""
    for at in range(good + 1, min(len(data), good + (1 << 16))):
        try:
            end, _ = next(frames(data[at:]))
        except (TornFrameError, InputError, StopIteration):
            continue
        if end > 16:  # shorter ones are found in any heap of bytes
            return True
    return False


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
        self.recovered: dict[int, list[object]] = {}
        self.torn_bytes = 0
        self._lines: defaultdict[int, RetainedLog[object]] = defaultdict(RetainedLog)
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
                self._head = lock(path)
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
        remove_unfinished(self.path)
        if not has_head(self.path, self._cluster, self._node):
            self._begin()
        else:
            self._read_segments()
        if self._is_compaction_worthwhile(self._offset):
            # Needed or not, all of it was read: the next start is to be quicker.
            self._put(self._collect_writes(roll=True))

    def _begin(self) -> None:
        for number in segments(self.path):
            # The head is written last, so nobody has been told anything.
            if segment_path(self.path, number).stat().st_size > len(self._first(1, whole=True)):
                there = segment_path(self.path, number)
                raise unreadable_log(f"{self.path} does not say whose log it is, and {there} is there")
        self._begin_segment(1, whole=True)
        os.ftruncate(self._head, 0)
        write_all(self._head, encoded((FORMAT, self._cluster, self._node)))
        os.fsync(self._head)
        sync_folder(self.path.parent)

    def _read_segments(self) -> None:
        numbers = segments(self.path)
        firsts = [number for number in numbers if is_complete(segment_path(self.path, number))]
        if not firsts:
            raise unreadable_log(f"{self.path} has no segment that begins it beside it")
        for number in numbers:
            if number < firsts[-1]:
                os.unlink(segment_path(self.path, number))
        last = numbers[-1]
        for number in range(firsts[-1], last + 1):
            file = segment_path(self.path, number)
            if number not in numbers:
                raise unreadable_log(f"{file} is missing")
            self._closed[number] = self._read(file, number, may_be_torn=number == last)
        good = self._closed.pop(last)
        self.torn_bytes = segment_path(self.path, last).stat().st_size - good
        self._file = os.open(segment_path(self.path, last), os.O_RDWR)
        os.ftruncate(self._file, good)
        os.lseek(self._file, good, os.SEEK_SET)
        # What was read may never have been synced, and is acted upon from now on.
        os.fdatasync(self._file)
        self._number, self._offset = last, good

    def _read(self, path: Path, number: int, *, may_be_torn: bool) -> int:
        """Take in a file; its bytes up to where it is torn."""
        at, first = 0, True
        for end, message in read(path, may_be_torn=may_be_torn):
            if first:
                if number and message[:4] != (FORMAT, self._cluster, self._node, number):
                    raise unreadable_log(f"{path} begins with {message}, not as segment {number} of this log")
            else:
                group, written = message
                self._lines[group].absorb(written, written)
                self._note(group, written, FrameLocation(number, at, end - at))
            at, first = end, False
        return at

    # ------------------------------------------------------------ while it runs

    def write(self, group: int, written: object) -> None:
        """Take a line in; it is on disk after the next `put`.

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

    @property
    def needs_compaction(self) -> bool:
        """Whether a compaction is planned."""
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
                size = planned.write(segment_path(self.path, planned.target), first, self._stopping)
                if size is None:
                    return
                with self._sizes:
                    gone = [number for number in self._closed if number < planned.target]
                    self._closed[planned.target] = size
                    for number in gone:
                        del self._closed[number]
                sync_folder(self.path.parent)
                for number in gone:
                    os.unlink(segment_path(self.path, number))
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
        self._file = begin(segment_path(self.path, number), first)
        self._number, self._offset = number, len(first)

    def _note(self, group: int, written: object, place: FrameLocation) -> None:
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
        files = {number: segment_path(self.path, number) for number in self._closed}
        return FlushBatch(data, self._number, LogCompaction(files, self._retained, self._number - 1))

    def _put(self, taken: FlushBatch) -> None:
        write_all(self._file, taken.data)
        os.fdatasync(self._file)
        if taken.then is not None:
            before = self._file
            self._file = begin(segment_path(self.path, taken.then), self._first(taken.then, whole=False))
            os.close(before)
        self._planned = taken.planned or self._planned
