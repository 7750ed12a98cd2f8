"""The state machine of executions of this level: its facts, its orders, and the hands that perform them.

An unload cannot be rolled back: whoever cancels gets an owner for every bundle that is under way, and nothing
is begun any more. What holds after every event:

- a final status means that nothing of ours is in flight and no switch of the brokers' balancing is ours;
- before a switch is changed, its old value is in the state;
- nothing is begun unless the status is `RUNNING`, the brokers' balancing was seen to be off in every broker
  that answers, and the cluster was looked at since the last order.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, cast

from trimtab.act.bundles.batch import begin, choose_batch
from trimtab.act.bundles.changes import command_failed, looked_up, order_for_active, split, unloaded
from trimtab.act.bundles.hold import (
    balancing_read,
    balancing_written,
    left_to_others,
    order_to_give_back,
    order_to_hold,
)
from trimtab.act.bundles.messages import (
    BalancingRead,
    BalancingWritten,
    ClusterSeen,
    LoadSensed,
    LookedUp,
    LookUp,
    Observe,
    ReadBalancing,
    SenseLoad,
    Split,
    SplitAnswered,
    Unload,
    UnloadAnswered,
    WriteBalancing,
)
from trimtab.act.bundles.port import BundlesPort
from trimtab.act.bundles.reconcile import current, observed, taken_back, why_wait
from trimtab.act.bundles.settings import UnloadSettings
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, Step, StepState
from trimtab.act.execution.machine import Machine
from trimtab.act.execution.messages import Command, CommandFailed, Event, Wait
from trimtab.act.execution.record import Blocked
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import Status
from trimtab.act.execution.transitions import COMMON, well, without_destination


def new_execution(cluster: str, steps: Iterable[Step], settings: UnloadSettings, now: float) -> BundlesState:
    """The state before the first look; its first event is `Resumed`."""
    records = tuple(BundleRecord(step) for step in steps)
    return BundlesState(settings=settings, cluster_id=cluster, records=records, now=now)


def load_sensed(state: BundlesState, event: LoadSensed) -> BundlesState:
    """Load as it is now: what is no longer needed is dropped, what would do harm is left out."""
    ended = {number: (StepState.DROPPED, why) for number, why in event.unneeded.items()}
    ended |= {number: (StepState.SKIPPED, why) for number, why in event.harmful.items()}
    now = state.now

    def end(record: BundleRecord) -> BundleRecord:
        how, why = ended[record.step.number]
        return record.end(how, now, why)

    state = state.changing([record for record in state.pending if record.step.number in ended], end)
    return well(replace(state, sensed_for_batch=state.batches, sensed_at=state.now))


class BundlesMachine(Machine[BundlesPort, BundlesState]):
    """The state machine of this level."""

    changes = (Unload, Split, WriteBalancing, LookUp)
    facts: ClassVar = {
        **COMMON,
        ClusterSeen: observed,
        BalancingRead: balancing_read,
        BalancingWritten: balancing_written,
        UnloadAnswered: unloaded,
        SplitAnswered: split,
        LookedUp: looked_up,
        LoadSensed: load_sensed,
        CommandFailed: command_failed,
    }
    good = frozenset({StepState.DONE, StepState.DROPPED})

    why_wait = staticmethod(why_wait)
    choose = staticmethod(choose_batch)
    begin = staticmethod(begin)
    give_back = staticmethod(order_to_give_back)

    @classmethod
    def look(cls, state: BundlesState, *, whole: bool = False) -> Command:
        """Owners and boundaries while something is under way; switches and health, too, between batches."""
        records = [record for record in state.records if not record.ended]
        namespaces = dict.fromkeys(record.step.namespace for record in records)
        deep = whole or not state.active
        destinations = dict.fromkeys(broker for record in records for broker in record.step.destinations)
        return Observe(tuple(namespaces), tuple(destinations) if deep else (), deep=deep)

    @classmethod
    def under_way(cls, state: BundlesState) -> tuple[BundlesState, Command | None]:
        """See `Machine.under_way`."""
        state, order = order_for_active(state)
        if order is None and state.active:
            order = Wait(state.now + max(state.settings.poll_seconds, 4 * state.look_seconds))
        return state, order

    @classmethod
    def judge(cls, state: BundlesState) -> BundlesState:
        """See `Machine.judge`: switches that others changed; steps whose turn has come, or never will."""
        seen = state.seen
        theirs = taken_back(state, seen)
        if theirs:
            return left_to_others(state, seen.overrides or {}, theirs)
        done = {r.step.number for r in state.records if r.state is StepState.DONE}
        state = state.changing(
            [record for record in state.pending if record.step.follows in done],
            lambda record: current(record, seen, state.now, state.settings),
        )
        dead = without_destination(state, state.pending)
        return state.changing(
            [record for record in state.pending if record.step.number in dead],
            lambda record: record.end(
                StepState.FAILED, state.now, f"{dead[record.step.number]}, its destination, is dead"
            ),
        )

    @classmethod
    def before_batch(cls, state: BundlesState) -> tuple[BundlesState, Command | None]:
        """See `Machine.before_batch`: balancing is off everywhere, and clients have had time to settle.

        Then the load is sensed, once for a batch, and not more often than brokers are looked at whole.
        """
        pace = state.settings.pace
        state, order = order_to_hold(state)
        if order is not None:
            return state, order
        if state.batch_ended_at is not None and state.now < state.batch_ended_at + pace.pause_seconds:
            return state, Wait(state.batch_ended_at + pace.pause_seconds)
        due = state.sensed_for_batch != state.batches
        due = due and state.now - state.sensed_at >= state.settings.check_seconds
        return state, SenseLoad() if due and pace.sense_load else None

    @classmethod
    def end(cls, state: BundlesState, outcome: Status) -> tuple[BundlesState, Command]:
        """See `Machine.end`: how the switches stand is read anew, others may have changed them since."""
        return super().end(replace(state, overrides=None), outcome)

    @classmethod
    def ends_as(cls, record: BundleRecord, blocked: Blocked) -> StepState:
        """See `Machine.ends_as`."""
        return StepState.SKIPPED if blocked.for_good else StepState.FAILED

    @classmethod
    def blocked_seconds(cls, settings: UnloadSettings) -> float:
        """See `Machine.blocked_seconds`."""
        return settings.unhealthy_wait_seconds

    @classmethod
    def waiting_seconds(cls, settings: Patience) -> float:
        """See `Machine.waiting_seconds`: a deep look asks every broker."""
        return settings.check_seconds

    def perform(self, command: Command, state: BundlesState) -> Event:
        """See `Machine.perform`."""
        port = self.port
        match command:
            case Observe(namespaces, destinations, deep):
                return self.told(ClusterSeen, port.observe(namespaces, destinations, deep=deep))
            case SenseLoad():
                if self.sense is None:
                    return LoadSensed(self.clock())
                traffic = port.traffic()
                return cast("LoadSensed", self.sense(state.records, self.clock(), traffic))
            case ReadBalancing(everywhere):
                return self.told(BalancingRead, port.read_balancing(everywhere=everywhere))
            case WriteBalancing(values):
                return self.told(BalancingWritten, port.write_balancing(values))
            case Unload(targets):
                return self.told(UnloadAnswered, port.unload(targets))
            case Split(_, bundle, boundaries):
                return self.told(SplitAnswered, port.split(bundle, boundaries))
            case LookUp(bundles):
                return self.told(LookedUp, port.look_up(bundles))
        raise AssertionError(f"no way to perform {command}")
