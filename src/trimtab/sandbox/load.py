"""A running load: one producer process and one process for each consumer group."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from trimtab.connect.settings import KafkaConnection
from trimtab.model.errors import SandboxError
from trimtab.sandbox.client_task import ClientTask
from trimtab.sandbox.processes import Process, end, running, spawn
from trimtab.sandbox.truth import TruthTick, read_truth
from trimtab.sandbox.workload import Workload

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
        Of all groups.
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


class Load:
    """Producers and consumers at work; leaving its `with` block stops them. They die with this process."""

    def __init__(self, folder: Path, clients: dict[str, Process]) -> None:
        self.folder = folder
        self._clients = clients

    @classmethod
    def start(cls, connection: KafkaConnection, workload: Workload, folder: Path) -> Load:
        """Start the clients of a workload whose topics exist, and wait until all of them work.

        Parameters
        ----------
        connection, workload
            Where, and what.
        folder
            Where the truth of each client goes (`NAME.truth.jsonl`), and its output (`NAME.log`).

        Raises
        ------
        SandboxError
            If a client ends instead.
        """
        folder.mkdir(parents=True, exist_ok=True)
        names = ["producer", *(f"reader-{rank + 1}" for rank in range(workload.groups))]
        load = cls(folder, {})
        try:
            for name in names:
                load._clients[name] = _start_client(connection, workload, folder, name)
            load._wait_until_working()
        except BaseException:
            load.stop()
            raise
        return load

    def __enter__(self) -> Load:
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

    def _wait_until_working(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not all(_has_tick(self.folder / f"{name}.truth.jsonl") for name in self._clients):
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
        late_records=sum(tick.late_records for tick in ticks),
        errors=sum(tick.errors for tick in ticks),
        latency_p99_ms=max(latencies, default=None),
    )


def _start_client(connection: KafkaConnection, workload: Workload, folder: Path, name: str) -> Process:
    module = "produce" if name == "producer" else "consume"
    task = folder / f"{name}.task.json"
    truth = folder / f"{name}.truth.jsonl"
    with contextlib.suppress(FileNotFoundError):
        truth.unlink()
    ClientTask(connection, workload, name, truth).write(task)
    command = [sys.executable, "-m", f"trimtab.sandbox.{module}", str(task)]
    return spawn(command, folder, folder / f"{name}.log", outlive=False)


def _has_tick(truth: Path) -> bool:
    return truth.exists() and truth.stat().st_size > 0
