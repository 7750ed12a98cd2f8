"""Pulsar sandboxes with a name, which outlive the command that started them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trimtab.connect.pulsar import PulsarAdmin, PulsarAdminError
from trimtab.model.bundle_policies import is_system_namespace
from trimtab.model.bundle_range import namespace_of
from trimtab.sandbox import names
from trimtab.sandbox.maven import Say
from trimtab.sandbox.pulsar.cluster import PulsarSandbox
from trimtab.sandbox.pulsar.state import PulsarState


def start_named(
    name: str,
    *,
    brokers: int,
    first_port: int | None,
    version: str,
    load_manager: str,
    secured: bool,
    cpus_per_broker: float | None,
    settings: Mapping[str, str],
    say: Say,
) -> tuple[PulsarState, bool]:
    """The running sandbox of a name, started now unless it runs already; and whether it was started now.

    Raises
    ------
    SandboxError
        As `PulsarSandbox.start`.
    """

    def start(folder: Path) -> PulsarState:
        return PulsarSandbox.start(
            brokers,
            version=version,
            load_manager=load_manager,
            secured=secured,
            cpus_per_broker=cpus_per_broker,
            settings=settings,
            folder=folder,
            first_port=first_port,
            detached=True,
            say=say,
        ).state

    return names.start_named(name, PulsarState, start, say)


def describe(state: PulsarState) -> str:
    """The sandbox as a few lines for its user: where it is, and each broker."""
    lines = [
        f"admin      {','.join(state.web_urls.values())}",
        f"service    {state.service_url}",
        f"folder     {state.folder}",
        f"version    Pulsar {state.version}, {state.load_manager} load manager",
    ]
    if state.security is not None:
        lines.append(f"security   TLS; trust {state.connection.tls_ca}")
        lines.append(f"token      {state.connection.token}")
    if any(node.control_group for node in state.brokers):
        lines.append("CPU        counted for each broker apart")
    elif state.without_control_groups:
        lines.append(f"CPU        that of the whole machine: {state.without_control_groups}")
    lines += ["", f"{'broker':16}  port   pid      bundles  state"]
    with PulsarAdmin(state.connection) as admin:
        leader = _leader(admin)
        for node in state.brokers:
            process = state.alive.get(node.id)
            bundles = _bundles(admin, node.broker_id) if process else None
            condition = "not running" if process is None else "starting" if bundles is None else "serving"
            lines.append(
                f"{node.broker_id:16}  {node.port:<5}  {process.pid if process else '-':<7}  "
                f"{'-' if bundles is None else bundles:<7}  {condition}"
                + (", leader" if node.broker_id == leader else "")
            )
    return "\n".join(lines)


def _leader(admin: PulsarAdmin) -> str | None:
    try:
        return admin.leader().broker
    except PulsarAdminError:
        return None


def _bundles(admin: PulsarAdmin, broker: str) -> int | None:
    """How many bundles a broker serves, without Pulsar's own; None if it does not tell."""
    try:
        owned = admin.owned_bundles(broker)
    except PulsarAdminError:
        return None
    return sum(not is_system_namespace(namespace_of(one.bundle)) for one in owned)
