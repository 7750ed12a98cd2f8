"""The child processes of a service: a collector for each cluster, the stream of the pipeline, and planners.

A collector or stream that ends is started again after a pause that grows. Its death is a finding, not an
outage: decisions wait until snapshots arrive again. A planner ends with its plan, so that the service keeps
neither the memory nor the compiled code of plans, and answers requests meanwhile.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trimtab.balancers import warm_up_planner
from trimtab.model.errors import PlanError
from trimtab.serve.documents import Finding
from trimtab_common.errors import TrimtabError

LOG = logging.getLogger("trimtab.serve")
PAUSES_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Pauses before a child is started again; the last one repeats."""
HEALTHY_SECONDS: Final = 60.0
"""A child that ran for so long is started again after the first pause."""
END_SECONDS: Final = 5.0
"""Time that children get to end by themselves."""
_PR_SET_PDEATHSIG: Final = 1
_SUCCESS: Final = "exit code 0"


@dataclass
class Child:
    """A command that runs as long as the service does, or once in an interval.

    Attributes
    ----------
    name
        For messages.
    command
        Words after `trimtab`.
    interval_seconds
        Time between two starts of a command that ends by itself; None where it runs all the time.
    restarts
        Number of starts after the first that a fault made necessary.
    """

    name: str
    command: Sequence[str]
    interval_seconds: float | None = None
    restarts: int = 0
    last_exit: str = ""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)


class Children:
    """Starts children, and starts them again when they end.

    Parameters
    ----------
    children
        Commands of trimtab.
    """

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = tuple(children)
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(one,), name=one.name, daemon=True) for one in children
        ]

    def start(self) -> None:
        """Start all children, each kept by a thread."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all children: SIGTERM, and SIGKILL where that does not help."""
        self._over.set()
        for child in self.children:
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        for child in self.children:
            if child.process is not None:
                try:
                    child.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    child.process.kill()

    def findings(self) -> list[Finding]:
        """The children that do not run now."""
        return [
            Finding(
                subject=one.name,
                text=f"{one.name} ended ({one.last_exit}); it starts again, {one.restarts} restarts so far",
                remedy="see its messages in the log of the service",
            )
            for one in self.children
            if one.last_exit and (one.process is None or one.process.poll() is not None)
        ]

    def _keep(self, child: Child) -> None:
        failures = 0
        while not self._over.is_set():
            begun = time.monotonic()
            child.last_exit = self._run(child)
            if self._over.is_set():
                return
            if child.interval_seconds is not None and child.last_exit == _SUCCESS:
                child.last_exit, failures = "", 0
                self._over.wait(max(0.0, begun + child.interval_seconds - time.monotonic()))
                continue
            failures = 0 if time.monotonic() - begun >= HEALTHY_SECONDS else failures
            pause = PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)]
            LOG.warning("%s ended (%s); it starts again in %g s", child.name, child.last_exit, pause)
            failures += 1
            child.restarts += 1
            self._over.wait(pause)

    def _run(self, child: Child) -> str:
        """Start a child and wait for its end; returns how it ended."""
        LOG.info("%s starts: trimtab %s", child.name, " ".join(child.command))
        try:
            child.process = subprocess.Popen(
                [sys.executable, "-m", "trimtab", *child.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                preexec_fn=_end_with_parent,
            )
        except OSError as error:  # for example, the machine has no memory left for another process
            return str(error)
        code = child.process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _end_with_parent() -> None:
    """Let the kernel end the child when the service is killed: nobody else would."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


_CALL: Final = "from trimtab.serve.children import answer_call; answer_call({})"
NICE, BACKGROUND = 5, 19
"""Priorities of a planner, after requests; and of work that may wait for all other."""
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
"""Less memory for a process with one thread."""


def call_apart(function: Callable[..., Any], *arguments: Any, nice: int = NICE) -> Any:
    """Call a function of a module in a process of its own; the function raises here what it raises there.

    Raises
    ------
    PlanError
        If the process ends without an answer, for example because the machine has no memory left.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _CALL.format(nice)],
        env={**os.environ, **_ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=_end_with_parent,
    )
    # Its module may lie where this program was told to find modules, and not where a new one finds them.
    content, _ = process.communicate(pickle.dumps(sys.path) + pickle.dumps((function, arguments)))
    if process.returncode or not content:
        code = process.returncode
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise PlanError(
            f"the process of the planner ended ({reason}): see the log of the service, and whether the "
            "machine has memory left"
        )
    result, error = pickle.loads(content)
    if error is not None:
        raise error
    return result


def warm_up_planners(names: Iterable[str]) -> None:
    """Compile the planners of some balancers where this machine lacks their machine code.

    Each is compiled in a process that ends with it: numba takes 400 MiB.
    """
    for name in sorted(names):
        try:
            call_apart(warm_up_planner, name, nice=BACKGROUND)
        except TrimtabError as error:
            LOG.warning("the planner of %s is not compiled: %s", name, error)


def answer_call(nice: int) -> None:
    """Carry out one call of `call_apart`, from standard input to standard output."""
    os.nice(nice)
    answers = os.dup(1)
    os.dup2(2, 1)  # what the function prints is for the log
    sys.path += [folder for folder in pickle.load(sys.stdin.buffer) if folder not in sys.path]
    function, arguments = pickle.load(sys.stdin.buffer)
    try:
        answer = pickle.dumps((function(*arguments), None))
    except Exception as error:
        try:
            answer = pickle.dumps((None, error))
            pickle.loads(answer)
        except Exception:
            answer = pickle.dumps((None, PlanError(f"{type(error).__name__}: {error}")))
    with open(answers, "wb") as file:
        file.write(answer)
