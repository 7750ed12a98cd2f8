"""Jars and the Java runtime: downloads with known hashes, their cache, and the checks of both."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from trimtab.extras import require
from trimtab.files.machine import cache_folder
from trimtab.model.errors import Finding, JarsError, fine, missing
from trimtab_common.extras import MissingExtraError


@contextmanager
def scratch_sibling(folder: Path) -> Iterator[Path]:
    """A temporary folder in which a download is prepared under a lock before it is moved into place.

    Leftovers of a killed process are removed.
    """
    prefix = f".making-{folder.name}-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as name:
        yield Path(name)


@contextmanager
def exclusive_lock(lock: Path) -> Iterator[None]:
    """Hold a lock file while a folder next to it is made; other processes wait. The lock ends with its
    process.

    Raises
    ------
    JarsError
        If the folder of the lock cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise JarsError(
            f"{lock.parent} cannot be written ({error.strerror}): correct its permissions, or name other "
            "places with the environment variables TRIMTAB_CACHE and TRIMTAB_STATE"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


SETTINGS_FILES = (Path("~/.m2/settings.xml").expanduser(), Path("/etc/maven/settings.xml"))


def maven_root(
    environment: Mapping[str, str] = os.environ, settings_files: Iterable[Path] = SETTINGS_FILES
) -> str | None:
    """The repository to use instead of the public one, or None.

    `TRIMTAB_MAVEN_ROOT` wins; else the first mirror of everything in a Maven settings file.
    """
    if root := environment.get("TRIMTAB_MAVEN_ROOT"):
        return root
    for path in settings_files:
        try:
            tree = ElementTree.parse(path)
        except (OSError, ElementTree.ParseError):
            continue
        for mirror in tree.iterfind(".//{*}mirror"):
            of = (mirror.findtext("{*}mirrorOf") or "").split(",")
            blocked = (mirror.findtext("{*}blocked") or "").strip() == "true"
            url = (mirror.findtext("{*}url") or "").strip()
            if url and not blocked and {"*", "central", "external:*"} & {name.strip() for name in of}:
                return url
    return None


def proxy_properties(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Java's flags for the proxy of `https_proxy` or `http_proxy`, which Java does not read itself."""
    flags = []
    for scheme in ("http", "https"):
        value = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme}_proxy".upper())
        proxy = urlsplit(value if value and "://" in value else f"//{value}") if value else None
        if proxy is not None and proxy.hostname:
            flags.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            if proxy.port:
                flags.append(f"-D{scheme}.proxyPort={proxy.port}")
    return flags


OLDEST_JAVA = 17


@dataclass(frozen=True)
class Java:
    """A Java installation: its `java` program and version text (`17.0.15`)."""

    program: Path
    version: str

    @property
    def compiler(self) -> Path | None:
        """The `javac` next to `java`; None if only the runtime is installed."""
        program = self.program.resolve().parent / "javac"
        return program if program.exists() else None

    @property
    def keytool(self) -> Path:
        """The key and certificate tool next to `java`."""
        return self.program.resolve().parent / "keytool"


def find_java(what: str) -> Java:
    """The Java of `JAVA_HOME`, otherwise the one on the path; errors quote `what`, the program that needs it.

    Raises
    ------
    JarsError
        If there is none, it does not run, or it is older than `OLDEST_JAVA`.
    """
    needed = f"Java {OLDEST_JAVA} or newer is needed to run {what}"
    home = os.environ.get("JAVA_HOME")
    name = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(name)
    if found is None:
        raise JarsError(
            f"{needed}, and there is no {name!r}: install it (on Debian and Ubuntu: apt install "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JarsError(
            f"{needed}, and {found} does not run ({error}): set JAVA_HOME to one that does"
        ) from None
    version = parse_version(answer.stderr + answer.stdout)
    if version is None:
        raise JarsError(f"{needed}, and {found} does not answer -version like a Java: set JAVA_HOME to one")
    if major_version(version) < OLDEST_JAVA:
        raise JarsError(
            f"{needed}, and {found} is Java {version}: install a newer one or set JAVA_HOME to it"
        )
    return Java(Path(found), version)


def parse_version(answer: str) -> str | None:
    """The version in the output of `java -version`, or None."""
    match = re.search(r'version "([^"]+)"', answer)
    return match.group(1) if match else None


def major_version(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_392`, 25 of `25-ea`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


CHECKED_PART = "pipeline"


def spark_findings() -> Iterator[Finding]:
    """Check Java and Spark: without them, plans need a snapshot file."""
    try:
        java = find_java("the pipeline")
        yield fine(CHECKED_PART, "Java", f"{java.version}, {java.program}")
    except JarsError as error:
        yield missing(CHECKED_PART, "Java", str(error))
    try:
        require("spark")
        yield fine(CHECKED_PART, "Spark", f"pyspark {version('pyspark')}")
    except MissingExtraError as error:
        yield missing(CHECKED_PART, "Spark", str(error))


ProgressCallback = Callable[[str], None]
"""Takes one line of progress for the user."""

# Ivy fetches one jar after another, which is mostly waiting; each process costs a second of CPU.
JARS_PER_PROCESS, MOST_PROCESSES = 12, 4
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
# Without a root Ivy takes the public repository. Dependencies are not resolved: a list names all jars.
SETTINGS = (
    '<ivysettings><settings defaultResolver="root"/><resolvers><ibiblio name="root" m2compatible="true" '
    'usepoms="false" useMavenMetadata="false" checksums="{}"{}/></resolvers></ivysettings>'
)
TRIES = 3
SECONDS_BETWEEN_PROGRESS = 3.0
KAFKA, S3, COMET = "spark-kafka", "spark-s3", "spark-comet"
"""Kinds of lists in this package: each has one for every minor version of Spark that needs its own."""


def ignore_progress(line: str) -> None:
    """Progress callback that prints nothing."""


@dataclass(frozen=True)
class Jar:
    """One jar: its coordinates (classifier empty for none) and the SHA-256 of its bytes in hex, or `-`."""

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

    def __str__(self) -> str:
        return ":".join(part for part in (self.group, self.name, self.version, self.classifier) if part)


def read_lock(text: str) -> tuple[Jar, ...]:
    """The jars of a lock list: a line each, `group:name:version[:classifier] sha256`.

    A hash of `-` accepts any bytes, for a jar that was not available when the list was written.

    Raises
    ------
    JarsError
        If a line is not of that form, or two jars would have one file name.
    """
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = re.fullmatch(r"([^:\s]+):([^:\s]+):([^:\s]+)(?::([^:\s]+))? ([0-9a-f]{64}|-)", line)
        if match is None:
            raise JarsError(
                f"line {number} of a lock list is {line!r}: write group:name:version[:classifier] sha256"
            )
        jars.append(Jar(match[1], match[2], match[3], match[4] or "", match[5]))
    files = [jar.file for jar in jars]
    if twice := sorted({file for file in files if files.count(file) > 1}):
        raise JarsError(f"a lock list names {twice[0]} twice: one folder cannot hold both")
    return tuple(jars)


def cached(name: str, jars: Sequence[Jar]) -> list[Path]:
    """The jars of a list if the cache has all of them with correct hashes, otherwise None."""
    folder = cache_folder() / "jars" / name
    return [] if _missing_or_corrupt(folder, jars) else [folder / jar.file for jar in jars]


def fetch(name: str, jars: Sequence[Jar], print_progress: ProgressCallback = ignore_progress) -> list[Path]:
    """The jars of a list, from the cache where their bytes are right, else from the repository.

    Parameters
    ----------
    name
        Name of the folder in the cache; two simultaneous processes download once.
    jars
        From `read_lock`.
    print_progress
        Takes lines of progress.

    Returns
    -------
    list[Path]
        In the order of the list.

    Raises
    ------
    JarsError
        If Java is missing, or the repository cannot be reached, lacks a jar, or gives other bytes.
    """
    if found := cached(name, jars):
        return found
    folder = cache_folder() / "jars" / name
    with exclusive_lock(folder.with_name(f"{name}.lock")):
        missing = _missing_or_corrupt(folder, jars)
        if missing:
            require("spark")  # for its Ivy; before anything is promised
            folder.mkdir(exist_ok=True)
            print_progress(f"fetching {len(missing)} jars of {name} (once; kept in {folder.parent})")
        for _ in range(TRIES):
            if not missing:
                break
            with scratch_sibling(folder) as scratch:
                absent = _download(missing, scratch, print_progress)
                got = {jar for jar in missing if (scratch / jar.file).exists()}
                for jar in got - set(_missing_or_corrupt(scratch, missing)):
                    (scratch / jar.file).replace(folder / jar.file)
            missing = _missing_or_corrupt(folder, missing)
            if absent:
                raise JarsError(_failure(", ".join(absent)))
    if missing:
        other = " (other bytes than were tried)" if missing[0] in got else ""
        raise JarsError(_failure(f"{missing[0]}{other}"))
    return [folder / jar.file for jar in jars]


def spark_kafka_jars(print_progress: ProgressCallback = ignore_progress) -> list[Path]:
    """Spark's Kafka connector for `spark.jars`; where the repository lacks it, that of an older Spark.

    Later calls use the set in the cache. Mixed versions are tested in batch, streaming and restart.
    """
    *newer, last = names = spark_lists(KAFKA)
    for name in names:
        if found := cached(name, connector_jars(name)):
            return found
    for name in newer:
        try:
            return fetch(name, connector_jars(name), print_progress)
        except JarsError:
            print_progress(f"the repository lacks the jars of {name}, trying an older version")
    return fetch(last, connector_jars(last), print_progress)


def spark_s3_jars(print_progress: ProgressCallback = ignore_progress) -> list[Path]:
    """Hadoop's client for S3, for `spark.jars`: 13 MB of modules, instead of a bundle of 690 MB."""
    name = spark_lists(S3)[0]
    return fetch(name, connector_jars(name), print_progress)


def spark_comet_jars(print_progress: ProgressCallback = ignore_progress) -> list[Path]:
    """Apache DataFusion Comet for the installed Spark (99 MB); empty if it has no build for that."""
    minor = version("pyspark").rpartition(".")[0]
    name = f"{COMET}-{minor}"
    known = sys.platform == "linux" and files("trimtab.jars").joinpath(f"{name}.txt").is_file()
    return fetch(name, connector_jars(name), print_progress) if known else []


def spark_lists(kind: str, spark: str | None = None) -> list[str]:
    """Names of the lists of a kind that suit a Spark (default: the installed one), the best first.

    A list of a newer minor version does not suit.
    """
    limit = _minor(spark or version("pyspark"))
    names = (path.name.removesuffix(".txt") for path in files("trimtab.jars").iterdir())
    known = {_minor(name.removeprefix(f"{kind}-")): name for name in names if name.startswith(f"{kind}-")}
    return [known[minor] for minor in sorted(known, reverse=True) if minor <= limit]


def _minor(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def connector_jars(name: str) -> tuple[Jar, ...]:
    """The jars of one of the lists in this package."""
    return read_lock(files("trimtab.jars").joinpath(f"{name}.txt").read_text(encoding="utf-8"))


def _failure(what: str) -> str:
    return (
        f"the Maven repository did not give {what}: check the network, or name a mirror of yours in the "
        "environment variable TRIMTAB_MAVEN_ROOT"
    )


def _missing_or_corrupt(folder: Path, jars: Sequence[Jar]) -> list[Jar]:
    """Jars that are missing in a folder or have another hash."""
    with ThreadPoolExecutor(2) as threads:
        right = threads.map(lambda jar: _right(folder, jar), jars)
        return [jar for jar, is_right in zip(jars, right, strict=True) if not is_right]


def _right(folder: Path, jar: Jar) -> bool:
    try:
        with (folder / jar.file).open("rb") as file:
            return jar.sha256 == "-" or hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _download(jars: Sequence[Jar], scratch: Path, print_progress: ProgressCallback) -> list[str]:
    """Download jars into a folder by several Ivys; returns coordinates that the repository lacks, sorted."""
    processes = min(-(-len(jars) // JARS_PER_PROCESS), MOST_PROCESSES)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for part in range(processes):
            command = _ivy_command(scratch, part, jars[part::processes])
            with (scratch / f"ivy-{part}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
                )
        _watch(running, scratch, len(jars), print_progress)
    finally:
        for ivy in running:
            ivy.kill()
            ivy.wait()
    logs = "".join(log.read_text(errors="replace") for log in scratch.glob("ivy-*.log"))
    return sorted({":".join(parts) for parts in re.findall(r":: (\S+)#(\S+);(\S+?): not found", logs)})


def _watch(
    running: Sequence[subprocess.Popen[bytes]], scratch: Path, count: int, print_progress: ProgressCallback
) -> None:
    next_line = time.monotonic() + SECONDS_BETWEEN_PROGRESS
    while any(ivy.poll() is None for ivy in running):
        time.sleep(0.1)
        if time.monotonic() >= next_line:
            sizes = [path.stat().st_size for path in scratch.glob("cache-*/**/*.jar")]
            print_progress(f"fetching: {len(sizes)} of {count} jars, {sum(sizes) / 1e6:.0f} MB")
            next_line += SECONDS_BETWEEN_PROGRESS


def _ivy_command(scratch: Path, part: int, jars: Sequence[Jar]) -> list[str]:
    """The command line of an Ivy that fetches some jars, and the two files that it reads."""
    mirror = maven_root()
    modules, settings = scratch / f"ivy-{part}.xml", scratch / f"settings-{part}.xml"
    modules.write_text(ivy_modules(jars), encoding="utf-8")
    # Jars without a hash in the list are checked against the repository's checksum.
    checksums = "sha1,md5" if any(jar.sha256 == "-" for jar in jars) else ""
    root = ' root="${trimtab.maven.root}"' if mirror else ""
    settings.write_text(SETTINGS.format(checksums, root), encoding="utf-8")
    command = [str(find_java("Ivy, which fetches jars").program), *JAVA_FLAGS, *proxy_properties()]
    command += [f"-Dtrimtab.maven.root={mirror}"] if mirror else []
    command += ["-jar", str(ivy_jar()), "-settings", str(settings), "-ivy", str(modules), "-warn"]
    command += ["-cache", str(scratch / f"cache-{part}"), "-confs", "default"]
    return [*command, "-retrieve", str(scratch / "[artifact]-[revision](-[classifier]).[ext]")]


def ivy_modules(jars: Iterable[Jar]) -> str:
    """Jars as an Ivy file: coordinates only, no address."""
    files: dict[tuple[str, str, str], str] = {}
    for jar in jars:
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        file = f'<artifact name={quoteattr(jar.name)} type="jar" ext="jar"{classifier}/>'
        module = jar.group, jar.name, jar.version
        files[module] = files.get(module, "") + file
    lines = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        f'transitive="false" conf="default->*">{artifacts}</dependency>'
        for (group, name, version), artifacts in files.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="m"><info organisation="trimtab" module="jars"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{lines}</dependencies>'
        "</ivy-module>"
    )


def ivy_jar() -> Path:
    """The Ivy that PySpark ships.

    Raises
    ------
    JarsError
        If PySpark is not installed, or lacks its jars.
    """
    spark = find_spec("pyspark")
    places = spark.submodule_search_locations if spark is not None else None
    for place in places or ():
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise JarsError("pyspark is installed without the jars it brings: install it anew")
