"""Client processes of a load, started, watched and stopped together, whatever system they talk to."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from trimtab.model.errors import SandboxError
from trimtab.sandbox.processes import Process, end, running, spawn
from trimtab.sandbox.truth import TruthTick, read_truth

STOP_PATIENCE_SECONDS = 20.0
READY_SECONDS = 30.0


@dataclass(frozen=True)
class LoadSummary:
    """What a load did so far.

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
    """

    seconds: float
    planned_records: int
    produced_records: int
    produced_bytes: int
    consumed_bytes: int
    late_records: int
    errors: int
    latency_p99_ms: float | None


class Task(Protocol):
    """What one client process is to do: it can be written to a file that the process reads."""

    @property
    def module(self) -> str:
        """The module that is run."""
        ...

    @property
    def truth(self) -> Path:
        """The file of its ticks."""
        ...

    def write(self, path: Path) -> None:
        """Save the task."""
        ...


class Clients:
    """Producers and consumers at work; leaving its `with` block stops them. They die with this process."""

    def __init__(self, folder: Path, clients: dict[str, Process]) -> None:
        self.folder = folder
        self._clients = clients

    @classmethod
    def run(cls, tasks: Mapping[str, Task], folder: Path) -> Self:
        """Start clients by their tasks, and wait until all of them work.

        Parameters
        ----------
        tasks
            By the client's name.
        folder
            Where the truth of each client goes (`NAME.truth.jsonl`), and its output (`NAME.log`).

        Raises
        ------
        SandboxError
            If a client ends instead.
        """
        folder.mkdir(parents=True, exist_ok=True)
        clients = cls(folder, {})
        try:
            for name, task in tasks.items():
                clients._clients[name] = _start(task, folder, name)
            clients._wait_until_working(tasks)
        except BaseException:
            clients.stop()
            raise
        return clients

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
        """All ticks so far."""
        return read_truth(self.folder)

    def summary(self) -> LoadSummary:
        """What happened so far."""
        return summarize(list(self.ticks()))

    def stop(self) -> None:
        """Let every client finish its tick and end; may be called again."""
        end(self._clients.values(), STOP_PATIENCE_SECONDS)

    def _wait_until_working(self, tasks: Mapping[str, Task]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not all(_has_tick(task.truth) for task in tasks.values()):
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
    )


def _start(task: Task, folder: Path, name: str) -> Process:
    with contextlib.suppress(FileNotFoundError):
        task.truth.unlink()
    file = folder / f"{name}.task.json"
    task.write(file)
    command = [sys.executable, "-m", task.module, str(file)]
    return spawn(command, folder, folder / f"{name}.log", outlive=False)


def _has_tick(truth: Path) -> bool:
    return truth.exists() and truth.stat().st_size > 0
