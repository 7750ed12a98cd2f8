"""Objects of an object store, with the part of `Path`'s interface that lakes need.

The store's client is an extra of its own, loaded when the first object is touched.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from trimtab.extras import missing_extra_named
from trimtab_common.errors import InputError

_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"non-2xx status code: (\d{3} [A-Za-z ]+)")

_ERROR_TEXTS = {
    "NoSuchBucket": "the bucket does not exist",
    "AccessDenied": "access denied",
    "InvalidAccessKeyId": "access denied, the store does not know this access key",
    "SignatureDoesNotMatch": "access denied, the secret key is wrong",
}


SMALL_BYTES = 4 * 2**20
"""An object up to this size is fetched in one request instead of by parts."""


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
        """Last component of the path."""
        return PurePosixPath(self.key).name

    @property
    def parent(self) -> StorePath:
        """The folder that it lies in."""
        return StorePath(self.root, self.key.rpartition("/")[0])

    def is_dir(self) -> bool:
        """True if there is anything below."""
        with self._error_text():
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
        with self._error_text():
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
        with self._error_text():
            meta = _client(self.root).head(self.key)
        return meta["size"], meta["last_modified"].timestamp()

    def read_bytes(self) -> bytes:
        """Read the content of the object."""
        with self._error_text():
            return bytes(_client(self.root).get(self.key).bytes())

    def read_text(self) -> str:
        """Content of the object as UTF-8."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> int:
        """Write the object, there as a whole or not at all; another one of this name is replaced."""
        with self._error_text():
            _client(self.root).put(self.key, content)
        return len(content)

    def create(self, content: bytes) -> None:
        """Write the object if there is none of this name yet, else raise `FileExistsError`."""
        from obstore.exceptions import AlreadyExistsError

        try:
            with self._error_text():
                _client(self.root).put(self.key, content, mode="create")
        except AlreadyExistsError:
            # The client asks again where an answer got lost, and is then refused because of itself.
            if self.read_bytes() != content:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self)) from None

    def rename(self, target: StorePath) -> None:
        """Copy the object to another name in the same store, and remove it."""
        with self._error_text():
            _client(self.root).rename(self.key, target.key)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; stores do not tell whether there was one."""
        with self._error_text(), contextlib.suppress(FileNotFoundError):
            _client(self.root).delete(self.key)

    def open_reader(self) -> io.RawIOBase:
        """The object as a file to read and seek in, of which only the parts that are read are fetched."""
        size, _ = self.read_size()
        return io.BytesIO(self.read_bytes()) if size <= SMALL_BYTES else _Reader(self, size)  # type: ignore[return-value]

    def read_part(self, begin: int, length: int) -> bytes:
        """Some bytes of the object."""
        with self._error_text():
            return bytes(_client(self.root).get_range(self.key, start=begin, length=length))

    def below(self) -> Iterator[tuple[StorePath, int, float]]:
        """Every object below, with its bytes and when it was written, seconds since 1970."""
        with self._error_text():
            for page in _client(self.root).list(f"{self.key}/" if self.key else None):
                for one in page:
                    yield StorePath(self.root, one["path"]), one["size"], one["last_modified"].timestamp()

    @contextlib.contextmanager
    def _error_text(self) -> Iterator[None]:
        """Say in one sentence what the store says in a page."""
        with missing_extra_named():
            from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except (AlreadyExistsError, FileNotFoundError) as error:
            if "NoSuchBucket" not in str(error):
                raise
            raise StoreError(
                f"{self}: {_ERROR_TEXTS['NoSuchBucket']}; make it, or name another one"
            ) from None
        except (BaseError, ValueError) as error:
            raise StoreError(
                f"{self}: {_reason(str(error))}; see that the address is right, and the environment of this "
                "process names region, endpoint and credentials that may read and write there"
            ) from None


def _reason(text: str) -> str:
    """The heart of a client's error, without its innards."""
    code, status = _CODE.search(text), _STATUS.search(text)
    if code is not None:
        return _ERROR_TEXTS.get(code[1], code[1])
    if status is not None:
        return f"the store answers {status[1].strip()}"
    if "HTTP error" in text or "error sending request" in text:
        return "the store cannot be reached"
    return text.strip().splitlines()[0][:200]


class _Reader(io.RawIOBase):
    """A large object as a file."""

    def __init__(self, path: StorePath, size: int) -> None:
        self._path = path
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._at))
        if length:
            buffer[:length] = self._path.read_part(self._at, length)
            self._at += length
        return length


@cache
def _client(root: str) -> Any:
    """A store's client, with what the usual environment says of credentials, region and endpoint."""
    from obstore.store import from_url

    endpoint = os.environ.get("AWS_ENDPOINT_URL", "") if root.startswith("s3") else ""
    return from_url(
        root,
        client_options={"allow_http": endpoint.startswith("http://"), "timeout": "60s"},
        retry_config={"max_retries": 6, "retry_timeout": datetime.timedelta(seconds=30)},
    )
