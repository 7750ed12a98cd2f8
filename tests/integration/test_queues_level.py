"""The level `queues` from end to end, on a real server with real workers."""

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

from trimtab.connect.redis.server import QueueServer as Reader
from trimtab.connect.redis.server import open_server
from trimtab.connect.redis.settings import RedisConnection
from trimtab.dataplane.queues import LevelledBroker
from trimtab.lab.sandbox.queues.server import QueueServer

TESTS = Path(__file__).parents[1]
PATIENCE_SECONDS = 120.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with two workers."""
    server = QueueServer(tmp_path / "server")
    environment = {
        **os.environ, "QUEUES_URL": server.url, "QUEUES": "2",
        "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path)),
    }  # fmt: skip
    workers = [
        subprocess.Popen([sys.executable, "-m", "support.queue_workload"], env=environment) for _ in range(2)
    ]
    yield server.url
    for one in workers:
        one.kill()
        one.wait(60)
    server.stop()


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


class Sender(threading.Thread):
    """Messages of two classes, all declared alike, until it is told to stop."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.stopped = url, threading.Event()
        self.weights: list[float] = []

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        broker = LevelledBroker(self.url, queues=2, weights={"quick": 0.02, "slow": 0.02}, wait_seconds=None)

        async def vote(user: str, number: int, seconds: float) -> None: ...

        task = broker.register_task(vote, task_name="vote")
        await broker.startup()
        number = 0
        while not self.stopped.is_set():
            slow = number % 4 == 0
            label = {"message_class": "slow" if slow else "quick"}
            await task.kicker().with_labels(**label).kiq("ann", number, 0.1 if slow else 0.001)
            self.weights = [broker.weight_of("quick"), broker.weight_of("slow")]
            number += 1
            await asyncio.sleep(0.03)
        await broker.shutdown()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_weights_learn_themselves_and_go_back(url: str, tmp_path: Path) -> None:
    """Sampled, through Spark, planned, published, taken up by all; an older plan takes it back."""

    def trimtab(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trimtab", *map(str, words)],
            env={**os.environ, "TRIMTAB_STATE": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    lake, plan, other = tmp_path / "lake", tmp_path / "plan.json", tmp_path / "other.json"
    sender = Sender(url)
    sender.start()
    with open_server(RedisConnection(url)) as reader:
        try:
            _until(lambda: _processed(reader) >= 20)
            trimtab("collect", "--queues", url, "--lake", lake, "--interval", 1, "--ticks", 6)
            at_once = json.loads(trimtab("status", "--queues", url, "--json"))
            assert (at_once["level"], at_once["processes"], at_once["version"]) == ("queues", 3, 0)
            trimtab("pipeline", "run", "--lake", lake)
            status = json.loads(trimtab("status", "--lake", lake, "--json"))
            assert (status["level"], status["cluster"]) == ("queues", "queues")
            ask = ("--set", "queues.samples_least=5", "--set", "queues.confidence=1")
            told = trimtab("plan", "queues", "--lake", lake, *ask, "--out", plan)
            assert "The scheduler, with what it would do now:" in told
            found = {one["name"]: one for one in json.loads(plan.read_text())["moves"]}
            # A task takes at least as long as it sleeps; how much longer is the machine's business.
            assert found["slow"]["before"] is None
            assert found["slow"]["after"] >= 0.1
            trimtab("apply", plan, "--queues", url, "--yes")
            _until(lambda: {one.version for one in reader.reports()} == {1})
            _until(lambda: sender.weights[1] == found["slow"]["after"])
            other.write_text(json.dumps(_second(json.loads(plan.read_text()))))
            trimtab("apply", other, "--queues", url, "--yes")
            _until(lambda: sender.weights[1] == 7.0)
            receipt = trimtab("apply", plan, "--queues", url, "--yes")
            assert "published as version 3" in receipt
            replayed = json.loads(trimtab("replay", "queues", "--lake", lake, "--json"))
            assert replayed["classes"] == ["quick", "slow"]
            assert {one["wait_seconds"][""]["messages"] for one in replayed["policies"]} == {
                replayed["messages"]
            }
            _until(lambda: sender.weights[1] == found["slow"]["after"])
        finally:
            sender.stopped.set()
            sender.join()


def _processed(reader: Reader) -> int:
    return sum(one.processed for report in reader.reports() for one in report.classes.values())


def _second(document: dict) -> dict:
    """The plan as one made after the first that weighs slow messages with seven seconds."""
    document["version"] = 1
    document["moves"] = [one for one in document["moves"] if one["name"] == "slow"]
    document["cost"] = {"weights": 1, "settings": 0}
    for one in [*document["moves"], *document["assignments"]]:
        one["before"] = one["after"]
        one["after"] = 7.0 if one["name"] == "slow" else one["after"]
    return document
