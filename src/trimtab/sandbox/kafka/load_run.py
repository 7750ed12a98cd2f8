"""Running a load on Kafka in the foreground."""

from __future__ import annotations

import tempfile
from pathlib import Path

from trimtab.connect.kafka import admin_client
from trimtab.model.errors import SandboxError
from trimtab.sandbox.clients import LoadSummary
from trimtab.sandbox.kafka.load import Load
from trimtab.sandbox.kafka.state import KafkaState
from trimtab.sandbox.kafka.workload import Workload
from trimtab.sandbox.load_progress import watch_load
from trimtab.sandbox.maven import Say


def run_load(
    state: KafkaState, workload: Workload, seconds: float | None, truth: Path | None, say: Say
) -> LoadSummary:
    """Produce and consume until time is up, the user interrupts, or the sandbox goes away.

    Parameters
    ----------
    state
        The running sandbox.
    workload
        Its topics must exist.
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
        load = Load.start(state.connection, workload, truth or Path(scratch))
        say(
            f"producing {workload.bytes_in_per_second / 1e6:.1f} MB/s, {workload.groups} groups "
            f"consuming {workload.bytes_out_per_second / 1e6:.1f} MB/s; Ctrl-C stops"
        )
        return watch_load(load, state, seconds, say)


def require_topics(state: KafkaState, workload: Workload) -> None:
    """Make sure that all topics of a workload exist.

    Raises
    ------
    SandboxError
        If one does not.
    """
    admin = admin_client(state.connection)
    try:
        present = set(admin.list_topics())
    finally:
        admin.close()
    missing = sorted({topic.name for topic in workload.topics} - present)
    if missing:
        raise SandboxError(
            f"{len(missing)} topics of this load do not exist, {missing[0]} among them: create them with "
            "trimtab sandbox kafka skew, with the same seed"
        )
