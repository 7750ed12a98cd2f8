"""The file of a cluster's preferred map: the node that should be master of each group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from trimtab_common.errors import InputError
from trimtab_common.files import write_atomically
from trimtab_store.core.messages import MapChanged

FORMAT: Final = "trimtab/masters-map/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredMap:
    """A version of the map.

    Attributes
    ----------
    version
        Higher than that of any map before it.
    preferred
        One node per group, or -1 for any.
    """

    format: str
    version: int
    preferred: list[int]


def write_map(path: Path, observation: MapChanged) -> None:
    """Create or replace the file atomically; errors as in `write_atomically`."""
    found = PreferredMap(format=FORMAT, version=observation.version, preferred=list(observation.preferred))
    write_atomically(path, msgspec.json.format(msgspec.json.encode(found), indent=1))


def read_map(path: Path, nodes: int, groups: int) -> MapChanged:
    """The map of a file.

    Parameters
    ----------
    nodes, groups
        Number of nodes and groups of the cluster.

    Raises
    ------
    InputError
        If it cannot be read, or names unknown nodes or groups.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=PreferredMap)
    except FileNotFoundError:
        raise InputError(
            f'{path} is not there, and is named as the preferred map: correct "map" in the configuration of '
            "the "
            f'node, or write {{"format": "{FORMAT}", "version": 1, "preferred": [...]}} there, with a node '
            f"or -1 "
            f"for each of {groups} groups"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} cannot be read as a preferred map: {error}") from None
    if found.format != FORMAT:
        raise InputError(f"{path} has format {found.format!r}, expected {FORMAT!r}")
    if len(found.preferred) != groups:
        raise InputError(f"{path} has preferred nodes for {len(found.preferred)} groups, expected {groups}")
    for group, node in enumerate(found.preferred):
        if not -1 <= node < nodes:
            raise InputError(
                f"{path} names node {node} as preferred for group {group}, expected 0 to {nodes - 1}, or -1"
            )
    return MapChanged(found.version, tuple(found.preferred))


_MISSING: Final = (-1, -1)
"""In the place of when a file was changed, and which it is."""


class PreferredMapFile:
    """The file of a map, which is read again and again."""

    def __init__(self, path: Path, nodes: int, groups: int) -> None:
        self._path, self._nodes, self._groups = path, nodes, groups
        self._polled_at: tuple[int, int] | None = None
        self._known: MapChanged | None = None

    def changed(self) -> MapChanged | None:
        """The map if it has changed since the last call.

        Raises
        ------
        InputError
            As in `read_map`, or if it changed without a higher version; once for each change.
        """
        try:
            stat = self._path.stat()
            looked = stat.st_mtime_ns, stat.st_ino
        except OSError:
            looked = _MISSING
        if self._polled_at == looked:
            return None
        self._polled_at = looked
        found = read_map(self._path, self._nodes, self._groups)
        if self._known is not None and found != self._known and found.version <= self._known.version:
            raise InputError(
                f"{self._path} has another map in version {found.version}, and version {self._known.version} "
                "was seen: give a new map a higher version"
            )
        self._known = found
        return found
