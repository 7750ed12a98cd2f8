"""Jars of a lock list: every one by coordinates and hash, fetched side by side.

A list of hundreds of jars resolves nothing at run time: what was tried is what runs. The repository is the
one that `maven` uses, and no host is written here either.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import urllib.error
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from trimtab.files.places import cache_folder
from trimtab.model.errors import SandboxError
from trimtab.sandbox.maven import SECONDS_BETWEEN_PROGRESS, Say, ivy_jar, only_one, say_nothing
from trimtab.sandbox.maven_settings import SETTINGS_FILES, maven_root

FETCHED_AT_ONCE = 8
TRIES = 3
TIMEOUT_SECONDS = 60.0
# The class in which Ivy itself says where the public repository is.
PUBLIC_REPOSITORY_CLASS = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"


@dataclass(frozen=True)
class LockedJar:
    """One jar: its coordinates (classifier empty for none) and the SHA-256 of its bytes, in hex."""

    group: str
    name: str
    version: str
    classifier: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name, in a repository and in the cache."""
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{tail}.jar"

    @property
    def path(self) -> str:
        """Its place in a repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file}"

    def __str__(self) -> str:
        return ":".join(part for part in (self.group, self.name, self.version, self.classifier) if part)


def read_lock(text: str) -> tuple[LockedJar, ...]:
    """The jars of a lock list: a line each, `group:name:version[:classifier] sha256`.

    Raises
    ------
    SandboxError
        If a line is not of that form, or two jars would have one file name.
    """
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = re.fullmatch(r"([^:\s]+):([^:\s]+):([^:\s]+)(?::([^:\s]+))? ([0-9a-f]{64})", line)
        if match is None:
            raise SandboxError(
                f"line {number} of a lock list is {line!r}: write group:name:version[:classifier] sha256"
            )
        jars.append(LockedJar(match[1], match[2], match[3], match[4] or "", match[5]))
    files = [jar.file for jar in jars]
    if twice := sorted({file for file in files if files.count(file) > 1}):
        raise SandboxError(f"a lock list names {twice[0]} twice: one folder cannot hold both")
    return tuple(jars)


def fetch_locked(name: str, jars: tuple[LockedJar, ...], say: Say = say_nothing) -> list[Path]:
    """The jars of a lock list, from the cache where their bytes are right, else from the repository.

    Parameters
    ----------
    name
        Of the folder in the cache.
    jars
        From `read_lock`.
    say
        Takes lines of progress.

    Returns
    -------
    list[Path]
        In the order of the list.

    Raises
    ------
    SandboxError
        If the repository cannot be reached, lacks a jar, or gives other bytes.
    """
    folder = cache_folder() / "jars" / name
    if not _wrong(folder, jars):
        return [folder / jar.file for jar in jars]
    with only_one(folder.with_name(f"{name}.lock")):
        missing = _wrong(folder, jars)
        if missing:
            folder.mkdir(exist_ok=True)
            say(f"fetching {len(missing)} jars of {name} (once; kept in {folder.parent})")
            _fetch_all(folder, missing, say)
    return [folder / jar.file for jar in jars]


def _wrong(folder: Path, jars: tuple[LockedJar, ...]) -> list[LockedJar]:
    """Jars that the cache lacks or has with other bytes."""
    with ThreadPoolExecutor(2) as threads:
        right = threads.map(lambda jar: _right(folder, jar), jars)
        return [jar for jar, is_right in zip(jars, right, strict=True) if not is_right]


def _right(folder: Path, jar: LockedJar) -> bool:
    try:
        with (folder / jar.file).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _fetch_all(folder: Path, jars: list[LockedJar], say: Say) -> None:
    mirror = maven_root(os.environ, [path.expanduser() for path in SETTINGS_FILES])
    root = (mirror or public_root(ivy_jar())).rstrip("/")
    next_line = time.monotonic() + SECONDS_BETWEEN_PROGRESS
    done = size = 0
    with ThreadPoolExecutor(FETCHED_AT_ONCE) as threads:
        running = [threads.submit(_fetch_one, folder, jar, root) for jar in jars]
        try:
            for future in as_completed(running):
                size += future.result()
                done += 1
                if time.monotonic() >= next_line:
                    say(f"fetching: {done} of {len(jars)} jars, {size / 1e6:.0f} MB")
                    next_line += SECONDS_BETWEEN_PROGRESS
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _fetch_one(folder: Path, jar: LockedJar, root: str) -> int:
    """Fetch one jar; it gets its name when its bytes are found right. Returns its size in bytes."""
    failure = ""
    for attempt in range(TRIES):
        time.sleep(attempt)
        try:
            with urllib.request.urlopen(f"{root}/{jar.path}", timeout=TIMEOUT_SECONDS) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            failure = f"HTTP {error.code}"
            error.close()
            if error.code == 404:
                break
        except (OSError, ValueError) as error:
            failure = str(getattr(error, "reason", error)) or type(error).__name__
        else:
            if hashlib.sha256(content).hexdigest() != jar.sha256:
                failure = "other bytes than were tried"
                continue
            scratch = folder / f".{jar.file}.{os.getpid()}"
            scratch.write_bytes(content)
            scratch.replace(folder / jar.file)
            return len(content)
    raise SandboxError(
        f"the Maven repository did not give {jar} ({failure}): check the network, or name a mirror of yours "
        "in the environment variable TRIMTAB_MAVEN_ROOT"
    )


def public_root(ivy: Path) -> str:
    """The public repository as Ivy knows it, out of Ivy's own jar.

    Raises
    ------
    SandboxError
        If this Ivy does not tell.
    """
    try:
        with zipfile.ZipFile(ivy) as jar:
            found = re.search(rb"https://[\x21-\x7e]+/maven2/", jar.read(PUBLIC_REPOSITORY_CLASS))
    except (OSError, KeyError, zipfile.BadZipFile):
        found = None
    if found is None:
        raise SandboxError(
            f"{ivy} does not say where the public Maven repository is: name one in the environment variable "
            "TRIMTAB_MAVEN_ROOT"
        )
    return found.group().decode()
