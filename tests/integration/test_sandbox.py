"""The sandbox itself: real brokers that start, die, come back, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from trimtab.lab.sandbox.kafka import KafkaSandbox, serving_brokers
from trimtab.lab.sandbox.kafka.placement import record_placement
from trimtab.lab.sandbox.kafka.state import CONTROLLER_ID
from trimtab.lab.sandbox.kafka.topics import create_topics, delete_topics
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.processes import SandboxProcess
from trimtab.lab.sandbox.state import sandboxes_folder, stop_abandoned
from trimtab.lab.sandbox.truth import RecordRun, TruthTick
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.client import admin_client, consumer, producer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

TRIMTAB = [sys.executable, "-c", "from trimtab.cli.app import main; main()"]


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """A place for sandboxes that no other test and no user of this machine sees."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "sandbox"


@pytest.fixture
def admin(three_brokers):
    """An admin client of the small cluster."""
    client = admin_client(three_brokers.connection)
    yield client
    client.close()


def _wait_until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.05)


def _trimtab(*arguments):
    return subprocess.run([*TRIMTAB, *arguments], capture_output=True, text=True, timeout=240, check=False)


def test_six_brokers_stand_on_three_hosts_and_racks(six_brokers):
    """Kafka itself reports the racks that the sandbox declares, two brokers each, on the declared hosts."""
    admin = admin_client(six_brokers.connection)
    brokers = admin.describe_cluster()["brokers"]
    admin.close()
    racks = {broker["broker_id"]: broker["rack"] for broker in brokers}
    assert racks == {1: "r1", 2: "r1", 3: "r2", 4: "r2", 5: "r3", 6: "r3"}
    assert six_brokers.hosts == {1: "h1", 2: "h1", 3: "h2", 4: "h2", 5: "h3", 6: "h3"}


def test_every_broker_offers_metrics_and_two_log_dirs(six_brokers):
    """What a collector needs is there: CPU and byte counters over HTTP, and log dirs over the admin API."""
    admin = admin_client(six_brokers.connection)
    for broker, address in six_brokers.prometheus_endpoints.items():
        text = urllib.request.urlopen(address, timeout=60).read().decode()
        assert "java_lang_operatingsystem_processcputime " in text
        assert "kafka_server_brokertopicmetrics_bytesin_total " in text
        (answer,) = admin.describe_log_dirs(brokers=[broker])
        assert len(answer["log_dirs"]) == 2
    admin.close()
    assert all(seconds > 0 for seconds in six_brokers.cpu_seconds().values())


def test_a_killed_broker_is_fenced_and_returns_and_no_record_is_lost(three_brokers, admin, tmp_path):
    """Kafka notices kill -9 when the session ends, and takes the broker in again; clients go on meanwhile."""
    workload = KafkaWorkload((KafkaTopicLoad("kept", (30_000.0,) * 6, consumers=1),), record_bytes=1_000)
    create_topics(three_brokers.connection, workload)
    with SandboxLoad.start(three_brokers.connection, workload, tmp_path) as load:
        three_brokers.kill(2)
        with pytest.raises(SandboxError, match="node 7 is not declared"):
            three_brokers.restart(7)
        _wait_until(lambda: serving_brokers(admin) == {1, 3})
        three_brokers.restart(2)
        with pytest.raises(SandboxError, match="node 2 runs already"):
            three_brokers.restart(2)
        three_brokers.wait_until_serving()
        _wait_until(lambda: serving_brokers(admin) == {1, 2, 3})
        load.require_running()
    done, found = load.summary(), load.read_back()
    assert (done.errors, done.unacknowledged_records) == (0, 0)
    assert found.ok, found
    assert found.read_back == found.confirmed == done.planned_records
    delete_topics(three_brokers.connection, ["kept"])


def test_the_controller_can_die_and_come_back(three_brokers, admin):
    """Brokers go on without a controller; with it back, topics can be created again."""
    three_brokers.kill(CONTROLLER_ID)
    assert admin.describe_cluster()["brokers"]
    three_brokers.restart(CONTROLLER_ID)
    three_brokers.wait_until_serving()
    topic = KafkaWorkload((KafkaTopicLoad("after", (0.0,)),))
    create_topics(three_brokers.connection, topic)
    delete_topics(three_brokers.connection, ["after"])


