"""What a load on Kafka hands to its client processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from trimtab.connect.settings import KafkaConnection
from trimtab.sandbox.client_process import write_private
from trimtab.sandbox.kafka.workload import Workload, workload_from_json


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

    @property
    def module(self) -> str:
        """What the process runs."""
        return f"trimtab.sandbox.kafka.{'produce' if self.client == 'producer' else 'consume'}"

    def write(self, path: Path) -> None:
        """Save the task for the process."""
        document = {
            "connection": asdict(self.connection),
            "workload": self.workload.to_json(),
            "client": self.client,
            "truth": str(self.truth),
        }
        write_private(path, json.dumps(document, default=str))


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
