"""The state machine of executions of the level `keys`: each step until everybody is there."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from trimtab.act.execution.asked import StepState
from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.published import PublishingMachine, PublishTold, told
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import Status
from trimtab.act.execution.transitions import COMMON, looked
from trimtab.act.keys.reasons import damaged, other_topic, rebalancing, unguarded, unseen
from trimtab.act.keys.seen import Seen
from trimtab.act.keys.settings import KeysSettings
from trimtab.act.keys.state import (
    AddPartitions,
    KeysPort,
    LookAtTopic,
    MakeTables,
    PublishTable,
    RoutingRecord,
    RoutingState,
    RoutingStep,
    StepKind,
    TopicSeen,
)
from trimtab.act.keys.tables import in_force, route_in, settled, with_routes

IN_THE_WAY: Final = (unguarded, unseen, rebalancing)
"""What is waited for before anything is begun that leads to a publication."""


def seen(state: RoutingState, event: TopicSeen) -> RoutingState:
    """What is as it should be is done; once everybody follows, the ends are kept that have to be passed."""
    found = event.seen
    state = replace(looked(state, found.cluster, frozenset()), seen=found)
    place = state.records[0].step.place
    lost = other_topic(place, found) or damaged(found, state.settings)
    if lost or state.give_up:
        since = state.now if state.lost_since is None else state.lost_since
        return replace(state, lost=lost, lost_since=since)
    state = replace(state, lost="", lost_since=None)
    vouched, left = state.settings.publishing.unseen, [one for one in state.records if not one.ended]
    done = [one for one in left if not missing(one.step, found, vouched)]
    state = state.changing(done, lambda one: one.end(StepState.DONE, state.now))
    return _ends_kept(state, found)


def _ends_kept(state: RoutingState, found: Seen) -> RoutingState:
    """Ends at which everybody followed the table in force; whoever else published one moved routes, too."""
    followed = any(r.step.kind is StepKind.PUBLISH and r.state is StepState.DONE for r in state.records)
    version = found.table.version if found.table else 0
    if not followed or not state.pending or state.ends_version == version or found.behind(version):
        return state
    return replace(state, ends=found.ends, ends_version=version)


def missing(step: RoutingStep, found: Seen, vouched: bool = False) -> str:
    """What a step still lacks; empty where it is done."""
    if step.kind is StepKind.ADD:
        without = found.without_consumer(step.count, step.base, vouched)
        groups = sorted({name for names in without.values() for name in names})
        which = f" (group {', '.join(groups)})" if groups else ""
        return f"no consumer is seen to have partitions {_listed(tuple(without))}{which}" if without else ""
    if not published(step, found):
        return "the table is not published"
    version = found.table.version if found.table else 0
    behind = found.behind(version)
    if step.kind is StepKind.SETTLE and _earlier(found):
        return "earlier partitions stand in the table"
    return f"{len(behind)} do not follow version {version}: {'; '.join(behind[:3])}" if behind else ""


def published(step: RoutingStep, found: Seen) -> bool:
    """Whether the table in force, for everybody, has the routes of a step."""
    if found.table is None or found.rival is not None or found.damaged:
        return False
    table = found.table
    return all(route_in(table, key) == places for key, places in step.routes.items())


def _earlier(found: Seen) -> bool:
    """Whether earlier partitions stand in the table in force."""
    table = found.table
    return table is not None and any(
        route.earlier for route in (*table.groups.values(), *table.keys.values())
    )


class KeysMachine(PublishingMachine[KeysPort, RoutingState]):
    """The state machine of this level."""

    changes: ClassVar = (MakeTables, AddPartitions, PublishTable)
    facts: ClassVar = {**COMMON, TopicSeen: seen, PublishTold: told}

    @classmethod
    def look(cls, state: RoutingState, *, whole: bool = False) -> Command:
        """See `Machine.look`."""
        return LookAtTopic(state.records[0].step.place)

    @classmethod
    def under_way(cls, state: RoutingState) -> tuple[RoutingState, Command | None]:
        """See `Machine.under_way`: wait until everybody is there, or for too long."""
        now, found = state.now, state.seen
        assert found is not None
        if state.lost:
            return cls._lost(state)
        if not found.there and state.status in (Status.RUNNING, Status.WAITING):
            # Clients cannot tell before it is there, and nothing is published before they do.
            return replace(state, fresh=False), MakeTables(state.records[0].step.place)
        if state.status is Status.CANCELLING:
            # What was ordered stays: a table may be followed already, and partitions cannot be removed.
            state = state.changing(state.active, lambda one: replace(one, state=StepState.PENDING))
        state = state.changing(
            [one for one in state.active if _overwritten(one.step, found)],
            lambda one: one.set_back(now, state.settings, "was published, and is not any more"),
        )
        # One that was killed counts until five of its heartbeats are missing: nothing is given up before.
        longest = max(state.settings.publishing.follow_seconds, found.lasting_seconds)
        vouched = state.settings.publishing.unseen

        def given_up(one: RoutingRecord) -> RoutingRecord:
            told_for = (
                f"{missing(one.step, found, vouched)}, for {longest:g} s (execution.keys.follow_seconds)"
            )
            return one.end(StepState.FAILED, now, told_for)

        late = [one for one in state.active if now - (one.started_at or now) >= longest]
        state = state.changing(late, given_up)
        return state, Wait(state.now + state.settings.poll_seconds) if state.active else None

    @classmethod
    def _lost(cls, state: RoutingState) -> tuple[RoutingState, Command | None]:
        """End what has not ended; not at once, since one broker may lag behind what another knows."""
        assert state.lost_since is not None
        if state.now - state.lost_since < state.settings.settle_seconds:
            return state, Wait(state.now + state.settings.poll_seconds)
        left = [one for one in state.records if not one.ended]
        return state.changing(left, lambda one: one.end(StepState.FAILED, state.now, state.lost)), None

    @classmethod
    def why_wait(cls, state: RoutingState) -> tuple[str, float] | None:
        """See `Machine.why_wait`: nobody is given a table whose order it would break."""
        assert state.seen is not None
        if not any(one.step.kind is StepKind.PUBLISH for one in state.pending):
            return None
        why = next(filter(None, (one(state.seen, state.settings) for one in IN_THE_WAY)), None)
        return (why, state.settings.unhealthy_wait_seconds) if why else None

    @classmethod
    def choose(cls, state: RoutingState) -> Choice[RoutingStep]:
        """See `Machine.choose`: the first, once the one before it is done and its turn has come."""
        assert state.seen is not None
        blocked: dict[int, Blocked] = {}
        for record in state.pending:
            before = next((r for r in state.records if r.step.number == record.step.follows), None)
            why = cls._in_the_way(state, record, before)
            if why is None and not blocked:
                return Choice((record.step,))
            blocked[record.step.number] = why or Blocked("waits for the step before", in_the_way=True)
        return Choice((), blocked)

    @classmethod
    def _in_the_way(
        cls, state: RoutingState, record: RoutingRecord, before: RoutingRecord | None
    ) -> Blocked | None:
        assert state.seen is not None
        if before is not None and before.state is not StepState.DONE:
            failed = before.state is StepState.FAILED
            told_of = f"the step before ended as {before.state}" if failed else "waits for the step before"
            return Blocked(told_of, for_good=failed, in_the_way=not failed)
        if record.not_before > state.now:
            return Blocked("is tried again soon", in_the_way=True, until=record.not_before)
        return cls._unsettled(state, record.step) if record.step.kind is StepKind.SETTLE else None

    @classmethod
    def _unsettled(cls, state: RoutingState, step: RoutingStep) -> Blocked | None:
        """Why earlier partitions have to stay named."""
        found = state.seen
        assert found is not None
        if found.rival is not None:
            return None
        if found.damaged:
            return Blocked(found.damaged, for_good=True)
        if found.table is None or not published(step, found):
            return Blocked("another table without these routes was published since", for_good=True)
        if state.ends_version != found.table.version:
            return Blocked("another table was published since, which not all follow")
        waiting = found.not_passed(state.ends)
        if waiting:
            return Blocked(f"group {', '.join(waiting)} has not passed what was written before the table")
        return None

    @classmethod
    def begin(cls, state: RoutingState, batch: tuple[RoutingStep, ...]) -> tuple[RoutingState, Command]:
        """See `Machine.begin`."""
        found, (step,) = state.seen, batch
        assert found is not None
        state = cls.asked(state, batch)
        if step.kind is StepKind.ADD:
            return state, AddPartitions(step.place, step.count)
        table = in_force(found, step.base)
        if step.kind is StepKind.SETTLE:
            # Of two tables both have to be followed first: this step is tried again after that.
            new = settled(table) if found.rival is None else with_routes(table, step.routes, len(found.ends))
        elif published(step, found):
            return state, cls.look(state)
        else:
            new = with_routes(table, step.routes, len(found.ends))
        new = replace(new, passed=found.passed[: new.partitions])
        return state, PublishTable(step.place, found.topic_id, new)

    @classmethod
    def blocked_seconds(cls, settings: Patience) -> float:
        """See `Machine.blocked_seconds`."""
        assert isinstance(settings, KeysSettings)
        return settings.publishing.settle_wait_seconds

    def perform(self, command: Command, state: RoutingState) -> Event:
        """See `Machine.perform`."""
        if isinstance(command, MakeTables):
            self.port.make_tables(command.place)
            return PublishTold(self.clock(), 0)
        if isinstance(command, AddPartitions):
            self.port.add_partitions(command.place, command.count)
            return PublishTold(self.clock(), 0)
        if isinstance(command, PublishTable):
            version = self.port.publish(command.place, command.topic_id, command.table)
            return PublishTold(self.clock(), version)
        assert isinstance(command, LookAtTopic)
        return TopicSeen(self.clock(), self.port.observe(command.place))


def _overwritten(step: RoutingStep, found: Seen) -> bool:
    """Whether what a step has published is not in force any more, or was not what it is to be."""
    if step.kind is StepKind.ADD:
        return False
    return not published(step, found) or (step.kind is StepKind.SETTLE and _earlier(found))


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
