"""Performs an execution's orders on a cluster and tells it what came of them, writing every step down."""

from collections.abc import Callable
from typing import Any, Final, Generic

from trimtab.act.execution.machine import ExecutionMachine
from trimtab.act.execution.messages import (
    CancelRequested,
    Command,
    CommandFailed,
    Event,
    Finish,
    Query,
    Resumed,
    StopRequested,
    Suspend,
    Wait,
    WaitEnded,
)
from trimtab.act.execution.state import StateT
from trimtab.act.journal import Journal
from trimtab.act.lease import Lease
from trimtab.act.port import PortError
from trimtab.model.errors import ActError

NAP_SECONDS: Final = 0.1
"""How soon a request to stop is noticed while waiting."""


class Runner(Generic[StateT]):
    """Runs one execution to its end in the calling thread.

    Parameters
    ----------
    machine
        The balancer's state machine, with hands in the cluster.
    journal, lease
        The record, and the right to act (already acquired); a lease of None is for tests.
    execution
        Its id in the journal.
    state
        As the journal has it.
    watch
        Told the state after every event.
    clock, sleep
        Time.
    """

    def __init__(
        self,
        machine: ExecutionMachine[Any, StateT],
        journal: Journal,
        lease: Lease | None,
        execution: int,
        state: StateT,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        watch: Callable[[StateT], None] | None = None,
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._lease = lease
        self._execution = execution
        self._state = state
        self._watch = watch
        self._clock = clock
        self._sleep = sleep
        self._requested: list[type[StopRequested] | type[CancelRequested]] = []

    def stop(self) -> None:
        """Ask for a stop; may be called from a signal handler."""
        self._requested.append(StopRequested)

    def cancel(self) -> None:
        """Ask for a cancel; may be called from a signal handler."""
        self._requested.append(CancelRequested)

    def run(self) -> StateT:
        """Run until the execution has a final status, and return its last state.

        Raises
        ------
        ActError
            If the cluster cannot be reached for too long, is another one, or another trimtab has taken over;
            the execution can be resumed then.
        """
        command = self.begin()
        while not isinstance(command, Finish):
            if isinstance(command, Suspend):
                raise ActError(
                    f"{command.reason}: execution {self._execution} is interrupted; go on with "
                    f"`trimtab execution resume {self._execution}`, or end it with `trimtab execution "
                    f"cancel {self._execution}`"
                )
            command = self.turn(command)
        return self._state

    @property
    def state(self) -> StateT:
        """As it is now."""
        return self._state

    def begin(self) -> Command:
        """Take the execution up; the first order."""
        return self._step(Resumed(self._clock()))

    def turn(self, command: Command) -> Command:
        """Perform one order and take its answer in; the next order."""
        if isinstance(command, Wait | Query) and self._poll_requests():
            return self._redecide()
        return self._step(self.perform(command))

    def _step(self, event: Event) -> Command:
        before = self._state
        state, command = self._machine.decide(self._machine.absorb(before, event))
        self._become(state, type(event).__name__, command)
        return command

    def _redecide(self) -> Command:
        state, command = self._machine.decide(self._state)
        self._become(state, "", command)
        return command

    def _become(self, state: StateT, event: str, command: Command) -> None:
        if state.final and self._lease is not None:
            # Before the end is written: whoever dies in between is resumed, and leaves no claim behind.
            self._lease.release_claim()
        self._journal.write(self._execution, self._state, state, event, type(command).__name__)
        self._state = state
        if self._watch is not None:
            self._watch(state)

    def _poll_requests(self) -> bool:
        """Feed what was asked by signals or by other processes; nothing that changes is ordered meanwhile."""
        events: list[Event] = []
        while self._requested:
            events.append(self._requested.pop(0)(self._clock()))
        for what, by in self._journal.pop_requests(self._execution):
            kind = CancelRequested if what == "cancel" else StopRequested
            events.append(kind(self._clock(), f"{what} asked by {by}"))
        for event in events:
            state = self._machine.absorb(self._state, event)
            self._become(state, type(event).__name__, Wait(0.0))
        return bool(events)

    def perform(self, command: Command) -> Event:
        """Perform one order; the event that answers it, not yet taken in."""
        try:
            if isinstance(command, Wait):
                self._wait(command.until)
                return WaitEnded(self._clock())
            if isinstance(command, self._machine.changes) and self._lease is not None:
                self._lease.check()
            return self._machine.perform(command, self._state)
        except PortError as error:
            return CommandFailed(self._clock(), error.failure)

    def _wait(self, until: float) -> None:
        """Wait in naps, so that a request to stop is not left waiting; renew the lease meanwhile."""
        if self._lease is not None:
            self._lease.check()
        while not self._requested and (left := until - self._clock()) > 0:
            self._sleep(min(left, NAP_SECONDS))
