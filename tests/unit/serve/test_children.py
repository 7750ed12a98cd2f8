"""Calls in a process of their own, and the plans that are made there."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulate.instances import lognormal_skew, skewed_bundles
from support.executing import prepared
from support.fake_port import FakeCluster
from support.journals import CODECS
from support.plans import plan_of
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.balancers import BALANCERS, warm_up_planner
from trimtab.files.machine import Runtime
from trimtab.model.errors import PlanError
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.observe.lake.lake import Lake
from trimtab.serve import journal as serve_journal
from trimtab.serve.children import BACKGROUND, NICE, Child, Children, call_apart, warm_up_planners
from trimtab.serve.documents import PlanRecord
from trimtab.serve.service import Service
from trimtab.serve.target import MAX_ASK_SECONDS
from trimtab_common.errors import InputError


def ask_process() -> int:
    """A function to be called: prints, and returns its process."""
    print("a line that must not disturb the answer")
    return os.getpid()


def refuse(text: str) -> None:
    """A function that raises."""
    raise InputError(text)


class LocalError(Exception):
    """An error that cannot be sent between processes."""

    def __init__(self, text: str, extra: object) -> None:
        super().__init__(text)


def fail() -> None:
    """A function whose error cannot be sent."""
    raise LocalError("lost", object())


def die() -> None:
    """A function whose process is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_call_apart_runs_in_another_process() -> None:
    """The answer comes back, and what the function prints does not."""
    assert call_apart(ask_process) != os.getpid()


def ask_priority() -> int:
    """The priority of the process that runs this."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_a_call_apart_has_its_own_priority() -> None:
    """Planners come after requests, and compiling comes after planners."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert call_apart(ask_priority) == min(19, own + NICE)
    assert call_apart(ask_priority, nice=BACKGROUND) == 19


def compiles(name: str) -> bool:
    """Whether a plan of a balancer has to be compiled."""
    warm_up_planner(name)
    return "numba" in sys.modules


@pytest.mark.timeout(300)
def test_planners_are_compiled_before_the_first_plan(caplog: pytest.LogCaptureFixture) -> None:
    """No later plan imports numba. A balancer that fails is logged, and others go on."""
    warm_up_planners(["keys", "nothing", "replicas"])
    assert "planner of nothing" in caplog.text
    assert "planner of replicas" not in caplog.text and "planner of keys" not in caplog.text
    assert not call_apart(compiles, "replicas")


def test_errors_of_a_call_apart_keep_their_class() -> None:
    """The API answers by the class of an error."""
    with pytest.raises(InputError, match="theta is 2"):
        call_apart(refuse, "theta is 2")
    with pytest.raises(PlanError, match="LocalError: lost"):
        call_apart(fail)


def test_a_killed_call_is_an_error() -> None:
    """Such as by the kernel where memory is short."""
    with pytest.raises(PlanError, match="signal 9"):
        call_apart(die)


