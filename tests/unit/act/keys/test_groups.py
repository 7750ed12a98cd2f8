"""All consumer groups that read a topic: who is waited for, who is refused, and what counts as passed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.keys_world import ORDERS, World, a_plan, carried_out
from trimtab.act.keys.executor import prepare, warnings
from trimtab.act.keys.machine import rebalancing, unguarded, unverified_reason
from trimtab.act.keys.state import (
    KeyClient,
    KeyConsumerGroup,
    KeysExecutionSettings,
    KeysExecutionState,
    KeysObservation,
    TablePublishingSettings,
)
from trimtab.model.errors import ActError

ALL = frozenset(range(4))
DONE = dict.fromkeys(range(8), 100)
AUDIT = KeyConsumerGroup("audit", DONE, {"a1": ALL})
NEWER = KeyConsumerGroup("audit", DONE, unlisted_reason="speaks the newer group protocol (KIP-848)")
DOWN = KeyConsumerGroup("audit", DONE)


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (AUDIT, "member a1 of group audit would break the order of keys that move"),
        (
            NEWER,
            "group audit speaks the newer group protocol .* vouch for them with --set "
            "execution.keys.allow_unverified",
        ),
        (DOWN, "group audit has commits on the topic and no members, .* or vouch for it with --set"),
    ],
)
def test_other_consumer_groups_are_checked_as_well(
    group: KeyConsumerGroup, told: str, tmp_path: Path
) -> None:
    """Though the load of the one that is named is balanced: refused at the start, waited for later."""
    world = World()
    world.more = (group,)
    with pytest.raises(ActError, match=told):
        carried_out(world, a_plan(), tmp_path)
    world.more = ()

    def watch(state: KeysExecutionState) -> None:
        world.more = (group,)

    state = carried_out(world, a_plan(), tmp_path, watch)
    assert (state.status, world.tables) == ("stopped", [])
    assert "group audit" in state.reason


def test_unknown_groups_are_rejected_before_the_topic_of_tables_is_created() -> None:
    """No heartbeat would change that; members without one are waited for."""
    world = World()
    world.there, world.more = False, (AUDIT,)
    (told,) = warnings(world, prepare(a_plan(), world.observe(ORDERS), False), KeysExecutionSettings(), None)
    assert "is made first" in told
    world.more = (NEWER,)
    with pytest.raises(ActError, match="group audit speaks the newer group protocol"):
        warnings(world, prepare(a_plan(), world.observe(ORDERS), False), KeysExecutionSettings(), None)


def test_a_member_that_waits_for_partitions_counts() -> None:
    """Without a guard it would break the order as soon as it gets some."""
    client = KeyClient("c1", "consumer", 0, True, "", "m1")
    group = KeyConsumerGroup("billing", DONE, {"m1": ALL, "idle": frozenset()})
    seen = KeysObservation("here", "id", groups=(group,), clients=(client,))
    assert seen.unguarded == ("member idle of group billing",)


@pytest.mark.parametrize("group", [NEWER, DOWN])
def test_unverified_groups_are_accepted_on_request(group: KeyConsumerGroup, tmp_path: Path) -> None:
    """For unobservable groups on request; offsets that they have not passed are still awaited."""
    world = World()
    world.more = (group,)
    state = carried_out(world, a_plan(max_partitions=8, capacity=50.0), tmp_path, allow_unverified=True)
    assert (state.status, len(world.tables)) == ("finished", 2)
    (tmp_path / "two").mkdir()
    world = World()
    world.more = (replace(group, committed={**DONE, 2: 99}),)
    state = carried_out(world, a_plan(), tmp_path / "two", allow_unverified=True)
    assert (state.status, len(world.tables)) == ("incomplete", 1)
    assert state.records[-1].reason == "group audit has not passed what was written before the table"


def test_a_rebalance_is_waited_for(tmp_path: Path) -> None:
    """Its members are unknown meanwhile: this is reported at the start, nothing is published, then all is
    done.
    """
    world = World()
    world.billing = lambda group: replace(group, assigned={}, rebalancing=True)
    settings = KeysExecutionSettings()
    seen = world.observe(ORDERS)
    (told,) = warnings(world, prepare(a_plan(), seen, False), settings, None)
    assert told == (
        "group billing is rebalancing, so that its members are not seen: nothing is published before that "
        "is over"
    )
    waited = []

    def watch(state: KeysExecutionState) -> None:
        if state.status == "waiting":
            assert world.tables == []
            waited.append(state.reason)
        if len(waited) > 5:
            world.billing = lambda group: group

    assert carried_out(world, a_plan(), tmp_path, watch).status == "finished"
    assert len(waited) == 6
    assert waited[0] == "group billing is rebalancing, so that its members are not seen"


def test_a_rebalance_that_does_not_end_stops_it(tmp_path: Path) -> None:
    """After `unhealthy_timeout_seconds`; nothing was published."""
    world = World()
    world.more = (KeyConsumerGroup("audit", DONE, rebalancing=True),)
    state = carried_out(world, a_plan(), tmp_path)
    assert (state.status, world.tables) == ("stopped", [])
    assert state.reason.startswith("group audit is rebalancing")


def test_a_group_without_members_is_not_one_that_has_all_partitions(tmp_path: Path) -> None:
    """Adding partitions causes a rebalance: no added partition is used in a table until members are listed
    again.
    """
    for gone in (
        lambda group: replace(group, assigned={}, rebalancing=True),
        lambda group: replace(group, assigned={}),
    ):
        world = World()

        def watch(state: KeysExecutionState, world: World = world, gone=gone) -> None:
            if world.partitions > 4:
                world.billing = gone

        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        state = carried_out(world, a_plan(max_partitions=8, capacity=50.0), folder, watch)
        assert (state.status, state.records[0].state, world.tables) == ("stopped", "failed", [])
        assert "to have partitions 4, 5 (group billing), for 120 s" in state.records[0].reason


def test_every_group_must_have_added_partitions() -> None:
    """Each group by a member and by a commit; unverified groups by observable commits."""
    billing = KeyConsumerGroup("billing", dict.fromkeys(range(6), 1), {"m1": frozenset(range(6))})
    seen = KeysObservation("here", "id", None, (0,) * 6, (9,) * 6, "billing", (billing,))
    assert seen.without_consumer(6, 4) == {}
    assert seen.without_consumer(7, 4) == {6: ["billing"]}
    audit = KeyConsumerGroup(
        "audit", dict.fromkeys(range(5), 1), {"a1": frozenset(range(4)), "a2": frozenset({5})}
    )
    assert replace(seen, groups=(billing, audit)).without_consumer(6, 4) == {4: ["audit"], 5: ["audit"]}
    newer = KeyConsumerGroup("audit", dict.fromkeys(range(5), 1), unlisted_reason="is of another type")
    both = replace(seen, groups=(billing, newer))
    assert both.without_consumer(6, 4) == {4: ["audit"], 5: ["audit"]}
    assert both.without_consumer(6, 4, vouched=True) == {5: ["audit"]}
    down = replace(seen, groups=(billing, KeyConsumerGroup("audit", {0: 1})))
    assert down.without_consumer(6, 4) == {4: ["audit"], 5: ["audit"]}
    assert down.without_consumer(6, 4, vouched=True) == {}
    assert replace(seen, groups=()).without_consumer(7, 4) == {6: []}


def test_an_offset_is_passed_once_every_group_has_passed_it(tmp_path: Path) -> None:
    """A group that lags keeps earlier places named, though the one that is named has long passed them."""
    lagging = KeyConsumerGroup("audit", {0: 40, 1: 100}, {"a1": frozenset({0, 1, 2})})
    seen = KeysObservation(
        "here", "id", None, (0, 7, 3), (100,) * 3, "billing", (KeyConsumerGroup("billing", DONE), lagging)
    )
    assert seen.passed == (40, 100, 3)
    assert seen.not_passed((40, 100)) == ()
    assert seen.not_passed((41, 100)) == ("audit",)
    world = World()
    world.more = (KeyConsumerGroup("audit", {**DONE, 3: 60}, {"m1": ALL}),)
    state = carried_out(world, a_plan(), tmp_path)
    assert (state.status, len(world.tables)) == ("incomplete", 1)
    assert world.tables[0].passed[3] <= 60
    assert state.records[1].reason == "group audit has not passed what was written before the table"


def test_all_groups_follow_before_it_is_settled(tmp_path: Path) -> None:
    """Once the other group has passed it as well, earlier places go."""
    world = World()
    world.more = (KeyConsumerGroup("audit", {**DONE, 3: 60}, {"m1": ALL}),)
    waited = []

    def watch(state: KeysExecutionState) -> None:
        if state.records[0].state == "done":
            waited.append(len(world.tables))
        if len(waited) > 9:
            world.more = (KeyConsumerGroup("audit", DONE, {"m1": ALL}),)

    assert carried_out(world, a_plan(), tmp_path, watch).status == "finished"
    assert waited[:9] == [1] * 9
    assert world.tables[-1].passed == (100,) * 4


def test_a_plan_whose_group_no_longer_reads_is_rejected() -> None:
    """It has neither commits nor members; who does read is named."""
    world = World()
    world.billing = lambda group: KeyConsumerGroup("billing")
    world.more = (AUDIT,)
    with pytest.raises(
        ActError, match=r"group 'billing' of the plan does not read .* any more \(audit does\)"
    ):
        prepare(a_plan(), world.observe(ORDERS), False)


def test_a_file_is_vouched_for_as_a_whole() -> None:
    """A confirmed override is not asked for again."""
    seen = KeysObservation(
        "here", "id", groups=(NEWER, replace(DOWN, rebalancing=True)), sends_heartbeats=False
    )
    vouching = KeysExecutionSettings(publishing=TablePublishingSettings(allow_unverified=True))
    assert [one(seen, vouching) for one in (unguarded, unverified_reason, rebalancing)] == ["", "", ""]
    assert "no heartbeats" in unguarded(seen, KeysExecutionSettings())
