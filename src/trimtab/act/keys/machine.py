"""The state machine of executions of the balancer `keys`: each step lasts until all clients follow it.

It begins with the reasons to publish no table, and with the routing tables that a step leads to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from trimtab.act.execution.port import Command, Event, Wait
from trimtab.act.execution.publishing import (
    PublishCompleted,
    PublishedStepState,
    PublishingMachine,
    absorb_publish,
    end_as_done,
)
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import COMMON, ExecutionStatus, absorb_observation
from trimtab.act.execution.steps import Blocked, Choice
from trimtab.act.keys.state import (
    AddPartitions,
    CreateTableTopic,
    DescribeTopic,
    KeysExecutionSettings,
    KeysExecutionState,
    KeysObservation,
    KeysPort,
    PublishTable,
    RoutingStep,
    RoutingStepKind,
    RoutingStepRecord,
    TableLocation,
    TopicDescribed,
)
from trimtab.model.keys import Places, RoutingMoveKind, key_bytes
from trimtab_keys.core.routing import Route, RoutingTable, group_count, key_group

VOUCH = "--set execution.keys.allow_unverified=true"
REPLACE = "--set execution.keys.overwrite_invalid=true"
MAX_LISTED = 3


def unguarded(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """Who would break the order of a key that moves, as far as anybody can see; empty for nobody."""
    if settings.publishing.allow_unverified:
        return ""
    if not found.sends_heartbeats:
        return (
            "tables in a file have no heartbeats, so that nobody is seen to keep order: publish to a topic "
            f"(keys.table_location), or vouch for all clients with {VOUCH}"
        )
    those = found.unguarded
    if those:
        more = f" and {len(those) - MAX_LISTED} more" if len(those) > MAX_LISTED else ""
        return (
            f"{', '.join(those[:MAX_LISTED])}{more} would break the order of keys that move: wrap them "
            "(trimtab_keys.clients), or end them"
        )
    return ""


def unverified_reason(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """The group of which nobody can see whether it keeps order; empty for none."""
    if settings.publishing.allow_unverified:
        return ""
    for one in found.groups:
        if one.unlisted_reason:
            return (
                f"group {one.name} {one.unlisted_reason}, so that nobody sees whether they keep order: let "
                "its "
                f"consumers use group.protocol=classic, or vouch for them with {VOUCH}"
            )
        if one.down:
            return (
                f"group {one.name} has commits on the topic and no members, so that nobody sees whether its "
                "consumers keep order when they come back: start them, delete its offsets of this topic if "
                f"it is gone for good, or vouch for it with {VOUCH}"
            )
    return ""


def rebalancing(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """The group whose members are not seen just now, since it gives out partitions anew; empty for none."""
    if settings.publishing.allow_unverified:
        return ""
    those = [one.name for one in found.groups if one.rebalancing]
    return f"group {those[0]} is rebalancing, so that its members are not seen" if those else ""


def other_topic(place: TableLocation, found: KeysObservation) -> str:
    """Why a plan is not for the topic of its name any more; empty where it is."""
    if not place.topic_id:
        return (
            f"the journal does not say which topic {place.topic!r} it was begun for, since an older trimtab "
            "wrote it: apply the plan again"
        )
    if not found.topic_id:
        return (
            f"there is no topic {place.topic!r} any more, and the plan was made for that of id "
            f"{place.topic_id}: it was deleted, and nothing is left to be done"
        )
    if found.topic_id != place.topic_id:
        return (
            f"topic {place.topic} has the id {found.topic_id}, and the plan is for {place.topic_id}: it was "
            "deleted and made anew, or this is another cluster; observe it and plan again"
        )
    return ""


def damaged(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """Why a table must not be published over what lies there; empty where it may."""
    if not found.damaged or settings.publishing.overwrite_invalid:
        return ""
    remedy = "" if REPLACE in found.damaged else f"; publish over it with {REPLACE}"
    return f"{found.damaged}{remedy}"


def in_force(found: KeysObservation, base: int) -> RoutingTable:
    """The table that the next one is made of, by the newest version that is known.

    Parameters
    ----------
    found
        What lies there. Without a table that is the plain hash; where one was damaged and nobody knows what
        it named, records may wait in any partition, and a run of a producer that begins must wait for all.
    base
        Partitions that the hash divides by, where no table says so.
    """
    count = len(found.ends)
    if found.table is None:
        places = tuple(range(count)) if found.damaged else ()
        homes = range(group_count(base)) if found.damaged else ()
        groups = {group: Route((group % base,), places) for group in homes}
        return RoutingTable(found.newest, base, count, groups)
    table = found.table if found.foreign_table is None else joined(found.table, found.foreign_table)
    return replace(table, version=max(table.version, found.newest))


def joined(table: RoutingTable, rival: RoutingTable) -> RoutingTable:
    """One table out of two that were published at once: routes that either names, places of both as earlier.

    Each producer follows one of the two, so that records may wait where either says. Where both name a route,
    that of the one which lies last counts.
    """

    def both(last: Route, other: Route, named: bool) -> Route:
        places = (last if named else other).partitions
        earlier = {*last.earlier, *other.earlier, *last.partitions, *other.partitions}
        same = last == other
        return last if same else Route(places, tuple(sorted(earlier)))

    groups = {
        group: both(table.group_route(group), rival.group_route(group), group in table.groups)
        for group in sorted({*table.groups, *rival.groups})
    }
    keys = {}
    for key in sorted({*table.keys, *rival.keys}):
        group = key_group(key, table.base)
        keys[key] = both(table.route(group, key), rival.route(group, key), key in table.keys)
    version, partitions = max(table.version, rival.version), max(table.partitions, rival.partitions)
    return RoutingTable(version, table.base, partitions, groups, keys)


def route_in(table: RoutingTable, key: str) -> Places:
    """The partitions of `kind/name` by a table."""
    kind, _, name = key.partition("/")
    if kind == RoutingMoveKind.GROUP:
        return table.group_route(int(name)).partitions
    raw = key_bytes(name)
    return table.route(key_group(raw, table.base), raw).partitions


def with_routes(table: RoutingTable, routes: Mapping[str, Places], partitions: int) -> RoutingTable:
    """The next table: other routes (`kind/name` to partitions), which name where older records may wait."""
    groups, keys = dict(table.groups), dict(table.keys)
    for key, places in routes.items():
        kind, _, name = key.partition("/")
        if kind == RoutingMoveKind.GROUP:
            groups[int(name)] = table.group_route(int(name)).moved(places)
        else:
            raw = key_bytes(name)
            keys[raw] = table.route(key_group(raw, table.base), raw).moved(places)
    return RoutingTable(table.version + 1, table.base, max(partitions, table.partitions), groups, keys)


def settled(table: RoutingTable) -> RoutingTable:
    """The next table: earlier places are passed. Groups at home, and keys with theirs, need no route."""
    groups = {
        group: Route(route.partitions)
        for group, route in table.groups.items()
        if route.partitions != (group % table.base,)
    }
    plain = RoutingTable(table.version + 1, table.base, table.partitions, groups)
    keys = {
        key: Route(route.partitions)
        for key, route in table.keys.items()
        if route.partitions != plain.route(key_group(key, table.base), key).partitions
    }
    return replace(plain, keys=keys)


BLOCKING: Final = (unguarded, unverified_reason, rebalancing)
"""What is waited for before anything is begun that leads to a publication."""


def absorb_topic(state: KeysExecutionState, event: TopicDescribed) -> KeysExecutionState:
    """What is as it should be is done; once everybody follows, the ends are kept that have to be passed."""
    found = event.observation
    state = replace(absorb_observation(state, found.cluster, frozenset()), observation=found)
    place = state.records[0].step.place
    lost = other_topic(place, found) or damaged(found, state.settings)
    if lost or state.give_up:
        since = state.now if state.lost_since is None else state.lost_since
        return replace(state, lost=lost, lost_since=since)
    state = replace(state, lost="", lost_since=None)
    vouched, left = (
        state.settings.publishing.allow_unverified,
        [one for one in state.records if not one.ended],
    )
    done = [one for one in left if not missing(one.step, found, vouched)]
    state = end_as_done(state, done)
    return _record_end_offsets(state, found)


def _record_end_offsets(state: KeysExecutionState, found: KeysObservation) -> KeysExecutionState:
    """Ends at which everybody followed the table in force; whoever else published one moved routes, too."""
    followed = any(
        r.step.kind is RoutingStepKind.PUBLISH and r.state is PublishedStepState.DONE for r in state.records
    )
    version = found.table.version if found.table else 0
    if not followed or not state.pending or state.ends_version == version or found.behind(version):
        return state
    return replace(state, ends=found.ends, ends_version=version)


def missing(step: RoutingStep, found: KeysObservation, vouched: bool = False) -> str:
    """What a step still lacks; empty where it is done."""
    if step.kind is RoutingStepKind.ADD:
        without = found.without_consumer(step.count, step.base, vouched)
        groups = sorted({name for names in without.values() for name in names})
        which = f" (group {', '.join(groups)})" if groups else ""
        return f"no consumer is seen to have partitions {_listed(tuple(without))}{which}" if without else ""
    if not published(step, found):
        return "the table is not published"
    version = found.table.version if found.table else 0
    behind = found.behind(version)
    if step.kind is RoutingStepKind.SETTLE and _earlier(found):
        return "earlier partitions stand in the table"
    return f"{len(behind)} do not follow version {version}: {'; '.join(behind[:3])}" if behind else ""


def published(step: RoutingStep, found: KeysObservation) -> bool:
    """Whether the table in force, for everybody, has the routes of a step."""
    if found.table is None or found.foreign_table is not None or found.damaged:
        return False
    table = found.table
    return all(route_in(table, key) == places for key, places in step.routes.items())


def _earlier(found: KeysObservation) -> bool:
    """Whether earlier partitions stand in the table in force."""
    table = found.table
    return table is not None and any(
        route.earlier for route in (*table.groups.values(), *table.keys.values())
    )


class KeysMachine(PublishingMachine[KeysPort, KeysExecutionState]):
    """The state machine of this balancer."""

    changes: ClassVar = (CreateTableTopic, AddPartitions, PublishTable)
    facts: ClassVar = {**COMMON, TopicDescribed: absorb_topic, PublishCompleted: absorb_publish}

    @classmethod
    def next_query(cls, state: KeysExecutionState, *, whole: bool = False) -> Command:
        """The next query of the topic and its clients."""
        return DescribeTopic(state.records[0].step.place)

    @classmethod
    def next_in_flight(cls, state: KeysExecutionState) -> tuple[KeysExecutionState, Command | None]:
        """See `ExecutionMachine.next_in_flight`: wait until everybody is there, or for too long."""
        now, found = state.now, state.observation
        assert found is not None
        if state.lost:
            return cls._lost(state)
        if not found.there and state.status in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING):
            # Clients cannot tell before it is there, and nothing is published before they do.
            return replace(state, fresh=False), CreateTableTopic(state.records[0].step.place)
        if state.status is ExecutionStatus.CANCELLING:
            # What was ordered stays: a table may be followed already, and partitions cannot be removed.
            state = state.changing(state.active, lambda one: replace(one, state=PublishedStepState.PENDING))
        state = state.changing(
            [one for one in state.active if _overwritten(one.step, found)],
            lambda one: one.set_back(now, state.settings, "was published, and is not any more"),
        )
        # One that was killed counts until five of its heartbeats are missing: nothing is given up before.
        longest = max(state.settings.publishing.follow_timeout_seconds, found.lasting_seconds)
        vouched = state.settings.publishing.allow_unverified

        def expired(one: RoutingStepRecord) -> RoutingStepRecord:
            told_for = (
                f"{missing(one.step, found, vouched)}, for {longest:g} s "
                "(execution.keys.follow_timeout_seconds)"
            )
            return one.end(PublishedStepState.FAILED, now, told_for)

        late = [one for one in state.active if now - (one.started_at or now) >= longest]
        state = state.changing(late, expired)
        return state, Wait(state.now + state.settings.poll_interval_seconds) if state.active else None

    @classmethod
    def _lost(cls, state: KeysExecutionState) -> tuple[KeysExecutionState, Command | None]:
        """End what has not ended; not at once, since one broker may lag behind what another knows."""
        assert state.lost_since is not None
        if state.now - state.lost_since < state.settings.metadata_lag_seconds:
            return state, Wait(state.now + state.settings.poll_interval_seconds)
        left = [one for one in state.records if not one.ended]
        return state.changing(
            left, lambda one: one.end(PublishedStepState.FAILED, state.now, state.lost)
        ), None

    @classmethod
    def blocking_reason(cls, state: KeysExecutionState) -> tuple[str, float] | None:
        """See `ExecutionMachine.blocking_reason`: nobody is given a table whose order it would break."""
        assert state.observation is not None
        if not any(one.step.kind is RoutingStepKind.PUBLISH for one in state.pending):
            return None
        why = next(filter(None, (one(state.observation, state.settings) for one in BLOCKING)), None)
        return (why, state.settings.unhealthy_timeout_seconds) if why else None

    @classmethod
    def choose(cls, state: KeysExecutionState) -> Choice[RoutingStep]:
        """See `ExecutionMachine.choose`: the first, once the one before it is done and its turn has come."""
        assert state.observation is not None
        blocked: dict[int, Blocked] = {}
        for record in state.pending:
            before = next((r for r in state.records if r.step.number == record.step.follows), None)
            why = cls._is_blocking(state, record, before)
            if why is None and not blocked:
                return Choice((record.step,))
            blocked[record.step.number] = why or Blocked("waits for the step before", blocking=True)
        return Choice((), blocked)

    @classmethod
    def _is_blocking(
        cls, state: KeysExecutionState, record: RoutingStepRecord, before: RoutingStepRecord | None
    ) -> Blocked | None:
        assert state.observation is not None
        if before is not None and before.state is not PublishedStepState.DONE:
            failed = before.state is PublishedStepState.FAILED
            told_of = f"the step before ended as {before.state}" if failed else "waits for the step before"
            return Blocked(told_of, permanent=failed, blocking=not failed)
        if record.not_before > state.now:
            return Blocked("is tried again soon", blocking=True, until=record.not_before)
        return cls._unsettled(state, record.step) if record.step.kind is RoutingStepKind.SETTLE else None

    @classmethod
    def _unsettled(cls, state: KeysExecutionState, step: RoutingStep) -> Blocked | None:
        """Why earlier partitions have to stay named."""
        found = state.observation
        assert found is not None
        if found.foreign_table is not None:
            return None
        if found.damaged:
            return Blocked(found.damaged, permanent=True)
        if found.table is None or not published(step, found):
            return Blocked("another table without these routes was published since", permanent=True)
        if state.ends_version != found.table.version:
            return Blocked("another table was published since, which not all follow")
        waiting = found.not_passed(state.ends)
        if waiting:
            return Blocked(f"group {', '.join(waiting)} has not passed what was written before the table")
        return None

    @classmethod
    def begin(
        cls, state: KeysExecutionState, batch: tuple[RoutingStep, ...]
    ) -> tuple[KeysExecutionState, Command]:
        """Start the next step: add partitions or publish a table."""
        found, (step,) = state.observation, batch
        assert found is not None
        state = cls.with_batch(state, batch)
        if step.kind is RoutingStepKind.ADD:
            return state, AddPartitions(step.place, step.count)
        table = in_force(found, step.base)
        if step.kind is RoutingStepKind.SETTLE:
            # Of two tables both have to be followed first: this step is tried again after that.
            new = (
                settled(table)
                if found.foreign_table is None
                else with_routes(table, step.routes, len(found.ends))
            )
        elif published(step, found):
            return state, cls.next_query(state)
        else:
            new = with_routes(table, step.routes, len(found.ends))
        new = replace(new, passed=found.passed[: new.partitions])
        return state, PublishTable(step.place, found.topic_id, new)

    @classmethod
    def blocked_seconds(cls, settings: RetryPolicy) -> float:
        """The longest time that an external cause may block a step."""
        assert isinstance(settings, KeysExecutionSettings)
        return settings.publishing.drain_timeout_seconds

    def perform(self, command: Command, state: KeysExecutionState) -> Event:
        """Send a command to Kafka and return the event that answers it."""
        if isinstance(command, CreateTableTopic):
            self.port.make_tables(command.place)
            return PublishCompleted(self.clock(), 0)
        if isinstance(command, AddPartitions):
            self.port.add_partitions(command.place, command.count)
            return PublishCompleted(self.clock(), 0)
        if isinstance(command, PublishTable):
            version = self.port.publish(command.place, command.topic_id, command.table)
            return PublishCompleted(self.clock(), version)
        assert isinstance(command, DescribeTopic)
        return TopicDescribed(self.clock(), self.port.observe(command.place))


def _overwritten(step: RoutingStep, found: KeysObservation) -> bool:
    """Whether what a step has published is not in force any more, or was not what it is to be."""
    if step.kind is RoutingStepKind.ADD:
        return False
    return not published(step, found) or (step.kind is RoutingStepKind.SETTLE and _earlier(found))


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
