"""Decisions of a strategy, tick after tick: JSON lines, as `trimtab replay bundles` writes them."""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from trimtab.files.atomic import in_the_making, sync_folder, writing
from trimtab.files.head import time_text


def decision_line(
    at: float,
    unloads: Mapping[str, Sequence[str]],
    destinations: Mapping[str, str],
    why: Mapping[str, Any],
    **more: object,
) -> str:
    """One decision as a line, with its end; equal decisions have equal bytes.

    Parameters
    ----------
    at
        Seconds since 1970.
    unloads
        Bundles by the broker that gives them up.
    destinations
        Brokers by bundle.
    why
        The numbers that decided; an infinite one is written as text, since JSON has none.
    more
        Further fields, written first.
    """
    row = {
        **more,
        "at": time_text(at),
        "unloads": {broker: list(bundles) for broker, bundles in unloads.items()},
        "destinations": dict(destinations),
        "why": plain_why(why),
    }
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


class DecisionFile:
    """A file of decisions that appears as a whole or not at all; without a path, standard output.

    Parameters
    ----------
    path
        The file to make or replace; its folder must exist.

    Raises
    ------
    InputError
        On entering or leaving, if the place cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._making: Path | None = None
        self._file: TextIO = sys.stdout

    def __enter__(self) -> Self:
        if self._path is not None:
            with writing(self._path):
                if self._path.is_dir():
                    raise IsADirectoryError
                self._making = in_the_making(self._path)
                self._file = open(self._making, "w", encoding="utf-8", newline="\n")
        return self

    def write(self, line: str) -> None:
        """Add a line that `decision_line` made."""
        if self._path is None:
            self._file.write(line)
            return
        with writing(self._path):
            self._file.write(line)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is None or self._making is None:
            return
        try:
            with writing(self._path):
                if kind is None:
                    self._file.flush()
                    os.fsync(self._file.fileno())
                    os.replace(self._making, self._path)
                    sync_folder(self._path.parent)
        finally:
            self._file.close()
            self._making.unlink(missing_ok=True)


def plain_why(why: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that decided as plain JSON values; an infinite one is text, since JSON has none."""
    found: dict[str, Any] = _finite(why)
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_finite(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if hasattr(value, "item"):  # a number of numpy's
        return _finite(value.item())
    return value
