"""Threads in virtual time: real code with its waits, one thread at a time, in an order that a seed repeats.

A thread runs until it waits. Then the next one that is ready runs, and the clock jumps to its time. A process
can be killed at any write: its threads end there, and nothing that they do afterwards reaches anything. It
can also be frozen: its threads go on later, and know nothing of the time between.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trimtab.files.machine import Runtime

BLOCKED_SECONDS = 600.0
"""Real time after which a thread that does not wait in virtual time is taken for a deadlock.

Compiling its kernels takes minutes on a busy machine.
"""


class Killed(BaseException):
    """Ends a thread of a killed process: no `except Exception`, and no effect of what is cleaned up."""


@dataclass(eq=False)
class VirtualProcess:
    """One life of a program.

    Attributes
    ----------
    dies_at
        Number of writes that it is still allowed; infinite where nobody kills it.
    dies_before
        Whether its last write has no effect any longer.
    frozen_until
        Virtual time until which none of its threads runs.
    """

    name: str
    life: int
    is_alive: bool = True
    dies_at: float = math.inf
    dies_before: bool = False
    frozen_until: float = -math.inf
    threads: list[VirtualThread] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}.{self.life}"

    def require_alive(self) -> None:
        """End the calling thread if the process was killed."""
        if not self.is_alive:
            raise Killed

    def write(self, effect: Callable[[], Any]) -> Any:
        """Something that others can see: the process may be killed right before or right after it."""
        self.require_alive()
        self.dies_at -= 1
        if self.dies_at <= 0 and self.dies_before:
            self.kill()
        answer = effect()
        if self.dies_at <= 0:
            self.kill()
        return answer

    def kill(self) -> None:
        """Kill it from one of its own threads."""
        self.is_alive = False
        raise Killed


class VirtualThread:
    """A thread of a process; it has the part of `threading.Thread` that programs use."""

    def __init__(self, threads: VirtualThreads, process: VirtualProcess, name: str) -> None:
        self.process, self.name = process, name
        self.has_ended = False
        self.turn = 0
        self.baton = threading.Semaphore(0)
        self._threads = threads
        self._joining: list[VirtualThread] = []

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        until = math.inf if timeout is None else self._threads.now + timeout
        while not self.has_ended and self._threads.now < until:
            self._joining.append(self._threads.running())
            self._threads.park(until)

    def run(self, work: Callable[[], None]) -> None:
        """The body of the real thread."""
        self.baton.acquire()
        try:
            if self.process.is_alive:
                work()
        except Killed:
            pass
        except BaseException as error:
            self._threads.failures.append(error)
        self.has_ended = True
        for one in self._joining:
            self._threads.ready(one)
        self._threads.main.release()


class VirtualEvent:
    """As `threading.Event`."""

    def __init__(self, threads: VirtualThreads) -> None:
        self._threads = threads
        self._is_set = False
        self._waiting: list[VirtualThread] = []

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake up who waits."""
        self._is_set = True
        for one in self._waiting:
            self._threads.ready(one)
        self._waiting.clear()

    def clear(self) -> None:
        """Take it back."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many seconds."""
        if not self._is_set:
            me = self._threads.running()
            self._waiting.append(me)
            self._threads.park(math.inf if timeout is None else self._threads.now + timeout)
            if me in self._waiting:
                self._waiting.remove(me)
        return self._is_set


class VirtualLock:
    """As `threading.Lock`; a thread that waits for it lets the others run."""

    def __init__(self, threads: VirtualThreads) -> None:
        self._threads = threads
        self._is_held = False
        self._waiting: list[VirtualThread] = []

    def __enter__(self) -> bool:
        while self._is_held:
            self._waiting.append(self._threads.running())
            self._threads.park(math.inf)
        self._is_held = True
        return True

    def __exit__(self, *error: object) -> None:
        self._is_held = False
        if self._waiting:
            self._threads.ready(self._waiting.pop(0))


