"""What a load hands to its client processes, and what is common to them."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from trimtab.connect.settings import KafkaConnection
from trimtab.sandbox.truth import TICK_SECONDS
from trimtab.sandbox.workload import Workload, workload_from_json


@dataclass(frozen=True)
class ClientTask:
    """One client process: whom it talks to, what it does, where its truth goes.

    Parameters
    ----------
    connection, workload
        Of the load.
    client
        `producer`, or the name of a consumer group.
    truth
        The file of its ticks.
    """

    connection: KafkaConnection
    workload: Workload
    client: str
    truth: Path

    def write(self, path: Path) -> None:
        """Save the task for the process; readable by its owner only, since it may hold a password."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(
                {
                    "connection": asdict(self.connection),
                    "workload": self.workload.to_json(),
                    "client": self.client,
                    "truth": str(self.truth),
                },
                file,
                default=str,
            )


def read_task(path: Path) -> ClientTask:
    """The task that `ClientTask.write` saved."""
    document = json.loads(path.read_text(encoding="utf-8"))
    connection = document["connection"]
    for name in ("tls_ca", "tls_certificate", "tls_key"):
        connection[name] = Path(connection[name]) if connection[name] else None
    connection["bootstrap"] = tuple(connection["bootstrap"])
    return ClientTask(
        KafkaConnection(**connection),
        workload_from_json(document["workload"]),
        document["client"],
        Path(document["truth"]),
    )


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set, so that a client can finish its tick."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def tick_begin(now: float) -> float:
    """The begin of the tick that holds a time."""
    return math.floor(now / TICK_SECONDS) * TICK_SECONDS
