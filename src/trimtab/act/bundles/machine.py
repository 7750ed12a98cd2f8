"""An execution of this level as a pure state machine: facts in, one order at a time out.

As `trimtab.act.replicas.machine`, with this difference: an unload cannot be rolled back. Whoever cancels gets
an owner for every bundle that is under way, and nothing is begun any more.

What holds after every event (checked by `trimtab.act.bundles.invariants`):

- a final status means that nothing of ours is in flight and no switch of the brokers' balancing is ours;
- before a switch is changed, its old value is in the state;
- nothing is begun unless the status is `RUNNING`, the brokers' balancing was seen to be off in every broker
  that answers, and the cluster was looked at since the last order.
"""

from collections.abc import Iterable
from dataclasses import replace

from trimtab.act.bundles import answers
from trimtab.act.bundles.between_batches import between_batches
from trimtab.act.bundles.ending import clean_up
from trimtab.act.bundles.looks import next_look
from trimtab.act.bundles.settings import BundlesSettings
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, Step
from trimtab.act.bundles.under_way import order_for_active
from trimtab.act.execution.commands import Command, Finish, GiveUp, Wait
from trimtab.act.execution.events import Event
from trimtab.act.execution.status import Status


def new_execution(cluster: str, steps: Iterable[Step], settings: BundlesSettings, now: float) -> BundlesState:
    """The state before the first look; its first event is `Resumed`."""
    return BundlesState(
        settings=settings,
        cluster_id=cluster,
        records=tuple(BundleRecord(step) for step in steps),
        now=now,
    )


def handle(state: BundlesState, event: Event) -> tuple[BundlesState, Command]:
    """The state after a fact, and what to do next."""
    return decide(absorb(state, event))


def absorb(state: BundlesState, event: Event) -> BundlesState:
    """The state after a fact; nothing is ordered yet."""
    return answers.absorb(replace(state, now=max(state.now, event.at)), event)


def decide(state: BundlesState) -> tuple[BundlesState, Command]:
    """The next order, with the state marked as having given it."""
    state, command = _decide(state)
    return replace(state, awaiting=command), command


def _decide(state: BundlesState) -> tuple[BundlesState, Command]:
    if state.final:
        return state, Finish()
    if state.give_up:
        return state, GiveUp(state.give_up)
    if state.pause_until > state.now:
        return state, Wait(state.pause_until)
    if state.status is Status.CLEANING and state.hold.empty and not state.active:
        return clean_up(state)
    if not state.fresh or state.seen is None:
        return state, next_look(state)
    order = order_for_active(state)
    if order is not None:
        return order
    if state.active:
        return state, Wait(state.now + max(state.settings.poll_seconds, 4 * state.look_seconds))
    return between_batches(state)
