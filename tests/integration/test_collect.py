"""The collector on real brokers under a real load."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.topics import create_topics, delete_topics
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.observe.collect.sampler import TickResult, collect, lake_sink
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import KINDS
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.systems.kafka.client import admin_client, consumer
from trimtab.systems.kafka.collector import COLLECTING

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

WORKLOAD = KafkaWorkload(
    topics=(
        KafkaTopicLoad("collect-read", (200_000.0, 100_000.0), replication_factor=3, consumers=1),
        KafkaTopicLoad("collect-unread", (50_000.0,), replication_factor=2),
    ),
    record_bytes=10_000,
)
TRIMTAB = [sys.executable, "-c", "from trimtab.cli.app import main; main()"]
COLLECT = [*TRIMTAB, "collect", "--interval", "3"]
TICKS_MAXIMUM = 50
"""Of three seconds each: how long a busy machine may take for anything."""
Row = dict[str, object]


@pytest.fixture(scope="module")
def loaded(
    six_brokers: KafkaSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaSandbox, Path]]:
    """Six brokers under load, and the folder of the load's truth."""
    truth = tmp_path_factory.mktemp("load")
    create_topics(six_brokers.connection, WORKLOAD)
    try:
        with SandboxLoad.start(six_brokers.connection, WORKLOAD, truth):
            yield six_brokers, truth
    finally:
        delete_topics(six_brokers.connection, [topic.name for topic in WORKLOAD.topics])


def settings_of(sandbox: KafkaSandbox, truth: Path) -> CollectSettings:
    """As an operator of this cluster would set it."""
    return CollectSettings(
        interval_seconds=3,
        timeout_seconds=3,
        cluster="sandbox",
        prometheus={str(broker): url for broker, url in sandbox.prometheus_endpoints.items()},
        hosts={str(broker): host for broker, host in sandbox.hosts.items()},
        client_samples=(truth / "*.truth.jsonl",),
    )


def run_ticks(
    sandbox: KafkaSandbox, truth: Path, lake: Lake, fewest: int, enough: Callable[[], bool]
) -> list[TickResult]:
    """Collect at least so many ticks, and until what they hold is enough."""
    capacity = CapacitySettings(cpu_cores=1.0, disk_bytes=1e9)
    settings = settings_of(sandbox, truth)
    outcomes: list[TickResult] = []
    with (
        COLLECTING.open(sandbox.connection, settings, capacity) as collector,
        lake_sink(lake.raw, COLLECTING.columns) as landing,
    ):
        for outcome in collect(collector, landing, settings.interval_seconds, threading.Event()):
            outcomes.append(outcome)
            if len(outcomes) >= fewest and (enough() or len(outcomes) >= TICKS_MAXIMUM):
                break
    return outcomes


def rows_of(lake: Lake, kind: str | None = None) -> list[Row]:
    """All rows of the lake, in order of ticks."""
    table = pa.concat_tables([pq.ParquetFile(path).read() for path in lake.raw_files()])
    found: list[Row] = table.to_pylist()
    return [row for row in found if kind is None or row["kind"] == kind]


