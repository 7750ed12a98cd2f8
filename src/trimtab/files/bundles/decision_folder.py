"""A folder of decisions, a file for each strategy, that appears as a whole or not at all."""

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from trimtab.files.atomic import in_the_making, sync_folder, writing
from trimtab.model.errors import InputError


class DecisionFolder:
    """The folder while it is being filled, under a hidden name beside its place.

    Parameters
    ----------
    path
        The folder to make, which may exist if it is empty; None: no decisions are kept.

    Raises
    ------
    InputError
        On entering or leaving, if the place cannot be written or holds something already.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._making: Path | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            check_new_folder(self._path)
            with writing(self._path):
                self._making = in_the_making(self._path.absolute())
                self._making.mkdir()
        return self

    def file(self, strategy: str) -> Path | None:
        """The file for the decisions of a strategy."""
        # A name may hold anything, also a slash.
        name = quote(strategy, safe=" ()+,=@").lstrip(".") or "strategy"
        return None if self._making is None else self._making / f"{name}.jsonl"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is None or self._making is None:
            return
        try:
            if kind is None:
                with writing(self._path):
                    os.replace(self._making, self._path)
                    sync_folder(self._path.absolute().parent)
        finally:
            shutil.rmtree(self._making, ignore_errors=True)


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
