"""A Pulsar ready to start: jars of a lock list, and a small program of ours where Java can compile it."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from trimtab.files.locations import cache_folder
from trimtab.jars.fetch import (
    Jar,
    Java,
    ProgressCallback,
    exclusive_lock,
    fetch,
    find_java,
    read_lock,
    scratch_sibling,
)
from trimtab.model.errors import SandboxError

DEFAULT_VERSION = "4.2.4"
# Those for which a lock list is kept: every jar of theirs can be fetched, and the set has run.
VERSIONS = ("4.0.7", "4.2.4")
BED, ARGUMENTS = "bed.jar", "java.arguments"

OPENED = (
    "java.base/java.nio",
    "java.base/java.util.jar",
    "java.base/java.util.zip",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
JAVA_FLAGS = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:+ExitOnOutOfMemoryError",
    *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENED),
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetectionLevel=disabled",
    "-Dio.netty.allocator.numDirectArenas=2",
    "-Dio.netty.allocator.numHeapArenas=1",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.admin.enableServer=false",
)


@dataclass(frozen=True)
class ProcessRole:
    """The program of one kind of process, and its memory (heap and direct, in MB)."""

    main_class: str
    heap_mb: int
    direct_mb: int


ROLES = {
    "bed": ProcessRole("Bed", 192, 128),
    "metadata-store": ProcessRole("org.apache.zookeeper.server.quorum.QuorumPeerMain", 96, 32),
    "setup": ProcessRole("org.apache.pulsar.PulsarClusterMetadataSetup", 96, 32),
    "bookie": ProcessRole("org.apache.bookkeeper.server.Main", 160, 128),
    "broker": ProcessRole("org.apache.pulsar.PulsarBrokerStarter", 256, 128),
}


@dataclass(frozen=True)
class PulsarRuntime:
    """The files that every process of every Pulsar sandbox of one version shares.

    Parameters
    ----------
    java, version
        The Java, and Pulsar's version.
    arguments
        A file of Java's own arguments: flags and class path.
    has_bed
        Whether the bed could be compiled; otherwise metadata store and bookie run apart.
    recorded
        Where processes leave archives of their classes when they end; None for none.
    """

    java: Java
    version: str
    arguments: Path
    has_bed: bool
    recorded: Path | None = None

    @property
    def folder(self) -> Path:
        """In the cache: the arguments, the bed, and archives of classes."""
        return self.arguments.parent

    def command(self, role: str, home: Path, arguments: list[str]) -> list[str]:
        """The command line of a process whose files lie in `home`."""
        runs = ROLES[role]
        memory = [f"-Xmx{runs.heap_mb}m", f"-XX:MaxDirectMemorySize={runs.direct_mb}m"]
        logging = f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}"
        archive = self.folder / f"{role}.jsa"
        sharing = []
        if self.recorded is not None:
            sharing = [f"-XX:ArchiveClassesAtExit={self.recorded / archive.name}"]
        elif archive.exists():
            sharing = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
        start = [str(self.java.program), f"@{self.arguments}", *memory, logging, *sharing]
        return [*start, runs.main_class, *arguments]


def lock_of(version: str) -> tuple[Jar, ...]:
    """The jars of a Pulsar version, by the list that comes with trimtab.

    Raises
    ------
    SandboxError
        If there is no list for that version.
    """
    if version not in VERSIONS:
        raise SandboxError(
            f"Pulsar {version} cannot be started: a list of jars is kept for {', '.join(VERSIONS)}"
        )
    text = files("trimtab.lab.sandbox.pulsar").joinpath("locks", f"{version}.txt").read_text(encoding="utf-8")
    return read_lock(text)


def prepare(version: str, jars: tuple[Jar, ...], print_progress: ProgressCallback) -> PulsarRuntime:
    """The runtime of a version and its jars (`lock_of`), from the cache or made now.

    Raises
    ------
    SandboxError
        If Java or the jars are not to be had.
    """
    java = find_java("brokers")
    paths = fetch(f"pulsar-{version}", jars, print_progress)
    source = files("trimtab.lab.sandbox.pulsar").joinpath("Bed.java").read_text(encoding="utf-8")
    parts = [java.version, str(java.compiler), BED, source, *JAVA_FLAGS, *map(str, paths)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    folder = cache_folder() / f"pulsar-{version}-{key}"
    if not folder.exists():
        with exclusive_lock(folder.with_name(f"{folder.name}.lock")):
            if not folder.exists():
                with scratch_sibling(folder) as scratch:
                    _make(java, paths, source, scratch / "ready", folder)
    return PulsarRuntime(java, version, folder / ARGUMENTS, (folder / BED).exists())


def _make(java: Java, jars: list[Path], source: str, ready: Path, folder: Path) -> None:
    """Make in `ready` what is to lie in `folder`, and put it there."""
    ready.mkdir()
    class_path = list(map(str, jars))
    if java.compiler is not None:
        _compile(java.compiler, class_path, source, ready / BED)
        class_path.insert(0, str(folder / BED))
    # Java reads a backslash in a quoted argument as an escape.
    quoted = ":".join(class_path).replace("\\", "\\\\").replace('"', '\\"')
    (ready / ARGUMENTS).write_text("\n".join([*JAVA_FLAGS, "-cp", f'"{quoted}"']) + "\n")
    ready.rename(folder)


def _compile(compiler: Path, class_path: list[str], source: str, jar: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="trimtab-bed-") as name:
        scratch = Path(name)
        (scratch / "Bed.java").write_text(source, encoding="utf-8")
        command: list[str | Path] = [
            compiler,
            "-proc:none",
            "-cp",
            ":".join(class_path),
            "-d",
            scratch,
            scratch / "Bed.java",
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SandboxError(f"{compiler} does not compile Bed.java: {answer.stderr.strip()}")
        with zipfile.ZipFile(jar, "w") as archive:
            archive.write(scratch / "Bed.class", "Bed.class")
