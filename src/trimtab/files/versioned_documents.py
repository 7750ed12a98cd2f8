"""A folder of small documents that are numbered in the order they came: the newest counts.

Whoever adds one must know the newest, for a number can be taken once only. That is all that writers need to
keep out of one another's way, and every kind of store can do it: an object store's conditional PUT, a link or
an exclusive file in a folder. No lock is held, so none is left behind by a process that dies.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from trimtab.files.store import Location, create, make_folder


class VersionConflictError(Exception):
    """Somebody else added a document of that number, or of a later one, first."""


@dataclass(frozen=True)
class VersionedDocuments:
    """Documents `00000000000000000001.json` and so on.

    Attributes
    ----------
    folder
        Where they lie; made when the first is added.
    retained
        The newest so many are kept, at least 2; older ones are removed when one is added.
    """

    folder: Location
    retained: int

    def newest(self) -> tuple[int, bytes] | None:
        """The number and content of the newest; None where there is none."""
        while numbers := self.numbers():
            with contextlib.suppress(FileNotFoundError):
                return numbers[-1], self.path(numbers[-1]).read_bytes()
            # Removed since, because many more were added: look again.
        return None

    def add(self, number: int, content: bytes) -> None:
        """Add the document that comes after all others.

        Parameters
        ----------
        number
            More than that of the newest that its writer has read; the next, unless there is none yet.

        Raises
        ------
        NumberTakenError
            If it is taken. Nothing was added then.
        """
        path = self.path(number)
        make_folder(self.folder)
        try:
            create(path, content)
        except FileExistsError:
            raise VersionConflictError(str(path)) from None
        numbers = self.numbers()
        if numbers[-1] != number and number - 1 not in numbers:
            # It was taken so long ago that it has been removed since: what we knew as the newest is no more.
            path.unlink(missing_ok=True)
            raise VersionConflictError(str(path))
        # Oldest first: while one is there, so are all that came after it.
        for old in numbers[: -self.retained]:
            self.path(old).unlink(missing_ok=True)

    def path(self, number: int) -> Location:
        """The place of a document."""
        return self.folder / f"{number:020d}.json"

    def numbers(self) -> list[int]:
        """Numbers of the documents that are there, ascending."""
        try:
            # Read at each heartbeat and transaction: a path object for each document took most of that time.
            local = isinstance(self.folder, Path)
            names = os.listdir(self.folder) if local else [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted([int(name[:-5]) for name in names if name[-5:] == ".json" and name[:-5].isdecimal()])
