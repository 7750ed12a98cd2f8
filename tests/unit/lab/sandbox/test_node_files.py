"""Ports, memory, properties and folders of Kafka nodes, and what is said of a node that ends."""

import socket
from pathlib import Path
from typing import Any

import pytest

from trimtab.lab.sandbox.cluster import exit_reason, free_memory_mb, require_resources
from trimtab.lab.sandbox.kafka.runtime import format_folders, server_properties
from trimtab.lab.sandbox.kafka.state import KafkaNode, ScramSecurity, declare_nodes, new_id
from trimtab.lab.sandbox.processes import free_ports, require_free
from trimtab.model.errors import SandboxError

BROKER = KafkaNode(1, "broker", "h1", "r1", 7001, 7101)
CONTROLLER = KafkaNode(100, "controller", "h0", "r0", 7000)


def _properties(node: KafkaNode, **changed: object) -> dict[str, str]:
    arguments: dict[str, Any] = {"security": None, "overrides": {}, "controllers": {100: 7000}} | changed
    text = server_properties(node, Path("/s"), replication_factor=3, **arguments)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_free_ports_are_different_and_free():
    """Nodes that start together never fight for a port."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        require_free(port)


def test_a_port_in_use_is_reported_by_number():
    """Who asks for a fixed port learns which one is taken."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(SandboxError, match=f"port {port} on 127.0.0.1 is in use"):
            require_free(port)


def test_a_controller_carries_no_clients():
    """The controller's node has its own listener alone, so that brokers' CPU compares."""
    properties = _properties(CONTROLLER)
    assert properties["process.roles"] == "controller"
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:7000"
    assert "broker.rack" not in properties


def test_a_broker_listens_on_the_loopback_interface_only():
    """A sandbox is not reachable from outside the machine."""
    properties = _properties(BROKER)
    assert properties["listeners"] == properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:7001"
    assert properties["controller.quorum.voters"] == "100@127.0.0.1:7000"
    assert properties["log.dirs"] == "/s/node-1/d0,/s/node-1/d1"


def test_a_secured_broker_has_no_plain_listener():
    """With SCRAM over TLS the broker has that one listener, for clients and brokers alike."""
    properties = _properties(BROKER, security=ScramSecurity("ann", "pw"))
    assert properties["listeners"] == "SASL_SSL://127.0.0.1:7001"
    assert properties["inter.broker.listener.name"] == "SASL_SSL"


def test_overrides_win():
    """An experiment can set any of Kafka's own properties."""
    assert _properties(BROKER, overrides={"num.io.threads": "7"})["num.io.threads"] == "7"


def test_folders_are_formatted_as_kafka_does(tmp_path):
    """Every log dir has its own identity in the same cluster, and the first one the checkpoint."""
    format_folders(BROKER, tmp_path, "cluster", b"levels")
    texts = [(tmp_path / "node-1" / name / "meta.properties").read_text() for name in ("d0", "d1")]
    assert all("cluster.id=cluster\nnode.id=1\n" in text for text in texts)
    assert texts[0] != texts[1]
    assert (tmp_path / "node-1" / "d0" / "bootstrap.checkpoint").read_bytes() == b"levels"
    assert not (tmp_path / "node-1" / "d1" / "bootstrap.checkpoint").exists()


def test_a_broker_has_as_many_log_dirs_as_are_declared(tmp_path):
    """Three dirs, on one of two hosts: in its properties and as formatted folders."""
    state = declare_nodes(4, tmp_path, None, False, False, hosts=2, log_dirs=3)
    assert [node.host for node in state.brokers] == ["h1", "h1", "h2", "h2"]
    node = state.brokers[0]
    assert _properties(node)["log.dirs"] == "/s/node-1/d0,/s/node-1/d1,/s/node-1/d2"
    format_folders(node, tmp_path, "cluster", b"levels")
    assert sorted(path.name for path in (tmp_path / "node-1").iterdir()) == ["d0", "d1", "d2"]


def test_identifiers_have_kafkas_form():
    """Kafka refuses identifiers of another length, and its tools those that begin like an option."""
    for _ in range(200):
        text = new_id()
        assert len(text) == 22
        assert not text.startswith("-")


def test_too_little_memory_is_reported_before_the_start(tmp_path, monkeypatch):
    """Better one sentence than brokers that are killed half-way."""
    monkeypatch.setattr("trimtab.lab.sandbox.cluster.free_memory_mb", lambda: 900)
    with pytest.raises(SandboxError, match="7 Kafka nodes need 1560 MB of memory, and 900 MB are free"):
        require_resources("7 Kafka nodes", 1260, tmp_path / "sandbox")


def test_too_little_disk_is_reported_before_the_start(tmp_path, monkeypatch):
    """The place that is full is named, and how to choose another."""
    monkeypatch.setattr("trimtab.lab.sandbox.cluster.DISK_MB", 10**12)
    with pytest.raises(SandboxError, match=r"MB of disk, and .* TRIMTAB_STATE"):
        require_resources("a node", 180, tmp_path / "sandbox")


def test_free_memory_is_read_if_the_system_reports_it(tmp_path):
    """Linux reports available memory; other systems are not queried."""
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:    4000000 kB\n")
    assert free_memory_mb(tmp_path / "meminfo") == 4000
    assert free_memory_mb(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "ERROR x\nCaused by: java.net.BindException: Address already in use 127.0.0.1:7001\n",
            "port 7001 was taken",
        ),
        ("OpenJDK: There is insufficient memory for the Java Runtime Environment\n", "no memory left"),
        ("INFO fine\n2026 ERROR Disk error while locking (KafkaServer)\nbye\n", "Disk error while locking"),
        ("", "it wrote nothing"),
    ],
)
def test_a_node_that_ends_has_a_reason(tmp_path, log, said):
    """The reason is extracted from the node's own log, in one sentence."""
    (tmp_path / "out.log").write_text(log)
    assert said in exit_reason("Kafka node 1", tmp_path / "out.log")
