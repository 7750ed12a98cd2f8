"""Kafka sandboxes with a name, which outlive the command that started them."""

from __future__ import annotations

from pathlib import Path

from trimtab.connect.kafka import admin_client
from trimtab.model.errors import ConnectError
from trimtab.sandbox import names
from trimtab.sandbox.kafka.cluster import KafkaSandbox, serving_brokers
from trimtab.sandbox.kafka.properties import LOAD_DRIVEN_CPU
from trimtab.sandbox.kafka.state import KafkaState
from trimtab.sandbox.maven import Say


def start_named(
    name: str, *, brokers: int, first_port: int | None, scram: bool, prometheus: bool, say: Say
) -> tuple[KafkaState, bool]:
    """The running sandbox of a name, started now unless it runs already; and whether it was started now.

    Raises
    ------
    SandboxError
        As `KafkaSandbox.start`.
    """

    def start(folder: Path) -> KafkaState:
        return KafkaSandbox.start(
            brokers,
            scram=scram,
            prometheus=prometheus,
            properties=LOAD_DRIVEN_CPU,
            folder=folder,
            first_port=first_port,
            detached=True,
            say=say,
        ).state

    return names.start_named(name, KafkaState, start, say)


def describe(state: KafkaState) -> str:
    """The sandbox as a few lines for its user: where it is, and each broker."""
    try:
        admin = admin_client(state.connection)
        serving = serving_brokers(admin)
        admin.close()
    except ConnectError:
        serving = set()
    lines = [f"bootstrap  {state.bootstrap}"]
    if state.security is not None:
        lines.append(f"security   SASL_SSL, SCRAM-SHA-512, user {state.security.user}")
        lines.append(f"password   {state.security.password}")
        lines.append(f"trust      {state.connection.tls_ca}")
    lines += [f"folder     {state.folder}", "", "broker  host  rack  port   metrics  pid      state"]
    for node in state.brokers:
        process = state.alive.get(node.id)
        condition = "serving" if node.id in serving else "starting or fenced" if process else "not running"
        metrics = str(node.prometheus_port or "-")
        pid = str(process.pid) if process else "-"
        lines.append(
            f"{node.id:<6}  {node.host:4}  {node.rack:4}  {node.port:<5}  {metrics:7}  {pid:7}  {condition}"
        )
    return "\n".join(lines)
