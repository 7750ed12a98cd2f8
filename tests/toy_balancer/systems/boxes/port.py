"""Boxes as a port to act through: each change rewrites the file as a whole."""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.act.balls.state import BoxesObservation
from trimtab.systems.boxes.settings import BoxesConnection


class BoxesPort:
    """A file of boxes."""

    claim_rights = "make the file writable"

    def __init__(self, path: Path) -> None:
        self._path = path

    def observe(self) -> BoxesObservation:
        """The boxes, and where each ball lies."""
        found = self._read()
        balls = {name: ball["box"] for name, ball in found["balls"].items()}
        return BoxesObservation(found["cluster"], frozenset(found["boxes"]), balls)

    def put(self, targets: dict[str, str]) -> None:
        """Put balls into boxes."""
        found = self._read()
        for ball, box in targets.items():
            found["balls"][ball]["box"] = box
        self._write(found)

    def read_claims(self) -> frozenset[str]:
        """See `ClaimPort.read_claims`."""
        return frozenset(self._read().get("claims", ()))

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClaimPort.write_claims`."""
        found = self._read()
        found["claims"] = sorted((set(found.get("claims", ())) | set(added)) - set(removed))
        self._write(found)

    def _read(self) -> dict[str, Any]:
        return json.loads(self._path.read_text())

    def _write(self, found: dict[str, Any]) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(found))
        new.replace(self._path)


@contextmanager
def open_port(connection: BoxesConnection, clock: Callable[[], float]) -> Iterator[BoxesPort]:
    """The file as a port."""
    yield BoxesPort(connection.path)
