"""A running load: one producer process and one process for each consumer, whatever system they talk to."""

from __future__ import annotations

import contextlib
import secrets
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

from trimtab.jars import ProgressCallback
from trimtab.lab.sandbox.clients import ClientTask, WorkloadPlan, clients_of
from trimtab.lab.sandbox.processes import SandboxProcess, end, running, spawn
from trimtab.lab.sandbox.state import SandboxState, read_state
from trimtab.lab.sandbox.truth import LogCheck, RecordRun, TruthTick, check_log, read_truth
from trimtab.model.errors import SandboxError

STOP_TIMEOUT_SECONDS = 20.0
READY_SECONDS = 30.0
SECONDS_BETWEEN_PROGRESS = 10.0


@dataclass(frozen=True)
class LoadSummary:
    """The figures of a load so far.

    Parameters
    ----------
    seconds
        From the first tick to the last of the producer.
    planned_records, produced_records, produced_bytes
        Due, and confirmed by brokers.
    consumed_bytes
        Of all readers.
    late_records, errors
        Sent more than a second late; given up, or polls that failed.
    latency_p99_ms
        The worst tick's.
    causes
        Errors by name, the most frequent first.
    failed_records
        Given up: `errors` without those of readers.
    """

    seconds: float
    planned_records: int
    produced_records: int
    produced_bytes: int
    consumed_bytes: int
    late_records: int
    errors: int
    latency_p99_ms: float | None
    causes: dict[str, int] = field(default_factory=dict)
    failed_records: int = 0

    @property
    def unacknowledged_records(self) -> int:
        """Sent, and neither confirmed nor given up: under way, or stuck in a client."""
        return self.planned_records - self.produced_records - self.failed_records


