"""A folder as a power cut leaves it: what was synced is there, of the rest whatever the disk came to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

OPERATIONS: Final = ("open", "write", "fsync", "fdatasync", "replace", "unlink", "ftruncate")
"""Of the module `os`; each is a moment at which the machine may stop."""


class Stopped(BaseException):
    """The machine has stopped; nobody may catch it."""


class CarefulDisk:
    """Looks on while one folder is written, and stops it before an operation.

    Parameters
    ----------
    stop
        Before which operation, counted from 0; never if None.

    Attributes
    ----------
    count
        Operations so far.
    """

    def __init__(self, folder: Path, stop: int | None) -> None:
        self._folder, self._stop, self.count = folder, stop, 0
        self._synced = {path.stat().st_ino: path.read_bytes() for path in folder.iterdir()}
        self._names = {path.name: path.stat().st_ino for path in folder.iterdir()}
        self._held: list[int] = []

    @contextmanager
    def looking_on(self) -> Iterator[None]:
        """All that is done meanwhile by this process counts."""
        patches = [mock.patch.object(os, name, self._wrapped(name, getattr(os, name))) for name in OPERATIONS]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            if self._stop is not None and self.count >= self._stop:
                raise Stopped
            self.count += 1
            if name in ("fsync", "fdatasync"):
                # Noted here instead of done: a test does it ten thousand times.
                return self._sync(arguments[0])
            found = real(*arguments, **named)
            if name == "open" and Path(arguments[0]).parent == self._folder:
                # Its number must not be another file's as long as this one is known by it.
                self._held.append(real(arguments[0], os.O_RDONLY))
            return found

        return operation

    def close(self) -> None:
        """Let go of the files that were seen."""
        for descriptor in self._held:
            os.close(descriptor)

    def _sync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path == self._folder:
            self._names = {one.name: one.stat().st_ino for one in path.iterdir()}
        elif path.parent == self._folder:
            self._synced[path.stat().st_ino] = path.read_bytes()

    def after_a_power_cut(self, into: Path, *, names: str, unsynced: float) -> None:
        """Make a folder of what is left.

        Parameters
        ----------
        names
            Which changes of names since they were synced the disk came to: `all`, `none` or `removals`.
        unsynced
            The share of a file behind its last sync that the disk came to.
        """
        now = {path.stat().st_ino: path.read_bytes() for path in self._folder.iterdir()}
        current = {path.name: path.stat().st_ino for path in self._folder.iterdir()}
        left = {"all": current, "none": self._names}.get(names)
        if left is None:
            left = {name: number for name, number in self._names.items() if name in current}
        into.mkdir()
        for name, number in left.items():
            synced = self._synced.get(number, b"")
            written = now.get(number, synced)
            if not written.startswith(synced):  # cut off, or written anew
                data = written if unsynced else synced
            else:
                data = written[: len(synced) + round(unsynced * (len(written) - len(synced)))]
            (into / name).write_bytes(data)
