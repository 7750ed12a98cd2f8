"""Balancer `keys` from end to end: real records through Spark, a plan, a table that real clients follow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from kafka import KafkaConsumer

from support.admin_calls import ask
from trimtab.files.keys.formats import SNAPSHOT_FORMAT
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.worker import AnyConsumer, AnyProducer, SqliteEffects
from trimtab.observe.keys.pipeline import PIPELINE
from trimtab.observe.lake.lake import Lake
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.routing import key_group

PATIENCE_SECONDS = 120.0
TOPIC, GROUP = "orders", "billing"
KEYS = [b"hot", b"\x00\xff\xfe", b"", "schlüssel".encode(), *(b"user %d" % n for n in range(200))]
"""Printable, not so, empty, not of ASCII, and many."""


@pytest.fixture
def sandbox() -> Iterator[KafkaSandbox]:
    """One broker with a topic of four partitions."""
    with KafkaSandbox.start(1, prometheus=False) as found:
        topic = {TOPIC: {"num_partitions": 4, "replication_factor": 1}}
        ask(found.connection, lambda admin: admin.create_topics(topic, wait_for_metadata=True))
        yield found


class Load(threading.Thread):
    """Every second record has the hot key, until it is told to stop; values are numbers, by key."""

    def __init__(self, bootstrap: str, following: RoutingConfig) -> None:
        super().__init__(daemon=True)
        self.sender = AnyProducer("kafka-python", bootstrap, TOPIC, following)
        self.sent, self.stopped = Counter[bytes](), threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        number = 0
        while not self.stopped.wait(0.01):
            key = KEYS[0] if number % 2 else KEYS[1 + number // 2 % (len(KEYS) - 1)]
            number += 1
            self.sent[key] += 1
            self.sender.send(key, b"%d" % self.sent[key], self._count)
        self.sender.close()

    def _count(self) -> None:
        self.acknowledged += 1


def _until(holds: Callable[[], object], what: str, state: Callable[[], object] = lambda: "") -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, f"{what}: {state()}"
        time.sleep(0.1)


def _group(key: bytes) -> int:
    return key_group(key, 4)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_hot_key_is_found_split_and_put_together(sandbox: KafkaSandbox, tmp_path: Path) -> None:
    """Read, planned, rejected while a consumer is not guarded, applied, reverted; no record out of order."""
    (bootstrap,) = sandbox.connection.bootstrap
    following = RoutingConfig(
        {"bootstrap_servers": bootstrap},
        tables_topic="trimtab-tables",
        heartbeat_interval_seconds=0.5,
        read_seconds=0.5,
    )

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trimtab", *map(str, words)],
            env={**os.environ, "TRIMTAB_STATE": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            check=False,
        )

    def trimtab(*words: object, code: int = 0) -> str:
        done = run(*words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    lake, plan, wider = tmp_path / "lake", tmp_path / "plan.json", tmp_path / "wider.json"
    on = ("--cluster", f"kafka://{bootstrap}")
    takers = []
    stores = [SqliteEffects(tmp_path / "effects.db") for _ in range(2)]
    load = Load(bootstrap, following)
    try:
        takers += [AnyConsumer("kafka-python", bootstrap, TOPIC, GROUP, one, following) for one in stores]
        load.start()
        _until(lambda: stores[0].count() > 2 * len(KEYS), "effects of every key")
        trimtab(
            "pipeline", "run", "--keys", TOPIC, *on, "--lake", lake,
            "--set", "pipeline.keys.sample_interval_seconds=3",
            "--set", "pipeline.keys.capacity_per_second=400",
        )  # fmt: skip
        snapshot = SNAPSHOT_FORMAT.read(Lake(lake, PIPELINE).newest_snapshot())
        assert {one.group for one in snapshot.groups if one.records_per_second} == set(map(_group, KEYS))
        hot = snapshot.keys[0]
        assert (hot.key, hot.group, hot.partitions) == ("hot", _group(b"hot"), (_group(b"hot") % 4,))
        assert hot.share == pytest.approx(0.5, abs=0.1)
        total = sum(one.records_per_second for one in snapshot.partitions)
        # However fast this machine sends: four partitions are half a partition too few.
        tight = ("--set", f"keys.theta.records={total / 400 / 4.5:.4f}")
        assert sum(one.records_per_second for one in snapshot.groups) == pytest.approx(total)
        assert (snapshot.consumers, snapshot.version, snapshot.base) == (GROUP, 0, 4)
        assert snapshot.partitions[0].ps_content[0] == 0
        status = json.loads(trimtab("status", "--keys", TOPIC, "--lake", lake, "--json"))
        assert (status["balancer"], status["keys"][0]["key"]) == ("keys", "hot")
        trimtab("plan", "keys", "--lake", lake, "--out", plan)
        (split,) = (one for one in json.loads(plan.read_text())["moves"] if one["name"] == "hot")
        assert len(split["after"]) == 2
        applied = trimtab("apply", plan, *on, "--yes")
        assert "kafka:trimtab-tables is not there yet" in applied
        assert "routing table 2 is in force" in applied
        _until(lambda: load.sender.version == 2, "the producer follows")
        assert "nothing to do" in trimtab("apply", plan, *on, "--dry-run")
        stranger = KafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id=GROUP)
        _until(lambda: stranger.poll(200) or stranger.assignment(), "a member without guard")
        told = trimtab("apply", plan, *on, "--yes", "--revert", code=1)
        assert "would break the order of keys that move" in told
        stranger.close(autocommit=False)
        back = ("apply", plan, *on, "--revert")
        _until(lambda: run(*back, "--dry-run").returncode == 0, "the group without the stranger")
        assert "routing table 4 is in force" in trimtab(*back, "--yes")
        newer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "newer",
                "group.protocol": "consumer",
                "enable.auto.commit": False,
            }
        )
        newer.subscribe([TOPIC])
        _until(lambda: newer.poll(0.2) and newer.assignment(), "a group of the newer protocol")
        trimtab("plan", "keys", "--lake", lake, "--out", wider, "--set", "keys.max_partitions=5", *tight)
        assert "group newer speaks the newer group protocol" in trimtab("apply", wider, *on, "--yes", code=1)
        newer.close()
        before = stores[0].count()
        applied = trimtab("apply", wider, *on, "--yes")
        assert "orders to 5 partitions" in applied
        assert "routing table 6 is in force" in applied
        _until(lambda: any(one[2] == 4 for one in stores[0].all()[before:]), "records in the new partition")
        load.stopped.set()
        load.join(60)
        assert not load.is_alive(), "the producer did not close within a minute"

        def missing() -> object:
            """Keys without some effects and how far each came, records acknowledged, and the consumers."""
            done = Counter(key for key, _, _ in stores[0].all())
            lacking = {key: (done[key], sent) for key, sent in load.sent.items() if done[key] != sent}
            consumers = [
                (one.trouble, one.consumer.receiving.held, one.consumer.receiving.counts) for one in takers
            ]
            return lacking, load.acknowledged, sum(load.sent.values()), consumers

        _until(
            lambda: stores[0].count() >= sum(load.sent.values()) or any(one.trouble for one in takers),
            "all effects",
            missing,
        )
    finally:
        load.stopped.set()
        for one in takers:
            one.close()
    assert [one.trouble for one in takers] == [None, None]
    found: dict[bytes, list[int]] = {}
    partitions: set[int] = set()
    for number, (key, value, partition) in enumerate(stores[0].all()):
        found.setdefault(key, []).append(int(value))
        partitions |= {partition} if key == b"hot" and number < before else set()
    assert found == {key: list(range(1, count + 1)) for key, count in load.sent.items()}
    assert partitions == set(split["after"])
