"""The forecast that `apply` shows before it asks, held against executions on the simulated cluster."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulate.faults import FaultScript
from simulate.kafka.cluster import cluster_of
from simulation.worlds import World
from support.plans import plan_of
from tiers import by_tier
from trimtab.act.control import prepare
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.load_check import ReplicaLoadCheck, ReplicasForecast
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.settings import DISK, NETWORK_IN, NETWORK_OUT
from trimtab.model.replicas.snapshot import LogDirs, Partitions, ReplicaBrokers, ReplicasSnapshot
from trimtab.report.replicas.renderer import forecast_text

MB = 1e6
AUTO = ReplicasExecutionSettings()


def snapshot_of(
    held: list[tuple[int, int]], written: list[float], free: list[tuple[float, float]], *, nominal: bool
) -> ReplicasSnapshot:
    """Topics t00, t01, ... of one partition, and brokers 1, 2, ... with this much network in and out left."""
    replicas = np.array(held, dtype=np.int32) - 1
    load = np.zeros((len(held), 4))
    load[:, NETWORK_IN], load[:, DISK] = written, 1.0
    capacity = np.full((len(free), 4), np.inf)
    used = np.zeros(len(free))
    for brokers, rate in zip(replicas, written, strict=True):
        used[brokers] += rate
    capacity[:, NETWORK_IN] = [one[0] for one in free] + used
    capacity[:, NETWORK_OUT] = [one[1] for one in free]
    extra = (("x_nominal_capacity", ["network_in", "network_out"]),) if nominal else ()
    brokers = len(free)
    names = tuple(f"h{number}" for number in range(brokers))
    return ReplicasSnapshot(
        SnapshotReference("sim", "2026-01-01T00:00:00Z", "0" * 64),
        Quality(extra=extra),
        ReplicaBrokers(np.arange(1, brokers + 1), names, names, np.zeros(brokers, np.int8), capacity),
        LogDirs(np.zeros(0, np.int32), (), np.zeros(0, np.int8), np.zeros(0)),
        Partitions(
            tuple(f"t{number:02}" for number in range(len(held))),
            np.arange(len(held), dtype=np.int32),
            np.zeros(len(held), np.int32),
            replicas,
            replicas[:, 0].copy(),
            np.ones(replicas.shape, bool),
            np.full(replicas.shape, -1, np.int32),
            load,
            load.copy(),
        ),
    )


def world_of(
    folder: Path, seed: int, settings: ReplicasExecutionSettings = AUTO, *, nominal: bool = False
) -> World:
    """Four to seven brokers, up to thirty copies, some written meanwhile, networks of up to 30 MB/s."""
    generator = np.random.default_rng(seed)
    brokers, count = int(generator.integers(4, 8)), int(generator.integers(3, 30))
    cluster = cluster_of(brokers, dir_bytes=500e9)
    held, written, changes = [], [], []
    typical = float(generator.choice([5, 40, 200])) * MB
    for number in range(count):
        placed = [int(one) for one in generator.permutation(brokers)[:3] + 1]
        rate = float(generator.choice([0.0, 0.0, 0.02])) * MB
        size = float(generator.lognormal(np.log(typical), 0.5))
        cluster.controller.create_topic(f"t{number:02}", {0: placed[:2]}, size, growth_bytes_per_second=rate)
        changes.append((f"t{number:02}", 0, (placed[0], placed[1]), (placed[2], placed[1])))
        held.append((placed[0], placed[1]))
        written.append(rate)
    free = [(float(one), float(one) * 1.5) for one in generator.uniform(3, 30, brokers) * MB]
    for broker, (network_in, _) in zip(cluster.brokers.values(), free, strict=True):
        broker.copy_bytes_per_second = network_in
    plan = replace(plan_of(*changes), settings={"theta": 1.0, "epsilon": 0.1})
    sense = ReplicaLoadCheck(plan, snapshot_of(held, written, free, nominal=nominal), drop=False)
    return World(seed, folder, cluster, plan, settings, FaultScript([]), generator, sense=sense)


def expected(world: World) -> ReplicasForecast:
    """The forecast of a world's plan, before anything is begun."""
    return EXECUTOR.forecast(prepare(EXECUTOR, world.port, world.plan), world.settings, world.sense)