def test_a_load_reports_its_actual_records(three_brokers, admin, tmp_path, monkeypatch):
    """The records that the load reports as produced are exactly those in the log, and readers receive all of
    them. Its folder is relative to the current one, as a user names it.
    """
    monkeypatch.chdir(tmp_path)
    topics = (
        KafkaTopicLoad("busy", (60_000.0, 20_000.0, 0.0), consumers=2),
        KafkaTopicLoad("quiet", (10_000.0,), preload_bytes=(250_000,)),
    )
    workload = KafkaWorkload(topics, record_bytes=1_000, seed=3)
    create_topics(three_brokers.connection, workload)
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec

    with SandboxLoad.start(three_brokers.connection, workload, Path("truth")) as load:
        _wait_until(lambda: load.summary().produced_records > 300)
        load.require_running()
    ticks = list(load.ticks())
    done: dict[str, int] = {}
    for tick in ticks:
        if tick.client == "producer":
            for key, part in tick.done.items():
                done[key] = done.get(key, 0) + part.records
    keys = [("busy", 0), ("busy", 1), ("busy", 2), ("quiet", 0)]
    ends = admin.list_partition_offsets({TopicPartition(*key): OffsetSpec.LATEST for key in keys})
    logged = {f"{where.topic}:{where.partition}": found.offset for where, found in ends.items()}
    logged["quiet:0"] -= 3  # 250,000 bytes are preloaded in records of 100,000
    assert {key: count for key, count in logged.items() if count} == done
    summary = load.summary()
    assert summary.errors == 0
    assert summary.planned_records == summary.produced_records
    assert {tick.client for tick in ticks} == {"producer", "reader-1", "reader-2"}
    assert 0 < summary.consumed_bytes <= 2 * summary.produced_bytes
    whole = load.read_back()
    assert whole.ok, whole
    assert whole.read_back == whole.confirmed == summary.produced_records
    _leave_out_one_and_write_one_twice(three_brokers.connection, load.folder)
    broken = load.read_back()
    assert (broken.lost, broken.twice) == ({"quiet:0": 1}, {"busy:0": 1})
    delete_topics(three_brokers.connection, ["busy", "quiet"])


def _leave_out_one_and_write_one_twice(connection, truth: Path) -> None:
    """Tell of a confirmation whose record no broker has, and copy a record of `busy-0` to its end."""
    from kafka import TopicPartition

    told = TruthTick("producer", 0.0, 1.0, stamps={"quiet:0": [RecordRun(9_999_999, 9_999_999, 9_999_999)]})
    with (truth / "producer.truth.jsonl").open("a") as lines:
        lines.write(told.to_line())
    where = TopicPartition("busy", 0)
    reader, writer = consumer(connection), producer(connection)
    reader.assign([where])
    reader.seek_to_beginning(where)
    found: list[bytes] = []
    _wait_until(lambda: found.extend(r.value for b in reader.poll(500).values() for r in b) or found)
    writer.send("busy", found[0], partition=0).get(30)
    reader.close()
    writer.close()


def test_a_recorded_draw_is_made_again(three_brokers, admin):
    """The controller's own random placement, recorded once, can be recreated replica for replica."""
    workload = KafkaWorkload((KafkaTopicLoad("drawn", (0.0,) * 9),))
    create_topics(three_brokers.connection, workload)
    drawn = record_placement(admin, ["drawn"])
    with pytest.raises(SandboxError, match="exist already"):
        create_topics(three_brokers.connection, workload)
    delete_topics(three_brokers.connection, ["drawn"])
    _wait_until(lambda: "drawn" not in admin.list_topics())
    create_topics(three_brokers.connection, workload, drawn)
    assert record_placement(admin, ["drawn"]) == drawn
    delete_topics(three_brokers.connection, ["drawn"])


@pytest.mark.long
def test_a_client_that_ends_is_reported(three_brokers, tmp_path):
    """A load on a missing topic ends, and names the client and the reason."""
    workload = KafkaWorkload((KafkaTopicLoad("absent", (1_000.0,), consumers=1),), record_bytes=1_000)
    with pytest.raises(SandboxError, match="the load"):
        SandboxLoad.start(three_brokers.connection, workload, tmp_path)


def test_a_broker_declared_absent_joins_later_new_and_empty(own_state):
    """The scenario of a new broker: it is declared, and started when the others are full."""
    with KafkaSandbox.start(2, absent=(2,), prometheus=False) as sandbox:
        admin = admin_client(sandbox.connection)
        assert serving_brokers(admin) == {1}
        sandbox.restart(2)
        sandbox.wait_until_serving()
        _wait_until(lambda: serving_brokers(admin) == {1, 2})
        for _ in range(20):
            # A broker names any live one as controller. This client connected before broker 2 was there.
            admin._controller_id = None
            admin.delete_topics(["absent"], raise_errors=False)
        admin.close()
    assert not list(own_state.glob("*/"))


