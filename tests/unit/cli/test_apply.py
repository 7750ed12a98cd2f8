"""`trimtab apply` against a cluster that speaks Kafka's protocol but is none."""

from pathlib import Path

import pytest

from simulate.kafka.cluster import cluster_of
from simulate.kafka.port import SimulatedPort
from simulate.kafka.server import SimulatedKafkaServer
from simulate.kafka.state import FOLLOWER_RATE, LEADER_RATE, WHOLE_CLUSTER, ConfigOperation, ResourceType
from support.plans import plan_of
from trimtab.act.control import begin, prepare
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.cli.app import main
from trimtab.executions import open_store
from trimtab.files.machine import state_folder
from trimtab.files.replicas.plan import plan_bytes, write_plan


def test_lower_throttles_of_operators_are_reported_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One set for all brokers, one of a broker that takes part, one of a broker that does not."""
    cluster = cluster_of(4)
    cluster.controller.create_topic("t", {0: [1, 2]}, size_bytes=60e6)
    for broker, key in ((WHOLE_CLUSTER, LEADER_RATE), ("3", FOLLOWER_RATE), ("4", FOLLOWER_RATE)):
        cluster.controller.alter_configs(ResourceType.BROKER, broker, [(key, ConfigOperation.SET, "2000000")])
    write_plan(plan_of(("t", 0, (1, 2), (1, 3))), tmp_path / "p.json")
    with SimulatedKafkaServer(cluster) as server:
        bootstrap = ",".join(server.bootstrap)
        with pytest.raises(SystemExit) as ended:
            main(["apply", str(tmp_path / "p.json"), "--dry-run", "--cluster", f"kafka://{bootstrap}"])
    assert not ended.value.code
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line and "throttle" in line]
    assert len(told) == 2
    assert "a throttle of 2 MB/s is set for all brokers, lower than ours of 50 MB/s" in told[0]
    assert f"broker 3 has a throttle of its own, {FOLLOWER_RATE} = 2 MB/s, lower than ours" in told[1]


def test_a_brokers_own_throttle_is_reported_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have been set since; a rate for all brokers is not reported, it may be an earlier
    one of ours.
    """
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    cluster = cluster_of(4)
    cluster.controller.create_topic("t", {0: [1, 2]}, size_bytes=60e6)
    plan = plan_of(("t", 0, (1, 2), (1, 3)))
    with open_store(state_folder()) as store:
        prepared = prepare(EXECUTOR, SimulatedPort(cluster), plan)
        begin(EXECUTOR, store, prepared, ReplicasExecutionSettings(), plan_bytes(plan).decode())
    for broker, key in ((WHOLE_CLUSTER, LEADER_RATE), ("3", FOLLOWER_RATE)):
        cluster.controller.alter_configs(ResourceType.BROKER, broker, [(key, ConfigOperation.SET, "2000000")])
    cluster.controller.reassign("t", 0, [1, 3])
    cluster.advance(600.0)  # through, so that nothing is left but to see it
    with SimulatedKafkaServer(cluster) as server, pytest.raises(SystemExit) as ended:
        main(["execution", "resume", "--cluster", "kafka://" + ",".join(server.bootstrap)])
    assert not ended.value.code
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(told) == 1
    assert f"broker 3 has a throttle of its own, {FOLLOWER_RATE} = 2 MB/s, lower than ours" in told[0]