def played(world: World) -> tuple[float | None, float]:
    """The first throttle of the execution, and its duration in seconds."""
    rates: list[float] = []
    remember = world._remember

    def watch(state: ReplicasExecutionState) -> None:
        remember(state)
        if state.rate_bytes_per_second is not None:
            rates.append(state.rate_bytes_per_second)

    world._remember = watch  # type: ignore[method-assign]
    begun = world.cluster.now
    assert world.live()
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED, str(world)
    return (rates[0] if rates else None), world.cluster.now - begun


def test_the_forecast_holds(tmp_path: Path) -> None:
    """The same first throttle, and a duration within a factor of 1.5 (or a second, of short ones)."""
    seconds = []
    for seed in range(by_tier(4, 12, 12)):
        world = world_of(tmp_path / str(seed), seed)
        told = expected(world)
        first, took = played(world)
        assert told.rate_bytes_per_second == first, seed
        assert told.seconds is not None
        assert took / 1.5 - 1 <= told.seconds <= took * 1.5 + 1, (seed, told.seconds, took)
        seconds.append(took)
    assert min(seconds) < 3
    assert max(seconds) > by_tier(400, 600, 600)


def test_a_burst_takes_the_time_of_the_network(tmp_path: Path) -> None:
    """Kafka lets ten seconds of a throttle pass at once: then the network decides, not the window."""
    settings = replace(AUTO, throttle=20 * MB)
    cluster = cluster_of(6, copy_bytes_per_second=22 * MB)
    for number in range(12):
        cluster.controller.create_topic(f"t{number:02}", {0: [1 + number % 3, 4]}, 30 * MB)
    plan = plan_of(*((f"t{n:02}", 0, (1 + n % 3, 4), (1 + n % 3, 5 + n % 2)) for n in range(12)))
    world = World(0, tmp_path, cluster, plan, settings, FaultScript([]), np.random.default_rng(0))
    told = expected(world).seconds
    _, took = played(world)
    assert told is not None
    assert took / 1.5 <= told <= took * 1.5, (told, took)
    assert took > 5


def test_the_limiting_network_path_is_named(tmp_path: Path) -> None:
    """The tightest network path decides, and the text names its broker; never a nominal capacity."""
    world = world_of(tmp_path, 1)
    told = expected(world)
    assert told.limit is not None
    assert told.rate_bytes_per_second == pytest.approx(told.limit.free_bytes_per_second / 2)
    text = forecast_text(prepare(EXECUTOR, world.port, world.plan), told, AUTO, False)
    room = f"{told.limit.free_bytes_per_second / MB:.1f} MB/s of network in left"
    assert f"a broker: broker {told.limit.broker} has {room}, and copies take 50% of it" in text
    assert "in about 7 min" in text

    unknown = world_of(tmp_path, 1, nominal=True)
    told = expected(unknown)
    assert told.limit is None
    assert told.rate_bytes_per_second == AUTO.throttle_initial_bytes_per_second
    assert "no free network of these brokers is known" in forecast_text(
        prepare(EXECUTOR, unknown.port, unknown.plan), told, AUTO, False
    )


def test_nothing_is_foretold_that_is_not_known(tmp_path: Path) -> None:
    """Without a throttle the copy rate is unknown; a requested number is named as such."""
    free = replace(AUTO, throttle="none")
    world = world_of(tmp_path, 1, free)
    told = expected(world)
    assert told.seconds is None
    text = forecast_text(prepare(EXECUTOR, world.port, world.plan), told, free, False)
    assert "the time is not known without a throttle" in text
    fixed = replace(AUTO, throttle="7000000")
    world = world_of(tmp_path, 1, fixed)
    text = forecast_text(prepare(EXECUTOR, world.port, world.plan), expected(world), fixed, False)
    assert "throttle at first 7.0 MB/s a broker (execution.throttle)" in text
