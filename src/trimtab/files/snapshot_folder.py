"""Snapshot folders of all balancers: a `meta.json` and tables beside it, there as a whole or not at all."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from trimtab.files.document import JsonDocument
from trimtab_common.documents import checked_format
from trimtab_common.errors import InputError
from trimtab_common.files import in_the_making, read_bytes, sync_folder, writing


def open_folder(folder: Path, files: tuple[str, ...], form: str, names: tuple[str, ...]) -> JsonDocument:
    """The `meta.json` of a snapshot folder, of which only keys and the format are checked so far.

    Parameters
    ----------
    files
        What the folder must hold, in order of name.
    form
        The format that it must name.
    names
        Every field name of the format, for "did you mean".

    Raises
    ------
    InputError
        If a file is missing, or `meta.json` is malformed or of another format.
    """
    for name in files:
        if not (folder / name).is_file():
            tables = [one for one in files if one != "meta.json"]
            expected = f"{', '.join(['meta.json', *tables[:-1]])} and {tables[-1]}"
            raise InputError(f"{folder}: has no {name}; a snapshot folder holds {expected}")
    meta = JsonDocument(folder / "meta.json", read_bytes(folder / "meta.json"), names)
    _ = meta.tree  # small: read strictly at once
    meta.require(("format",), tuple(meta.parts))
    checked_format(str(meta.path), meta.part("format", object), form)
    return meta


def write_folder(
    folder: Path, files: tuple[str, ...], meta: dict[str, object], tables: Callable[[Path], None]
) -> str:
    """Write the files beside the place, force them to disk, and rename the folder into it.

    Parameters
    ----------
    files
        As for `open_folder`.
    meta
        What `meta.json` holds.
    tables
        Writes the other files into the folder it is given.

    Returns
    -------
    str
        The folder's digest.

    Raises
    ------
    InputError
        If the place is taken by something else, or cannot be written.
    """
    making = in_the_making(folder)
    if folder.exists() and not (folder / "meta.json").is_file():
        raise InputError(f"{folder}: is there already and is no snapshot folder; name another place")
    with writing(folder):
        try:
            making.mkdir()
            (making / "meta.json").write_bytes(
                msgspec.json.format(msgspec.json.encode(meta), indent=1) + b"\n"
            )
            tables(making)
            for name in files:
                with open(making / name, "rb") as file:
                    os.fsync(file.fileno())
            sync_folder(making)
            digest = folder_digest(making, files)
            if folder.exists():
                old = in_the_making(folder)
                os.rename(folder, old)
                os.rename(making, folder)
                shutil.rmtree(old)
            else:
                os.rename(making, folder)
            sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return digest


def folder_digest(folder: Path, files: tuple[str, ...]) -> str:
    """SHA-256 of what `sha256sum` prints of the files, in order of name, within the folder."""
    lines = [f"{hashlib.sha256(read_bytes(folder / name)).hexdigest()}  {name}\n" for name in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
