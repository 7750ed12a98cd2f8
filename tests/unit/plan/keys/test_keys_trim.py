"""Routing tables worked out by hand, and what every plan keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.key_snapshots import a_key, a_snapshot
from trimtab.files.keys.formats import PLAN_FORMAT
from trimtab.files.keys.settings import KeysSettings
from trimtab.model.keys import KeysPlan, KeysSnapshot, RoutingMoveKind, reverted
from trimtab.model.plan import Verdict
from trimtab.plan.keys.trim import plan_keys

SETTINGS = KeysSettings()
FINE = {0: 20.0, 4: 5.0, 8: 5.0, 12: 5.0, 16: 5.0, 1: 20.0, 2: 20.0, 3: 20.0}
"""40, 20, 20 and 20 records a second over four partitions, mean 25; to nine tenths of ε: 22.75 to 27.25."""
HOT = {0: 90.0, **{group: 10.0 for group in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}}
"""Group 0 is one key. Partitions get 120, 30, 30, 30; mean 52.5."""


def changes(plan: KeysPlan) -> list[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    """What moves from where to where, in order."""
    return [(str(one.kind), one.name, one.before, one.after) for one in plan.moves]


def test_groups_move_until_partitions_are_balanced() -> None:
    """12.75 too much in partition 0, room for 7.25 elsewhere: the largest that fits; at last the smallest."""
    plan = plan_keys(a_snapshot(FINE), SETTINGS)
    assert changes(plan) == [
        ("move_group", "16", (0,), (1,)),
        ("move_group", "12", (0,), (2,)),
        ("move_group", "4", (0,), (3,)),
    ]
    assert plan.verdict is Verdict.BALANCED
    assert (plan.cost.groups, plan.cost.records_per_second) == (3, 15.0)
    # 40 - 1.1 · 25
    assert plan.bound.records_per_second == pytest.approx(12.5)
    assert plan.predicted.after.worst_deviation == {"records": 0.0}
    assert [one.after_per_second for one in plan.drains] == [25.0] * 4


def test_a_deviation_within_epsilon_causes_no_moves() -> None:
    """27.4 with a mean of 25 is beyond nine tenths of ε, and within ε: no move starts for that."""
    rates = {0: 25.4, 4: 2.0, 1: 24.2, 2: 24.2, 3: 24.2}
    plan = plan_keys(a_snapshot(rates), SETTINGS)
    assert (plan.verdict, plan.moves) == (Verdict.BALANCED, ())


def test_a_group_larger_than_the_band_is_reported() -> None:
    """60, 20, 20, 20 in groups of 30, 20 and 10: the best there is leaves 40 and 20 about a mean of 30."""
    plan = plan_keys(a_snapshot({0: 30.0, 4: 20.0, 8: 10.0, 1: 20.0, 2: 20.0, 3: 20.0}), SETTINGS)
    assert [(name, after) for _, name, _, after in changes(plan)] == [("8", (1,)), ("4", (2,))]
    assert plan.verdict is Verdict.IMPROVED
    assert [one.kind for one in plan.problems] == ["unmet_goal"]
    assert ": 33.3% from the mean against epsilon 10%" in plan.problems[0].text


def test_a_large_group_changes_places_with_smaller_ones() -> None:
    """Partition 0 has 16 and 16, and no other room for 16: partition 1 takes one, and gives 11 and 4 away."""
    rates = {0: 16.0, 4: 16.0, 1: 11.0, 5: 4.0, 9: 8.0, 2: 22.5, 3: 22.5}
    plan = plan_keys(a_snapshot(rates), SETTINGS)
    assert changes(plan) == [
        ("move_group", "0", (0,), (1,)),
        ("move_group", "1", (1,), (0,)),
        ("move_group", "5", (1,), (2,)),
    ]
    assert [one.after_per_second for one in plan.drains] == [27.0, 24.0, 26.5, 22.5]
    assert plan.verdict is Verdict.BALANCED
    few = plan_keys(a_snapshot(rates), replace(SETTINGS, max_groups=1))
    assert few.moves == (), "what only the third move makes better is not begun"
    assert plan_keys(a_snapshot(FINE), replace(SETTINGS, max_groups=0)).moves == ()


def test_a_hot_key_is_split_and_groups_make_room() -> None:
    """90 records/s where half of a consumer's 100 may be: two partitions, 45 each; then 75, 75, 30, 30."""
    plan = plan_keys(a_snapshot(HOT, a_key("ann", 0, 90.0, 0), capacity=100.0), SETTINGS)
    assert changes(plan)[0] == ("split_key", "ann", (0,), (0, 1))
    assert [(before, after) for _, _, before, after in changes(plan)[1:]] == [
        ((0,), (2,)), ((1,), (3,)), ((0,), (2,)), ((1,), (3,))
    ]  # fmt: skip
    assert [one.after_per_second for one in plan.drains] == [55.0, 55.0, 50.0, 50.0]
    assert plan.verdict is Verdict.BALANCED
    assert plan.cost.records_per_second == pytest.approx(45 + 40)