def until(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_child_starts_again_after_a_pause_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the machine cannot start a process at first; a child that does not run is a finding."""
    program = tmp_path / "python"
    monkeypatch.setattr("trimtab.serve.children.sys.executable", str(program))
    monkeypatch.setattr("trimtab.serve.children.PAUSES_SECONDS", (0.1, 0.4, 0.8))
    child = Child("collect", ["collect"])
    children = Children([child])
    children.start()
    try:
        until(children.findings)
        assert "No such file" in children.findings()[0].text
        program.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
        program.chmod(0o755)
        until(lambda: child.process is not None and child.process.poll() is None)
        first = child.process
        assert first is not None
        assert children.findings() == []
        first.send_signal(signal.SIGKILL)
        begun, restarts = time.monotonic(), child.restarts
        until(children.findings)
        assert "signal 9" in children.findings()[0].text
        until(lambda: child.process is not first)
        assert time.monotonic() - begun >= 0.3
        assert child.restarts == restarts + 1
        assert children.findings() == []
    finally:
        children.stop()
    assert child.process is not None
    assert child.process.poll() == -signal.SIGTERM


def test_a_child_of_an_interval_starts_again_without_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it ends well it is started in the next interval; where it fails it is a finding."""
    program, runs = tmp_path / "python", tmp_path / "runs"
    program.write_text(f"#!/bin/sh\necho >> {runs}\ntest ! -e {tmp_path}/fault\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr("trimtab.serve.children.sys.executable", str(program))
    child = Child("pipeline", ["pipeline", "stream", "--once"], interval_seconds=0.4)
    children = Children([child])
    begun = time.monotonic()
    children.start()
    try:
        until(lambda: runs.exists() and len(runs.read_text()) == 3)
        assert time.monotonic() - begun >= 0.8
        assert (children.findings(), child.restarts) == ([], 0)
        (tmp_path / "fault").touch()
        until(children.findings)
        assert "exit code 1" in children.findings()[0].text
    finally:
        children.stop()


@pytest.mark.parametrize(
    ("observe", "commands"),
    [
        ("watch", []),
        ("run", [("collect --cluster one", None), ("pipeline stream", None)]),
        ("batch", [("collect --cluster one", None), ("pipeline stream --once", 90.0)]),
    ],
)
def test_a_service_starts_the_children_of_its_setting(
    tmp_path: Path, observe: str, commands: list[tuple[str, float | None]]
) -> None:
    """With `batch` no JVM stays: the pipeline runs once in an interval of the service."""
    settings = tmp_path / "trimtab.toml"
    settings.write_text(
        f'[clusters.one]\naddress = "kafka://127.0.0.1:1"\n[serve]\nobserve = "{observe}"\n'
        "interval_seconds = 90\n",
        encoding="utf-8",
    )
    service = Service(settings, (), tmp_path / "lake", tmp_path / "state", Runtime())
    found = [
        (" ".join(child.command).split(" --lake ")[0], child.interval_seconds)
        for child in service._children.children
    ]
    assert found == commands


def with_hours(snapshot: ReplicasSnapshot) -> ReplicasSnapshot:
    """The snapshot with the same load in each of 24 hours to come."""
    parts = snapshot.partitions
    leader, follower = (
        np.repeat(one[:, None], 24, axis=1) for one in (parts.leader_load, parts.follower_load)
    )
    return replace(snapshot, partitions=replace(parts, leader_forecast=leader, follower_forecast=follower))


def service_on(folder: Path, balancer: str, name: str, runtime: Runtime) -> Service:
    """A service that is not started, with a lake that has a snapshot."""
    place = folder / "lake"
    snapshot: Any = (
        with_hours(lognormal_skew(6, 300, 1)) if balancer == "replicas" else skewed_bundles(4, 128, 1)
    )
    lake = Lake(place, BALANCERS[balancer].pipeline())
    path = Path(str(lake.snapshot_folder(snapshot.reference.cluster)))
    path.mkdir(parents=True, exist_ok=True)
    if not list(path.iterdir()):
        BALANCERS[balancer].snapshot().write(snapshot, path / "2026-01-01T00:00:00.000000Z")
    settings = folder / "trimtab.toml"
    address = {"replicas": "kafka://127.0.0.1:1", "bundles": "pulsar+http://127.0.0.1:1"}[balancer]
    settings.write_text(f'[clusters.one]\naddress = "{address}"\n', encoding="utf-8")
    return Service(settings, (), place, folder / name, runtime)


@pytest.mark.parametrize("balancer", ["replicas", "bundles"])
def test_the_service_plans_in_another_process(tmp_path: Path, balancer: str) -> None:
    """Of each balancer that is served: the same bytes as in this process."""
    calls: list[str] = []

    def call(function: Any, *arguments: Any) -> Any:
        calls.append(function.__name__)
        return call_apart(function, *arguments)

    plans = []
    for number, runtime in enumerate((Runtime(), Runtime(call=call))):
        service = service_on(tmp_path, balancer, f"state-{number}", runtime)
        (target,) = service._targets
        plans.append(target.plan_of({}, "what-if", "somebody"))
    (here, content), (apart, other) = plans
    assert calls == ["plan_content"]
    assert content == other
    assert (here.digest, here.moves, here.verdict) == (apart.digest, apart.moves, apart.verdict)
    assert here.moves > 0


def test_answers_weigh_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of a million replicas is weighed once, when it is read; its forecast is not retained."""
    service = service_on(tmp_path, "replicas", "state", Runtime())
    (target,) = service._targets
    target.observe()
    monkeypatch.setattr(ReplicasSnapshot, "broker_load", None)  # whoever weighs it again fails
    first, second = (service.target("one", "replicas") for _ in range(2))
    assert len(first.brokers) == 6
    assert first.largest
    assert (first.brokers, first.largest) == (second.brokers, second.largest)
    assert target.observation is not None
    parts = target.observation.snapshot.partitions
    arrays = [one for one in vars(parts).values() if isinstance(one, np.ndarray)]
    assert sum(one.nbytes for one in arrays) < 150 * len(parts)


def test_steps_are_decoded_once_for_each_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape of the metrics lists executions, and one may have many thousand steps."""
    service = service_on(tmp_path, "replicas", "state", Runtime())
    written = Journal(service._log.path("executions"), CODECS)
    cluster = FakeCluster()
    cluster.add("t", 0, [1, 2], size=300_000_000)
    state = prepared(cluster, plan_of(("t", 0, (1, 2), (4, 2))))
    number = written.create(state, "one", "{}", "test", {})
    decoded = []
    read = Journal.state

    def counted(journal: Journal, execution: int) -> Any:
        decoded.append(execution)
        return read(journal, execution)

    monkeypatch.setattr(Journal, "state", counted)
    for _ in range(3):
        (record,) = service.executions()
        assert (record.steps, record.steps_done) == (len(state.records), 0)
    assert decoded == [number]
    done = replace(state, status=ExecutionStatus.CANCELLED)
    written.write(number, state, done, "Cancel", "")
    written.close()
    for _ in range(3):
        (record,) = service.executions()
        assert record.status == "cancelled"
    assert decoded == [number, number]


def test_plans_are_retained_by_number_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stay, and every plan that something waits for."""
    service = service_on(tmp_path, "replicas", "state", Runtime())
    log, journal = service._log, service.journal
    log._require = lambda: None
    drawn = random.Random(1)

    def add(number: int, state: str, size: int = 1000) -> None:
        content = f'{{"x": "{drawn.randbytes(size // 2).hex()}"}}'.encode()
        record = PlanRecord(
            digest=f"{number:064}", cluster="one", balancer="replicas", trigger="what-if", requested_by="",
            settings={}, made_at=float(number), snapshot_taken_at="", verdict="balanced", moves=1, bytes=1,
            leader_moves=0, bound_bytes=None, problems=(), state=state, state_reason="", expires_at=None,
            seconds=1.0,
        )  # fmt: skip
        with journal.transaction():
            journal.add_plan(record, content)
        assert journal.plan_content(record.digest) == content

    monkeypatch.setattr(journal, "_retained_plans", 3)
    add(0, "asking")
    for number in range(1, 6):
        add(number, "what-if")
    assert [one.made_at for one in journal.plans(None, 50)] == [5, 4, 3, 0]
    monkeypatch.setattr(serve_journal, "RETAINED_PLAN_BYTES", 2500)
    add(6, "what-if")
    assert [one.made_at for one in journal.plans(None, 50)] == [6, 5, 4, 0]
    add(7, "what-if", 10_000)
    assert [one.made_at for one in journal.plans(None, 50)] == [7, 0]


def test_brokers_are_read_from_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that dies between two snapshots is lost at the next question, and back at the one after."""
    clock = [datetime.fromisoformat(lognormal_skew(6, 300, 1).reference.taken_at).timestamp()]
    online = set("012345")
    asked = []

    def present_state(connection: object, now: object) -> tuple[frozenset[str], str]:
        asked.append(clock[0])
        return frozenset(online), ""

    hook: Any = lambda: present_state  # noqa: E731
    monkeypatch.setitem(BALANCERS, "replicas", replace(BALANCERS["replicas"], present_state=hook))
    runtime = Runtime(clock=lambda: clock[0], monotonic=lambda: clock[0])
    service = service_on(tmp_path, "replicas", "state", runtime)
    (target,) = service._targets
    with service._log.writing(lambda: None, "test"):
        target.lead()
        target.observe()
        assert (target.state.lost_since, len(asked)) == ({}, 1)
        online.remove("3")
        clock[0] += MAX_ASK_SECONDS - 1
        target.observe()
        assert (target.state.lost_since, len(asked)) == ({}, 1)
        clock[0] += 1
        target.observe()
        assert target.state.lost_since == {"3": clock[0]}
        assert "broker 3 lost" in target.wait.reason
        online.add("3")
        clock[0] += MAX_ASK_SECONDS
        target.observe()
        assert (target.state.lost_since, target.state.back_since) == ({}, {"3": clock[0]})
        assert target.state.observed is not None
        assert target.state.observed.changed_brokers == ()
