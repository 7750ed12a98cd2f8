"""The same calls of `ServiceInterface` on the service in memory and on the real one, with the same answers.

What the tests of API, pages and commands see of the service in memory is thereby what users see.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from integration.test_serve import PROPOSE
from simulate.served_cluster import ServedCluster
from support.fake_service import FakeService
from trimtab.serve.interface import ConflictError, NotLeaderError, ServiceInterface, UnknownError
from trimtab.serve.service import Service
from trimtab_common.errors import InputError, TrimtabError

pytestmark = pytest.mark.slow

PLAN_STATES = {"proposed", "asking", "approved", "executing", "executed", "withdrawn", "what-if"}
VERDICTS = {"balanced", "unbalanced", "above_limit"}


@dataclass
class World:
    """A service with one cluster of Kafka whose uneven load has led to a plan that waits for an approval."""

    service: ServiceInterface
    cluster: str
    follower: Callable[[], ServiceInterface]
    """Another instance, which does not decide."""
    balancer: str = "replicas"

    def until(self, holds: Callable[[], object]) -> None:
        """Let time pass until something holds."""
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, self.service.decisions(limit=10)
            if isinstance(self.service, FakeService):
                self.service.advance(10)
            else:
                time.sleep(0.1)

    def offered(self) -> str:
        """The digest of the plan that waits for an approval."""

        def found() -> list[str]:
            return [one.digest for one in self.service.plans(self.cluster) if one.state == "asking"]

        self.until(found)
        return found()[0]

    def status_of(self, number: int) -> str:
        """The status of an execution."""
        return self.service.execution(self.cluster, number).execution.status


@pytest.fixture(params=["memory", "process"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The service in memory, then the real one on a simulated Kafka."""
    if request.param == "memory":
        yield World(FakeService(), "payments", lambda: FakeService(is_leader=False))
        return
    with ServedCluster(tmp_path, PROPOSE, balanced=False, speed=1.0) as served:
        made: list[Service] = []

        def started() -> Service:
            service = Service(served.settings, (), served.lake, tmp_path / f"state-{len(made)}")
            made.append(service)
            service.start()
            return service

        def follower() -> ServiceInterface:
            other = started()
            deadline = time.monotonic() + 30
            while not (other.leader[0] and other.plans()) and time.monotonic() < deadline:
                time.sleep(0.1)
            return other

        try:
            yield World(started(), "sim", follower)
        finally:
            for one in made:
                one.stop()


def calls(world: World, digest: str) -> dict[str, Callable[[ServiceInterface], object]]:
    """Every call that changes something."""
    cluster, balancer = world.cluster, world.balancer
    return {
        "make_plan": lambda it: it.make_plan(cluster, balancer, {"drain": [5]}, "ann"),
        "apply_plan": lambda it: it.apply_plan(digest, "ann"),
        "approve": lambda it: it.approve(digest, "ann"),
        "reject": lambda it: it.reject(digest, "ann"),
        "pause": lambda it: it.pause(cluster, balancer, "ann", "night", None),
        "resume": lambda it: it.resume(cluster, balancer, "ann"),
        "end_execution": lambda it: it.end_execution(cluster, 1, "stop", "ann"),
        "resume_execution": lambda it: it.resume_execution(cluster, 1, "ann"),
        "set_throttle": lambda it: it.set_throttle(cluster, 1, 1e6, "ann"),
    }