@pytest.mark.parametrize(
    ("rate", "after"),
    [(51.0, None), (49.0, None), (26.0, None), (24.0, (0,)), (101.0, (0, 1, 2))],
)
def test_a_split_key_is_left_alone_between_two_limits(rate: float, after: tuple[int, ...] | None) -> None:
    """Split over two by half of 100; together again below a quarter; over three above two halves."""
    even = {group: 100.0 for group in (1, 2, 3, 4)}
    snapshot = a_snapshot({**even, 0: rate}, a_key("ann", 0, rate, 0, 1), capacity=100.0)
    found = [one.after for one in plan_keys(snapshot, SETTINGS).moves if one.kind is RoutingMoveKind.KEY]
    assert found == ([] if after is None else [after])


def test_a_key_is_not_split_onto_partitions_that_are_full() -> None:
    """Half of its 60 records/s would make any other partition the fullest, with 150 instead of 120."""
    rates = {0: 60.0, 4: 60.0, 1: 120.0, 2: 120.0, 3: 120.0}
    plan = plan_keys(a_snapshot(rates, a_key("ann", 0, 60.0, 0), capacity=100.0), SETTINGS)
    assert [one for one in plan.moves if one.kind is RoutingMoveKind.KEY] == []


def test_one_key_can_be_more_than_a_consumer_does() -> None:
    """It is still split, and the remaining excess is reported with figures."""
    plan = plan_keys(a_snapshot(HOT, a_key("ann", 0, 90.0, 0), capacity=80.0), SETTINGS)
    (problem,) = (one for one in plan.problems if one.kind == "serial_key")
    assert problem.text.startswith(
        "one key is more than one consumer can do serially: ann gets 90 records/s, a consumer does 80"
    )
    assert problem.proof == {"records_per_second": 90.0, "capacity": 80.0}
    assert changes(plan)[0][3] == (0, 1, 2)


def test_partitions_are_added_if_nothing_else_helps() -> None:
    """210 records/s, 48 of a consumer at θ: five; up to the cap, else the plan states how many
    are missing.
    """
    snapshot = a_snapshot(HOT, capacity=60.0)
    added = plan_keys(snapshot, replace(SETTINGS, max_partitions=8))
    assert changes(added)[0] == ("add_partitions", "orders", (4,), (5,))
    assert (added.partitions, added.cost.partitions) == (5, 1)
    refused = plan_keys(snapshot, SETTINGS)
    assert (refused.partitions, refused.verdict) == (4, Verdict.INFEASIBLE)
    (problem,) = (one for one in refused.problems if one.kind == "add_partitions")
    assert problem.count == 1


def test_no_partition_is_added_so_soon_after_the_last() -> None:
    """Four minutes after an addition the plan states when to plan again; after ten it adds."""
    settings = replace(SETTINGS, max_partitions=8)
    soon = plan_keys(a_snapshot(HOT, capacity=60.0, added_seconds=240.0), settings)
    assert soon.partitions == 4
    (problem,) = (one for one in soon.problems if one.kind == "add_partitions")
    assert problem.count == 1
    assert "some were added 240 s ago, and keys.cooldown_seconds is 600" in problem.text
    assert "plan again in 360 s" in problem.text
    for after in (a_snapshot(HOT, capacity=60.0, added_seconds=600.0), a_snapshot(HOT, capacity=60.0)):
        assert plan_keys(after, settings).partitions == 5


def test_missing_consumers_are_reported_if_some_have_several_partitions() -> None:
    """180 records/s want four consumers at 48; there are two, with two partitions each."""
    rates = {group: 45.0 for group in range(4)}
    snapshot = a_snapshot(rates, capacity=30.0, consumer_capacity=60.0)
    plan = plan_keys(snapshot, replace(SETTINGS, max_partitions=8))
    assert (plan.problems[0].kind, plan.problems[0].count) == ("add_consumers", 4)
    assert plan.cost.partitions == 0


