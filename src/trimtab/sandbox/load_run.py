"""Running a load in the foreground, with a line of progress now and then."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from trimtab.connect.kafka import admin_client
from trimtab.model.errors import SandboxError
from trimtab.sandbox.clients import LoadSummary
from trimtab.sandbox.kafka_state import KafkaState
from trimtab.sandbox.load import Load
from trimtab.sandbox.maven import Say
from trimtab.sandbox.state import read_state
from trimtab.sandbox.workload import Workload

SECONDS_BETWEEN_PROGRESS = 10.0


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
        with load:
            say(
                f"producing {workload.bytes_in_per_second / 1e6:.1f} MB/s, {workload.groups} groups "
                f"consuming {workload.bytes_out_per_second / 1e6:.1f} MB/s; Ctrl-C stops"
            )
            try:
                _wait(load, state, seconds, say)
            except KeyboardInterrupt:
                say("stopping")
        return load.summary()


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


def _wait(load: Load, state: KafkaState, seconds: float | None, say: Say) -> None:
    begin = time.monotonic()
    next_line = begin + SECONDS_BETWEEN_PROGRESS
    while seconds is None or time.monotonic() - begin < seconds:
        time.sleep(0.5)
        load.require_running()
        now = read_state(state.folder, KafkaState)
        if now is None or now.cluster_id != state.cluster_id:
            raise SandboxError("the sandbox was stopped while the load ran: start it again with up and skew")
        if time.monotonic() >= next_line:
            done = load.summary()
            say(
                f"{done.seconds:.0f} s: {done.produced_bytes / 1e6:.0f} MB produced, "
                f"{done.consumed_bytes / 1e6:.0f} MB consumed, {done.late_records} late, {done.errors} errors"
            )
            next_line += SECONDS_BETWEEN_PROGRESS
