"""Files by address: a folder of this machine, or below an object store's URI.

A `Path` stays what it is, and an object of a store has the part of its interface that lakes need, so what
works on one works on the other. What the two do differently stands here.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

from trimtab.files.object_store import StorePath
from trimtab_common.errors import SettingsError
from trimtab_common.files import in_the_making, sync_folder, writing

SCHEMES = ("s3", "s3a", "gs", "abfs", "abfss", "az", "file")
"""Of addresses that are understood."""

_ADDRESS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+):/+(?P<rest>.*)", re.DOTALL)

Location = Path | StorePath
"""A file or folder of a lake, wherever it lies."""


def place_of(values: Path | str) -> Location:
    """The folder or address that a text names; `~` is the home, `file://` a folder of this machine.

    Raises
    ------
    SettingsError
        If it is an address of a kind that is not understood, or none names a bucket.
    """
    found = _ADDRESS.fullmatch(str(values))
    if found is None:
        return Path(values).expanduser().absolute()
    scheme, rest = found["scheme"].lower(), found["rest"].rstrip("/")
    if scheme not in SCHEMES:
        raise SettingsError(
            f"lake {scheme}://{rest} has an address of a kind that is not supported: name a folder (HDFS "
            "among others can be mounted as one), or an address of "
            f"{', '.join(f'{one}://' for one in SCHEMES[:-1])} or {SCHEMES[-1]}://"
        )
    if scheme == "file":
        return Path("/" + rest)
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise SettingsError(f"lake {scheme}:// names no bucket: write {scheme}://BUCKET/FOLDER")
    # One store, one name: `s3a` is Hadoop's own for it.
    return StorePath(f"{'s3' if scheme == 's3a' else scheme}://{bucket}", re.sub("/+", "/", key))


def create(path: Location, content: bytes) -> None:
    """Write a file that is not there yet: as a whole, and only one of several who try will.

    Raises
    ------
    FileExistsError
        If it is there.
    """
    if isinstance(path, StorePath):
        path.create(content)
        return
    making = in_the_making(path)
    with writing(path):
        try:
            with open(making, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            created = _linked(making, path, content)
        finally:
            making.unlink(missing_ok=True)
        sync_folder(path.parent)
    if not created:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _linked(making: Path, path: Path, content: bytes) -> bool:
    """Give a finished file its name, unless that is taken."""
    try:
        os.link(making, path)
    except FileExistsError:
        # A network file system may have done it, lost the answer, and been asked again.
        return making.stat().st_nlink == 2
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        # Some file systems know no links. A reader may then see the beginning of a document for a moment.
        try:
            with open(path, "xb", buffering=0) as file:
                file.write(content)
                os.fsync(file.fileno())
        except FileExistsError:
            return False
    return True


def make_folder(folder: Location) -> None:
    """Make a folder, and those above it, where there is none; object stores have none to make."""
    if isinstance(folder, Path):
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)


def move(file: Location, target: Location) -> None:
    """Give a file another name in the same lake, whose folder is made; what had that name is replaced."""
    make_folder(target.parent)
    if isinstance(file, StorePath) and isinstance(target, StorePath):
        file.rename(target)
    elif isinstance(file, Path) and isinstance(target, Path):
        file.replace(target)
    else:
        raise AssertionError(f"{file} and {target} lie in different stores")


def remove_folder(folder: Location) -> None:
    """Remove a folder with all that lies in it; what cannot be removed is left."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path, _, _ in list(folder.below()):
        path.unlink()


def reach(place: Location) -> None:
    """Refuse a store that does not answer, before anything is done; a folder is made where it is missing.

    Raises
    ------
    StoreError
        If it cannot be reached, or does not let us in.
    """
    if isinstance(place, StorePath):
        place.is_dir()


def files_in(folder: Location) -> list[tuple[Location, int, float]]:
    """Files of a folder, by name, with their bytes and when they were written, seconds since 1970."""
    if isinstance(folder, StorePath):
        return sorted(one for one in folder.below() if one[0].parent == folder)
    try:
        found = [(path, path.stat()) for path in sorted(folder.iterdir()) if path.is_file()]
    except FileNotFoundError:
        return []
    return [(path, told.st_size, told.st_mtime) for path, told in found]


def size_of(folder: Location) -> int:
    """Bytes of the finished files of a folder."""
    if isinstance(folder, StorePath):
        return sum(size for _, size, _ in folder.below())
    return sum(file.stat().st_size for file in folder.glob("*.parquet"))


def written_at(place: Location) -> float:
    """When a file, or the newest of a folder, was written, seconds since 1970."""
    if isinstance(place, StorePath):
        return max((at for _, _, at in place.below()), default=0.0) or place.read_size()[1]
    return place.stat().st_mtime
