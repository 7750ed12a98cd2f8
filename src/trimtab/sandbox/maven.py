"""Jars by Maven coordinates, resolved once by the Ivy inside PySpark and kept in the cache for ever after.

Ivy reaches the public repository without any configuration, so no host is written here. A mirror comes
at run time from `TRIMTAB_MAVEN_ROOT`, else from the user's Maven settings.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from trimtab.files.places import cache_folder
from trimtab.model.errors import SandboxError
from trimtab.sandbox.java import find_java
from trimtab.sandbox.maven_settings import SETTINGS_FILES, maven_root, proxy_properties
from trimtab.sandbox.processes import Process, kill, spawn, wait

Say = Callable[[str], None]
"""Takes one line of progress for the user."""

SECONDS_BETWEEN_PROGRESS = 3.0
MIRROR_SETTINGS = (
    '<ivysettings><settings defaultResolver="root"/><resolvers>'
    '<ibiblio name="root" m2compatible="true" root="${trimtab.maven.root}"/></resolvers></ivysettings>'
)


def say_nothing(line: str) -> None:
    """Progress for nobody."""


@dataclass(frozen=True)
class Coordinate:
    """One artifact; `transitive` takes what it depends on as well."""

    group: str
    name: str
    version: str
    transitive: bool = False

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


@dataclass(frozen=True)
class JarSet:
    """Artifacts that are resolved together and kept in one folder of the cache."""

    name: str
    coordinates: tuple[Coordinate, ...]

    @property
    def folder(self) -> Path:
        """Where the jars lie once they are fetched; another coordinate means another folder."""
        key = "\n".join(f"{part} {part.transitive}" for part in self.coordinates)
        return cache_folder() / "jars" / f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    def cached(self) -> list[Path]:
        """The jars of the cache, sorted by name; empty when they were never fetched."""
        return sorted(self.folder.glob("*.jar"))


def fetch(jar_set: JarSet, say: Say = say_nothing) -> list[Path]:
    """The jars of a set, from the cache or else from the repository.

    A folder appears in the cache in one step, complete; two processes that ask at once fetch once.

    Raises
    ------
    SandboxError
        If Java is missing, the repository cannot be reached, or it lacks an artifact.
    """
    if jars := jar_set.cached():
        return jars
    with only_one(jar_set.folder.with_suffix(".lock")):
        if not jar_set.cached():
            with scratch_beside(jar_set.folder) as scratch:
                _resolve(jar_set, scratch, say)
                (scratch / "jars").rename(jar_set.folder)
    return jar_set.cached()


def _resolve(jar_set: JarSet, scratch: Path, say: Say) -> None:
    """Let Ivy download into `scratch/jars`, reporting how far it is."""
    modules = scratch / "ivy.xml"
    modules.write_text(ivy_modules(jar_set), encoding="utf-8")
    command = [str(find_java().program), "-XX:TieredStopAtLevel=1", *proxy_properties(os.environ)]
    mirror = maven_root(os.environ, [path.expanduser() for path in SETTINGS_FILES])
    if mirror is not None:
        settings = scratch / "ivysettings.xml"
        settings.write_text(MIRROR_SETTINGS, encoding="utf-8")
        command += [f"-Dtrimtab.maven.root={mirror}", "-jar", str(ivy_jar()), "-settings", str(settings)]
    else:
        command += ["-jar", str(ivy_jar())]
    pattern = str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    command += ["-cache", str(scratch / "cache"), "-ivy", str(modules), "-confs", "default"]
    command += ["-retrieve", pattern, "-warn"]
    log = scratch / "ivy.log"
    say(f"fetching {jar_set.name} (once; kept in {jar_set.folder.parent})")
    ivy = spawn(command, scratch, log, outlive=False)
    try:
        exit_code = _watch(ivy, scratch / "cache", jar_set.name, say)
    finally:
        kill([ivy])
    if exit_code != 0 or not any((scratch / "jars").glob("*.jar")):
        raise SandboxError(_failure(jar_set, log.read_text(errors="replace"), mirror))
    shutil.rmtree(scratch / "cache", ignore_errors=True)


def _watch(ivy: Process, cache: Path, name: str, say: Say) -> int:
    next_line = time.monotonic() + SECONDS_BETWEEN_PROGRESS
    while True:
        exit_code = wait(ivy, 0.1)
        if exit_code is not None:
            return exit_code
        if time.monotonic() >= next_line:
            sizes = [path.stat().st_size for path in cache.rglob("*.jar") if path.exists()]
            descriptions = sum(1 for _ in cache.rglob("*.xml"))
            say(f"fetching {name}: {descriptions} descriptions, {len(sizes)} jars, {sum(sizes) / 1e6:.0f} MB")
            next_line += SECONDS_BETWEEN_PROGRESS


def ivy_modules(jar_set: JarSet) -> str:
    """The set as an Ivy file: coordinates only, no host."""
    lines = "".join(
        f"<dependency org={quoteattr(part.group)} name={quoteattr(part.name)} rev={quoteattr(part.version)}"
        f' transitive="{str(part.transitive).lower()}"/>'
        for part in jar_set.coordinates
    )
    return (
        f'<ivy-module version="2.0"><info organisation="trimtab" module={quoteattr(jar_set.name)}/>'
        '<configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->default">{lines}</dependencies></ivy-module>'
    )


def ivy_jar() -> Path:
    """The Ivy that PySpark ships.

    Raises
    ------
    SandboxError
        If PySpark is not installed.
    """
    spark = find_spec("pyspark")
    places = spark.submodule_search_locations if spark is not None else None
    for place in places or ():
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise SandboxError(
        "PySpark's jars are not in this Python environment: build it again with make, or pip install pyspark"
    )


def _failure(jar_set: JarSet, log: str, mirror: str | None) -> str:
    missing = sorted(set(re.findall(r":: (\S+#\S+;\S+?): not found", log)))
    what = ", ".join(missing) if missing else ", ".join(map(str, jar_set.coordinates))
    where = (
        "the mirror set by TRIMTAB_MAVEN_ROOT or Maven's settings"
        if mirror
        else "the public Maven repository"
    )
    return (
        f"{jar_set.name} cannot be fetched: {where} did not give {what}; check the network, or name a mirror "
        "of yours in the environment variable TRIMTAB_MAVEN_ROOT"
    )


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """A folder in which another one is made before it is put in place, once its lock is held.

    What a killed process left of its own is cleared away.
    """
    prefix = f".making-{folder.name}-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as name:
        yield Path(name)


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold a lock file while something beside it is made; others wait. Gone with its holder's process.

    Raises
    ------
    SandboxError
        If the folder of the lock cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise SandboxError(
            f"{lock.parent} cannot be written ({error.strerror}): correct its permissions, or name other "
            "places with the environment variables TRIMTAB_CACHE and TRIMTAB_STATE"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