OWNER = """
import os, sys, time
from trimtab.lab.sandbox.kafka import KafkaSandbox
sandbox = KafkaSandbox.start(1, prometheus=False)
print(*(f"{p.pid}:{p.started}" for p in sandbox.state.processes.values()), flush=True)
time.sleep(600)
"""


def test_kill_9_of_the_owner_leaves_no_broker_and_no_data(own_state):
    """After kill -9 of a demo no broker runs, and the next sandbox clears its folder away."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    nodes = [
        SandboxProcess(int(pid), started)
        for pid, started in (p.split(":") for p in owner.stdout.readline().split())
    ]
    assert len(nodes) == 2
    assert all(node.alive for node in nodes)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    _wait_until(lambda: not any(node.alive for node in nodes))
    assert len(list(own_state.glob("*/"))) == 1
    stop_abandoned()
    assert not list(own_state.glob("*/"))


def test_up_and_down_twice(own_state):
    """A second `up` shows the running cluster, a second `down` finds nothing, and neither is an error."""
    first = _trimtab("sandbox", "kafka", "up", "--brokers", "1", "--no-metrics")
    assert first.returncode == 0, first.stderr
    assert "serving" in first.stdout
    assert "trimtab sandbox kafka skew" in first.stdout
    again = _trimtab("sandbox", "kafka", "up")
    assert again.returncode == 0
    assert "is running already" in again.stderr
    assert first.stdout.splitlines()[0] == again.stdout.splitlines()[0]
    assert _trimtab("sandbox", "kafka", "status").stdout.count("serving") == 1
    stopped = _trimtab("sandbox", "kafka", "down")
    assert (stopped.returncode, stopped.stdout) == (0, "the sandbox kafka is stopped and its data deleted\n")
    nothing = _trimtab("sandbox", "kafka", "down")
    assert (nothing.returncode, nothing.stdout) == (0, "no sandbox kafka is running\n")
    assert not list(own_state.glob("*/"))


def test_up_after_a_crash_clears_the_leftover(own_state):
    """Brokers that died with the machine leave a folder; the next `up` starts fresh in it."""
    assert _trimtab("sandbox", "kafka", "up", "--brokers", "1", "--no-metrics").returncode == 0
    state = json.loads((own_state / "kafka" / "sandbox.json").read_text())
    for process in state["processes"].values():
        os.kill(process["pid"], signal.SIGKILL)
    _wait_until(lambda: _trimtab("sandbox", "kafka", "status").returncode == 1)
    again = _trimtab("sandbox", "kafka", "up", "--brokers", "1", "--no-metrics")
    assert again.returncode == 0, again.stderr
    assert "ended without being stopped" in again.stderr
    assert _trimtab("sandbox", "kafka", "down").returncode == 0


def test_ctrl_c_during_up_leaves_nothing(own_state):
    """Who changes their mind while brokers start gets their machine back."""
    up = subprocess.Popen(
        [*TRIMTAB, "sandbox", "kafka", "up", "--brokers", "2"], stderr=subprocess.PIPE, text=True
    )
    _wait_until(lambda: len(list(own_state.glob("kafka/node-*/out.log"))) >= 2)
    up.send_signal(signal.SIGINT)
    assert up.stderr is not None
    message = up.stderr.read()
    up.stderr.close()
    assert up.wait(120) == 130
    assert "Traceback" not in message
    assert not list(own_state.glob("*/"))
    assert not _java_below(own_state)


def test_no_sandbox_is_one_sentence(own_state):
    """Commands that need a running sandbox say how to start one."""
    for command in (["load"], ["skew"]):
        answer = _trimtab("sandbox", "kafka", *command)
        assert answer.returncode == 1
        assert answer.stderr == (
            "trimtab: no sandbox kafka is running: start one with trimtab sandbox kafka up\n"
        )


def test_names_that_would_leave_the_folder_are_refused(own_state):
    """A sandbox's name is a folder's name, and nothing more."""
    answer = _trimtab("sandbox", "kafka", "down", "--name", "../../elsewhere")
    assert answer.returncode == 1
    assert "cannot name a sandbox" in answer.stderr


def _java_below(folder: Path) -> list[str]:
    """Command lines of running processes that name a folder; Linux only, elsewhere none."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = file.read_text()
        except OSError:
            continue
        if str(folder) in text and "kafka.Kafka" in text:
            found.append(text)
    return found


def test_the_folder_of_sandboxes_follows_the_settings(own_state):
    """TRIMTAB_STATE moves everything a sandbox writes."""
    assert sandboxes_folder() == own_state
