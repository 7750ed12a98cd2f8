"""Executions below the command line: prepare, apply, resume and end executions of every balancer's plans.

The functions print nothing, ask nothing, handle no signal and never exit. Messages and progress go to
`ExecutionContext.notify` as events, a question goes to a callback, and each outcome is a value. No state is
global: every call opens the journal of its context, so one process can run executions of several clusters in
threads of its own. `trimtab.executions.measuring` measures the effect of an execution.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from trimtab.act.control import (
    ExecutionControl,
    changed_settings,
    receipt_of,
    require_unfinished,
    run_to_completion,
    send_request,
    state_of,
)
from trimtab.act.control import prepare as compare_with_cluster
from trimtab.act.control import resume as run_again
from trimtab.act.execution.port import PortError
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import FINAL, AnyExecution
from trimtab.act.executor import (
    ExecutionSummary,
    NewestSnapshot,
    PlanChangedError,
    PreparedPlan,
    StateCodecs,
    staleness_warnings,
)
from trimtab.act.journal import JOURNAL_FILE, ConnectDatabase, ExecutionStore, connect_database
from trimtab.act.lease import ClusterBusyError
from trimtab.balancers import BALANCERS, DEFAULT_BALANCER, Balancer, System, balancer_named
from trimtab.balancers.planning import snapshot_on
from trimtab.balancers.settings import execution_settings
from trimtab.files.store import Location
from trimtab.model.documents import AnyReceipt as AnyReceipt
from trimtab.model.errors import ActError, ObserveError
from trimtab.model.plan import UNDO
from trimtab.model.plan import AnyPlan as AnyPlan
from trimtab.observe.lake.lake import Lake
from trimtab_common.errors import ConnectError, InputError, TrimtabError
from trimtab_common.settings import Settings

if TYPE_CHECKING:
    from trimtab.observe.collect.sampler import TickResult


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence for operators, for example about a lease that was taken over."""

    text: str


@dataclass(frozen=True, slots=True)
class ExecutionStarted:
    """The journal has the execution, and this process runs it from now on."""

    execution: int
    balancer: str


@dataclass(frozen=True, slots=True)
class ExecutionProgress:
    """The state of an execution after an event; `Renderer.progress_reporter` makes a line of it."""

    execution: int
    state: AnyExecution


