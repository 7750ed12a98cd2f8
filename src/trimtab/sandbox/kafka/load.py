"""A running load on Kafka: one producer process and one process for each consumer group."""

from __future__ import annotations

from pathlib import Path

from trimtab.connect.settings import KafkaConnection
from trimtab.sandbox.clients import Clients
from trimtab.sandbox.kafka.client_task import ClientTask
from trimtab.sandbox.kafka.workload import Workload


class Load(Clients):
    """Producers and consumers at work; leaving its `with` block stops them. They die with this process."""

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
        names = ["producer", *(f"reader-{rank + 1}" for rank in range(workload.groups))]
        tasks = {
            name: ClientTask(connection, workload, name, folder / f"{name}.truth.jsonl") for name in names
        }
        return cls.run(tasks, folder)
