"""Watching a load in the foreground, with a line of progress now and then."""

from __future__ import annotations

import time

from trimtab.model.errors import SandboxError
from trimtab.sandbox.clients import Clients, LoadSummary
from trimtab.sandbox.maven import Say
from trimtab.sandbox.state import SandboxState, read_state

SECONDS_BETWEEN_PROGRESS = 10.0


def watch_load(load: Clients, state: SandboxState, seconds: float | None, say: Say) -> LoadSummary:
    """Let a load run until time is up or the user interrupts, and stop it.

    Parameters
    ----------
    load
        At work.
    state
        The sandbox that it works on.
    seconds
        How long; None for ever.
    say
        Takes lines of progress.

    Raises
    ------
    SandboxError
        If a client ends, or the sandbox is stopped meanwhile.
    """
    with load:
        try:
            _wait(load, state, seconds, say)
        except KeyboardInterrupt:
            say("stopping")
    return load.summary()


def _wait(load: Clients, state: SandboxState, seconds: float | None, say: Say) -> None:
    begin = time.monotonic()
    next_line = begin + SECONDS_BETWEEN_PROGRESS
    while seconds is None or time.monotonic() - begin < seconds:
        time.sleep(0.5)
        load.require_running()
        now = read_state(state.folder, SandboxState)
        if now is None or now.cluster_id != state.cluster_id:
            raise SandboxError("the sandbox was stopped while the load ran: start it again with up and skew")
        if time.monotonic() >= next_line:
            done = load.summary()
            say(
                f"{done.seconds:.0f} s: {done.produced_bytes / 1e6:.0f} MB produced, "
                f"{done.consumed_bytes / 1e6:.0f} MB consumed, {done.late_records} late, {done.errors} errors"
            )
            next_line += SECONDS_BETWEEN_PROGRESS
