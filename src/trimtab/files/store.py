"""Files by address: a folder of this machine, or below an object store's URI.

A `Path` stays what it is. An object store's address has the part of `Path`'s interface that lakes need, so
what works on one works on the other; the store's client is loaded when the first address is touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from trimtab.files.atomic import in_the_making, sync_folder, writing
from trimtab.model.errors import InputError, SettingsError

SCHEMES = ("s3", "s3a", "gs", "abfs", "abfss", "az", "file")
"""Of addresses that are understood."""

_ADDRESS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+):/+(?P<rest>.*)", re.DOTALL)
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"non-2xx status code: (\d{3} [A-Za-z ]+)")

_TOLD = {
    "NoSuchBucket": "the bucket does not exist",
    "AccessDenied": "access denied",
    "InvalidAccessKeyId": "access denied, the store does not know this access key",
    "SignatureDoesNotMatch": "access denied, the secret key is wrong",
}


class StoreError(InputError, OSError):
    """An object store that cannot be reached, or does not do what was asked."""


@dataclass(frozen=True, order=True)
class StorePath:
    """An object of an object store, or a folder: the beginning that the names of several have in common.

    Attributes
    ----------
    root
        Scheme and bucket, as `s3://bucket`.
    key
        The rest, without a slash at either end; empty for the bucket itself.
    """

    root: str
    key: str

    def __truediv__(self, name: str) -> StorePath:
        joined = f"{self.key}/{name}" if self.key and name else self.key or name
        return StorePath(self.root, joined.strip("/"))

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __fspath__(self) -> str:
        # Python's own functions would make a folder of this name here, and nobody would notice.
        raise TypeError(f"{self} is no file of this machine")

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.key).name

    @property
    def parent(self) -> StorePath:
        """The folder that it lies in."""
        return StorePath(self.root, self.key.rpartition("/")[0])

    def is_dir(self) -> bool:
        """True if there is anything below."""
        with self._told():
            found = _client(self.root).list_with_delimiter(self.key or None)
            return bool(found["objects"] or found["common_prefixes"])

    def is_file(self) -> bool:
        """True if there is an object of this name."""
        try:
            self.read_size()
        except FileNotFoundError:
            return False
        return True

    def exists(self) -> bool:
        """True if it is a file or a folder."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Iterator[StorePath]:
        """What lies in the folder, by name; nothing where there is none."""
        with self._told():
            found = _client(self.root).list_with_delimiter(self.key or None)
        objects = [one["path"] for one in found["objects"]]
        for key in sorted({*objects, *found["common_prefixes"]} - {self.key}):
            yield StorePath(self.root, key)

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """What lies in the folder under names that fit, by name; a slash goes a folder down."""
        first, _, rest = pattern.partition("/")
        for path in self.iterdir():
            if fnmatchcase(path.name, first):
                yield from path.glob(rest) if rest else (path,)

    def read_size(self) -> tuple[int, float]:
        """Bytes of the object, and when it was written, seconds since 1970."""
        with self._told():
            meta = _client(self.root).head(self.key)
        return meta["size"], meta["last_modified"].timestamp()

    def read_bytes(self) -> bytes:
        """Content of the object."""
        with self._told():
            return bytes(_client(self.root).get(self.key).bytes())

    def read_text(self) -> str:
        """Content of the object as UTF-8."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> int:
        """Write the object, there as a whole or not at all; another one of this name is replaced."""
        with self._told():
            _client(self.root).put(self.key, content)
        return len(content)

    def create(self, content: bytes) -> None:
        """Write the object if there is none of this name yet, else raise `FileExistsError`."""
        from obstore.exceptions import AlreadyExistsError

        try:
            with self._told():
                _client(self.root).put(self.key, content, mode="create")
        except AlreadyExistsError:
            # The client asks again where an answer got lost, and is then refused because of itself.
            if self.read_bytes() != content:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self)) from None

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; stores do not tell whether there was one."""
        with self._told(), contextlib.suppress(FileNotFoundError):
            _client(self.root).delete(self.key)

    def open_reader(self) -> Any:
        """The object as a file to read and seek in, of which only the parts that are read are fetched."""
        import obstore

        with self._told():
            return obstore.open_reader(_client(self.root), self.key, buffer_size=4 * 2**20)

    def below(self) -> Iterator[tuple[StorePath, int, float]]:
        """Every object below, with its bytes and when it was written, seconds since 1970."""
        with self._told():
            for page in _client(self.root).list(f"{self.key}/" if self.key else None):
                for one in page:
                    yield StorePath(self.root, one["path"]), one["size"], one["last_modified"].timestamp()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one sentence what the store says in a page."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except (AlreadyExistsError, FileNotFoundError) as error:
            if "NoSuchBucket" not in str(error):
                raise
            raise StoreError(f"{self}: {_TOLD['NoSuchBucket']}; make it, or name another one") from None
        except (BaseError, ValueError) as error:
            raise StoreError(
                f"{self}: {_reason(str(error))}; see that the address is right, and the environment of this "
                "process names region, endpoint and credentials that may read and write there"
            ) from None


def _reason(text: str) -> str:
    """The heart of a client's error, without its innards."""
    code, status = _CODE.search(text), _STATUS.search(text)
    if code is not None:
        return _TOLD.get(code[1], code[1])
    if status is not None:
        return f"the store answers {status[1].strip()}"
    if "HTTP error" in text or "error sending request" in text:
        return "the store cannot be reached"
    return text.strip().splitlines()[0][:200]


Place = Path | StorePath
"""A file or folder of a lake, wherever it lies."""


@cache
def _client(root: str) -> Any:
    """A store's client, with what the usual environment says of credentials, region and endpoint."""
    import datetime

    from obstore.store import from_url

    endpoint = os.environ.get("AWS_ENDPOINT_URL", "") if root.startswith("s3") else ""
    return from_url(
        root,
        client_options={"allow_http": endpoint.startswith("http://"), "timeout": "60s"},
        retry_config={"max_retries": 6, "retry_timeout": datetime.timedelta(seconds=30)},
    )


def place_of(given: Path | str) -> Place:
    """The folder or address that a text names; `~` is the home, `file://` a folder of this machine.

    Raises
    ------
    SettingsError
        If it is an address of a kind that is not understood, or none names a bucket.
    """
    found = _ADDRESS.fullmatch(str(given))
    if found is None:
        return Path(given).expanduser().absolute()
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


def create(path: Place, content: bytes) -> None:
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


def make_folder(folder: Place) -> None:
    """Make a folder, and those above it, where there is none; object stores have none to make."""
    if isinstance(folder, Path):
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)


def remove_folder(folder: Place) -> None:
    """Remove a folder with all that lies in it; what cannot be removed is left."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path, _, _ in list(folder.below()):
        path.unlink()
