"""Files are read and written completely, or one sentence says why they are not.

A file that is written appears as a whole or not at all, also if the machine stops during the write.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from trimtab_common.errors import InputError, SettingsError

if TYPE_CHECKING:
    from ssl import SSLContext

GZIP_MAGIC = b"\x1f\x8b"


def check_file(subject: str, path: Path) -> None:
    """Refuse a setting that names no file.

    Raises
    ------
    SettingsError
        If there is no file at the path.
    """
    if not path.is_file():
        raise SettingsError(f"{subject} names {path}, and there is no such file: correct the path")


def read_secret(subject: str, path: Path) -> str:
    """The password or token in a file, without the line end.

    Raises
    ------
    SettingsError
        If there is no such file, or it is no readable text.
    """
    check_file(subject, path)
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{subject} {path} cannot be read: {error}; correct it") from error


def load_certificates(
    context: SSLContext, authorities: Path | None, certificate: Path | None, key: Path | None
) -> None:
    """Load PEM files into a TLS context: the trusted authorities, and the certificate of this side.

    Raises
    ------
    SettingsError
        If a file is not PEM, or the key does not fit its certificate.
    """
    subject = authorities
    try:
        if authorities is not None:
            context.load_verify_locations(cafile=authorities)
        if certificate is not None:
            subject = certificate
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise SettingsError(
            f"the TLS file {subject} cannot be used ({error}): it must be PEM, and a key must fit its "
            "certificate"
        ) from error


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
