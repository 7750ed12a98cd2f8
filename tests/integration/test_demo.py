"""The demo as a newcomer runs it, and what an interrupted one leaves behind."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.demo_runs import read_result, require_levelled, start_demo, told_by
from trimtab.model.replicas.settings import RESOURCES

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]


def left_running(state: Path) -> list[str]:
    """Command lines of processes that belong to a sandbox below this state folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                folder = os.readlink(entry / "cwd")
            except OSError:
                continue
            if str(state) in line or folder.startswith(str(state)):
                found.append(line)
    return found


def all_gone(state: Path, patience_seconds: float = 120.0) -> bool:
    """Whether everything of the demo has ended, after giving the operating system a moment."""
    deadline = time.monotonic() + patience_seconds
    while left_running(state) and time.monotonic() < deadline:
        time.sleep(0.2)
    return not left_running(state)


def read_until(demo: subprocess.Popen[str], text: str) -> list[str]:
    """Lines of output up to the first that holds `text`."""
    lines: list[str] = []
    assert demo.stdout is not None
    for line in demo.stdout:
        lines.append(line)
        if text in line:
            return lines
    _, complaint = demo.communicate(timeout=120)
    raise AssertionError(f"the demo ended before it said {text!r}:\n{''.join(lines)}\n{complaint}")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that no other sandbox uses."""
    return tmp_path / "state"


def test_ctrl_c_leaves_nothing(state: Path, tmp_path: Path) -> None:
    """A user interrupts the demo while clients are running; nothing is left behind."""
    out = tmp_path / "demo"
    first = start_demo(state, out)
    read_until(first, "warm")
    assert left_running(state), "nothing is running that could be left behind"
    first.send_signal(signal.SIGINT)
    _, complaint = first.communicate(timeout=120)
    assert first.returncode == 130
    assert "Traceback" not in complaint
    assert complaint.strip().splitlines()[-1].startswith("trimtab: interrupted")
    assert all_gone(state), left_running(state)
    assert not list((state / "sandbox").glob("*"))
    assert not out.exists()


@pytest.mark.alone
def test_six_brokers_are_balanced_and_measured(state: Path, tmp_path: Path) -> None:
    """The whole demo, at its full length: skew found, replicas and leaders moved, all measured."""
    out = tmp_path / "demo"

    def run(attempt: int) -> tuple[int, str, dict[str, Any]]:
        shutil.rmtree(out, ignore_errors=True)
        demo = start_demo(state, out, quick=False)
        told, complaint = told_by(demo, 900)
        assert "Traceback" not in complaint
        assert all_gone(state), left_running(state)
        assert not list((state / "sandbox").glob("*"))
        for text in ("1/9", "9/9", "network out", "Did it help?"):
            assert text in told
        result, plan = read_result(out)
        assert set(result["before"]["sigma"]) == set(RESOURCES)
        assert plan["moves"], "Kafka's own placement of this load is never level"
        assert result["spent"]["replica_moves"] + result["spent"]["leader_moves"] > 0
        return demo.returncode, told, result

    require_levelled(run, always=("disk",))


def test_a_killed_demo_takes_its_processes_along(state: Path, tmp_path: Path) -> None:
    """After kill -9 nothing can be tidied up by the demo itself, yet no broker, client or Spark survives."""
    demo = start_demo(state, tmp_path / "demo")
    read_until(demo, "starting 6 brokers")
    deadline = time.monotonic() + 120
    while len(left_running(state)) < 3:
        assert time.monotonic() < deadline, "no broker was started"
        time.sleep(0.1)
    demo.kill()
    demo.communicate(timeout=120)
    assert all_gone(state), left_running(state)
    assert not (tmp_path / "demo").exists()
