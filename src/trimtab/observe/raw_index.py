"""The raw samples that are there, whatever files hold them: those as landed, and those joined since.

Collectors land a file a tick. Files of days that are over are joined into few in a folder of their own, and
those they were joined from are removed an hour later. Which of both count is told by the newest of numbered
documents, so that to every reader each sample is there once, at any moment and wherever a process was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments
from trimtab.model.errors import ObserveError

if TYPE_CHECKING:
    from trimtab.files.store import Location

FORMAT = "trimtab/raw/1"
RAW, JOINED, INDEX = "raw", "joined", "index"
"""Folders: of a balancer, of a balancer, and below the one before."""

RETAINED_INDEXES = 5
"""Documents; readers may hold one that is not the newest."""


@dataclass(frozen=True)
class RawIndex:
    """Raw files of a balancer at one moment; without any document, all those landed.

    Attributes
    ----------
    number
        Counts documents; 0 where there is none.
    begins
        Microseconds since 1970, the beginning of a day: of earlier ones samples were removed for their age.
    joined
        By day, as folders are named, the names of the files that samples landed then were joined into.
    doomed
        Files (relative to the balancer's folder) that no longer count, and since when, seconds since 1970.
    """

    number: int = 0
    begins: int = 0
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doomed: Mapping[str, float] = field(default_factory=dict)

    def with_joined(self, day: str, name: str, written: Iterable[str], now: float) -> RawIndex:
        """A file stands for those `landed` that day under some names."""
        doomed = {f"{RAW}/{day}/{one}": now for one in written}
        joined = {**self.joined, day: (*self.joined.get(day, ()), name)}
        return replace(self, joined=joined, doomed={**self.doomed, **doomed})

    def without_before(self, begins: int, day: str, removed: Iterable[str], now: float) -> RawIndex:
        """Nothing of before a day counts; of what was landed `removed` may go, by their relative names."""
        gone = [one for one in self.joined if one < day]
        doomed = {f"{JOINED}/{old}/{name}": now for old in gone for name in self.joined[old]}
        doomed |= dict.fromkeys(removed, now)
        kept = {one: names for one, names in self.joined.items() if one not in gone}
        return replace(self, begins=max(begins, self.begins), joined=kept, doomed={**doomed, **self.doomed})


def read_index(home: Location) -> RawIndex:
    """The newest index of a balancer whose folder is `home`.

    Raises
    ------
    ObserveError
        If it is not one that this version can read.
    """
    numbered = _numbered(home)
    found = numbered.newest()
    if found is None:
        return RawIndex()
    try:
        told = json.loads(found[1])
        if told.pop("format") != FORMAT:
            raise ValueError("another format")
        told["joined"] = {day: tuple(names) for day, names in told["joined"].items()}
        return RawIndex(**told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ObserveError(
            f"{numbered.path(found[0])} is not of format {FORMAT} ({error}): use the version of trimtab that "
            "wrote it, for it says which raw samples count"
        ) from None


def publish_index(home: Location, index: RawIndex) -> RawIndex:
    """Make an index the one that counts; returns it with its number counted up.

    Raises
    ------
    ObserveError
        If somebody else has published one since it was read; nothing was published then.
    """
    numbered = replace(index, number=index.number + 1)
    content = json.dumps({"format": FORMAT, **asdict(numbered)}, indent=1).encode()
    try:
        _numbered(home).add(numbered.number, content)
    except VersionConflictError:
        raise ObserveError(
            f"{home}: another `trimtab pipeline` is putting its raw samples in order; start again when it is "
            "done, nothing was changed"
        ) from None
    return numbered


def _numbered(home: Location) -> VersionedDocuments:
    return VersionedDocuments(home / JOINED / INDEX, RETAINED_INDEXES)
