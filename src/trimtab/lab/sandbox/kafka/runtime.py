"""A Kafka ready to start fast: jars, a formatted checkpoint, and an archive of loaded classes, all cached.

The archive (class-data sharing) halves the start of six brokers; making it takes one start and stop of a
single node, once for each Java and set of jars.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import time
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
from trimtab.lab.sandbox.kafka.properties import PROMETHEUS_RULES, format_folders, new_id, server_properties
from trimtab.lab.sandbox.kafka.state import KafkaNode, ScramSecurity
from trimtab.lab.sandbox.node_log import LOGGING
from trimtab.lab.sandbox.ports import free_ports
from trimtab.lab.sandbox.processes import end, spawn
from trimtab.model.errors import SandboxError

KAFKA_VERSION = "4.3.1"
PROMETHEUS_AGENT = Jar(
    "io.prometheus.jmx",
    "jmx_prometheus_javaagent",
    "1.0.1",
    classifier="",
    sha256="7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1",
)
CHECKPOINT, ARCHIVE = "bootstrap.checkpoint", "kafka.jsa"

# The serial collector and the first compiler alone: least memory and start-up time, and brokers of one kind.
JAVA_FLAGS = (
    "-Xms128m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ActiveProcessorCount=2",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)
WARM_UP_SECONDS = 6.0


@dataclass(frozen=True)
class KafkaRuntime:
    """The files that every node of every sandbox shares.

    Parameters
    ----------
    java, class_path, agent
        The Java, the brokers' jars (in the list's order, which the archive checks), and the metrics agent.
    folder
        In the cache: the checkpoint and the archive.
    """

    java: Java
    class_path: str
    agent: Path
    folder: Path

    @property
    def checkpoint(self) -> bytes:
        """The bootstrap checkpoint of a cluster without users."""
        return (self.folder / CHECKPOINT).read_bytes()

    def command(self, home: Path, prometheus_port: int | None) -> list[str]:
        """The command line of the node whose files lie in `home`."""
        flags = [*JAVA_FLAGS, f"-XX:SharedArchiveFile={self.folder / ARCHIVE}", "-Xshare:auto"]
        if prometheus_port is not None:
            flags.append(f"-javaagent:{self.agent}=127.0.0.1:{prometheus_port}:{home / 'metrics.yml'}")
        return self._java(home, flags)

    def checkpoint_with_user(self, properties: str, security: ScramSecurity) -> bytes:
        """The bootstrap checkpoint of a cluster that knows one SCRAM user from its first moment."""
        with tempfile.TemporaryDirectory(prefix="trimtab-format-") as scratch:
            user = f"SCRAM-SHA-512=[name={security.user},password={security.password}]"
            return self._format(Path(scratch), properties, ["--add-scram", user])

    def _java(self, home: Path, flags: list[str]) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}"
        start = [str(self.java.program), *flags, logging, "-cp", self.class_path]
        return [*start, "kafka.Kafka", str(home / "server.properties")]

    def _format(self, scratch: Path, properties: str, options: list[str]) -> bytes:
        """Run Kafka's own format in a scratch folder, for the checkpoint it writes."""
        file = scratch / "format.properties"
        file.write_text(properties + f"log.dirs={scratch / 'formatted'}\n")
        start = [str(self.java.program), "-XX:TieredStopAtLevel=1", "-cp", self.class_path]
        answer = subprocess.run(
            [*start, "kafka.tools.StorageTool", "format", "-t", new_id(), "-c", str(file), *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise SandboxError(f"Kafka cannot format a folder: {(answer.stderr or answer.stdout).strip()}")
        return (scratch / "formatted" / CHECKPOINT).read_bytes()


def lock_of(version: str) -> tuple[Jar, ...]:
    """The jars of a Kafka version, by the list that comes with trimtab.

    `kafka_2.13` brings slf4j 1.7, hence log4j-slf4j-impl and not its successor.
    """
    text = files("trimtab.lab.sandbox.kafka").joinpath("locks", f"{version}.txt").read_text(encoding="utf-8")
    return read_lock(text)


def prepare(print_progress: ProgressCallback) -> KafkaRuntime:
    """The runtime, from the cache or made now.

    Raises
    ------
    SandboxError
        If Java or the jars are not to be had, or a node cannot start at all.
    """
    java = find_java("brokers")
    jars = fetch(f"kafka-{KAFKA_VERSION}", lock_of(KAFKA_VERSION), print_progress)
    agent = fetch("prometheus-agent", (PROMETHEUS_AGENT,), print_progress)[0]
    class_path = ":".join(map(str, jars))
    key = hashlib.sha256("\n".join([java.version, *JAVA_FLAGS, class_path]).encode()).hexdigest()[:12]
    runtime = KafkaRuntime(java, class_path, agent, cache_folder() / f"kafka-{KAFKA_VERSION}-{key}")
    if not runtime.folder.exists():
        with exclusive_lock(runtime.folder.with_name(runtime.folder.name + ".lock")):
            if not runtime.folder.exists():
                print_progress("preparing Kafka for fast starts (once)")
                _make(runtime)
    return runtime


def _make(runtime: KafkaRuntime) -> None:
    with scratch_sibling(runtime.folder) as scratch:
        port, control = free_ports(2)
        node = KafkaNode(1, "broker", "h1", "r1", port)
        properties = server_properties(node, scratch, {1: control}, 1, None, {})
        ready = scratch / "ready"
        ready.mkdir()
        checkpoint = runtime._format(scratch, properties, [])
        (ready / CHECKPOINT).write_bytes(checkpoint)
        format_folders(node, scratch, new_id(), checkpoint)
        home = write_node_files(scratch, node, properties)
        # One node in both roles, so that the archive holds the classes of either.
        command = runtime._java(home, [*JAVA_FLAGS, f"-XX:ArchiveClassesAtExit={ready / ARCHIVE}"])
        process = spawn(command, home, home / "out.log", outlive=False)
        time.sleep(WARM_UP_SECONDS)
        end([process], timeout_seconds=60)
        ready.rename(runtime.folder)


def write_node_files(folder: Path, node: KafkaNode, properties: str) -> Path:
    """Write what a node's command line names; returns the node's own folder."""
    home = folder / f"node-{node.id}"
    (home / "server.properties").write_text(properties)
    (home / "server.properties").chmod(0o600)
    (home / "log4j2.properties").write_text(LOGGING)
    (home / "metrics.yml").write_text(PROMETHEUS_RULES)
    return home
