"""The balancer `masters` from end to end, by its commands: a store's masters, and Kafka's leaders."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.admin_calls import ask
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.masters.clients import StoreClients
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.systems.kafka.leaders import partition_of
from trimtab_store.core.messages import MapChanged

PATIENCE_SECONDS = 120.0


class Somebody:
    """Commands, with lake, state and files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "TRIMTAB_STATE": str(folder / "state"),
            "TRIMTAB_LAKE": str(folder / "lake"),
        }

    def type(self, line: str, code: int = 0) -> str:
        """Type a command; what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "trimtab", *line.split()],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


async def _loaded(clients: StoreClients, ended: threading.Event) -> None:
    """Send to every group and read it all, until that is over; whatever breaks a promise raises."""
    async with asyncio.TaskGroup() as tasks:
        for topic in clients.ledgers:
            tasks.create_task(clients.produce(topic, 20.0))
            tasks.create_task(clients.consume(topic, 30.0))
        await asyncio.to_thread(ended.wait)
        clients.stopping.set()
    for topic in clients.ledgers:
        await clients.read_all(topic, PATIENCE_SECONDS)


@pytest.fixture
def store() -> Iterator[MastersSandbox]:
    """Three nodes with six groups, whose masters have piled up on node 0, which nobody says is wrong."""
    with MastersSandbox.start(3, 6, lease_seconds=4.0) as sandbox:
        sandbox.publish([0] * 6)
        _until(lambda: sandbox.masters() == [0] * 6)
        sandbox.publish([-1] * 6)
        yield sandbox


def test_masters_of_a_store_are_spread_under_load(store: MastersSandbox, tmp_path: Path) -> None:
    """Collected, planned and applied while messages go in and out: nothing lost, nothing twice."""
    somebody = Somebody(tmp_path)
    node = f"--cluster paxos:{store.state.configuration(0)}"
    clients, ended = StoreClients(store.state.cluster, 1), threading.Event()
    load = threading.Thread(target=lambda: asyncio.run(_loaded(clients, ended)))
    load.start()
    assert "6 groups, 0 without a master" in somebody.type(f"status {node}")
    somebody.type(f"collect {node} --ticks 4 --interval 3")
    somebody.type("pipeline run")
    assert "not balanced" in somebody.type("status")
    settled = "--set masters.cooldown_seconds=1"
    somebody.type(f"plan masters --out plan.json {settled}")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["verdict"], plan["cost"]["transfers"]) == ("balanced", 4)
    assert all(0 < move["pause_seconds"] < 1 for move in plan["moves"])
    assert "finished" in somebody.type(f"apply plan.json {node} --yes")
    assert sorted(store.masters()) == [0, 0, 1, 1, 2, 2]
    ended.set()
    load.join(PATIENCE_SECONDS)
    assert not load.is_alive()
    assert min(ledger.audit() for ledger in clients.ledgers.values()) > 100
    # Applied again, it does nothing; drained, node 0 is left alone.
    assert "nothing to do" in somebody.type(f"apply plan.json {node} --yes")
    somebody.type(f"collect {node} --ticks 3 --interval 2")
    somebody.type("pipeline run")
    drained = somebody.type("plan masters --drain 0 --out drain.json", code=0)
    assert "its node is being emptied: 2 transfers" in drained
    somebody.type(f"apply drain.json {node} --yes")
    assert 0 not in store.masters()


@pytest.mark.long
def test_leaders_of_kafka_go_to_preferred_replicas_by_the_same_command(
    three_brokers: KafkaSandbox, tmp_path: Path
) -> None:
    """Leaders have piled up on two brokers after the third was away: an election brings them back, capped."""
    somebody, sandbox = Somebody(tmp_path), three_brokers
    assignments = {number: [number % 3 + 1, (number + 1) % 3 + 1] for number in range(12)}
    ask(
        sandbox.connection,
        lambda admin: admin.create_topics(
            {"led": {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}}
        ),
    )

    def leaders() -> list[int]:
        (topic,) = ask(sandbox.connection, lambda admin: admin.describe_topics(["led"]))
        parts = sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
        return [part["leader_id"] for part in parts]

    def in_sync() -> bool:
        (topic,) = ask(sandbox.connection, lambda admin: admin.describe_topics(["led"]))
        return all(len(part["isr_nodes"]) == 2 for part in topic["partitions"])

    _until(lambda: len(leaders()) == 12 and in_sync())
    sandbox.kill(1)
    _until(lambda: 1 not in leaders())
    sandbox.restart(1)
    _until(in_sync)
    before = leaders()
    assert before.count(1) == 0
    on = f"--cluster kafka://{sandbox.bootstrap}"
    somebody.type(f"collect {on} --ticks 3 --interval 3")
    somebody.type("pipeline run")
    few = somebody.type("plan masters --system kafka --max-moves 2 --out few.json")
    assert "2 transfers" in few
    assert "with 2 transfers (masters.max_moves) brings every node within epsilon" in " ".join(few.split())
    somebody.type("plan masters --system kafka --out plan.json")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["system"], plan["verdict"]) == ("kafka", "balanced")
    assert {move["target"] for move in plan["moves"]} == {"1"}
    refused = somebody.type(f"apply plan.json --cluster paxos:{tmp_path / 'node.json'} --yes", code=2)
    assert "is a Paxos cluster, and a Kafka cluster is needed" in refused
    assert "finished" in somebody.type(f"apply plan.json {on} --yes")
    after = leaders()
    assert after.count(1) == 4
    moved = {
        partition_of(move["group"]).partition for move in plan["moves"] if move["group"].startswith("led-")
    }
    # Nothing but what the plan names has moved.
    assert [one for number, one in enumerate(after) if number not in moved] == [
        one for number, one in enumerate(before) if number not in moved
    ]


def test_the_map_is_of_one_store(store: MastersSandbox, tmp_path: Path) -> None:
    """Two trimtabs do not act simultaneously; a map published by another process becomes the new base."""
    from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes

    nodes = PaxosNodes(PaxosConnection(store.state.configuration(0)))
    seen = nodes.preferred_map()
    assert nodes.publish(seen.version - 1, seen.preferred) is None
    assert nodes.publish(seen.version, (1, *seen.preferred[1:])) == seen.version + 1
    assert nodes.preferred_map() == MapChanged(seen.version + 1, (1, *seen.preferred[1:]))
    nodes.change_claims(["one", "two"], [])
    nodes.change_claims([], ["one"])
    assert nodes.claims() == {"two"}
