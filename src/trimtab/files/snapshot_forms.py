"""The forms that snapshots of all levels have in files: `.json`, `.json.gz`, or a folder with tables."""

import gzip
import hashlib
from pathlib import Path

from trimtab.files.atomic import write_atomically
from trimtab.files.reading import GZIP_MAGIC, gunzip, read_bytes
from trimtab.model.errors import InputError


def is_folder_name(path: Path) -> bool:
    """Whether a snapshot written there shall be a folder."""
    return path.suffix not in (".json", ".gz")


def json_text(path: Path) -> tuple[bytes, str]:
    """The JSON text of a file, plain or compressed by gzip, and the digest of the file.

    Raises
    ------
    InputError
        If there is none, it is damaged, or it is a Parquet file.
    """
    data = read_bytes(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if data.startswith(GZIP_MAGIC) or path.suffix == ".gz":
        data = gunzip(path, data)
    elif data.startswith(b"PAR1"):
        raise InputError(f"{path}: is a Parquet file; name the folder that holds it, or a JSON file")
    return data, sha256


def write_json_text(path: Path, data: bytes) -> str:
    """Write a JSON text, compressed if the name says so; returns the digest of the file.

    The same text gives the same bytes.
    """
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()