class VirtualThreads:
    """The clock and all threads.

    Parameters
    ----------
    began_at
        Seconds since 1970.
    after_turn
        Called after each turn of a thread.

    Attributes
    ----------
    failures
        What ended threads that nobody killed.
    """

    def __init__(self, began_at: float, after_turn: Callable[[], None] = lambda: None) -> None:
        self.now = began_at
        self.failures: list[BaseException] = []
        self.main = threading.Semaphore(0)
        self._after_turn = after_turn
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._running: VirtualThread | None = None
        self._processes: list[VirtualProcess] = []

    @property
    def process(self) -> VirtualProcess | None:
        """The process whose thread runs; None between turns."""
        return None if self._running is None else self._running.process

    def runtime_of(self, process: VirtualProcess) -> Runtime:
        """Time and threads as a process has them."""
        self._processes.append(process)
        return Runtime(
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            sleep=lambda seconds: self.park(self.now + seconds),
            start=partial(self.start, process),
            event=lambda: VirtualEvent(self),  # type: ignore[arg-type, return-value]
            lock=lambda: VirtualLock(self),
        )

    def running(self) -> VirtualThread:
        """The thread that runs; ends it if its process was killed."""
        assert self._running is not None, "only threads may wait"
        self._running.process.require_alive()
        return self._running

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Call a function at a virtual time, between the turns of threads."""
        heapq.heappush(self._agenda, (max(time, self.now), next(self._numbers), call))

    def start(self, process: VirtualProcess, name: str, work: Callable[[], None]) -> VirtualThread:
        """Run a function in a new thread of a process."""
        process.require_alive()
        thread = VirtualThread(self, process, name)
        process.threads = [one for one in process.threads if not one.has_ended] + [thread]
        threading.Thread(target=thread.run, args=(work,), name=name, daemon=True).start()
        self.ready(thread)
        return thread

    def ready(self, thread: VirtualThread) -> None:
        """Let a thread run as soon as its turn comes."""
        thread.turn += 1
        self.at(self.now, partial(self._resume, thread, thread.turn))

    def park(self, until: float) -> None:
        """Let the others run; the calling thread goes on at `until`, or where somebody makes it ready."""
        me = self.running()
        me.turn += 1
        if until < math.inf:
            self.at(until, partial(self._resume, me, me.turn))
        self.main.release()
        me.baton.acquire()
        me.process.require_alive()

    def _resume(self, thread: VirtualThread, turn: int) -> None:
        if thread.has_ended or turn != thread.turn:
            return  # it was made ready by something else meanwhile
        if thread.process.is_alive and thread.process.frozen_until > self.now:
            self.at(thread.process.frozen_until, partial(self._resume, thread, turn))
            return
        self._hand_over(thread)
        self._after_turn()

    def _hand_over(self, thread: VirtualThread) -> None:
        self._running = thread
        thread.baton.release()
        if not self.main.acquire(timeout=BLOCKED_SECONDS):
            raise AssertionError(f"{thread.process}: {thread.name} blocks without a wait in virtual time")
        self._running = None

    def kill(self, process: VirtualProcess) -> None:
        """Kill a process between turns."""
        process.is_alive = False
        self._bury(process)

    def _bury(self, process: VirtualProcess) -> None:
        for thread in process.threads:
            while not thread.has_ended:
                self._hand_over(thread)
        process.threads.clear()
        self._processes.remove(process)
        gc.collect()  # its open files, among them locked ones, are the kernel's to close

    def run_until(self, end: float) -> None:
        """Let virtual time pass.

        Raises
        ------
        BaseException
            What ended a thread that nobody killed.
        """
        while self._agenda and self._agenda[0][0] <= end:
            at, _, call = heapq.heappop(self._agenda)
            self.now = max(self.now, at)
            call()
            for process in [one for one in self._processes if not one.is_alive]:
                self._bury(process)
            if self.failures:
                raise self.failures[0]
        self.now = end
