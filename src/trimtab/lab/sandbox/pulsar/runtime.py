"""Pulsar's programs on this machine: Java and jars, the settings of each process, and its command line."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
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
from trimtab.lab.sandbox.cgroups import NodeCgroup
from trimtab.lab.sandbox.cluster import LOGGING
from trimtab.lab.sandbox.pulsar.state import (
    CLUSTER,
    PulsarNode,
    PulsarSandboxState,
    metadata_port,
    security_settings,
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
    """The jars of a Pulsar version, by trimtab's lock file.

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


def prepare_runtime(version: str, jars: tuple[Jar, ...], print_progress: ProgressCallback) -> PulsarRuntime:
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
    """Build the files of a runtime in `ready`, and rename it to its folder."""
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


LOAD_MANAGERS = {
    "modular": {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"},
    "extensible": {
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
        "loadBalancerLoadSheddingStrategy": (
            "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
        ),
    },
}

# Few threads and small caches: three brokers share a laptop.
SMALL_BROKER = {
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerCacheSizeMB": "16",
    "bookkeeperNumberOfChannelsPerBookie": "2",
    "numIOThreads": "2",
    "numOrderedExecutorThreads": "2",
    "numHttpServerThreads": "8",
    "numExecutorThreadPoolSize": "2",
    "numCacheExecutorThreadPoolSize": "2",
    "webSocketServiceEnabled": "false",
    "functionsWorkerEnabled": "false",
    "transactionCoordinatorEnabled": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "forceDeleteNamespaceAllowed": "true",
    "forceDeleteTenantAllowed": "true",
    "statusFilePath": "",
}
# A dead broker is gone after ten seconds instead of thirty, an asked one leaves as soon.
SHORT_SESSIONS = {
    "brokerShutdownTimeoutMs": "10000",
    "metadataStoreSessionTimeoutMillis": "10000",
    "zooKeeperSessionTimeoutMillis": "10000",
}
# Brokers publish their loads every five seconds, zero minutes being less than that; what they tell of CPU and
# of the network they measure once a minute at most. Metrics of bundles and topics are what collectors read.
FRESH_REPORTS = {
    "loadBalancerEnabled": "true",
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0",
    "loadBalancerHostUsageCheckIntervalMinutes": "1",
    "statsUpdateInitialDelayInSecs": "5",
    "statsUpdateFrequencyInSecs": "5",
    "exposeBundlesMetricsInPrometheus": "true",
    "exposeTopicLevelMetricsInPrometheus": "true",
}
SMALL_BOOKIE = {
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": "16",
    "dbStorage_readAheadCacheMaxSizeMb": "8",
    "dbStorage_rocksDB_blockCacheSize": "4194304",
    "dbStorage_rocksDB_writeBufferSizeMB": "2",
    "journalSyncData": "false",
    "journalPreAllocSizeMB": "4",
    "journalMaxSizeMB": "64",
    "journalMaxBackups": "1",
    "journalWriteBufferSizeKB": "64",
    "gcWaitTime": "60000",
    "flushInterval": "60000",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "numAddWorkerThreads": "1",
    "numReadWorkerThreads": "1",
    "numJournalCallbackThreads": "1",
    "serverNumIOThreads": "1",
    "numLongPollWorkerThreads": "1",
    "httpServerEnabled": "false",
}


def metadata_store_configuration(home: Path, port: int) -> str:
    """`zoo.cfg` of a metadata store that runs by itself."""
    return _text(
        {
            "tickTime": "2000",
            "dataDir": str(home / "metadata"),
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "200",
            "forceSync": "no",
        }
    )


def bookie_configuration(home: Path, port: int, metadata_port: int, loopback: str) -> str:
    """`bookkeeper.conf` of the one bookie.

    Parameters
    ----------
    home
        Of its process.
    port, metadata_port
        Its own, and the metadata store's.
    loopback
        Name of the loopback network interface.
    """
    return _text(
        {
            "metadataServiceUri": f"zk://127.0.0.1:{metadata_port}/ledgers",
            "bookiePort": str(port),
            "listeningInterface": loopback,
            "allowLoopback": "true",
            "advertisedAddress": "127.0.0.1",
            "journalDirectories": str(home / "journal"),
            "ledgerDirectories": str(home / "ledgers"),
            "indexDirectories": str(home / "ledgers"),
        }
        | SMALL_BOOKIE
    )


def broker_configuration(
    node: PulsarNode,
    metadata_port: int,
    load_manager: str,
    security: Mapping[str, str],
    overrides: Mapping[str, str],
) -> str:
    """`broker.conf` of one broker.

    Parameters
    ----------
    node
        Whose.
    metadata_port
        Of the metadata store.
    load_manager
        A key of `LOAD_MANAGERS`.
    security
        From `security_settings`; empty for a broker that lets everybody in.
    overrides
        Pulsar's own names; win over everything here.
    """
    return _text(
        {
            "metadataStoreUrl": f"zk:127.0.0.1:{metadata_port}",
            "configurationMetadataStoreUrl": f"zk:127.0.0.1:{metadata_port}",
            "clusterName": CLUSTER,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
        }
        | _ports(node, secured=bool(security))
        | SMALL_BROKER
        | SHORT_SESSIONS
        | FRESH_REPORTS
        | LOAD_MANAGERS[load_manager]
        | dict(security)
        | dict(overrides)
    )


def parse_settings(values: Sequence[str]) -> dict[str, str]:
    """Parse settings of the form `NAME=VALUE`.

    Raises
    ------
    SandboxError
        If one is not of that form.
    """
    settings = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or "\n" in text:
            raise SandboxError(f"{text!r} is not a setting of Pulsar: write NAME=VALUE, as in broker.conf")
        settings[name.strip()] = value.strip()
    return settings


def _ports(node: PulsarNode, *, secured: bool) -> dict[str, str]:
    """A broker listens with TLS or without, never both: a plain port would admit clients without a token."""
    service, web = str(node.port), str(node.web_port)
    plain, tls = ("", "Tls") if not secured else ("Tls", "")
    return {
        f"brokerServicePort{plain}": service,
        f"webServicePort{plain}": web,
        f"brokerServicePort{tls}": "",
        f"webServicePort{tls}": "",
    }


def setup_arguments(metadata_port: int, broker: PulsarNode, *, secured: bool) -> list[str]:
    """Arguments of Pulsar's own cluster set-up, which writes a cluster's first entries."""
    store = f"zk:127.0.0.1:{metadata_port}"
    web, service = f"127.0.0.1:{broker.web_port}", f"127.0.0.1:{broker.port}"
    arguments = {
        "--cluster": CLUSTER,
        "--metadata-store": store,
        "--configuration-metadata-store": store,
        # Pulsar asks for an address without TLS in any case.
        "--web-service-url": f"http://{web}",
    }
    if secured:
        arguments |= {
            "--web-service-url-tls": f"https://{web}",
            "--broker-service-url-tls": f"pulsar+ssl://{service}",
        }
    else:
        arguments["--broker-service-url"] = f"pulsar://{service}"
    return [part for pair in arguments.items() for part in pair]


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def write_node_files(state: PulsarSandboxState, settings: Mapping[str, str]) -> None:
    """Write every file that a process of the sandbox reads; `settings` go to all brokers."""
    metadata = metadata_port(state)
    loopback = "lo" if "lo" in (name for _, name in socket.if_nameindex()) else "lo0"
    for node in state.nodes:
        home = state.node_folder(node.id)
        home.mkdir()
        (home / "log4j2.properties").write_text(LOGGING)
        if node.role in ("bed", "bookie"):
            text = bookie_configuration(home, node.port, metadata, loopback)
            (home / "bookkeeper.conf").write_text(text)
        if node.role in ("bed", "metadata-store"):
            (home / "metadata").mkdir()
            (home / "zoo.cfg").write_text(metadata_store_configuration(home, metadata))
        if node.role == "broker":
            security = security_settings(state.security, state.folder) if state.security else {}
            text = broker_configuration(node, metadata, state.load_manager, security, settings)
            (home / "broker.conf").write_text(text)
            (home / "broker.conf").chmod(0o600)


def command_of(runtime: PulsarRuntime, state: PulsarSandboxState, node: PulsarNode) -> list[str]:
    """The command line of a node, in its control group where it has one."""
    command = runtime.command(node.role, state.node_folder(node.id), _arguments(state, node))
    return NodeCgroup(node.control_group).entering(command) if node.control_group else command


def set_up_cluster(runtime: PulsarRuntime, state: PulsarSandboxState, store: PulsarNode) -> None:
    """Write a cluster's first entries into a metadata store that runs by itself.

    Raises
    ------
    SandboxError
        If Pulsar's own set-up fails.
    """
    home = state.node_folder(store.id)
    answer = subprocess.run(
        runtime.command(
            "setup", home, setup_arguments(store.port, state.brokers[0], secured=state.security is not None)
        ),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        lines = (answer.stdout + answer.stderr).strip().splitlines() or ["no reason given"]
        raise SandboxError(f"Pulsar cannot set up its cluster: {lines[-1]}")


def _arguments(state: PulsarSandboxState, node: PulsarNode) -> list[str]:
    home = state.node_folder(node.id)
    match node.role:
        case "bed":
            metadata = metadata_port(state)
            setup = setup_arguments(metadata, state.brokers[0], secured=state.security is not None)
            return [str(home / "metadata"), str(metadata), str(home / "bookkeeper.conf"), *setup]
        case "metadata-store":
            return [str(home / "zoo.cfg")]
        case "bookie":
            return ["--conf", str(home / "bookkeeper.conf")]
        case _:
            return ["--broker-conf", str(home / "broker.conf")]