def test_every_kind_of_row_is_collected_from_a_cluster_under_load(
    loaded: tuple[KafkaSandbox, Path], tmp_path: Path
) -> None:
    """Counters rise, sizes grow, groups commit, and clients report: all inputs of the pipeline
    are present.
    """
    sandbox, truth = loaded
    lake = Lake(tmp_path, REPLICAS)
    hot = {"topic": "collect-read", "partition": 0}

    def values(kind: str, column: str, **where: object) -> list[int]:
        rows = [r for r in rows_of(lake, kind) if all(r[name] == value for name, value in where.items())]
        return [r[column] for r in sorted(rows, key=lambda row: str(row["tick"]))]  # type: ignore[misc]

    def counters() -> dict[str, list[int]]:
        (leader,) = {row["leader"] for row in rows_of(lake, "partition") if row.items() >= hot.items()}
        return {
            "cpu": values("broker", "cpu_time_ns", broker=leader),
            "bytes in": values("broker", "bytes_in_total", broker=leader),
            "bytes in of the topic": values(
                "topic_broker", "bytes_in_total", broker=leader, topic="collect-read"
            ),
            "size": values("replica", "size_bytes", broker=leader, **hot),
            "end": values("partition", "end_offset", **hot),
            "committed": values("group", "committed_offset", **hot),
            "produced": values("client", "served_bytes_total", client="producer"),
            "read": values("client", "served_bytes_total", client="reader-1"),
        }

    # Groups commit every five seconds, later on a busy machine.
    outcomes = run_ticks(
        sandbox, truth, lake, 4, lambda: all(c and c[-1] > c[0] for c in counters().values())
    )
    assert {outcome.problem for outcome in outcomes} == {None}
    assert {sample.problems for outcome in outcomes if (sample := outcome.sample)} == {()}
    rows = rows_of(lake)
    assert {row["kind"] for row in rows} == set(KINDS)
    ticks = sorted({str(row["tick"]) for row in rows})
    assert len(ticks) == len(outcomes)
    for name, counter in counters().items():
        assert counter == sorted(counter), f"{name} went back"
        assert counter[-1] > counter[0], f"{name} did not move under load"
    brokers = [r for r in rows if r["kind"] == "broker"]
    assert {(r["broker"], r["host"], r["rack"]) for r in brokers} == {
        (node.id, node.host, node.rack) for node in sandbox.brokers
    }
    assert all(r["processors"] for r in brokers)
    # The first five seconds of a broker count as no idle time at all: its meter has not turned over yet.
    idle = {r["handler_idle_fraction"] for r in brokers}
    assert all(isinstance(fraction, float) and fraction >= 0 for fraction in idle)
    assert all(r["handler_idle_fraction"] for r in brokers if str(r["tick"]) == ticks[-1])
    assert {r["disk_total_bytes"] for r in rows if r["kind"] == "log_dir"} == {500_000_000}