def test_documents_fit_together(world: World) -> None:
    """Figures of brokers, partitions and plans are consistent; unknown names and wrong values are refused."""
    service, cluster, balancer = world.service, world.cluster, world.balancer
    digest = world.offered()
    detail = service.target(cluster, balancer)
    status, resources = detail.status, [one.resource for one in detail.status.resources]
    assert status.verdict in VERDICTS
    assert status.waiting.reason
    assert status.plan is not None and status.plan.digest == digest
    assert (status.plan.state, status.trigger != "") == ("asking", True)
    after = service.plan_brokers(digest)
    for one in (*detail.brokers, *after):
        assert len(one.usage) == len(one.deviation) == len(one.load) == len(one.capacity) == len(resources)
    for broker in detail.brokers:
        for usage, gamma, resource in zip(broker.usage, broker.deviation, status.resources, strict=True):
            assert (usage is None) == (gamma is None)
            if usage is not None and gamma and resource.mean is not None:
                assert (gamma > 0) == (usage > resource.mean), (broker.name, resource.resource)
    assert any(gamma < 0 for one in detail.brokers for gamma in one.deviation if gamma is not None)
    assert [one.name for one in after] == [one.name for one in detail.brokers]
    for of in ("partitions", "topics"):
        found = service.largest(cluster, balancer, of, "disk", 3)
        assert [one.load["disk"] for one in found] == sorted(
            (one.load["disk"] for one in found), reverse=True
        )
        assert 0 < len(found) <= 3
        assert all(set(one.load) == set(resources) for one in found)
        assert all(one.brokers for one in found)
    series = service.loads(cluster, balancer, 0.0, 10)
    assert all(
        len(one) == len(series.at) <= 10 for one in (*series.deviation.values(), *series.peak.values())
    )
    for unknown in (
        lambda: service.target("none", balancer),
        lambda: service.target(cluster, "none"),
        lambda: service.loads("none", balancer, 0.0, 10),
        lambda: service.largest("none", balancer, "topics"),
        lambda: service.make_plan("none", balancer, {}, "ann"),
        lambda: service.plan("0" * 64),
        lambda: service.plan(digest[:7]),
        lambda: service.plan_bytes("0" * 64),
        lambda: service.plan_text("0" * 64),
        lambda: service.plan_brokers("0" * 64),
        lambda: service.approve("0" * 64, "ann"),
        lambda: service.apply_plan("0" * 64, "ann"),
        lambda: service.pause("none", balancer, "ann", "night", None),
        lambda: service.resume(cluster, "none", "ann"),
        lambda: service.executions("none"),
        lambda: service.execution(cluster, 99),
        lambda: service.end_execution(cluster, 99, "stop", "ann"),
        lambda: service.set_throttle(cluster, 99, 1e6, "ann"),
    ):
        with pytest.raises(UnknownError):
            unknown()
    for wrong in (
        lambda: service.make_plan(cluster, balancer, {"none": 1}, "ann"),
        lambda: service.make_plan(cluster, balancer, {"epsilon": "much"}, "ann"),
        lambda: service.largest(cluster, balancer, "topics", "heat"),
    ):
        with pytest.raises(InputError):
            wrong()
    assert list(service.plans("none")) == []
    assert list(service.decisions(None, 10, "none")) == []


