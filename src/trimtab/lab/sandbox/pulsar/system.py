"""Commands of a Pulsar sandbox: start, describe, skew and load."""

from __future__ import annotations

from trimtab.jars import ProgressCallback
from trimtab.lab.sandbox.pulsar.cluster import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces, delete_namespaces, place_unevenly
from trimtab.lab.sandbox.pulsar.runtime import parse_settings
from trimtab.lab.sandbox.pulsar.state import PulsarSandboxState
from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload, read_workload, skewed
from trimtab.lab.sandbox.systems import BrokerSystem
from trimtab.model.bundles.policies import is_system_namespace
from trimtab.model.bundles.snapshot import namespace_of
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError


def describe(state: PulsarSandboxState) -> str:
    """The address of the sandbox and the state of each broker, as lines of text."""
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
        return admin.leader()
    except PulsarAdminError:
        return None


def _bundles(admin: PulsarAdmin, broker: str) -> int | None:
    """The number of bundles that a broker serves, without Pulsar's own; None if it does not tell."""
    try:
        owned = admin.owned_bundles(broker)
    except PulsarAdminError:
        return None
    return sum(not is_system_namespace(namespace_of(bundle)) for bundle in owned)


def skew(
    state: PulsarSandboxState,
    workload: PulsarWorkload,
    *,
    place: bool,
    remove: bool,
    print_progress: ProgressCallback,
) -> str:
    """Create the namespaces of a load with unevenly placed bundles, or remove them; the result in one line.

    Parameters
    ----------
    place
        Whether each broker gets half of the load of the one before it; otherwise Pulsar chooses.
    """
    with PulsarAdmin(state.connection) as admin:
        if remove:
            delete_namespaces(admin, workload)
            return f"{len(workload.namespaces)} namespaces removed"
        create_namespaces(admin, workload)
        if place:
            alive = [node.broker_id for node in state.brokers if node.id in state.alive]
            place_unevenly(admin, workload, alive)
    topics = sum(len(namespace.topics) for namespace in workload.namespaces)
    bundles = sum(namespace.bundles for namespace in workload.namespaces)
    return f"{topics} topics in {bundles} bundles of {len(workload.namespaces)} namespaces created"


def present_topics(state: PulsarSandboxState, workload: PulsarWorkload) -> set[str]:
    """The topics in those namespaces of a load that exist."""
    with PulsarAdmin(state.connection) as admin:
        tenants = {namespace.name.partition("/")[0] for namespace in workload.namespaces}
        known = {name for tenant in tenants & set(admin.tenants()) for name in admin.namespaces(tenant)}
        return {
            topic
            for namespace in workload.namespaces
            if namespace.name in known
            for topic in admin.topics(namespace.name)
        }


PULSAR = BrokerSystem(
    state=PulsarSandboxState,
    start=lambda settings, **options: (
        PulsarSandbox.start(settings=parse_settings(settings), detached=True, **options).state
    ),
    describe=describe,
    steps=(
        ("skew", "create namespaces whose bundles are uneven"),
        ("load", "produce and consume, until Ctrl-C"),
    ),
    skewed=lambda state, seed, rate: skewed(seed, rate),
    read_workload=read_workload,
    skew=skew,
    present_topics=present_topics,
    records="messages",
)