def checked(sandbox: KafkaSandbox, endpoints: dict[int, str], folder: Path) -> dict[str, tuple[str, str]]:
    """Grade and sentence by subject, as `trimtab check` finds them with these endpoints."""
    lines = "".join(f'{broker} = "{url}"\n' for broker, url in endpoints.items())
    (folder / "trimtab.toml").write_text(f"[collect.prometheus]\n{lines}")
    done = subprocess.run(
        [
            *TRIMTAB,
            "check",
            "--json",
            "--cluster",
            f"kafka://{sandbox.bootstrap}",
            "--lake",
            str(folder / "lake"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        env=os.environ | {"TRIMTAB_STATE": str(folder / "state")},
    )
    assert done.returncode == 1, done.stderr  # the lake is empty, and some brokers lead nothing
    findings = json.loads(done.stdout)["findings"]
    return {one["subject"]: (one["grade"], one["text"]) for one in findings if one["part"] == "Kafka"} | {
        "ticked": (
            "",
            next(
                (one["text"] for one in findings if one["grade"] == "fine" and one["subject"] == "metrics"),
                "",
            ),
        )
    }


def test_check_ticks_the_counters_that_follow_the_logs(
    loaded: tuple[KafkaSandbox, Path], tmp_path: Path
) -> None:
    """Brokers that lead what is written are confirmed; with two exporters exchanged neither of them is."""
    sandbox, truth = loaded
    with COLLECTING.open(sandbox.connection, settings_of(sandbox, truth), CapacitySettings()) as collector:
        rows = list(collector.sample().rows_of("partition"))
    names = {topic.name for topic in WORKLOAD.topics}
    leading = sorted({row["leader"] for row in rows if row["topic"] in names})
    endpoints = dict(sandbox.prometheus_endpoints)
    found = checked(sandbox, endpoints, tmp_path)
    assert f"{len(leading)} of 6 endpoints: CPU time rises, and bytes in agree" in found["ticked"][1], found
    assert not any(name.startswith("metrics of broker") for name in found), found
    idle = next(broker for broker in endpoints if broker not in leading)
    endpoints[leading[0]], endpoints[idle] = endpoints[idle], endpoints[leading[0]]
    found = checked(sandbox, endpoints, tmp_path)
    assert {f"metrics of broker {leading[0]}", f"metrics of broker {idle}"} <= found.keys(), found


def test_a_killed_broker_is_marked_and_the_others_land(
    loaded: tuple[KafkaSandbox, Path], tmp_path: Path
) -> None:
    """Kill -9: unreachable at once, fenced when its session ends, sampled again when it is back."""
    sandbox, truth = loaded
    lake = Lake(tmp_path, REPLICAS)
    victim = 4
    settings = settings_of(sandbox, truth)
    seen: list[tuple[object, int]] = []
    with (
        COLLECTING.open(sandbox.connection, settings, CapacitySettings()) as collector,
        lake_sink(lake.raw, COLLECTING.columns) as landing,
    ):
        ticks = collect(collector, landing, settings.interval_seconds, threading.Event())
        next(ticks)
        sandbox.kill(victim)
        try:
            # A session ends after six seconds.
            for _ in range(TICKS_MAXIMUM):
                assert next(ticks).problem is None
                state = next(
                    r["broker_state"] for r in reversed(rows_of(lake, "broker")) if r["broker"] == victim
                )
                seen.append((state, len({r["broker"] for r in _newest(rows_of(lake, "replica"))} - {victim})))
                if state == "fenced":
                    break
        finally:
            sandbox.restart(victim)
            sandbox.wait_until_serving()
        assert [state for state, _ in seen[:1]] == ["unreachable"]
        assert seen[-1][0] == "fenced"
        assert {others for _, others in seen} == {5}, "some other broker's samples were lost"
        deadline = time.monotonic() + 120
        while not any(r["broker"] == victim for r in _newest(rows_of(lake, "replica"))):
            assert time.monotonic() < deadline, "the broker that came back is not sampled"
            next(ticks)
    metrics = [r for r in rows_of(lake, "broker") if r["broker_state"] != "alive"]
    assert {r["broker"] for r in metrics} == {victim}
    assert all(r["cpu_time_ns"] is None for r in metrics)


def _newest(rows: list[Row]) -> list[Row]:
    last = max(str(row["tick"]) for row in rows)
    return [row for row in rows if str(row["tick"]) == last]


def test_a_collector_that_is_killed_starts_again(loaded: tuple[KafkaSandbox, Path], tmp_path: Path) -> None:
    """Kill -9 of the command between and in ticks: every file is whole, and the next one goes on."""
    sandbox, _ = loaded
    lake = Lake(tmp_path, REPLICAS)
    command = [
        *TRIMTAB,
        "collect",
        "--cluster",
        f"kafka://{sandbox.bootstrap}",
        "--lake",
        str(tmp_path),
        "--interval",
        "1",
    ]
    for run in range(1, 3):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
            deadline = time.monotonic() + 120
            while len(lake.raw_files()) < 2 * run:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
    assert all(pq.ParquetFile(path).metadata.num_rows > 0 for path in lake.raw_files())


def test_samples_go_into_a_topic(loaded: tuple[KafkaSandbox, Path]) -> None:
    """`--sink kafka:TOPIC` on a cluster without metrics endpoints set: JSON rows, whole ticks, no CPU."""
    sandbox, _ = loaded
    admin = admin_client(sandbox.connection)
    admin.create_topics({"collect-samples": {"num_partitions": 3, "replication_factor": 2}})
    try:
        admin.wait_for_topics(["collect-samples"], timeout_ms=120_000)
        done = subprocess.run(
            [
                *COLLECT,
                "--cluster",
                f"kafka://{sandbox.bootstrap}",
                "--ticks",
                "2",
                "--sink",
                "kafka:collect-samples",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=os.environ | {"TRIMTAB_COLLECT_CLUSTER": "sandbox"},
        )
        assert done.returncode == 0, done.stderr
        landed = sum(
            int(line.split(" rows")[0].split()[-1]) for line in done.stderr.splitlines() if " rows, " in line
        )
        reader = consumer(sandbox.connection, auto_offset_reset="earliest", enable_auto_commit=False)
        reader.subscribe(["collect-samples"])
        rows: list[Row] = []
        deadline = time.monotonic() + 120
        while len(rows) < landed and time.monotonic() < deadline:
            rows += [json.loads(one.value) for batch in reader.poll(500).values() for one in batch]
        reader.close()
    finally:
        admin.delete_topics(["collect-samples"])
        admin.close()
    assert len(rows) == landed > 0
    assert len({row["tick"] for row in rows}) == 2
    assert {row["kind"] for row in rows} == set(KINDS) - {"client", "topic_broker"}
    assert not any("cpu_time_ns" in row for row in rows)
    assert "three resources remain" in done.stderr


def test_live_status_reads_from_the_brokers(loaded: tuple[KafkaSandbox, Path]) -> None:
    """The first command of a newcomer: sizes and leaders of a running cluster, nothing set up before."""
    sandbox, _ = loaded
    done = subprocess.run(
        [*TRIMTAB, "status", "--cluster", f"kafka://{sandbox.bootstrap}", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [(broker["id"], broker["state"]) for broker in document["brokers"]] == [
        (number, "alive") for number in range(1, 7)
    ]
    assert sum(broker["leaders"] for broker in document["brokers"]) == document["partitions"]
    assert all(broker["disk_bytes"] > 0 for broker in document["brokers"] if broker["replicas"])
