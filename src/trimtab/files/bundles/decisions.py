"""Decisions of strategies, tick after tick: JSON lines in a file, or in a folder with a file for each."""

import contextlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trimtab.files.head import time_text
from trimtab_common.errors import InputError
from trimtab_common.files import in_the_making, sync_folder, writing


def decision_line(
    at: float,
    unloads: Mapping[str, Sequence[str]],
    destinations: Mapping[str, str],
    why: Mapping[str, object],
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
        "why": reason_document(why),
    }
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


@contextlib.contextmanager
def decision_file(path: Path | None) -> Iterator[Callable[[str], object]]:
    """A file of decisions that appears as a whole or not at all: takes the lines of `decision_line`.

    Parameters
    ----------
    path
        The file to make or replace; its folder must exist. None: standard output.

    Raises
    ------
    InputError
        On entering, writing or leaving, if the place cannot be written.
    """
    if path is None:
        yield sys.stdout.write
        return
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError
        making = in_the_making(path)
        file = making.open("w", encoding="utf-8", newline="\n")

    def write(line: str) -> None:
        with writing(path):
            file.write(line)

    try:
        yield write
        with writing(path):
            file.flush()
            os.fsync(file.fileno())
            os.replace(making, path)
            sync_folder(path.parent)
    finally:
        file.close()
        making.unlink(missing_ok=True)


@contextlib.contextmanager
def decision_folder(path: Path | None) -> Iterator[Callable[[str], Path | None]]:
    """A folder of decisions that appears as a whole or not at all: from a strategy to the file for it.

    Parameters
    ----------
    path
        The folder to make, which may exist if it is empty; None: no decisions are kept.

    Raises
    ------
    InputError
        On entering or leaving, if the place cannot be written or holds something already.
    """
    if path is None:
        yield lambda strategy: None
        return
    check_new_folder(path)
    with writing(path):
        making = in_the_making(path.absolute())
        making.mkdir()

    def file(strategy: str) -> Path:
        # A name may hold anything, also a slash.
        name = quote(strategy, safe=" ()+,=@").lstrip(".") or "strategy"
        return making / f"{name}.jsonl"

    try:
        yield file
        with writing(path):
            os.replace(making, path)
            sync_folder(path.absolute().parent)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def check_new_folder(path: Path | None) -> None:
    """Refuse a place that holds something already: decisions of two replays are not to be mixed.

    Raises
    ------
    InputError
        If it does, or cannot be looked at.
    """
    if path is None:
        return
    with writing(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(
                f"{path}: is there already, expected a new folder for the decisions, a file for each "
                "strategy; name another or remove it"
            )


def reason_document(why: Mapping[str, object]) -> dict[str, object]:
    """The numbers that decided as plain JSON values; an infinite one is text, since JSON has none."""
    found: dict[str, object] = _finite(why)
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
