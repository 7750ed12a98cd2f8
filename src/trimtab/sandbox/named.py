"""Sandboxes with a name, which outlive the command that started them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.connect.kafka import admin_client
from trimtab.model.errors import ConnectError, SandboxError
from trimtab.sandbox.kafka import KafkaSandbox, serving_brokers
from trimtab.sandbox.kafka_state import KafkaState
from trimtab.sandbox.maven import Say, only_one
from trimtab.sandbox.properties import LOAD_DRIVEN_CPU
from trimtab.sandbox.state import read_state, sandboxes_folder
from trimtab.sandbox.teardown import stop


def start_named(
    name: str, *, brokers: int, first_port: int | None, scram: bool, prometheus: bool, say: Say
) -> tuple[KafkaState, bool]:
    """The running sandbox of a name, started now unless it runs already; and whether it was started now.

    Raises
    ------
    SandboxError
        As `KafkaSandbox.start`.
    """
    with _turn(name):
        state = running_named(name)
        if state is not None:
            say(f"the sandbox {name} is running already; its own settings hold")
            return state, False
        leftover = read_state(_folder(name), KafkaState)
        if leftover is not None:
            say(f"clearing away the sandbox {name}, which ended without being stopped")
            stop(leftover)
        sandbox = KafkaSandbox.start(
            brokers,
            scram=scram,
            prometheus=prometheus,
            properties=LOAD_DRIVEN_CPU,
            folder=_folder(name),
            first_port=first_port,
            detached=True,
            say=say,
        )
        return sandbox.state, True


def stop_named(name: str, say: Say) -> bool:
    """Stop a sandbox and delete its data; False when there was none."""
    with _turn(name):
        state = read_state(_folder(name), KafkaState)
        if state is None:
            return False
        say(f"stopping {len(state.alive)} Kafka nodes")
        stop(state)
        return True


def running_named(name: str) -> KafkaState | None:
    """The sandbox of a name if it runs."""
    state = read_state(_folder(name), KafkaState)
    return None if state is None or state.stale else state


def require_named(name: str) -> KafkaState:
    """The running sandbox of a name.

    Raises
    ------
    SandboxError
        If there is none.
    """
    state = running_named(name)
    if state is None:
        raise SandboxError(f"no sandbox {name} is running: start one with trimtab sandbox kafka up")
    return state


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


def _folder(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", name) or name.startswith("run-"):
        raise SandboxError(f"{name!r} cannot name a sandbox: use letters, digits, dots and dashes")
    return sandboxes_folder() / name


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """Starting and stopping one sandbox is done by one command at a time."""
    with only_one(_folder(name).with_name(f"{name}.lock")):
        yield
