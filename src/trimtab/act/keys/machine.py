"""The state machine of executions of the level `keys`: each step until everybody is there."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trimtab.act.execution.asked import StepState
from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.published import PublishingMachine, PublishTold, told
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import Status
from trimtab.act.execution.transitions import COMMON, looked
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
    Seen,
    StepKind,
    TopicSeen,
    route_in,
    settled,
    with_routes,
)
from trimtab.model.keys.routing import RoutingTable


def seen(state: RoutingState, event: TopicSeen) -> RoutingState:
    """What is as it should be is done; with the publication the ends are kept that have to be passed."""
    found = event.seen
    state = replace(looked(state, found.cluster, frozenset()), seen=found)
    done = [record for record in state.records if not record.ended and not missing(record.step, found)]
    if not state.ends and any(record.step.kind is StepKind.PUBLISH for record in done):
        state = replace(state, ends=found.ends)
    return state.changing(done, lambda one: one.end(StepState.DONE, state.now))


def missing(step: RoutingStep, found: Seen) -> str:
    """What a step still lacks; empty where it is done."""
    if step.kind is StepKind.ADD:
        without = found.without_consumer(step.count, step.base)
        return f"no consumer is seen to have partitions {_listed(without)}" if without else ""
    if not published(step, found):
        return "the table is not published"
    version = found.table.version if found.table else 0
    behind = found.behind(version)
    if step.kind is StepKind.PUBLISH:
        return f"{len(behind)} do not follow version {version}: {'; '.join(behind[:3])}" if behind else ""
    assert found.table is not None
    routes = [*found.table.groups.values(), *found.table.keys.values()]
    if any(route.earlier for route in routes):
        return "earlier partitions stand in the table"
    return f"{len(behind)} do not follow version {version}: {'; '.join(behind[:3])}" if behind else ""


def published(step: RoutingStep, found: Seen) -> bool:
    """Whether the table in force has the routes of a step."""
    if found.table is None:
        return False
    return all(route_in(found.table, key) == places for key, places in step.routes.items())


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
        if not found.there and state.status in (Status.RUNNING, Status.WAITING):
            # Clients cannot tell before it is there, and nothing is published before they do.
            return replace(state, fresh=False), MakeTables(state.records[0].step.place)
        if state.status is Status.CANCELLING:
            # What was ordered stays: a table may be followed already, and partitions cannot be removed.
            state = state.changing(state.active, lambda one: replace(one, state=StepState.PENDING))
        longest = state.settings.publishing.follow_seconds

        def given_up(one: RoutingRecord) -> RoutingRecord:
            told_for = f"{missing(one.step, found)}, for {longest:g} s (execution.keys.follow_seconds)"
            return one.end(StepState.FAILED, now, told_for)

        late = [one for one in state.active if now - (one.started_at or now) >= longest]
        state = state.changing(late, given_up)
        return state, Wait(state.now + state.settings.poll_seconds) if state.active else None

    @classmethod
    def why_wait(cls, state: RoutingState) -> tuple[str, float] | None:
        """See `Machine.why_wait`: nobody is given a table whose order it would break."""
        assert state.seen is not None
        if not any(one.step.kind is StepKind.PUBLISH for one in state.pending):
            return None
        why = unguarded(state.seen, state.settings)
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
        if record.step.kind is StepKind.SETTLE and any(
            done < end for done, end in zip(state.seen.passed, state.ends, strict=False)
        ):
            return Blocked("consumers have not passed what was written before the table")
        return None

    @classmethod
    def begin(cls, state: RoutingState, batch: tuple[RoutingStep, ...]) -> tuple[RoutingState, Command]:
        """See `Machine.begin`."""
        found, (step,) = state.seen, batch
        assert found is not None
        state = cls.asked(state, batch)
        if step.kind is StepKind.ADD:
            return state, AddPartitions(step.place, step.count)
        table = found.table or RoutingTable(0, step.base, len(found.ends))
        if step.kind is StepKind.SETTLE:
            new = settled(table)
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


def unguarded(found: Seen, settings: KeysSettings) -> str:
    """Who would break the order of a key that moves, as far as anybody can see; empty for nobody."""
    if settings.publishing.unseen:
        return ""
    if not found.tells:
        return (
            "tables in a file have no heartbeats, so that nobody is seen to keep order: publish to a topic "
            "(keys.tables), or vouch for all clients with --set execution.keys.unseen=true"
        )
    those = found.unguarded
    if not those:
        return ""
    more = f" and {len(those) - 3} more" if len(those) > 3 else ""
    return (
        f"{', '.join(those[:3])}{more} would break the order of keys that move: wrap them "
        "(trimtab.dataplane.keys), or end them"
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
