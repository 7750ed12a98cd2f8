"""Calls in a process of their own, and the plans that are made there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulate.instances import lognormal_skew, skewed_bundles
from trimtab.balancers import BALANCERS
from trimtab.files.machine import Runtime
from trimtab.model.errors import PlanError
from trimtab.observe.lake.lake import Lake
from trimtab.serve.children import Child, Children, call_apart
from trimtab.serve.service import Service
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


@pytest.mark.parametrize("balancer", ["replicas", "bundles"])
def test_the_service_plans_in_another_process(tmp_path: Path, balancer: str) -> None:
    """Of each balancer that is served: the same bytes as in this process."""
    place = tmp_path / "lake"
    snapshot: Any = lognormal_skew(6, 300, 1) if balancer == "replicas" else skewed_bundles(4, 128, 1)
    lake = Lake(place, BALANCERS[balancer].pipeline())
    folder = Path(str(lake.snapshot_folder(snapshot.reference.cluster)))
    folder.mkdir(parents=True)
    BALANCERS[balancer].snapshot().write(snapshot, folder / "2026-01-01T00:00:00.000000Z")
    settings = tmp_path / "trimtab.toml"
    address = {"replicas": "kafka://127.0.0.1:1", "bundles": "pulsar+http://127.0.0.1:1"}[balancer]
    settings.write_text(f'[clusters.one]\naddress = "{address}"\n', encoding="utf-8")
    calls: list[str] = []

    def call(function: Any, *arguments: Any) -> Any:
        calls.append(function.__name__)
        return call_apart(function, *arguments)

    plans = []
    for number, runtime in enumerate((Runtime(), Runtime(call=call))):
        service = Service(settings, (), place, tmp_path / f"state-{number}", runtime)
        (target,) = service._targets
        plans.append(target.plan_of({}, "what-if", "somebody"))
    (here, content), (apart, other) = plans
    assert calls == ["plan_content"]
    assert content == other
    assert (here.digest, here.moves, here.verdict) == (apart.digest, apart.moves, apart.verdict)
    assert here.moves > 0
