"""Snapshot folders between an object store and this machine: they never change, so a copy is as good."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.files.locations import cache_folder
from trimtab.files.store import Location
from trimtab_common.files import in_the_making

LAST = "meta.json"
"""Uploaded after the other files: a folder that has it is complete."""

RETAINED_COLUMNS = 3
"""Copies of a cluster's snapshots that stay in the cache."""


def local_copy(folder: Location) -> Path:
    """A snapshot folder on this machine: itself, or a copy in our cache."""
    if isinstance(folder, Path):
        return folder
    cluster = hashlib.sha256(str(folder.parent).encode()).hexdigest()[:16]
    copy = cache_folder() / "snapshots" / cluster / folder.name
    if not copy.is_dir():
        copy.parent.mkdir(parents=True, exist_ok=True)
        making = in_the_making(copy)
        making.mkdir()
        try:
            for file in folder.iterdir():
                (making / file.name).write_bytes(file.read_bytes())
            # Another process may have been faster; its copy is the same.
            if not copy.is_dir():
                making.rename(copy)
        except OSError:
            if not copy.is_dir():
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    for old in sorted(one for one in copy.parent.iterdir() if one.name[0] != ".")[:-RETAINED_COLUMNS]:
        if old != copy:
            shutil.rmtree(old, ignore_errors=True)
    return copy


@contextmanager
def uploaded(folder: Location) -> Iterator[Path]:
    """A path to write a snapshot folder to, which is then where `folder` says."""
    if isinstance(folder, Path):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="trimtab-snapshot-") as scratch:
        made = Path(scratch) / folder.name
        yield made
        for file in sorted(made.iterdir(), key=lambda file: file.name == LAST):
            (folder / file.name).write_bytes(file.read_bytes())
