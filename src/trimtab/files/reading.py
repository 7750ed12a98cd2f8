"""The bytes of a file that a user named, or one clear sentence about why there are none."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from trimtab.model.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """All bytes of a file.

    Raises
    ------
    InputError
        If there is no such file, it is a folder, or it may not be read.
    """
    with reading(path):
        return path.read_bytes()


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one line why `path` cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except NotADirectoryError:
        raise InputError(
            f"{path}: no such file, a part of its path is not a folder; check the path"
        ) from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder where a file was expected; name the file") from None
    except PermissionError:
        raise InputError(f"{path}: may not be read by this user; change its permissions") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read, {fault.strerror}; check the path and the disk") from None
    except ValueError as fault:  # a null byte in the name
        raise InputError(f"{str(path)!r}: not a file name, {fault}; check the path") from None


def gunzip(path: Path, data: bytes) -> bytes:
    """Decompress what was read from `path`.

    Raises
    ------
    InputError
        If it is no gzip, damaged, or ends too early.
    """
    try:
        return gzip.decompress(data)
    except EOFError:
        raise InputError(f"{path}: the gzip data ends too early; copy or export the file again") from None
    except (OSError, zlib.error) as fault:
        remedy = "export it again, or drop .gz from the name if it is plain JSON"
        raise InputError(f"{path}: is not sound gzip data ({fault}); {remedy}") from None
