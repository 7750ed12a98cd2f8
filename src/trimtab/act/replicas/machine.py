"""An execution as a pure state machine: facts in, one order at a time out.

`handle(state, event)` is the only way to change a state; it knows no network, no journal and no clock (times
come in with the events). The runner performs the order and answers it with one event, and so on until the
order is `Finish`. Whoever writes each state down before performing its order can be killed at any moment: the
state read back, told `Resumed`, looks at the cluster and goes on from what it sees.

What holds after every event (checked by `trimtab.act.replicas.invariants`):

- a final status means that nothing of ours is in flight and no throttle setting is ours;
- before a throttle setting is changed, its old value is in the state;
- nothing is begun unless the status is `RUNNING` and the cluster was looked at since the last order.
"""

from collections.abc import Iterable
from dataclasses import replace

from trimtab.act.execution.commands import Command, Finish, GiveUp, Wait
from trimtab.act.execution.events import Event
from trimtab.act.execution.status import Status
from trimtab.act.replicas import answers
from trimtab.act.replicas.between_batches import between_batches
from trimtab.act.replicas.looks import next_look
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import Step, StepRecord, StepState
from trimtab.act.replicas.throttle_orders import order_for_throttle
from trimtab.act.replicas.under_way import give_up_hopeless, order_for_active, roll_back


def new_execution(
    cluster_id: str, steps: Iterable[Step], settings: ExecutionSettings, now: float
) -> ExecutionState:
    """The state before the first look; its first event is `Resumed`."""
    return ExecutionState(
        settings=settings,
        cluster_id=cluster_id,
        records=tuple(StepRecord(step) for step in steps),
        copies_per_broker=settings.copies_per_broker,
        now=now,
    )


def handle(state: ExecutionState, event: Event) -> tuple[ExecutionState, Command]:
    """The state after a fact, and what to do next."""
    return decide(absorb(state, event))


def absorb(state: ExecutionState, event: Event) -> ExecutionState:
    """The state after a fact; nothing is ordered yet."""
    return answers.absorb(replace(state, now=max(state.now, event.at)), event)


def decide(state: ExecutionState) -> tuple[ExecutionState, Command]:
    """The next order, with the state marked as having given it."""
    state, command = _decide(state)
    return replace(state, awaiting=command), command


def _decide(state: ExecutionState) -> tuple[ExecutionState, Command]:
    if state.final:
        return state, Finish()
    if state.give_up:
        return state, GiveUp(state.give_up)
    if state.pause_until > state.now:
        return state, Wait(state.pause_until)
    if not state.fresh or state.seen is None:
        return state, next_look(state)
    if state.status is Status.CANCELLING:
        state = roll_back(state, {record.step.number: "" for record in state.active}, StepState.ROLLED_BACK)
    else:
        state = give_up_hopeless(state)
    order = order_for_active(state)
    if order is not None:
        return order
    if state.active:
        order = order_for_throttle(state, [record.step for record in state.active])
        return order or (state, Wait(state.now + state.settings.poll_seconds))
    return between_batches(state)
