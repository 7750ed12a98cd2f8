"""Executions of plans from outside: prepare, begin, run, resume, stop and cancel; the same for all balancers.

`Runner` performs an execution's commands on a cluster, reports their results to the state machine, and writes
each state to the journal before the command that follows from it. The functions below it are the parts from
which `trimtab.executions` puts together apply, resume and cancel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, Generic, cast

import msgspec

from trimtab.act.execution.machine import ExecutionMachine
from trimtab.act.execution.port import (
    CancelRequested,
    Command,
    CommandFailed,
    Event,
    Finish,
    PortError,
    Query,
    Resumed,
    SettingsChanged,
    StopRequested,
    Suspend,
    Wait,
    WaitEnded,
)
from trimtab.act.execution.state import FINAL, ExecutionStatus, StateT
from trimtab.act.executor import (
    AnyExecutor,
    ExecutionSummary,
    Executor,
    PlanT,
    PortT,
    PreparedPlan,
    SettingsT,
)
from trimtab.act.journal import ExecutionStore, Journal
from trimtab.act.lease import Lease, this_process
from trimtab.model.documents import AnyReceipt
from trimtab.model.errors import ActError
from trimtab_common.errors import InputError

NAP_SECONDS: Final = 0.1
"""How soon a request to stop is noticed while waiting."""


class ExecutionControl:
    """Stops, cancels or changes an execution from another thread or from a signal handler.

    A stop lets the steps in flight finish. A cancel rolls them back where the balancer can do that.
    """

    def __init__(self) -> None:
        self._requests: deque[Callable[[float], Event]] = deque()

    def stop(self) -> None:
        """Request a stop: steps in flight finish."""
        self._requests.append(StopRequested)

    def cancel(self) -> None:
        """Request a cancel: steps in flight are rolled back."""
        self._requests.append(CancelRequested)

    def change_settings(self, changes: Mapping[str, object]) -> None:
        """Request other values of settings; `changed_settings` has checked them."""
        self._requests.append(lambda at: SettingsChanged(at, changes))

    def __bool__(self) -> bool:
        """Whether a request waits to be read."""
        return bool(self._requests)

    def pop(self) -> Callable[[float], Event]:
        """Remove and return the oldest request."""
        return self._requests.popleft()


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
        Receives the state after every event.
    control
        Stops or cancels the execution.
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
        control: ExecutionControl | None = None,
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._lease = lease
        self._execution = execution
        self._state = state
        self._watch = watch
        self._clock = clock
        self._sleep = sleep
        self._control = ExecutionControl() if control is None else control

    def stop(self) -> None:
        """Request a stop; may be called from a signal handler."""
        self._control.stop()

    def cancel(self) -> None:
        """Request a cancel; may be called from a signal handler."""
        self._control.cancel()

    def change_settings(self, changes: Mapping[str, object]) -> None:
        """Request other values of settings; may be called from a signal handler."""
        self._control.change_settings(changes)

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
        """The current state of the execution."""
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
        while self._control:
            events.append(self._control.pop()(self._clock()))
        for what, by in self._journal.pop_requests(self._execution):
            events.append(_requested(what, by, self._clock()))
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
        while not self._control and (left := until - self._clock()) > 0:
            self._sleep(min(left, NAP_SECONDS))


def _requested(what: str, by: str, at: float) -> Event:
    """The event of a request in the journal: `stop`, `cancel`, or a setting and its value."""
    name, _, value = what.partition("=")
    if value:
        return SettingsChanged(at, {name: msgspec.json.decode(value)})
    kind = CancelRequested if what == "cancel" else StopRequested
    return kind(at, f"{what} asked by {by}")


def changed_settings(settings: Any, changes: Mapping[str, object]) -> Any:
    """Settings of an execution with other values.

    Raises
    ------
    InputError
        If the balancer has no such setting, or a value is out of range.
    """
    unknown = changes.keys() - {one.name for one in fields(settings)}
    if unknown:
        raise InputError(f"executions of this balancer have no setting {', '.join(sorted(unknown))}")
    return replace(settings, **changes)


Watch = Callable[[StateT], None]
"""Receives the state of an execution after every event."""
ProgressCallback = Callable[[str], None]


def prepare(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    port: PortT,
    plan: PlanT,
    *,
    rebase: bool = False,
    refuse_if_taken: Callable[[str], None] = lambda cluster_id: None,
) -> PreparedPlan:
    """Hold a plan against the cluster as it is, unless another trimtab is changing it; changes nothing.

    Raises
    ------
    ActError
        If the plan is of another level, for another cluster, or what it moves has changed since and `rebase`
        is not asked.
    """
    level: str = getattr(plan, "balancer", acting.balancer)
    if level != acting.balancer:
        raise ActError(
            f"the plan is of level {level}, not {acting.balancer}: apply it to a cluster of its own"
        )
    cluster_id, seen = acting.observe(port, plan)
    refuse_if_taken(cluster_id)
    return acting.prepare(plan, seen, rebase)


def begin(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    store: ExecutionStore,
    prepared: PreparedPlan,
    settings: SettingsT,
    plan_text: str,
    facts: Mapping[str, object] | None = None,
) -> int:
    """Write a new execution down; returns its id."""
    state = acting.new_execution(prepared.cluster_id, prepared.steps, settings, store.clock())
    state = acting.of_plan(state, prepared.plan)
    cluster = prepared.plan.snapshot.cluster
    return store.journal.create(state, cluster, plan_text, store.owner(), dict(facts or {}))


def runner_of(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    store: ExecutionStore,
    port: PortT,
    lease: Lease | None,
    execution: int,
    *,
    sense: object = None,
    watch: Watch[StateT] | None = None,
    settings: SettingsT | None = None,
    control: ExecutionControl | None = None,
) -> Runner[StateT]:
    """A runner that continues from the state in the journal; `settings` replace those of the journal."""
    state = state_of(acting, store, execution)
    if settings is not None:
        state = acting.with_settings(state, settings)
    store.journal.take_over(execution, store.owner())
    if lease is not None:
        lease.set_execution(execution)
    machine = acting.machine(port, store.clock, sense)
    return Runner(
        machine,
        store.journal,
        lease,
        execution,
        state,
        clock=store.clock,
        sleep=store.sleep,
        watch=watch,
        control=control,
    )


def state_of(
    acting: Executor[PortT, PlanT, SettingsT, StateT], store: ExecutionStore, execution: int
) -> StateT:
    """The state of an execution of a balancer, as the journal has it."""
    state = store.journal.state(execution)
    assert isinstance(state, acting.codec.state), f"execution {execution} is of level {state.balancer}"
    return cast("StateT", state)


def run_to_completion(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    store: ExecutionStore,
    port: PortT,
    prepared: PreparedPlan,
    settings: SettingsT,
    plan_text: str,
    *,
    facts: Mapping[str, object] | None = None,
    sense: object = None,
    watch: Watch[StateT] | None = None,
    control: ExecutionControl | None = None,
    started: Callable[[int], None] = lambda execution: None,
    print_progress: ProgressCallback = lambda line: None,
) -> AnyReceipt:
    """Execute a prepared plan to its end: lease, journal, execution, receipt.

    Parameters
    ----------
    started
        Receives the id of the execution once the journal has it.

    Raises
    ------
    ActError
        If another trimtab acts there, an earlier execution is interrupted, or the cluster cannot be reached
        for too long.
    """
    with store.lease(port, prepared.cluster_id, settings, print_progress) as lease:
        execution = begin(acting, store, prepared, settings, plan_text, facts)
        started(execution)
        runner = runner_of(acting, store, port, lease, execution, sense=sense, watch=watch, control=control)
        return acting.receipt(store.journal.entry(execution), runner.run(), sense)


def resume(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    store: ExecutionStore,
    port: PortT,
    entry: ExecutionSummary,
    settings: SettingsT,
    *,
    changed: SettingsT | None = None,
    request: str | None = None,
    sense: object = None,
    watch: Watch[StateT] | None = None,
    control: ExecutionControl | None = None,
    started: Callable[[int], None] = lambda execution: None,
    print_progress: ProgressCallback = lambda line: None,
) -> AnyReceipt:
    """Continue an execution that no process runs, or stop or cancel it, up to its receipt.

    Parameters
    ----------
    settings
        Settings of the lease.
    changed
        Settings that replace those of the journal.
    request
        `stop` or `cancel`; None to continue.
    started
        Receives the id of the execution once this process runs it.

    Raises
    ------
    ActError
        If another trimtab acts there, another execution of the cluster is interrupted too, or the cluster
        cannot be reached for too long.
    """
    with store.lease(port, entry.cluster_id, settings, print_progress, besides=entry.id) as lease:
        store.journal.pop_requests(entry.id)  # meant for a process that is gone
        if request is None:
            state = state_of(acting, store, entry.id)
            if changed is not None:
                state = acting.with_settings(state, changed)
            for warning in acting.resume_warnings(port, state):
                print_progress(f"warning: {warning}")
        else:
            store.journal.request(entry.id, request, "you", store.clock())
        started(entry.id)
        runner = runner_of(
            acting, store, port, lease, entry.id, sense=sense, watch=watch, settings=changed, control=control
        )
        return acting.receipt(store.journal.entry(entry.id), runner.run(), sense)


def require_unfinished(entry: ExecutionSummary) -> None:
    """Refuse to go on with an execution that has nothing left to do.

    Raises
    ------
    ActError
        If it is finished or incomplete.
    """
    if ExecutionStatus(entry.status) in (ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE):
        raise ActError(f"execution {entry.id} has ended ({entry.status}): make a new plan and apply that")


def send_request(store: ExecutionStore, entry: ExecutionSummary, request: str) -> bool:
    """Ask whoever runs it to `stop`, to `cancel`, or to go on with `SETTING=JSON`; False where nobody does.

    Raises
    ------
    ActError
        If it has ended already.
    """
    status = store.status(entry)
    if status in FINAL:
        what = request if "=" not in request else "change"
        raise ActError(f"execution {entry.id} has ended already ({status}): there is nothing to {what}")
    if status == "interrupted":
        return False
    now = store.clock()
    store.journal.request(entry.id, request, str(this_process("", now)), now)
    return True


def receipt_of(acting: AnyExecutor, store: ExecutionStore, execution: int) -> AnyReceipt:
    """The receipt of an execution as the journal has it, as far as it is."""
    state = state_of(acting, store, execution)
    return acting.receipt(store.journal.entry(execution), state, None)
