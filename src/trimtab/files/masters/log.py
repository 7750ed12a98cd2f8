"""A node's write-ahead log: one file for all its groups, synced once for whatever came together."""

from __future__ import annotations

import fcntl
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from trimtab.files.masters.frames import TornError, encoded, frames
from trimtab.model.errors import InputError

FORMAT: Final = "trimtab/masters-log/1"


class NodeLog:
    """The file of one node: a first frame that says whose it is, then a frame (group, message) a write.

    After a crash the end may be torn: frames behind the last sync of which nobody was told. They are cut off.
    What was synced and cannot be read is another matter, and refused.

    Parameters
    ----------
    path
        Made if it is not there.
    cluster, node
        Whose log it must be.

    Attributes
    ----------
    recovered
        Group to what was written for it, in order.
    torn_bytes
        Bytes that were cut off the end.

    Raises
    ------
    InputError
        If it is another node's, of another version, damaged before its end, or in use.
    """

    def __init__(self, path: Path, cluster: str, node: int) -> None:
        self.path = path
        self.recovered: dict[int, list[Any]] = defaultdict(list)
        self._pending: list[bytes] = []
        head = (FORMAT, cluster, node)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._have_alone()
            data = path.read_bytes()
            good = self._read(memoryview(data), head)
            self.torn_bytes = len(data) - good
            os.ftruncate(self._file, good)
            os.lseek(self._file, good, os.SEEK_SET)
            if good == 0:
                self._pending.append(encoded(head))
            self.sync()
            if good == 0:
                # The name, too, must survive a power cut.
                _sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def _have_alone(self) -> None:
        # Another process of this node may be writing its last frame, which would look torn.
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self.path} is in use by another process: this node runs already; stop that one first"
            ) from None

    def _read(self, data: memoryview, head: tuple[str, str, int]) -> int:
        good, first = 0, True
        try:
            for end, message in frames(data):
                if first and message != head:
                    raise InputError(
                        f"{self.path} is the log of {message}, expected {head}: give this node its own folder"
                    )
                if not first:
                    group, written = message
                    self.recovered[group].append(written)
                good, first = end, False
        except TornError:
            self._refuse_damage(data, good)
        return good

    def _refuse_damage(self, data: memoryview, good: int) -> None:
        """A torn frame with a whole one right behind it was not torn by a crash while it was written last."""
        for at in range(good + 1, min(len(data), good + (1 << 16))):
            try:
                end, _ = next(frames(data[at:]))
            except (TornError, InputError, StopIteration):
                continue
            if end > 16:  # shorter ones are found in any heap of bytes
                raise InputError(
                    f"{self.path} is damaged at byte {good:,}, with whole frames behind it, and what this "
                    "node has promised is lost; remove the folder only if a majority of the others is sound"
                )

    def write(self, group: int, written: Any) -> None:
        """Take a line in; it is on disk after the next `sync`."""
        self._pending.append(encoded((group, written)))

    def take(self) -> bytes:
        """What was written since, to be put."""
        data, self._pending = b"".join(self._pending), []
        return data

    def put(self, data: bytes) -> None:
        """Put it on disk; may run beside further writes, in another thread.

        Raises
        ------
        OSError
            If the disk does not: nobody can say then what is on it, so the node must end.
        """
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fdatasync(self._file)

    def sync(self) -> None:
        """Put on disk whatever was written since; see `put`."""
        self.put(self.take())

    def close(self) -> None:
        """Let go of the file; what was not synced is lost."""
        os.close(self._file)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
