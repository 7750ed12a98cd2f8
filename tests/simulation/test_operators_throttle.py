"""An operator's own throttles, set before trimtab comes: they stand afterwards as they stood before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulate.faults import BrokerKilled, BrokerStarted, Fault, FaultScript
from simulate.kafka.cluster import cluster_of
from simulate.kafka.state import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    WHOLE_CLUSTER,
    ConfigOperation,
    ResourceType,
)
from simulation.worlds import World
from support.plans import plan_of
from trimtab.act import lease as lease_module
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicaStepState

MB = 1e6
Throttles = dict[tuple[ResourceType, str], dict[str, str]]

THROTTLES: dict[str, Throttles] = {
    "for all brokers": {(ResourceType.BROKER, WHOLE_CLUSTER): {LEADER_RATE: "3000000"}},
    "on brokers": {
        (ResourceType.BROKER, "1"): {LEADER_RATE: "8000000"},
        (ResourceType.BROKER, "3"): {LEADER_RATE: "9000000", FOLLOWER_RATE: "9000000"},
    },
    "everywhere": {
        (ResourceType.BROKER, WHOLE_CLUSTER): {LEADER_RATE: "3000000", FOLLOWER_RATE: "4000000"},
        (ResourceType.BROKER, "4"): {FOLLOWER_RATE: "8000000"},
        (ResourceType.TOPIC, "a"): {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"},
        (ResourceType.TOPIC, "b"): {FOLLOWER_REPLICAS: "0:2"},
    },
}


@pytest.fixture(autouse=True)
def only_the_present_life_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lives of a world share this process; to the lease each but the newest is a dead one."""
    monkeypatch.setattr(lease_module, "is_running", lambda holder: False)


def world_of(
    folder: Path, throttles: Throttles, faults: list[Fault], growth: float = 0.0, throttle: str = "20000000"
) -> World:
    """Two topics of 100 MB, copied to brokers 3 and 4."""
    cluster = cluster_of(4, dir_bytes=100e9)
    for topic in "ab":
        cluster.controller.create_topic(topic, {0: [1, 2]}, 100 * MB, growth_bytes_per_second=growth)
    for (kind, name), values in throttles.items():
        cluster.controller.alter_configs(
            kind, name, [(key, ConfigOperation.SET, v) for key, v in values.items()]
        )
    plan = plan_of(("a", 0, (1, 2), (1, 3)), ("b", 0, (1, 2), (4, 2)))
    settings = ReplicasExecutionSettings(throttle=throttle, stall_timeout_seconds=60.0)
    return World(1, folder, cluster, plan, settings, FaultScript(faults), np.random.default_rng(1))


@pytest.mark.parametrize("throttles", THROTTLES.values(), ids=THROTTLES)
def test_whenever_trimtab_is_killed_the_operators_own_values_stand_at_the_end(
    throttles: Throttles, tmp_path: Path
) -> None:
    """Killed at every write, then resumed or cancelled: every rate and list is as the operator set it."""
    whole = world_of(tmp_path / "whole", throttles, [])
    assert whole.live()
    assert whole.evaluate() == []
    for write in range(2, whole.writes + 1):
        for cancel in (False, True):
            world = world_of(tmp_path / f"{write}-{cancel}", throttles, [])
            if not world.live(dies_at=write):
                world.live_to_the_end(cancel=cancel)
            assert world.evaluate() == [], str(world)


@pytest.mark.parametrize("throttles", THROTTLES.values(), ids=THROTTLES)
def test_a_broker_that_dies_and_returns_has_its_own_values(throttles: Throttles, tmp_path: Path) -> None:
    """Values that are set while it is away are restored."""
    world = world_of(tmp_path, throttles, [BrokerKilled(2.0, 4), BrokerStarted(60.0, 4)])
    world.live_to_the_end()
    assert world.evaluate() == []


def test_the_own_throttle_holds_while_copies_are_in_flight(tmp_path: Path) -> None:
    """At the operator's 3 MB/s the copies would take a minute; at trimtab's rate they take seconds."""
    world = world_of(tmp_path, THROTTLES["for all brokers"], [])
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED
    details: list[Any] = [h.detail for h in world.cluster.history if h.verb == "configure"]
    rates = [dict((d[0], d[2]) for d in detail) for detail in details]
    assert [found[LEADER_RATE] for found in rates if LEADER_RATE in found] == [
        "3000000",
        "20000000",
        "3000000",
    ]


def test_a_copy_outrun_through_a_brokers_own_throttle_is_reported(tmp_path: Path) -> None:
    """Written at 4 MB/s, and broker 3 accepts only 1: a higher throttle would not help, and is
    not suggested.
    """
    own: Throttles = {(ResourceType.BROKER, "3"): {FOLLOWER_RATE: "1000000"}}
    world = world_of(tmp_path, own, [], growth=4 * MB)
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    (failed,) = [r for r in world.state.records if r.state is ReplicaStepState.FAILED]
    assert failed.step.added == (3,)
    assert (
        "copied slower than the throttle of 20 MB/s a broker allows: look for a throttle of a"
        in failed.reason
    )
    assert "--throttle" not in failed.reason
