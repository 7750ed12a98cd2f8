"""Kafka's programs on this machine: Java and jars, properties and folders of nodes, command lines."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from trimtab.files.machine import cache_folder
from trimtab.jars import (
    Jar,
    Java,
    ProgressCallback,
    exclusive_lock,
    fetch,
    find_java,
    read_lock,
    scratch_sibling,
)
from trimtab.lab.sandbox.cluster import CERTIFICATE, KEYSTORE, LOGGING
from trimtab.lab.sandbox.kafka.state import KafkaNode, ScramSecurity, new_id
from trimtab.lab.sandbox.processes import end, free_ports, spawn
from trimtab.model.errors import SandboxError


def log_dirs_of(node: KafkaNode) -> tuple[str, ...]:
    """Names of a node's log dirs; the first contains the files of the format step."""
    return tuple(f"d{number}" for number in range(node.log_dirs))


# Small threads and buffers: six brokers share a laptop. Short sessions and elections: a killed broker is
# fenced within six seconds. Small segments: retention works on a toy's amount of data.
SMALL_CLUSTER = {
    "num.io.threads": "2",
    "num.network.threads": "1",
    "num.replica.fetchers": "1",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.segment.bytes": "4194304",
    "log.index.size.max.bytes": "1048576",
    "log.retention.check.interval.ms": "10000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "min.insync.replicas": "1",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "controller.quorum.election.timeout.ms": "600",
    "controller.quorum.fetch.timeout.ms": "2000",
}

# Followers that fetch in larger pieces: where brokers' CPU is compared, polling would otherwise be most of
# it. Producers with acks=all wait for them, one request a connection at a time: at 500 ms the hottest
# partitions of 8 MB/s came to half of their rate (latency 2 s and rising), at 100 ms to all of it (.6 s).
LOAD_DRIVEN_CPU = {"replica.fetch.min.bytes": "262144", "replica.fetch.wait.max.ms": "100"}

# Only what balancing needs: a scrape of every bean would cost a broker more than its clients do. The names
# are those of the exporter's own example for Kafka, so that the sandbox looks like a production cluster.
PROMETHEUS_RULES = """\
lowercaseOutputName: true
cacheRules: true
includeObjectNames:
  - "java.lang:type=OperatingSystem"
  - "kafka.server:type=BrokerTopicMetrics,*"
  - "kafka.server:type=KafkaRequestHandlerPool,*"
  - "kafka.server:type=ReplicaManager,*"
rules:
  - pattern: 'java.lang<type=OperatingSystem><>(ProcessCpuTime|AvailableProcessors)'
    name: java_lang_operatingsystem_$1
    type: UNTYPED
  - pattern: 'kafka.server<type=BrokerTopicMetrics, name=(\\w+)PerSec, topic=(.+)><>Count'
    name: kafka_server_brokertopicmetrics_$1_total
    labels: {topic: "$2"}
    type: COUNTER
  - pattern: 'kafka.server<type=BrokerTopicMetrics, name=(\\w+)PerSec><>Count'
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
  - pattern: 'kafka.server<type=KafkaRequestHandlerPool, name=RequestHandlerAvgIdlePercent><>OneMinuteRate'
    name: kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
    type: GAUGE
  - pattern: 'kafka.server<type=ReplicaManager, name=(\\w+)><>Value'
    name: kafka_server_replicamanager_$1_value
    type: GAUGE
"""


def server_properties(
    node: KafkaNode,
    folder: Path,
    controllers: Mapping[int, int],
    replication_factor: int,
    security: ScramSecurity | None,
    overrides: Mapping[str, str],
) -> str:
    """The server.properties of one node.

    Parameters
    ----------
    node
        Whose.
    folder
        The sandbox's folder; the node's data lie in `folder/node-ID/d0`, `d1` and so on.
    controllers
        Port of each controller by node id. A node that is among them with a broker's role holds both roles.
    replication_factor
        Of the internal topics, and the default of others.
    security
        SCRAM over TLS for clients and between brokers, or None.
    overrides
        Added last, over anything else.
    """
    home = folder / f"node-{node.id}"
    controls = node.id in controllers
    both = controls and node.role == "broker"
    name = "SASL_SSL" if security else "PLAINTEXT"
    clients = f"{name}://127.0.0.1:{node.port}"
    control = f"CONTROLLER://127.0.0.1:{controllers.get(node.id, 0)}"
    properties = {
        "node.id": str(node.id),
        "process.roles": "broker,controller" if both else node.role,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{port}" for i, port in controllers.items()),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
        "log.dirs": ",".join(str(home / name) for name in log_dirs_of(node)),
        "offsets.topic.replication.factor": str(replication_factor),
        "transaction.state.log.replication.factor": str(replication_factor),
        "default.replication.factor": str(replication_factor),
        "listeners": ",".join(([clients] if node.role == "broker" else []) + ([control] if controls else [])),
        **SMALL_CLUSTER,
    }
    if node.role == "broker":
        properties |= {
            "broker.rack": node.rack,
            "advertised.listeners": clients,
            "inter.broker.listener.name": name,
        }
        if security:
            properties |= _scram_over_tls(folder, security)
    properties |= overrides
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _scram_over_tls(folder: Path, security: ScramSecurity) -> dict[str, str]:
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{security.user}" password="{security.password}";'
    )
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / KEYSTORE),
        "ssl.keystore.password": security.password,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / CERTIFICATE),
    }


def format_folders(node: KafkaNode, folder: Path, cluster_id: str, checkpoint: bytes) -> None:
    """Make a node's log dirs as `kafka-storage format` does, without starting a JVM.

    Parameters
    ----------
    node, folder
        As in `server_properties`.
    cluster_id
        From `new_id`.
    checkpoint
        The `bootstrap.checkpoint` of a formatted folder: feature levels, and users if any; no cluster id.
    """
    for name in log_dirs_of(node):
        path = folder / f"node-{node.id}" / name
        path.mkdir(parents=True)
        (path / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={node.id}\ndirectory.id={new_id()}\n"
        )
    (folder / f"node-{node.id}" / log_dirs_of(node)[0] / "bootstrap.checkpoint").write_bytes(checkpoint)


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
        """The bootstrap checkpoint of a cluster with one SCRAM user."""
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
    """The jars of a Kafka version, by trimtab's lock file.

    `kafka_2.13` brings slf4j 1.7, hence log4j-slf4j-impl and not its successor.
    """
    text = files("trimtab.lab.sandbox.kafka").joinpath("locks", f"{version}.txt").read_text(encoding="utf-8")
    return read_lock(text)


def prepare_runtime(print_progress: ProgressCallback) -> KafkaRuntime:
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
    """Write the files that a node's command line names; returns the node's folder."""
    home = folder / f"node-{node.id}"
    (home / "server.properties").write_text(properties)
    (home / "server.properties").chmod(0o600)
    (home / "log4j2.properties").write_text(LOGGING)
    (home / "metrics.yml").write_text(PROMETHEUS_RULES)
    return home