def test_a_plan_changes_nothing_until_it_is_applied(world: World) -> None:
    """A what-if plan is held as it is shown; a rejected one is not offered again."""
    service, cluster, balancer = world.service, world.cluster, world.balancer
    offered = world.offered()
    executions = len(service.executions(cluster))
    made = service.make_plan(cluster, balancer, {"drain": [5]}, "ann")
    assert (made.state, made.trigger, made.requested_by) == ("what-if", "what-if", "ann")
    assert made.settings == {"drain": [5]}
    assert made.moves > 0 and made.state_reason
    assert service.plans(cluster)[0] == service.plan(made.digest[:8]) == made
    assert hashlib.sha256(service.plan_bytes(made.digest)).hexdigest() == made.digest
    assert made.digest in {one.digest for one in service.plans()}
    assert service.plan_text(made.digest) != ""
    assert len(service.plan_text(made.digest, True)) >= len(service.plan_text(made.digest))
    with pytest.raises(ConflictError):
        service.approve(made.digest, "ann")
    rejected = service.reject(offered, "ann", "too many")
    assert rejected.state == "withdrawn" == service.plan(offered).state
    assert "ann" in rejected.state_reason and "too many" in rejected.state_reason
    for again in (service.reject, service.approve):
        with pytest.raises(ConflictError):
            again(offered, "ann")
    record = next(one for one in service.decisions(limit=20) if one.kind == "rejected")
    assert (record.by, record.digest) == ("ann", offered)
    assert len(service.executions(cluster)) == executions
    numbers = [one.number for one in service.decisions(0, 1000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [one.number for one in service.decisions(None, 3)] == numbers[:-4:-1]
    assert [one.number for one in service.decisions(2, 3)] == [3, 4, 5]
    begun = time.monotonic()
    later = service.wait_for_decisions(service.decisions(limit=1)[0].number, 0.2)
    assert later or time.monotonic() - begun >= 0.2


def test_an_execution_is_stopped_resumed_and_cancelled(world: World) -> None:
    """One plan, one execution, also where it is applied twice; what has ended cannot be ended again."""
    service, cluster = world.service, world.cluster
    digest = world.offered()
    assert service.approve(digest, "ann").state in ("approved", "executing")
    assert service.apply_plan(digest, "ann").state in ("approved", "executing")
    with pytest.raises(ConflictError):
        service.approve(digest, "ann")
    world.until(lambda: service.plan(digest).execution is not None)
    number = cast("int", service.plan(digest).execution)
    one = service.execution(cluster, number).execution
    assert (one.digest, one.approved_by, one.status) == (digest, "ann", "running")
    assert one == service.executions(cluster)[0] or service.executions(cluster)[0].number == number
    assert service.target(cluster, world.balancer).status.execution is not None
    world.until(lambda: service.execution(cluster, number).execution.bytes_done > 0)
    service.set_throttle(cluster, number, 2e7, "ann")
    rate = lambda: service.execution(cluster, number).execution.throttle_bytes_per_second  # noqa: E731
    world.until(lambda: rate() == 2e7)
    with pytest.raises(ConflictError):
        service.resume_execution(cluster, number, "ann")
    service.end_execution(cluster, number, "stop", "ann")
    world.until(lambda: world.status_of(number) == "stopped")
    with pytest.raises(ConflictError):
        service.set_throttle(cluster, number, 1e6, "ann")
    with pytest.raises(ConflictError):
        service.end_execution(cluster, number, "stop", "ann")
    service.resume_execution(cluster, number, "ann")
    world.until(lambda: world.status_of(number) == "running")
    service.end_execution(cluster, number, "cancel", "ann")
    world.until(lambda: world.status_of(number) == "cancelled")
    detail = service.execution(cluster, number)
    assert len(detail.steps) == detail.execution.steps
    assert detail.execution.steps_done <= detail.execution.steps
    assert detail.execution.bytes_done <= detail.execution.bytes_total
    assert detail.execution.ended_at is not None
    for how in ("stop", "cancel"):
        with pytest.raises(ConflictError):
            service.end_execution(cluster, number, how, "ann")
    world.until(lambda: service.plan(digest).state == "executed")
    assert service.apply_plan(digest, "ann").state == "executed"
    kinds = {one.kind for one in service.decisions(limit=100) if one.by == "ann"}
    assert kinds >= {"approved", "stopped_execution", "resumed_execution", "cancelled_execution"}
    assert len([one for one in service.executions(cluster) if one.digest == digest]) == 1


def test_a_pause_holds_an_applied_plan_and_followers_change_nothing(world: World) -> None:
    """The plan waits for the end of the pause; every change is refused by an instance that only reads."""
    service, cluster, balancer = world.service, world.cluster, world.balancer
    digest = world.offered()
    follower = world.follower()
    assert follower.plan(digest).digest == digest
    assert not follower.target(cluster, balancer).status.is_leader
    for name, call in calls(world, digest).items():
        with pytest.raises(NotLeaderError):
            raise AssertionError(f"{name} gave {call(follower)}")
    status = service.pause(cluster, balancer, "ann", "night", None)
    assert status.pause is not None
    assert (status.pause.by, status.pause.reason, status.pause.until) == ("ann", "night", None)
    assert service.apply_plan(digest, "bob").state == "approved"
    world.until(lambda: "night" in service.target(cluster, balancer).status.waiting.reason)
    assert digest not in [one.digest for one in service.executions(cluster)]
    assert service.resume(cluster, balancer, "ann").pause is None
    assert service.resume(cluster, balancer, "ann").pause is None
    world.until(lambda: service.plan(digest).execution is not None)
    with pytest.raises(TrimtabError):
        service.pause(cluster, balancer, "ann", "night", 1.0)
