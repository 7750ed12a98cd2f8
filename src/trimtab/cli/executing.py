"""What `apply` and `execution` share: opening cluster and journal, running with signals, live progress."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from trimtab.act.execution.state import AnyExecution
    from trimtab.act.kafka.port import KafkaAdminPort
    from trimtab.act.office import Office
    from trimtab.act.replicas.observation import ThrottleConfig
    from trimtab.act.replicas.performing import Sense
    from trimtab.act.replicas.state import ExecutionState
    from trimtab.act.replicas.steps import Step
    from trimtab.act.runner import Runner
    from trimtab.connect.settings import KafkaConnection
    from trimtab.model.plan import Plan
    from trimtab.model.replicas import ReplicasSnapshot

StateT = TypeVar("StateT", bound="AnyExecution")

LINE_SECONDS = 5.0
"""How often a line of progress is written where there is no terminal to rewrite it on."""


@contextlib.contextmanager
def open_office() -> Iterator[Office]:
    """The journal and leases of the state folder."""
    from trimtab.act.office import Office
    from trimtab.files.places import state_folder

    office = Office(state_folder(), time.time, time.sleep, lambda: secrets.token_hex(8))
    try:
        yield office
    finally:
        office.close()


@contextlib.contextmanager
def open_cluster(connection: KafkaConnection) -> Iterator[tuple[KafkaAdminPort, Any]]:
    """The cluster, for acting on, and the admin client beneath it."""
    from trimtab.act.kafka.port import KafkaAdminPort
    from trimtab.connect.kafka import admin_client

    admin = admin_client(connection, request_timeout_ms=15_000)
    try:
        yield KafkaAdminPort(admin, time.time), admin
    finally:
        admin.close()


def warn_of_throttles(
    admin: Any, steps: Iterable[Step], alive: Collection[int], ours: float | None, default: ThrottleConfig
) -> None:
    """Say on standard error what others have set that makes copies slower or faster than was asked for.

    Parameters
    ----------
    steps
        What is to be done; steps without copies are held back by no throttle.
    alive
        Brokers that can be asked.
    ours, default
        See `trimtab.act.kafka.broker_throttles.warnings`.
    """
    from trimtab.act.kafka.broker_throttles import own_rates, warnings

    brokers = {broker for step in steps if step.added for broker in (*step.before, *step.added)}
    if not brokers:
        return
    for warning in warnings(ours, default, own_rates(admin, brokers & set(alive))):
        print(f"trimtab: warning: {warning}", file=sys.stderr)


def load_sense(plan: Plan, lake: Path | None, drop: bool) -> Sense | None:
    """Load of the plan's cluster from the newest snapshots of the lake; None where there is none."""
    from trimtab.act.replicas.sensing import LoadSense
    from trimtab.cli.options import lake_path
    from trimtab.files.replicas_snapshot import read_snapshot
    from trimtab.model.errors import TrimtabError
    from trimtab.observe.lake import Lake

    home = Lake(lake_path(lake))
    read: dict[Path, tuple[float, ReplicasSnapshot]] = {}

    def newest() -> tuple[float, ReplicasSnapshot] | None:
        try:
            folder = home.newest_snapshot(plan.snapshot.cluster)
            if folder not in read:
                snapshot = read_snapshot(folder)
                at = datetime.fromisoformat(snapshot.reference.taken_at).timestamp()
                read.clear()
                read[folder] = (at, snapshot)
            return read[folder]
        except TrimtabError:
            return None  # telemetry is an aid here: without it the plan is carried out as it is

    first = newest()
    return None if first is None else LoadSense(plan, first[1], newest, drop=drop)


def replicas_line() -> Callable[[ExecutionState], str]:
    """A state of the level `replicas` in one line, with the rate of the last seconds."""
    from trimtab.act.replicas.progress import ProgressMeter
    from trimtab.report.execution_text import progress_text

    meter = ProgressMeter()
    return lambda state: progress_text(meter(state))


def run_watched(
    make: Callable[[Callable[[StateT], None]], Runner[StateT]],
    line: Callable[[StateT], str],
    *,
    cancelling: str = "rolling back what is in flight",
) -> StateT:
    """Run to the end with progress on standard error.

    Ctrl-C once or SIGTERM stops (what is in flight finishes), Ctrl-C twice cancels (it is rolled back, where
    the level can do that).

    Parameters
    ----------
    make
        The runner, to be told whom to tell its states.
    line
        A state in one line.
    cancelling
        What a cancel does, for people.
    """
    screen = _Screen()
    runner = make(lambda state: screen.show(line(state)))
    asked = 0

    def interrupted(number: int, frame: Any) -> None:
        nonlocal asked
        asked += 1
        if number == signal.SIGTERM or asked == 1:
            runner.stop()
            screen.say("stopping: what is in flight will finish; Ctrl-C again cancels instead")
        elif asked == 2:
            runner.cancel()
            screen.say(f"cancelling: {cancelling}")
        else:
            screen.say("still cleaning up; it can be killed and resumed later, too")

    previous = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return runner.run()
    finally:
        screen.close()
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Screen:
    """One line that is rewritten on a terminal, or a line now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown_at = 0.0
        self._last = ""

    def show(self, line: str) -> None:
        """Show a line, unless one was shown a moment ago."""
        now = time.monotonic()
        if line == self._last or now - self._shown_at < (0.1 if self._terminal else LINE_SECONDS):
            return
        self._shown_at, self._last = now, line
        if self._terminal:
            sys.stderr.write(f"\r\033[K{line}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def say(self, line: str) -> None:
        """A line that stays."""
        sys.stderr.write(f"\r\033[K{line}\n" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the line of progress as it is and begin a new one."""
        if self._terminal and self._last:
            sys.stderr.write("\n")
            sys.stderr.flush()
