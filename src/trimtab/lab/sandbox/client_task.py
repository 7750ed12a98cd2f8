"""The task of one client process of a load, whatever system it talks to."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from trimtab.lab.sandbox.documents import decode, encode


class WorkloadPlan(Protocol):
    """A load as one system's workload describes it."""

    system: ClassVar[str]

    @property
    def consumers(self) -> int:
        """The number of clients that read: `reader-1` reads every topic with a reader, and so on."""
        ...

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Topics that must exist."""
        ...

    @property
    def rates_text(self) -> str:
        """Its rates, as a load announces them."""
        ...


Connection = TypeVar("Connection")
Plan = TypeVar("Plan", bound=WorkloadPlan)


@dataclass(frozen=True)
class ClientTask(Generic[Connection, Plan]):
    """One client process: whom it talks to, what it does, where its truth goes.

    Parameters
    ----------
    connection, workload
        Of the load.
    client
        `producer`, or the name of a consumer group or subscription.
    truth
        The file of its ticks.
    run
        Of the load, 16 hexadecimal digits: what records are stamped with.
    """

    connection: Connection
    workload: Plan
    client: str
    truth: Path
    run: str

    @property
    def module(self) -> str:
        """The module that the process runs."""
        role = "produce" if self.client == "producer" else "consume"
        return f"trimtab.lab.sandbox.{self.workload.system}.{role}"

    @property
    def rank(self) -> int:
        """The number in a reader's name."""
        return int(self.client.rpartition("-")[2])

    def write(self, path: Path) -> None:
        """Save the task for the process; only its owner can read it, since it may hold a password."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(encode(self), file)


def read_task(path: Path, connection: type[Connection], workload: type[Plan]) -> ClientTask[Connection, Plan]:
    """The task that `ClientTask.write` saved, for a connection and a workload of these types."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return ClientTask(
        decode(document["connection"], connection),
        decode(document["workload"], workload),
        document["client"],
        Path(document["truth"]),
        document["run"],
    )


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set, so that a client can finish its tick."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped
