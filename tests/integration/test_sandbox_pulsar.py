"""The Pulsar sandbox: real brokers that start, die, come back, and leave nothing behind."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from demos.interruptions import interruptions, summarize_interruptions
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.pulsar.namespaces import (
    bundles_of,
    create_namespaces,
    delete_namespaces,
    place_bundles,
)
from trimtab.lab.sandbox.pulsar.state import PulsarSandboxState
from trimtab.lab.sandbox.pulsar.workload import NamespaceLoad, PulsarTopicLoad, PulsarWorkload
from trimtab.lab.sandbox.state import read_state, stop_abandoned
from trimtab.lab.sandbox.truth import RecordRun, TruthTick, stamped
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.connection import pulsar_client

TRIMTAB = [sys.executable, "-c", "from trimtab.cli.app import main; main()"]

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(300)]

TOPICS = tuple(PulsarTopicLoad(name, 25.0, 200, consumers=1) for name in ("red", "green", "blue", "white"))
WORKLOAD = PulsarWorkload((NamespaceLoad("trimtab/sandbox", 4, TOPICS),), seed=1)


@pytest.fixture
def admin(three_pulsar_brokers):
    """The admin API of the shared cluster."""
    with PulsarAdmin(three_pulsar_brokers.connection) as calls:
        yield calls


@pytest.fixture
def namespace(admin):
    """A namespace with four topics, gone again afterwards."""
    create_namespaces(admin, WORKLOAD)
    yield WORKLOAD
    delete_namespaces(admin, WORKLOAD)
    assert "trimtab/sandbox" not in admin.namespaces("trimtab")


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """A place for sandboxes that no other test and no user of this machine sees."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "sandbox"


def _trimtab(*arguments):
    return subprocess.run([*TRIMTAB, *arguments], capture_output=True, text=True, timeout=240, check=False)


def _wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.1)


def test_brokers_are_known_by_the_names_that_the_sandbox_gives_them(three_pulsar_brokers, admin):
    """Pulsar itself lists the declared brokers, and each reports its own load."""
    assert sorted(admin.brokers()) == sorted(three_pulsar_brokers.brokers)
    for broker, url in three_pulsar_brokers.web_urls.items():
        assert admin.load_report(broker)["webServiceUrl"] == url
    assert all(seconds > 0 for seconds in three_pulsar_brokers.cpu_seconds().values())


CLIENTS = ("producer", "reader-1")


def _served(load: SandboxLoad, client: str) -> set[str]:
    """The topics of which a client has had a message confirmed or read."""
    return {topic for tick in load.ticks() if tick.client == client for topic in tick.done}


def _told_until(load: SandboxLoad) -> dict[str, float]:
    """The end of the last tick that each client has written."""
    return {tick.client: tick.at + tick.seconds for tick in load.ticks()}


def test_a_load_reports_the_effect_of_an_unload_on_its_clients(
    three_pulsar_brokers, admin, namespace, tmp_path
):
    """Messages continue during an unload, and the pause of every moved topic is reported."""
    first, second, _ = three_pulsar_brokers.brokers
    bundles = bundles_of(admin, namespace)
    bundle, topics = max(bundles.items(), key=lambda item: len(item[1]))
    place_bundles(admin, bundles, dict.fromkeys(bundles, first))
    assert {admin.topic_owner(name) for name, _ in namespace.topics} == {first}
    with SandboxLoad.start(three_pulsar_brokers.connection, namespace, tmp_path) as load:
        _wait_until(
            lambda: all(_served(load, client) == {n for n, _ in namespace.topics} for client in CLIENTS)
        )
        begin = time.time()
        place_bundles(admin, bundles, {bundle: second})
        end = time.time()
        _wait_until(lambda: all(told > end + 3 for told in _told_until(load).values()))
        load.require_running()
    ticks = list(load.ticks())
    assert {admin.topic_owner(topic) for topic in topics} == {second}
    found = interruptions(ticks, topics, begin, end)
    assert {(one.client, one.key) for one in found} == {
        (client, topic) for client in CLIENTS for topic in topics
    }
    summary = summarize_interruptions(found)
    assert summary is not None
    # Messages of a topic are 0.04 s apart; a topic that changes its broker pauses for several of them.
    assert 0.06 < summary.max_seconds < 20
    done = load.summary()
    assert (done.errors, done.produced_records) == (0, done.planned_records)
    assert done.consumed_bytes > 0.8 * done.produced_bytes
    whole = load.read_back()
    assert whole.ok, whole
    assert whole.read_back == whole.confirmed == done.produced_records
    _leave_out_one_and_write_one_twice(three_pulsar_brokers.connection, load, topics[0])
    broken = load.read_back()
    assert (broken.lost, broken.twice) == ({topics[0]: 1}, {topics[0]: 1})


def _leave_out_one_and_write_one_twice(connection, load: SandboxLoad, topic: str) -> None:
    """Tell of a confirmation whose message no broker has, and write message 3 once more, by another name.

    The load's own producer cannot: under its name the broker drops a number that it has had.
    """
    stamps = {topic: [RecordRun(9_999_999, 9_999_999, None)]}
    with (load.folder / "producer.truth.jsonl").open("a") as lines:
        lines.write(TruthTick("producer", 0.0, 1.0, stamps=stamps).to_line())
    client = pulsar_client(connection)
    value = stamped(load.run, 3, b"x" * 200)
    for name in (f"load-{load.run}", "somebody-else"):
        client.create_producer(topic, producer_name=name).send(value, sequence_id=3)
    client.close()


def test_a_killed_broker_leaves_and_returns(three_pulsar_brokers, admin):
    """Pulsar forgets a broker when its session has ended, and takes it in again on its old ports."""
    first = three_pulsar_brokers.brokers[0]
    three_pulsar_brokers.kill(first)
    assert not three_pulsar_brokers.is_running(first)
    with pytest.raises(SandboxError, match=r"broker 127\.0\.0\.1:7 is not declared"):
        three_pulsar_brokers.restart("127.0.0.1:7")
    _wait_until(lambda: first not in admin.brokers())
    three_pulsar_brokers.restart(first)
    with pytest.raises(SandboxError, match=f"broker {first} runs already"):
        three_pulsar_brokers.restart(first)
    three_pulsar_brokers.wait_until_serving()
    assert first in admin.brokers()


def test_a_namespace_that_exists_is_not_created_again(admin, namespace):
    """Who runs a load twice learns that its topics are there; removing them twice is no error."""
    with pytest.raises(SandboxError, match="the namespace trimtab/sandbox exists already"):
        create_namespaces(admin, namespace)
    delete_namespaces(admin, namespace)
    delete_namespaces(admin, namespace)
    with pytest.raises(PulsarAdminError):
        admin.boundaries("trimtab/sandbox")


OWNER = """
import time
from trimtab.lab.sandbox.pulsar import PulsarSandbox
sandbox = PulsarSandbox.start(1, secured=True, cpus_per_broker=0.9)
print(sandbox.state.folder, flush=True)
time.sleep(600)
"""


def test_a_secured_broker_requires_a_token_and_ends_with_its_owner(own_state):
    """No token, no answer; a token without rights, no changes; and kill -9 of a demo leaves nothing of it."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    folder = owner.stdout.readline().strip()
    state = next(
        state for file in own_state.glob("*/") if (state := read_state(file, PulsarSandboxState)) is not None
    )
    assert (str(state.folder), state.security is not None) == (folder, True)
    with PulsarAdmin(state.connection) as admin:
        assert admin.brokers() == (state.brokers[0].broker_id,)
        cpu = admin.load_report(state.brokers[0].broker_id)["cpu"]
        assert isinstance(cpu, dict)
        # Where groups are permitted the broker knows its own limit, else the machine's.
        assert (cpu["limit"] == 90.0) == (not state.without_control_groups)
        create_namespaces(admin, WORKLOAD)
    assert state.security is not None
    for token in (None, state.security.token("nobody")):
        with PulsarAdmin(replace(state.connection, token=token)) as refused:
            with pytest.raises(PulsarAdminError) as error:
                create_namespaces(refused, WORKLOAD)
            assert error.value.status in (401, 403)
    nodes = list(state.processes.values())
    assert len(nodes) >= 2
    assert all(node.alive for node in nodes)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    _wait_until(lambda: not any(node.alive for node in nodes))
    stop_abandoned()
    assert not list(own_state.glob("*/"))
    assert not any(group.exists() for group in state.control_groups)


@pytest.mark.long
def test_up_and_down_with_the_extensible_load_manager(own_state):
    """The commands start, show, load and stop a sandbox; a second `up` shows the one that runs."""
    up = _trimtab("sandbox", "pulsar", "up", "--brokers", "1", "--load-manager", "extensible")
    assert up.returncode == 0, up.stderr
    assert "Pulsar 4.2.4, extensible load manager" in up.stdout
    assert "trimtab sandbox pulsar skew" in up.stdout
    again = _trimtab("sandbox", "pulsar", "up")
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, up.stdout.splitlines()[0])
    assert "is running already" in again.stderr
    taken = _trimtab("sandbox", "kafka", "up", "--name", "pulsar")
    assert taken.stderr == "trimtab: the sandbox pulsar is one of pulsar, not of kafka: choose another name\n"
    unloaded = _trimtab("sandbox", "pulsar", "load")
    assert "40 topics of this load do not exist" in unloaded.stderr
    assert _trimtab("sandbox", "pulsar", "skew", "--rate", "100").returncode == 0
    assert "serving, leader" in _trimtab("sandbox", "pulsar", "status").stdout
    load = _trimtab("sandbox", "pulsar", "load", "--rate", "100", "--seconds", "2")
    assert load.returncode == 0, load.stderr
    produced, log = load.stdout.splitlines()
    assert produced.endswith("; 0 errors")
    assert log.startswith("every one of ")
    assert _trimtab("sandbox", "pulsar", "down").stdout == (
        "the sandbox pulsar is stopped and its data deleted\n"
    )
    assert _trimtab("sandbox", "pulsar", "down").stdout == "no sandbox pulsar is running\n"
    assert not list(own_state.glob("*/"))