def test_keys_that_are_hashed_are_not_split() -> None:
    """A table must name the key; this is reported, and nothing else is done for it."""
    snapshot = a_snapshot(HOT, a_key("hmac:12", 0, 90.0, 0), capacity=100.0, hashed=True)
    plan = plan_keys(snapshot, SETTINGS)
    assert RoutingMoveKind.KEY not in {one.kind for one in plan.moves}
    assert "hashed_keys" in {one.kind for one in plan.problems}


def test_backlogs_drain_with_the_consumers_spare_capacity() -> None:
    """1,000 records wait; 100 can be done and 120 come: never. With 55 a second: 22.2 seconds."""
    snapshot = a_snapshot(HOT, a_key("ann", 0, 90.0, 0), capacity=100.0)
    waiting = (replace(snapshot.partitions[0], backlog=1000), *snapshot.partitions[1:])
    drain = plan_keys(replace(snapshot, partitions=waiting), SETTINGS).drains[0]
    assert (drain.backlog, drain.drain_before_seconds) == (1000, None)
    assert drain.drain_after_seconds == pytest.approx(1000 / 45)


def test_an_idle_topic_is_left_alone() -> None:
    """One record a second with consumers of a hundred: uneven, and harmless."""
    plan = plan_keys(a_snapshot({0: 1.0}, a_key("ann", 0, 1.0, 0, share=1.0), capacity=100.0), SETTINGS)
    assert (plan.verdict, plan.moves) == (Verdict.BALANCED, ())


def test_an_inverted_plan_restores_the_original_places() -> None:
    """Moves the other way round; partitions that were added stay, and it is a plan as files have it."""
    snapshot = a_snapshot(HOT, capacity=60.0)
    plan = plan_keys(snapshot, replace(SETTINGS, max_partitions=8))
    back = reverted(plan)
    assert [(one.name, one.before, one.after) for one in back.moves] == [
        (one.name, one.after, one.before) for one in plan.moves[1:]
    ]
    assert back.partitions == 5


RATES = st.dictionaries(st.integers(0, 1023), st.floats(0.01, 500.0), min_size=1, max_size=60)


def applied(snapshot: KeysSnapshot, plan: KeysPlan, rates: Mapping[int, float]) -> KeysSnapshot:
    """The snapshot as it will be once the plan is followed, as a reading would find it."""
    places = {int(one.name): one.after[0] for one in plan.moves if one.kind is RoutingMoveKind.GROUP}
    keys = {one.name: one.after for one in plan.moves if one.kind is RoutingMoveKind.KEY}
    home = {key.key: (places.get(key.group, key.group % 4),) for key in snapshot.keys}
    routed = [replace(key, partitions=keys.get(key.key, home[key.key])) for key in snapshot.keys]
    return a_snapshot(rates, *routed, capacity=snapshot.capacity, places=places)


@settings(max_examples=60)
@given(rates=RATES, hot=st.floats(0.0, 2000.0), capacity=st.sampled_from([None, 50.0, 300.0, 5000.0]))
def test_every_plan_satisfies_its_invariants(
    rates: dict[int, float], hot: float, capacity: float | None
) -> None:
    """Nothing is lost, the fullest gets no fuller, nothing moves twice, what is balanced is left alone."""
    rates = {**rates, 7: hot}
    snapshot = a_snapshot(rates, a_key("hot", 7, hot, 3), capacity=capacity)
    plan = plan_keys(snapshot, SETTINGS)
    assert plan == plan_keys(snapshot, SETTINGS)
    before = [one.before_per_second for one in plan.drains]
    after = [one.after_per_second for one in plan.drains]
    assert sum(after) == pytest.approx(sum(rates.values()))
    assert max(after) <= max(before) * (1 + 1e-9)
    names = [(one.kind, one.name) for one in plan.moves]
    assert len(set(names)) == len(names)
    assert plan.bound.records_per_second <= plan.cost.records_per_second * (1 + 1e-9)
    end = applied(snapshot, plan, rates)
    assert [one.records_per_second for one in end.partitions] == pytest.approx(after, abs=1e-6)
    if plan.verdict is Verdict.BALANCED:
        assert plan_keys(end, SETTINGS).moves == ()


@settings(max_examples=20)
@given(rates=RATES)
def test_plans_come_back_from_files_as_they_are(rates: dict[int, float], tmp_path_factory) -> None:
    """Written and read: the same; also with everything in it that a plan can have."""
    plan = plan_keys(a_snapshot({**rates, 0: 900.0}, a_key("hot", 0, 900.0, 0), capacity=300.0), SETTINGS)
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    PLAN_FORMAT.write(plan, path)
    assert PLAN_FORMAT.read(path) == plan
