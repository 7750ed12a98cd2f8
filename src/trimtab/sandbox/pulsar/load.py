"""A running load on Pulsar: one producer process and one process for each subscription."""

from __future__ import annotations

from pathlib import Path

from trimtab.connect.pulsar_settings import PulsarConnection
from trimtab.sandbox.clients import Clients
from trimtab.sandbox.pulsar.client_task import PulsarClientTask
from trimtab.sandbox.pulsar.workload import PulsarWorkload


class PulsarLoad(Clients):
    """Producers and consumers at work; leaving its `with` block stops them. They die with this process."""

    @classmethod
    def start(cls, connection: PulsarConnection, workload: PulsarWorkload, folder: Path) -> PulsarLoad:
        """Start the clients of a workload whose namespaces exist, and wait until all of them work.

        Parameters
        ----------
        connection
            Where; its `service_url` must be set.
        workload
            What.
        folder
            Where the truth of each client goes (`NAME.truth.jsonl`), and its output (`NAME.log`).

        Raises
        ------
        SandboxError
            If a client ends instead.
        """
        names = ["producer", *(f"reader-{rank + 1}" for rank in range(workload.subscriptions))]
        tasks = {
            name: PulsarClientTask(connection, workload, name, folder / f"{name}.truth.jsonl")
            for name in names
        }
        return cls.run(tasks, folder)
