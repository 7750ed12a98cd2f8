"""Carrying a plan of any balancer out, and taking an execution up again: one flow for all balancers.

Commands show and ask between the pieces, and watch.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from trimtab.act.execution.state import FINAL, ExecutionStatus
from trimtab.act.executor import (
    AnyExecutor,
    ExecutionSummary,
    Executor,
    PlanT,
    PortT,
    PreparedPlan,
    SettingsT,
    StateT,
)
from trimtab.act.lease import Lease
from trimtab.act.lease_holder import this_process
from trimtab.act.runner import Runner
from trimtab.act.store import ExecutionStore
from trimtab.model.errors import ActError
from trimtab.model.receipt import Receipt

Watch = Callable[[StateT], None]
Run = Callable[[Callable[[Watch[StateT]], Runner[StateT]]], StateT]
"""Runs a runner to its end; given what makes one, to be told whom to tell its states."""
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
    facts: Mapping[str, Any] | None = None,
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
    sense: Any = None,
    watch: Watch[StateT] | None = None,
    settings: SettingsT | None = None,
) -> Runner[StateT]:
    """A runner that goes on from wherever the journal has it; other settings than then may be given."""
    state = state_of(acting, store, execution)
    if settings is not None:
        state = acting.with_settings(state, settings)
    store.journal.take_over(execution, store.owner())
    if lease is not None:
        lease.set_execution(execution)
    machine = acting.machine(port, store.clock, sense)
    return Runner(
        machine, store.journal, lease, execution, state, clock=store.clock, sleep=store.sleep, watch=watch
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
    facts: Mapping[str, Any] | None = None,
    sense: Any = None,
    run: Run[StateT],
    print_progress: ProgressCallback = lambda line: None,
) -> Receipt[Any]:
    """Carry a prepared plan out to its end: lease, journal, execution, receipt.

    Raises
    ------
    ActError
        If another trimtab acts there, an earlier execution is interrupted, or the cluster is out of reach for
        too long.
    """
    with store.lease(port, prepared.cluster_id, settings, print_progress) as lease:
        execution = begin(acting, store, prepared, settings, plan_text, facts)
        state = run(lambda watch: runner_of(acting, store, port, lease, execution, sense=sense, watch=watch))
        return acting.receipt(store.journal.entry(execution), state, sense)


def resume(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    store: ExecutionStore,
    port: PortT,
    entry: ExecutionSummary,
    settings: SettingsT,
    *,
    changed: SettingsT | None = None,
    request: str | None = None,
    sense: Any = None,
    run: Run[StateT],
    print_progress: ProgressCallback = lambda line: None,
) -> Receipt[Any]:
    """Go on with an execution that nobody runs, or stop or cancel it, up to its receipt.

    Parameters
    ----------
    settings
        How long a lease lasts.
    changed
        Settings that replace those it was begun with.
    request
        `stop` or `cancel`; None to go on.

    Raises
    ------
    ActError
        If another trimtab acts there, another execution of the cluster is interrupted, too, or the cluster is
        out of reach for too long.
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
        state = run(
            lambda watch: runner_of(
                acting, store, port, lease, entry.id, sense=sense, watch=watch, settings=changed
            )
        )
        return acting.receipt(store.journal.entry(entry.id), state, sense)


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
    """Ask whoever runs an execution to `stop` or `cancel`; False where nobody does.

    Raises
    ------
    ActError
        If it has ended already.
    """
    status = store.status(entry)
    if status in FINAL:
        raise ActError(f"execution {entry.id} has ended already ({status}): there is nothing to {request}")
    if status == "interrupted":
        return False
    now = store.clock()
    store.journal.request(entry.id, request, str(this_process("", now)), now)
    return True


def receipt_of(acting: AnyExecutor, store: ExecutionStore, execution: int) -> Receipt[Any]:
    """The receipt of an execution as the journal has it, as far as it is."""
    state = state_of(acting, store, execution)
    return acting.receipt(store.journal.entry(execution), state, None)
