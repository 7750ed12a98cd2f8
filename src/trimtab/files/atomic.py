"""Files that are either there as a whole or not there at all, also when the machine stops in the middle."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from trimtab.model.errors import InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, force it to disk, and rename it into place.

    Parameters
    ----------
    path
        The file to make or replace; its folder must exist.
    data
        The whole content.

    Raises
    ------
    InputError
        If the place cannot be written; an existing file is then as it was.
    """
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to beside `path`, forced to disk and renamed into place if all goes well.

    Raises
    ------
    InputError
        As `write_atomically`; every fault of the system inside is taken for one of writing.
    """
    making = in_the_making(path)
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError
        try:
            with open(making, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(making, path)
        except BaseException:
            making.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def in_the_making(path: Path) -> Path:
    """A hidden name in the same folder that no reader takes for the finished thing."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.making")


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk: a rename is only durable once that is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one line why `path` cannot be written."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(
            f"{path}: cannot be written, folder {path.parent} does not exist; make it first"
        ) from None
    except NotADirectoryError:
        raise InputError(
            f"{path}: cannot be written, {path.parent} is not a folder; name another place"
        ) from None
    except IsADirectoryError:
        raise InputError(f"{path}: cannot be written, it is a folder; name a file") from None
    except PermissionError:
        raise InputError(
            f"{path}: cannot be written, permission denied; name a place that you may write"
        ) from None
    except OSError as fault:
        raise InputError(
            f"{path}: cannot be written, {fault.strerror}; free space or name another place"
        ) from None