class SandboxLoad:
    """Producers and consumers at work; leaving its `with` block stops them. They die with this process."""

    def __init__(self, connection: object, workload: WorkloadPlan, folder: Path) -> None:
        self.folder = folder
        self.run = secrets.token_hex(8)
        self._connection, self._workload = connection, workload
        self._clients: dict[str, SandboxProcess] = {}

    @classmethod
    def start(cls, connection: object, workload: WorkloadPlan, folder: Path) -> Self:
        """Start the clients of a workload whose topics exist, and wait until all of them work.

        Parameters
        ----------
        connection, workload
            Where and what, both of one system.
        folder
            Where the truth of each client goes (`NAME.truth.jsonl`), and its output (`NAME.log`).

        Raises
        ------
        SandboxError
            If a client ends instead.
        """
        folder = folder.absolute()  # The clients run in another one.
        folder.mkdir(parents=True, exist_ok=True)
        names = ["producer", *(f"reader-{rank + 1}" for rank in range(workload.consumers))]
        load = cls(connection, workload, folder)
        producer, *readers = [
            ClientTask(connection, workload, name, folder / f"{name}.truth.jsonl", load.run) for name in names
        ]
        try:
            # Readers first: what they have read tells later what has been there.
            load._clients = {task.client: _start(task, folder) for task in readers}
            load._wait_until([task.truth for task in readers], Path.exists)
            load._clients[producer.client] = _start(producer, folder)
            load._wait_until([task.truth for task in (producer, *readers)], _has_tick)
        except BaseException:
            load.stop()
            raise
        return load

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def require_running(self) -> None:
        """Make sure that no client has ended.

        Raises
        ------
        SandboxError
            If one has, with the last line it wrote.
        """
        for name, process in self._clients.items():
            if not running(process):
                lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
                raise SandboxError(
                    f"the load's {name} has ended: {lines[-1] if lines else 'it wrote nothing'}"
                )

    def ticks(self) -> Iterator[TruthTick]:
        """Read all ticks recorded so far."""
        return read_truth(self.folder)

    def summary(self) -> LoadSummary:
        """All that happened so far."""
        return summarize(list(self.ticks()))

    def stop(self) -> None:
        """Let every client finish its tick and end; may be called again."""
        end(self._clients.values(), STOP_TIMEOUT_SECONDS)

    def read_back(self) -> LogCheck:
        """Look for every confirmed record in the brokers' logs; the load must have been stopped.

        Raises
        ------
        SandboxError
            If a log cannot be read to its end.
        """
        ticks = list(self.ticks())
        sent: Counter[str] = Counter()
        confirmed: dict[str, list[RecordRun]] = defaultdict(list)
        read: dict[str, list[RecordRun]] = defaultdict(list)
        for tick in ticks:
            sent.update({key: part.records for key, part in tick.planned.items()})
            for key, stretches in tick.stamps.items():
                (confirmed if tick.client == "producer" else read)[key] += stretches
        system = import_module(clients_of(self._workload))
        return check_log(sent, confirmed, read, system.read_back(self._connection, self.run, confirmed))

    def _wait_until(self, truths: Sequence[Path], holds: Callable[[Path], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not all(holds(truth) for truth in truths):
            self.require_running()
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"the load does not begin within {READY_SECONDS:g} s: this machine may be too busy for it"
                )
            time.sleep(0.1)


def summarize(ticks: list[TruthTick]) -> LoadSummary:
    """One summary of many ticks."""
    producer = [tick for tick in ticks if tick.client == "producer"]
    latencies = [tick.latency_p99_ms for tick in producer if tick.latency_p99_ms is not None]
    return LoadSummary(
        seconds=max((t.at + t.seconds for t in producer), default=0.0)
        - min((t.at for t in producer), default=0.0),
        planned_records=sum(part.records for tick in producer for part in tick.planned.values()),
        produced_records=sum(part.records for tick in producer for part in tick.done.values()),
        produced_bytes=sum(part.bytes for tick in producer for part in tick.done.values()),
        consumed_bytes=sum(part.bytes for t in ticks if t.client != "producer" for part in t.done.values()),
        late_records=sum(tick.late_records for tick in producer),
        errors=sum(tick.errors for tick in ticks),
        latency_p99_ms=max(latencies, default=None),
        causes=dict(sum((Counter(tick.causes) for tick in ticks), Counter()).most_common()),
        failed_records=sum(tick.errors for tick in producer),
    )


def failures_text(done: LoadSummary) -> str:
    """Errors with their names, and what was left without an answer."""
    named = ", ".join(f"{count:,} {cause}" for cause, count in done.causes.items())
    unanswered = f", {done.unacknowledged_records:,} never answered" if done.unacknowledged_records else ""
    return f"{done.errors:,} errors" + (f" ({named})" if named else "") + unanswered


def run_load(
    state: SandboxState,
    connection: object,
    workload: WorkloadPlan,
    present: Collection[str],
    seconds: float | None,
    truth: Path | None,
    print_progress: ProgressCallback,
) -> tuple[LoadSummary, LogCheck | None]:
    """Produce and consume until time is up, the user interrupts, or the sandbox goes away; then read back.

    Parameters
    ----------
    state, connection
        The running sandbox, and how clients get in.
    workload
        Its topics must be among `present`: a client would create them, in whatever form.
    seconds
        How long; None for ever.
    truth
        Where the clients' ticks are kept; None to forget them.
    print_progress
        Takes lines of progress.

    Raises
    ------
    SandboxError
        If a topic is missing, a client ends, or the sandbox is stopped meanwhile.
    """
    if missing := sorted({*workload.topic_names} - {*present}):
        raise SandboxError(
            f"{len(missing)} topics of this load do not exist, {missing[0]} among them: create them with "
            f"trimtab sandbox {state.system} skew, with the same seed"
        )
    with tempfile.TemporaryDirectory(prefix="trimtab-load-") as scratch:
        with SandboxLoad.start(connection, workload, truth or Path(scratch)) as load:
            print_progress(f"{workload.rates_text}; Ctrl-C stops")
            try:
                _watch(load, state, seconds, print_progress)
            except KeyboardInterrupt:
                print_progress("stopping")
        print_progress("reading back what was written; Ctrl-C leaves that out")
        try:
            return load.summary(), load.read_back()
        except KeyboardInterrupt:
            return load.summary(), None


def _watch(
    load: SandboxLoad, state: SandboxState, seconds: float | None, print_progress: ProgressCallback
) -> None:
    """Wait with a line of progress now and then."""
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
            print_progress(
                f"{done.seconds:.0f} s: {done.produced_bytes / 1e6:.0f} MB produced, "
                f"{done.consumed_bytes / 1e6:.0f} MB consumed, {done.late_records} late, {done.errors} errors"
            )
            next_line += SECONDS_BETWEEN_PROGRESS


def _start(task: ClientTask[object, WorkloadPlan], folder: Path) -> SandboxProcess:
    with contextlib.suppress(FileNotFoundError):
        task.truth.unlink()
    file = folder / f"{task.client}.task.json"
    task.write(file)
    command = [sys.executable, "-m", task.module, str(file)]
    return spawn(command, folder, folder / f"{task.client}.log", outlive=False)


def _has_tick(truth: Path) -> bool:
    return truth.exists() and truth.stat().st_size > 0
