"""Folders that are made once, by one process at a time, and appear whole."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.model.errors import JarsError


@contextmanager
def scratch_sibling(folder: Path) -> Iterator[Path]:
    """A folder in which another one is made before it is put in place, once its lock is held.

    Leftovers of a killed process are cleared away.
    """
    prefix = f".making-{folder.name}-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as name:
        yield Path(name)


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold a lock file while something beside it is made; others wait. Gone with its holder's process.

    Raises
    ------
    JarsError
        If the folder of the lock cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise JarsError(
            f"{lock.parent} cannot be written ({error.strerror}): correct its permissions, or name other "
            "places with the environment variables TRIMTAB_CACHE and TRIMTAB_STATE"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
