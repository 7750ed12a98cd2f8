"""Running a load on Pulsar in the foreground."""

from __future__ import annotations

import tempfile
from pathlib import Path

from trimtab.connect.pulsar import PulsarAdmin
from trimtab.model.errors import SandboxError
from trimtab.sandbox.clients import LoadSummary
from trimtab.sandbox.load_progress import watch_load
from trimtab.sandbox.maven import Say
from trimtab.sandbox.pulsar.load import PulsarLoad
from trimtab.sandbox.pulsar.state import PulsarState
from trimtab.sandbox.pulsar.workload import PulsarWorkload


def run_load(
    state: PulsarState, workload: PulsarWorkload, seconds: float | None, truth: Path | None, say: Say
) -> LoadSummary:
    """Produce and consume until time is up, the user interrupts, or the sandbox goes away.

    Parameters
    ----------
    state
        The running sandbox.
    workload
        Its namespaces must exist.
    seconds
        How long; None for ever.
    truth
        Where the clients' ticks are kept; None to forget them.
    say
        Takes lines of progress.

    Raises
    ------
    SandboxError
        If a topic is missing, a client ends, or the sandbox is stopped meanwhile.
    """
    require_topics(state, workload)
    with tempfile.TemporaryDirectory(prefix="trimtab-load-") as scratch:
        load = PulsarLoad.start(state.connection, workload, truth or Path(scratch))
        sent, read = workload.bytes_in_per_second / 1e6, workload.bytes_out_per_second / 1e6
        say(
            f"producing {workload.messages_per_second:.0f} messages/s ({sent:.1f} MB/s), "
            f"{workload.subscriptions} subscriptions consuming {read:.1f} MB/s; Ctrl-C stops"
        )
        return watch_load(load, state, seconds, say)


def require_topics(state: PulsarState, workload: PulsarWorkload) -> None:
    """Make sure that all topics of a workload exist: a client would create them, in whatever namespace.

    Raises
    ------
    SandboxError
        If one does not.
    """
    with PulsarAdmin(state.connection) as admin:
        tenants = {namespace.name.partition("/")[0] for namespace in workload.namespaces}
        known = {name for tenant in tenants & set(admin.tenants()) for name in admin.namespaces(tenant)}
        present = {
            topic
            for namespace in workload.namespaces
            if namespace.name in known
            for topic in admin.topics(namespace.name)
        }
    missing = sorted({name for name, _ in workload.topics} - present)
    if missing:
        raise SandboxError(
            f"{len(missing)} topics of this load do not exist, {missing[0]} among them: create them with "
            "trimtab sandbox pulsar skew, with the same seed"
        )
