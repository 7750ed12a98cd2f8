"""Two trimtabs on one cluster: whoever comes second is refused, whatever happens to the messages between."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulate.checkers.kafka import never_both_at_once
from simulate.faults import ControllerRestarted, FaultScript
from simulate.kafka.port import SimulatedPort
from simulation.worlds import ACTOR, World, random_world
from tiers import by_tier
from trimtab.act import control as runner_module
from trimtab.act import lease as lease_module
from trimtab.act.execution.port import PortError
from trimtab.act.lease import Lease
from trimtab.model.errors import ActError

RIVAL = "rival"


class Rival:
    """Another trimtab, on another machine, that tries to begin again and again.

    Attributes
    ----------
    refusals
        What it was told each time.
    begun_at
        Virtual time at which it was let in, None while it is not.
    """

    def __init__(self, world: World) -> None:
        self._cluster = world.cluster
        self._port = SimulatedPort(world.cluster, RIVAL)
        self._folder = world.folder / RIVAL
        self._settings = world.settings
        self._next_try = 5.0
        self._lease: Lease | None = None
        self.refusals: list[str] = []
        self.started_at: float | None = None

    def end(self) -> None:
        """Give back what it holds."""
        if self._lease is not None:
            self._lease.release()

    def try_to_begin(self) -> None:
        """Every ten virtual seconds: ask for the lease, and act at once when it is given."""
        if self.started_at is not None or self._cluster.now < self._next_try:
            return
        self._next_try = self._cluster.now + 10.0
        lease = Lease(
            self._port,
            self._folder,
            self._cluster.cluster_id,
            self._settings.lease_seconds,
            lambda: self._port.now,
            self._cluster.advance,
            RIVAL,
        )
        try:
            lease.acquire()
        except (ActError, PortError) as error:
            self.refusals.append(str(error))
            return
        self.started_at = self._cluster.now
        self._lease = lease
        name = min(self._cluster.partitions)
        replicas = self._cluster.partition(*name).settled_replicas
        self._cluster.controller.reassign(*name, [*replicas[1:], replicas[0]], RIVAL)


@pytest.fixture(autouse=True)
def every_holder_is_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """All share one process here; to each other they are strangers whose life shows in renewals only."""
    monkeypatch.setattr(lease_module, "is_here", lambda holder: False)
    monkeypatch.setattr(lease_module, "is_running", lambda holder: False)
    monkeypatch.setattr(runner_module, "NAP_SECONDS", 10.0)


def watched_by(world: World, rival: Rival) -> Callable[[float], None]:
    """The world's time, with the rival's attempts in it."""
    pass_time = world.pass_time

    def with_rival(seconds: float) -> None:
        pass_time(seconds)
        rival.try_to_begin()

    return with_rival


@pytest.mark.parametrize("seed", range(by_tier(10, 40, 40)))
def test_a_second_trimtab_never_acts_while_the_first_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lost calls and missing controllers, the second trimtab is rejected by name while the first one
    acts.
    """
    world = random_world(seed, tmp_path, lost_fraction=0.05 * (seed % 3))
    world.script = FaultScript(ControllerRestarted(7.0 + 20.0 * n, 3.0) for n in range(seed % 4))
    rival = Rival(world)
    monkeypatch.setattr(world, "pass_time", watched_by(world, rival))
    world.live()
    rival.end()
    assert never_both_at_once(world.cluster, [ACTOR, RIVAL]) == [], world
    refused = [text for text in rival.refusals if "NotController" not in text]
    assert all("is acting on cluster" in text and "since" in text for text in refused)
    if world.cluster.now > 20.0 and rival.started_at is None:
        assert refused


def test_an_unresponsive_trimtab_is_replaced_and_steps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disconnected for longer than its lease, the first one changes nothing after the other has started."""
    world = random_world(3, tmp_path, median_bytes=1e9)
    rival = Rival(world)
    monkeypatch.setattr(world, "pass_time", watched_by(world, rival))
    silence = (5.0, 5.0 + 3 * world.settings.lease_seconds)
    whole = SimulatedPort.observe

    def cut(port: SimulatedPort, *args: Any, **options: Any) -> Any:
        # The process hangs, as on a machine that sleeps; the rest of the world goes on.
        while port is world.inner and silence[0] <= world.cluster.now < silence[1]:
            world.pass_time(1.0)
        return whole(port, *args, **options)

    monkeypatch.setattr(SimulatedPort, "observe", cut)
    world.live()
    rival.end()
    assert rival.started_at is not None
    assert never_both_at_once(world.cluster, [ACTOR, RIVAL]) == [], world
    assert any("has taken over" in line for line in world.log), world.log
