"""Files of a node's log: the head, which says whose it is, and segments, numbered in their order."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from trimtab_common.errors import InputError, NodeError
from trimtab_store.format.frames import TornFrameError, encoded, frames

FORMAT: Final = "trimtab/masters-log/2"
FIRST_FORMAT: Final = "trimtab/masters-log/1"
"""One file that only grew; read once, and written anew as segments."""
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


def lost(what: str) -> InputError:
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


def log_format(path: Path, cluster: str, node: int) -> str | None:
    """The format of a node's log by its head; None if it has none yet.

    Raises
    ------
    InputError
        If it is another node's, of a version that is not known here, or damaged.
    """
    for _, found in read(path, may_be_torn=True):
        for known in (FORMAT, FIRST_FORMAT):
            if found == (known, cluster, node):
                return known
        form = found[0] if isinstance(found, tuple) and found else found
        if form not in (FORMAT, FIRST_FORMAT):
            raise InputError(
                f"{path} has format {form!r}, expected {FORMAT!r} or {FIRST_FORMAT!r}: run this node with "
                "the version of trimtab that wrote it, or a later one"
            )
        raise InputError(
            f"{path} is the log of {found}, expected {(form, cluster, node)}: give this node its own folder"
        )
    return None


def segment(path: Path, number: int) -> Path:
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


def replace_head(path: Path, data: bytes) -> int:
    """Put another head in the place of a log's, on disk; the new one is locked from the beginning."""
    making = path.with_name(path.name + MAKING)
    head = os.open(making, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        fcntl.flock(head, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_all(head, data)
        os.fsync(head)
        os.replace(making, path)
        sync_folder(path.parent)
    except BaseException:
        os.close(head)
        raise
    return head


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
        raise lost(f"{path} does not begin as a segment of {FORMAT!r} does")
    return bool(whole)


def write_all(file: int, data: bytes) -> None:
    """Write at the end, all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def sync_folder(folder: Path) -> None:
    """Names must survive a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
            raise lost(f"{path} is damaged at byte {good:,}, with more of the log behind it") from None


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
