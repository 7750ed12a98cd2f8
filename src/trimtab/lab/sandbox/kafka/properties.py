"""The files of a Kafka node: server properties, logging, metrics rules, and the format of its folders."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path

from trimtab.lab.sandbox.certificates import CERTIFICATE, KEYSTORE
from trimtab.lab.sandbox.kafka.state import KafkaNode, ScramSecurity


def log_dirs_of(node: KafkaNode) -> tuple[str, ...]:
    """Names of a node's log dirs, the first of which holds what it is formatted with."""
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
    """Make a node's log dirs as `kafka-storage format` would, without starting a Java for it.

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


def new_id() -> str:
    """A random identifier as Kafka writes them: 22 characters, the first no minus sign."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
