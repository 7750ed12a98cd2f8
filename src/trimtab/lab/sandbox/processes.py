"""Child processes with an identity that others can check, which end with their owner; and free ports."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from trimtab.lab.sandbox import launcher
from trimtab.model.errors import SandboxError

# Linux sends the death signal when the *thread* that forked ends, so all children come from one thread
# that lives as long as this process.
_SPAWNER = ThreadPoolExecutor(1, "trimtab-spawner")
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
HAS_PROC = Path("/proc/self/stat").exists()


@dataclass(frozen=True)
class SandboxProcess:
    """A process by its number and start time, so that a reused number is not mistaken for it."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """True if this process still runs."""
        return started(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is gone."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def cpu_seconds(self) -> float | None:
        """Processor time used so far (user and system); None if the system does not report it."""
        fields = _stat(self.pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def this_process() -> SandboxProcess:
    """Identity of the running process."""
    return SandboxProcess(os.getpid(), started(os.getpid()) or "")


def started(pid: int) -> str | None:
    """A text that identifies this run of `pid`; None if no such process runs."""
    if HAS_PROC:
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None


def spawn(
    command: list[str],
    folder: Path,
    log: Path,
    *,
    outlive: bool,
    keep: Callable[[SandboxProcess], object] = lambda _: None,
) -> SandboxProcess:
    """Start a program in a session of its own, so that Ctrl-C in the terminal reaches only us.

    Parameters
    ----------
    command
        Program (an absolute path) and arguments.
    folder
        Its working directory.
    log
        Where its output is appended.
    outlive
        Whether it goes on when this process ends; otherwise it is killed then, however we end.
    keep
        Told the process as soon as it has begun, in the thread that starts it. A signal interrupts the main
        thread alone: who writes the process down here knows of it even where this call never returns.
    """
    if not outlive:
        guard = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid())]
        command = guard + command

    def begin() -> SandboxProcess:
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _CHILDREN[child.pid] = child
        process = SandboxProcess(child.pid, started(child.pid) or "")
        keep(process)
        return process

    return _SPAWNER.submit(begin).result()


def wait_for_starts() -> None:
    """Wait until each process of `spawn` has started and `keep` has returned."""
    _SPAWNER.submit(lambda: None).result()


def end(processes: Iterable[SandboxProcess], timeout_seconds: float) -> None:
    """Send SIGTERM to processes, and kill those that still run after the timeout."""
    waiting = [process for process in processes if running(process)]
    for process in waiting:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + timeout_seconds
    while waiting and time.monotonic() < deadline:
        time.sleep(0.05)
        waiting = [process for process in waiting if running(process)]
    kill(waiting)


def kill(processes: Iterable[SandboxProcess]) -> None:
    """Kill processes at once and wait until they are gone."""
    waiting = list(processes)
    for process in waiting:
        process.signal(signal.SIGKILL)
    while any(running(process) for process in waiting):
        time.sleep(0.01)


def running(process: SandboxProcess) -> bool:
    """True if a process runs; an ended child of ours is reaped."""
    if process.alive:
        return True
    child = _CHILDREN.pop(process.pid, None)
    if child is not None:
        child.wait()
    return False


def wait(child: SandboxProcess, timeout_seconds: float) -> int | None:
    """The exit code of a child of ours, or None if it still runs after that time."""
    try:
        code = _CHILDREN[child.pid].wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        return None
    del _CHILDREN[child.pid]
    return code


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on; the name before them may contain blanks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


# Below the range that systems hand out to outgoing connections, so that none of those gets between our
# choice and the broker's start.
LOWEST, HIGHEST = 19_000, 31_999


def free_ports(count: int, without: Collection[int] = ()) -> list[int]:
    """Ports on which nothing listens, all different and none of `without`.

    Raises
    ------
    SandboxError
        If so many cannot be found.
    """
    candidates = [port for port in range(LOWEST, HIGHEST + 1) if port not in without]
    random.SystemRandom().shuffle(candidates)
    found: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(found) == count:
                break
            probe = held.enter_context(socket.socket())
            if _bind(probe, port):
                found.append(port)
            else:
                probe.close()
    if len(found) < count:
        raise SandboxError(
            f"{count} free ports are needed between {LOWEST} and {HIGHEST}, and {len(found)} were found: "
            "stop what listens there"
        )
    return found


def require_free(port: int) -> None:
    """Make sure that nothing listens on a port.

    Raises
    ------
    SandboxError
        If something does, or the port may not be used.
    """
    with socket.socket() as probe:
        if not _bind(probe, port):
            raise SandboxError(
                f"port {port} on 127.0.0.1 is in use: stop what listens there, or let trimtab choose"
            )


def _bind(probe: socket.socket, port: int) -> bool:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", port))
        probe.listen(1)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise
    return True
