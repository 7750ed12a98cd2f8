"""Three real node processes, one group: its master is killed, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimtab.files.masters.frames import HEAD, decoded, encoded
from trimtab.lab.sandbox.ports import free_ports
from trimtab.online.masters.entries import Record
from trimtab.online.masters.messages import Publish, Published, Pull, Pulled

PATIENCE_SECONDS = 120.0
HELLO = "trimtab/masters-wire/1"


class Cluster:
    """Node processes on this machine, and one client that knows their addresses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        for node in range(3):
            self.start(node)

    def start(self, node: int) -> None:
        """Start a node, on what its folder holds."""
        path = self._folder / f"{node}.json"
        settings = {
            "lease_seconds": 3.0,
            "renewal_seconds": 0.5,
            "cycle_seconds": 4.0,
            "snapshot_entries": 40,
        }
        document = {
            "format": "trimtab/masters-node/1", "cluster": "test", "node": node, "addresses": self.addresses,
            "folder": str(self._folder / str(node)), "groups": 1, "settings": settings,
        }  # fmt: skip
        path.write_text(json.dumps(document))
        with (self._folder / f"{node}.log").open("ab") as log:
            command = [sys.executable, "-m", "trimtab.dataplane.masters", str(path)]
            self.running[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, node: int) -> None:
        """As `kill -9` does."""
        self.running[node].kill()
        self.running.pop(node).wait(60)

    def ask(self, node: int, message: Any) -> Any:
        """The answer of a node; None if it is not there or says nothing in a second."""
        host, port = self.addresses[node].split(":")
        try:
            with socket.create_connection((host, int(port)), 1.0) as one:
                one.settimeout(1.0)
                one.sendall(encoded((HELLO, "test", "client")) + encoded((0, message)))
                file = one.makefile("rb")
                head = file.read(HEAD.size)
                if len(head) < HEAD.size:
                    return None
                length, crc = HEAD.unpack(head)
                return decoded(file.read(length), crc)[1]
        except OSError:
            return None

    def publish(self, sequence: int) -> int:
        """Have a message acknowledged, by whoever is master; that node."""
        deadline, node = time.monotonic() + PATIENCE_SECONDS, 0
        while time.monotonic() < deadline:
            record = Record("t", "p", sequence, b"%d" % sequence)
            answer = self.ask(node, Publish("client", record))
            if isinstance(answer, Published) and answer.verdict == "stored":
                return node
            told = answer.master if isinstance(answer, Published) else -1
            node = told if told in self.running and told != node else (node + 1) % 3
            time.sleep(0.05)
        raise AssertionError(f"message {sequence} was not acknowledged: {self.logs()}")

    def logs(self) -> str:
        """What nodes have said."""
        return "\n".join(one.read_text()[-1500:] for one in sorted(self._folder.glob("*.log")))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes."""
    made = Cluster(tmp_path)
    yield made
    for node in list(made.running):
        made.kill(node)


def test_the_master_is_killed_and_everything_acknowledged_is_there(cluster: Cluster) -> None:
    """Another node is master within its lease or so; the killed one comes back on its log, twice."""
    sequence = 0
    for _ in range(2):
        for _ in range(30):
            sequence += 1
            master = cluster.publish(sequence)
        cluster.kill(master)
        sequence += 1
        assert cluster.publish(sequence) != master
        cluster.start(master)
    for _ in range(30):
        sequence += 1
        master = cluster.publish(sequence)
    answer = cluster.ask(master, Pull("client", "c", "t", 1, 0, 1000))
    assert isinstance(answer, Pulled) and answer.verdict == "stored"
    assert [one.sequence for one in answer.records] == list(range(1, sequence + 1))
    assert all(process.poll() is None for process in cluster.running.values()), cluster.logs()