@dataclass(frozen=True, kw_only=True)
class PreparedExecution:
    """A plan that was compared with the current cluster; nothing has changed yet.

    Attributes
    ----------
    prepared
        The comparison, and the steps that remain of the plan.
    settings
        Settings of the execution.
    sense
        Tells between batches which steps are still needed, in the balancer's own form.
    forecast
        The steps in batches, in the balancer's own form.
    warnings
        Sentences that an operator should read before the execution starts.
    """

    balancer: Balancer
    prepared: PreparedPlan
    settings: RetryPolicy
    sense: object
    forecast: object
    warnings: tuple[str, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """The parts of the plan that no longer fit the cluster and are left out."""
        return tuple(map(str, self.prepared.comparison.differences))


@dataclass(frozen=True, slots=True)
class SampleTaken:
    """A fresh sample of a cluster for a measurement, or the reason why there is none."""

    balancer: str
    tick: TickResult


ExecutionEvent: TypeAlias = Message | PreparedExecution | ExecutionStarted | ExecutionProgress | SampleTaken


@dataclass(frozen=True, kw_only=True)
class ExecutionContext:
    """The place and the cluster of executions, and the receiver of their events.

    Attributes
    ----------
    state_folder
        Folder of the journal and of the leases on this machine.
    lake
        The lake whose newest snapshot tells which steps are still needed.
    settings
        Settings in force; the table `[execution]` holds those of executions.
    connect
        Gives the connection to the cluster of a system.
    notify
        Receives each event, in the thread that runs the execution.
    clock, sleep
        Time.
    connect_journal
        Opens the database of the journal in the state folder.
    require
        Called before each change of the cluster; it raises `ActError` where this process must not act.
    """

    state_folder: Path
    lake: Location
    settings: Settings
    connect: Callable[[System], object]
    notify: Callable[[ExecutionEvent], None] = lambda event: None
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    connect_journal: ConnectDatabase = connect_database
    require: Callable[[], None] = lambda: None

    def print_progress(self, text: str) -> None:
        """Send a sentence as an event."""
        self.notify(Message(text))

    @contextmanager
    def open_store(self) -> Iterator[ExecutionStore]:
        """The journal and leases of the state folder, as this context opens them."""
        with open_store(
            self.state_folder, self.clock, self.sleep, connect=self.connect_journal, require=self.require
        ) as store:
            yield store


@dataclass(frozen=True, slots=True)
class Done:
    """Every step of the plan is done; `receipt` is None where the cluster needed no step."""

    receipt: AnyReceipt | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The execution ended with steps left; the status of the receipt is `stopped`, `cancelled` or
    `incomplete`.
    """

    receipt: AnyReceipt


RejectionKind = Literal["changed", "busy", "unreachable", "declined", "unsuitable"]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was started, and nothing in the cluster has changed.

    Attributes
    ----------
    kind
        `changed`: the cluster has changed since the plan was made. `busy`: another trimtab acts there, or an
        interrupted execution must end first. `unreachable`: the cluster does not answer. `declined`: the
        callback or the control said no. `unsuitable`: any other reason.
    error
        The reason as one error; its text names a remedy.
    """

    kind: RejectionKind
    error: TrimtabError

    @property
    def reasons(self) -> tuple[str, ...]:
        """Each reason as a sentence: of a changed cluster, one for each part of the plan that changed."""
        return self.error.differences if isinstance(self.error, PlanChangedError) else (str(self.error),)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The execution started, and this process cannot continue it; `resume` does so later."""

    execution: int
    error: TrimtabError


ExecutionOutcome: TypeAlias = Done | Stopped | Refused | Interrupted


@dataclass(frozen=True, slots=True)
class Requested:
    """Another process runs the execution and received the request."""

    execution: int
    owner: str


def prepare(
    plan: AnyPlan, context: ExecutionContext, *, skip_changed: bool = False
) -> PreparedExecution | Refused:
    """Compare a plan with the current cluster; changes nothing.

    Parameters
    ----------
    skip_changed
        Whether parts of the plan that no longer fit are left out, instead of refusing the plan.
    """
    try:
        with _opened(plan, context) as (store, port):
            return _prepared(plan, context, store, port, skip_changed)
    except (ActError, ConnectError) as error:
        return _refused(error)


def changes_since(plan: AnyPlan, context: ExecutionContext) -> tuple[str, ...]:
    """How the current cluster differs from what a plan needs; empty also where the cluster does not answer.

    A service asks this with each snapshot while a plan is on offer: it is `prepare` without the forecast of
    the execution, which takes most of its time.
    """
    balancer = balancer_named(plan.balancer, "the plan's balancer")
    try:
        with _opened(plan, context) as (store, port):
            settings = execution_settings(context.settings, balancer)
            free = partial(
                store.require_free_lease, port, settings=settings, print_progress=context.print_progress
            )
            compare_with_cluster(balancer.executor(), port, plan, rebase=False, refuse_if_taken=free)
    except PlanChangedError as error:
        return error.differences
    except (ActError, ConnectError):
        pass
    return ()


def apply(
    plan: AnyPlan,
    context: ExecutionContext,
    *,
    skip_changed: bool = False,
    confirm: Callable[[PreparedExecution], bool] = lambda prepared: True,
    control: ExecutionControl | None = None,
    facts: Mapping[str, object] | None = None,
) -> ExecutionOutcome:
    """Execute a plan in batches, to its end; temporary settings of the cluster are always restored.

    Parameters
    ----------
    skip_changed
        Whether parts of the plan that no longer fit are left out, instead of refusing the plan.
    confirm
        Receives the prepared plan, and answers whether to start. It is not called where no step remains.
    control
        Stops or cancels the execution, from another thread or from a signal handler.
    facts
        Values that the journal keeps with the execution.
    """
    execution: int | None = None

    def started(number: int) -> None:
        nonlocal execution
        execution = number
        context.notify(ExecutionStarted(number, plan.balancer))

    def watch(state: AnyExecution) -> None:
        assert execution is not None
        context.notify(ExecutionProgress(execution, state))

    try:
        with _opened(plan, context) as (store, port):
            found = _prepared(plan, context, store, port, skip_changed)
            context.notify(found)
            if not found.prepared.steps:
                return _refused(_left_out(found)) if found.differences else Done(None)
            if not confirm(found) or control:
                return Refused("declined", ActError("the execution was declined before it started"))
            receipt = run_to_completion(
                found.balancer.executor(),
                store,
                port,
                found.prepared,
                found.settings,
                found.balancer.plan().to_bytes(plan).decode("utf-8"),
                facts={"strategy": plan.strategy, **(facts or {})},
                sense=found.sense,
                watch=watch,
                control=control,
                started=started,
                print_progress=context.print_progress,
            )
    except (ActError, ConnectError) as error:
        return _refused(error) if execution is None else Interrupted(execution, error)
    return _ended(receipt)


def resume(
    execution: int | None,
    context: ExecutionContext,
    *,
    request: Literal["stop", "cancel"] | None = None,
    new_settings: bool = False,
    control: ExecutionControl | None = None,
) -> ExecutionOutcome:
    """Continue an execution that no process runs, or stop or cancel it.

    Parameters
    ----------
    execution
        Its id; None for the newest.
    request
        `stop` or `cancel` ends it; None continues it.
    new_settings
        Whether the settings of the context replace those with which it was started.
    control
        Stops or cancels the execution, from another thread or from a signal handler.

    Raises
    ------
    TrimtabError
        If the journal has no such execution, or the context names no cluster of its system.
    """
    started: int | None = None

    def begin(number: int) -> None:
        nonlocal started
        started = number
        context.notify(ExecutionStarted(number, entry.balancer))

    with context.open_store() as store:
        entry = chosen(store, execution)
        balancer, plan = plan_of(store, entry)
        settings = execution_settings(context.settings, balancer)
        try:
            require_unfinished(entry)
            connection = context.connect(balancer.system_of(plan))
            with balancer.opened(plan, connection, context.clock) as port:
                receipt = run_again(
                    balancer.executor(),
                    store,
                    port,
                    entry,
                    settings,
                    changed=settings if new_settings else None,
                    request=request,
                    sense=_sense(balancer, plan, context, settings),
                    watch=lambda state: context.notify(ExecutionProgress(entry.id, state)),
                    control=control,
                    started=begin,
                    print_progress=context.print_progress,
                )
        except (ActError, ConnectError) as error:
            return _refused(error) if started is None else Interrupted(started, error)
    return _ended(receipt)


def request_end(
    execution: int | None, state_folder: Path, request: Literal["stop", "cancel"]
) -> Requested | None:
    """Ask the process that runs an execution to stop or cancel it; None where no process runs it.

    Raises
    ------
    ActError
        If the execution has ended, or there is none of this id.
    """
    with open_store(state_folder) as store:
        entry = chosen(store, execution)
        return Requested(entry.id, entry.owner) if send_request(store, entry, request) else None


def change_setting(
    execution: int | None, state_folder: Path, name: str, value: str | float
) -> Requested | None:
    """Ask the process that runs an execution to go on with another value; None where no process runs it.

    Raises
    ------
    ActError
        If the execution has ended, or there is none of this id.
    InputError
        If the balancer has no such setting, or the value is out of range.
    """
    with open_store(state_folder) as store:
        entry = chosen(store, execution)
        acting = balancer_named(entry.balancer, f"execution {entry.id}: balancer").executor()
        changed_settings(state_of(acting, store, entry.id).settings, {name: value})
        is_sent = send_request(store, entry, f"{name}={json.dumps(value)}")
        return Requested(entry.id, entry.owner) if is_sent else None


def plan_undo(
    execution: int | None, state_folder: Path, lake: Location, snapshot: Path | None = None
) -> tuple[AnyPlan, object]:
    """Plan the way back of an execution; returns the plan and the snapshot from which it was made.

    The plan undoes what is still as the execution left it. Its `problems` name all that it cannot undo; then
    its verdict is `incomplete`.

    Parameters
    ----------
    execution
        Its id; None for the newest.
    snapshot
        File or folder of a snapshot from after the execution; None for the newest of the lake.

    Raises
    ------
    InputError
        If the execution has not ended, or its balancer cannot undo plans.
    ObserveError
        If there is no snapshot from after the end of the execution.
    """
    with open_store(state_folder) as store:
        entry = chosen(store, execution)
        status = store.status(entry)
        balancer, plan = plan_of(store, entry)
        if status not in FINAL:
            raise InputError(f"execution {entry.id} is {status}: resume or cancel it before you undo it")
        if balancer.undo is None:
            remedy = "apply its plan with --revert" if balancer.back is not None else "make a new plan"
            raise InputError(f"execution {entry.id}: no plan undoes a plan of {balancer.name}; {remedy}")
        receipt = receipt_of(balancer.executor(), store, entry.id)
    found = snapshot_on(balancer, getattr(plan, "system", None), snapshot, lake, entry.cluster)
    taken_at: str = found.reference.taken_at
    if datetime.fromisoformat(taken_at).timestamp() < receipt.ended_at:
        raise ObserveError(
            f"the snapshot of {taken_at} is from before the end of execution {entry.id}: collect samples, "
            "run `trimtab pipeline run`, and try again"
        )
    return balancer.undo()(plan, receipt, found), found


@contextmanager
def open_store(
    folder: Path,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    *,
    connect: ConnectDatabase = connect_database,
    require: Callable[[], None] = lambda: None,
) -> Iterator[ExecutionStore]:
    """The journal and leases of a state folder, for executions of every balancer."""
    codecs = {name: one.executor().codec for name, one in BALANCERS.items()}
    store = ExecutionStore(
        folder,
        StateCodecs(codecs, DEFAULT_BALANCER.name),
        clock,
        sleep,
        lambda: secrets.token_hex(8),
        connect,
        require,
    )
    try:
        yield store
    finally:
        store.close()


def known_executions(folder: Path) -> list[ExecutionSummary]:
    """The executions of a state folder, newest first; a folder without a journal stays as it is."""
    if os.access(folder / JOURNAL_FILE, os.R_OK | os.W_OK):
        with suppress(TrimtabError), open_store(folder) as store:
            return store.journal.entries()
    return []


def chosen(store: ExecutionStore, execution: int | None) -> ExecutionSummary:
    """The execution of an id, or the newest.

    Raises
    ------
    ActError
        If there is none.
    """
    if execution is not None:
        return store.journal.entry(execution)
    entries = store.journal.entries()
    if not entries:
        raise ActError(f"there are no executions in {store.folder}: `trimtab apply` begins one")
    return entries[0]


def plan_of(store: ExecutionStore, entry: ExecutionSummary) -> tuple[Balancer, AnyPlan]:
    """The balancer of an execution, and its plan as the journal has it."""
    balancer = balancer_named(entry.balancer, f"execution {entry.id}: balancer")
    plan: AnyPlan = balancer.plan().from_bytes(
        store.journal.path, store.journal.plan(entry.id).encode("utf-8")
    )
    return balancer, plan


def newest_of(balancer: Balancer, lake: Location, cluster: str) -> NewestSnapshot:
    """A function that gives the newest snapshot of a cluster in a lake; each snapshot is read once."""
    home = Lake(lake, balancer.pipeline())
    read: dict[Path, tuple[float, Any]] = {}

    def newest() -> tuple[float, Any] | None:
        try:
            folder = home.newest_snapshot(cluster)
            if folder not in read:
                snapshot = balancer.snapshot().read(folder)
                at = datetime.fromisoformat(snapshot.reference.taken_at).timestamp()
                read.clear()
                read[folder] = (at, snapshot)
            return read[folder]
        except TrimtabError:
            return None  # an execution without telemetry carries out the whole plan

    return newest


@contextmanager
def _opened(plan: AnyPlan, context: ExecutionContext) -> Iterator[tuple[ExecutionStore, Any]]:
    balancer = balancer_named(plan.balancer, "the plan's balancer")
    connection = context.connect(balancer.system_of(plan))
    with (
        context.open_store() as store,
        balancer.opened(plan, connection, context.clock) as port,
    ):
        yield store, port


def _prepared(
    plan: AnyPlan, context: ExecutionContext, store: ExecutionStore, port: Any, skip_changed: bool
) -> PreparedExecution:
    balancer = balancer_named(plan.balancer, "the plan's balancer")
    executor, settings = balancer.executor(), execution_settings(context.settings, balancer)
    free = partial(store.require_free_lease, port, settings=settings, print_progress=context.print_progress)
    prepared = compare_with_cluster(executor, port, plan, rebase=skip_changed, refuse_if_taken=free)
    sense = _sense(balancer, plan, context, settings)
    forecast = executor.forecast(prepared, settings, sense)
    warnings = staleness_warnings(
        plan.snapshot, store.journal.entries(), context.clock(), settings.max_plan_age_seconds
    )
    warnings += executor.warnings(port, prepared, settings, forecast)
    return PreparedExecution(
        balancer=balancer,
        prepared=prepared,
        settings=settings,
        sense=sense,
        forecast=forecast,
        warnings=tuple(warnings),
    )


def _sense(balancer: Balancer, plan: AnyPlan, context: ExecutionContext, settings: RetryPolicy) -> object:
    if plan.strategy == UNDO:
        return None  # no load makes a step of such a plan unnecessary
    newest = newest_of(balancer, context.lake, plan.snapshot.cluster)
    return balancer.executor().sense(plan, newest, settings)


def _left_out(found: PreparedExecution) -> PlanChangedError:
    return PlanChangedError(
        "nothing is left of the plan: every part has changed; make a new plan", found.differences
    )


def _refused(error: TrimtabError) -> Refused:
    no_answer = error.failure.transient if isinstance(error, PortError) else isinstance(error, ConnectError)
    if isinstance(error, PlanChangedError):
        return Refused("changed", error)
    if isinstance(error, ClusterBusyError):
        return Refused("busy", error)
    return Refused("unreachable" if no_answer else "unsuitable", error)


def _ended(receipt: AnyReceipt) -> Done | Stopped:
    return Done(receipt) if receipt.status == "finished" else Stopped(receipt)
