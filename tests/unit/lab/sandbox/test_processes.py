"""Children that die with their owner, and processes that are told apart by their start."""

import signal
import subprocess
import sys
import time

import pytest

from trimtab.lab.sandbox.processes import HAS_PROC, SandboxProcess, end, kill, running, spawn, this_process

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True); time.sleep(600)",
]


def _wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 20 s"
        time.sleep(0.02)


def test_a_number_used_again_is_another_process():
    """A state file that survived a reboot must not make us kill a stranger."""
    stranger = SandboxProcess(this_process().pid, "another start")
    assert this_process().alive
    assert not stranger.alive
    stranger.signal(signal.SIGKILL)


def test_end_kills_a_process_that_ignores_the_request(tmp_path):
    """A child that ignores the request to stop is killed after the time-out."""
    child = spawn(STUBBORN, tmp_path, tmp_path / "log", outlive=True)
    _wait_until(lambda: "ready" in (tmp_path / "log").read_text())
    end([child], timeout_seconds=0.2)
    assert not running(child)


def test_a_child_that_ends_by_itself_is_noticed(tmp_path):
    """A broker that fails at start is detected immediately, with its output stored."""
    child = spawn([sys.executable, "-c", "print('no disk')"], tmp_path, tmp_path / "log", outlive=False)
    _wait_until(lambda: not running(child))
    assert (tmp_path / "log").read_text() == "no disk\n"


@pytest.mark.skipif(not HAS_PROC, reason="only Linux has the death signal")
def test_kill_9_of_the_owner_takes_its_children_along(tmp_path):
    """No end of a demo, even kill -9, leaves a broker behind."""
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path; from trimtab.lab.sandbox.processes import spawn\n"
            f"child = spawn({SLEEP!r}, Path('.'), Path('log'), outlive=False)\n"
            "print(child.pid, child.started, flush=True); time.sleep(600)",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid, started = owner.stdout.readline().split()
    child = SandboxProcess(int(pid), started)
    assert child.alive
    owner.kill()
    owner.wait()
    owner.stdout.close()
    _wait_until(lambda: not child.alive)


def test_a_detached_child_outlives_its_owner(tmp_path):
    """`up` ends while its brokers go on."""
    answer = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pathlib import Path; from trimtab.lab.sandbox.processes import spawn\n"
            f"child = spawn({SLEEP!r}, Path('.'), Path('log'), outlive=True)\n"
            "print(child.pid, child.started.replace(' ', '_'))",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    pid, started = answer.stdout.split()
    child = SandboxProcess(int(pid), started.replace("_", " "))
    assert child.alive
    kill([child])
    assert not child.alive


@pytest.mark.skipif(not HAS_PROC, reason="only Linux tells a process's processor time")
def test_processor_time_only_grows(tmp_path):
    """CPU of local brokers is read from the system, so it must be monotonic."""
    before = this_process().cpu_seconds()
    sum(number * number for number in range(300_000))
    after = this_process().cpu_seconds()
    assert before is not None and after is not None and after >= before
