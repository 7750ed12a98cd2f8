"""What no table can do: keys of a megabyte, more than a broker takes, keys that lie elsewhere or are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.key_snapshots import a_key, a_snapshot
from trimtab.act.keys.machine import with_routes
from trimtab.files.keys.formats import SNAPSHOT_FORMAT
from trimtab.files.keys.settings import KeysSettings
from trimtab.model.keys import HotKey, KeysPlan, KeysSnapshot, RoutingMoveKind, reverted
from trimtab.model.plan import Problem, Verdict
from trimtab.plan.keys import rebalance
from trimtab.plan.keys.rebalance import SPLIT_KEY_BYTES, TABLE_BYTES, TableCapacity
from trimtab.plan.keys.trim import plan_keys
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import PublishedTable, table_bytes

SETTINGS = KeysSettings()
HOT = {0: 90.0, **{group: 10.0 for group in range(1, 13)}}
"""Group 0 is one key. Partitions get 120, 30, 30, 30."""
BROKERS_TAKE = 1_048_588
"""Bytes of a record, `message.max.bytes` as brokers have it unless told otherwise."""


def problem(plan: KeysPlan, kind: str) -> Problem:
    """The one of a kind."""
    (found,) = (one for one in plan.problems if one.kind == kind)
    return found


def split(plan: KeysPlan) -> list[str]:
    """Keys that are split."""
    return [one.name for one in plan.moves if one.kind is RoutingMoveKind.KEY]


@pytest.mark.parametrize("name", ["k" * 2**20, "0x" + "ff" * 2**20], ids=["text", "bytes"])
def test_a_key_of_a_megabyte_is_not_split_and_is_abbreviated(name: str) -> None:
    """A table with it would be larger than what brokers take; sentences show its beginning."""
    snapshot = a_snapshot(HOT, a_key(name, 0, 90.0, 0), capacity=80.0)
    plan = plan_keys(snapshot, SETTINGS)
    assert split(plan) == []
    assert plan.verdict is not Verdict.BALANCED
    long = problem(plan, "long_key")
    assert f"{name[:40]}… ({len(name):,} characters) is to be split and has 1,048,576 bytes" in long.text
    assert "give its records a shorter key" in long.text
    assert long.proof == {"key_bytes": 2**20, "most_bytes": SPLIT_KEY_BYTES}
    assert f"serially: {name[:40]}… (" in problem(plan, "serial_key").text
    assert all(len(one.text) < 600 for one in plan.problems)


def test_the_longest_key_that_is_split() -> None:
    """By its bytes, not by its characters."""
    for name, there in (("k" * 1024, True), ("k" * 1025, False), ("ü" * 512, True), ("ü" * 513, False)):
        plan = plan_keys(a_snapshot(HOT, a_key(name, 0, 90.0, 0), capacity=100.0), SETTINGS)
        assert split(plan) == ([name] if there else [])


def test_a_long_split_key_is_merged_again() -> None:
    """A table published by other means may contain one; removing it needs no space."""
    name = "k" * 2000
    snapshot = a_snapshot({0: 10.0, 1: 90.0, 2: 90.0, 3: 90.0}, a_key(name, 0, 10.0, 0, 1), capacity=100.0)
    (move,) = (one for one in plan_keys(snapshot, SETTINGS).moves if one.kind is RoutingMoveKind.KEY)
    assert (move.before, move.after) == ((0, 1), (0,))


def test_more_hot_keys_than_a_record_of_a_broker_holds() -> None:
    """Of a thousand keys of 1,000 bytes the hottest are split: as many as brokers take in one table."""
    count = 1000
    rates = {group: 60.0 + (count - group) / count for group in range(count)}
    keys = [a_key(f"{group:04}".ljust(1000, "k"), group, rates[group], 0) for group in range(count)]
    snapshot = a_snapshot(rates, *keys, capacity=100.0, places=dict.fromkeys(range(count), 0))
    plan = plan_keys(snapshot, SETTINGS)
    names = split(plan)
    assert names == [one.key for one in keys[: len(names)]], "the hottest first"
    told = next(one for one in plan.problems if one.kind == "large_table")
    assert told.text.startswith(
        f"{count - len(names)} keys are not split, the first {keys[len(names)].key[:40]}…"
    )
    assert "more than 786,432 bytes" in told.text
    assert len(told.text) < 600
    routes = {f"{one.kind}/{one.name}": one.after for one in plan.moves}
    before = RoutingTable(1, 4, 4, {group: Route((0,)) for group in range(count) if group % 4})
    table = replace(with_routes(before, routes, 4), passed=(2**60,) * 4)
    written = len(table_bytes(PublishedTable("t" * 249, "id", table)))
    assert 0.9 * TABLE_BYTES < written <= TABLE_BYTES < BROKERS_TAKE


def test_entries_of_the_table_in_force_count_for_its_size() -> None:
    """A group that is elsewhere, and a key that is split."""
    plain = TableCapacity.remaining(a_snapshot(HOT, a_key("ann", 0, 90.0, 0))).left
    assert TableCapacity.remaining(a_snapshot(HOT, places={4: 1})).left == plain - 80
    assert TableCapacity.remaining(a_snapshot(HOT, a_key("ann", 0, 90.0, 0, 1))).left == plain - 84


def test_groups_move_as_far_as_a_table_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the three that would have to."""
    fine = {0: 20.0, 4: 5.0, 8: 5.0, 12: 5.0, 16: 5.0, 1: 20.0, 2: 20.0, 3: 20.0}
    monkeypatch.setattr(rebalance, "TABLE_BYTES", 1024 + 4 * 21 + 2 * 80)
    plan = plan_keys(a_snapshot(fine), SETTINGS)
    assert len(plan.moves) == 2
    assert "only 2 key groups move: the table" in problem(plan, "large_table").text
    assert plan.verdict is Verdict.IMPROVED


def test_partitions_are_added_with_room_to_grow() -> None:
    """225 records/s want five at 48; six leave room, so that 8 % more ask for none again."""
    settings = replace(SETTINGS, max_partitions=8)

    def planned(total: float, count: int) -> KeysPlan:
        rates = {group: total / 60 for group in range(60)}
        return plan_keys(a_snapshot(rates, capacity=60.0, base=count), settings)

    within = planned(191.0, 4)
    assert (within.partitions, within.problems) == (4, ()), "within θ, though above nine tenths of it"
    added = planned(225.0, 4)
    assert added.partitions == 6
    assert "5 consumers are needed" in added.moves[0].reason.text
    assert added.moves[0].reason.text.endswith(
        "adds partitions up to 6, which leaves room to grow (62% of a consumer each)"
    )
    assert planned(243.0, 6).partitions == 6
    few = plan_keys(a_snapshot({0: 225.0}, capacity=60.0), replace(SETTINGS, max_partitions=5))
    assert few.partitions == 5
    assert "add_partitions" not in {one.kind for one in few.problems}, "enough for θ"


def without_keys(*loads: float, keys: tuple[HotKey, ...] = (), groups: dict[int, float]) -> KeysSnapshot:
    """A snapshot in which partitions get more than their key groups have."""
    found = a_snapshot(groups, *keys)
    share = 1 - sum(groups.values()) / sum(loads)
    extra = (*found.quality.extra, ("x_keyless_share", share))
    parts = tuple(
        replace(one, records_per_second=rate) for one, rate in zip(found.partitions, loads, strict=True)
    )
    return replace(found, quality=replace(found.quality, extra=extra), partitions=parts)


def test_records_without_a_key_are_reported_as_the_cause() -> None:
    """100 of 110 records/s have none: to blame its largest group, of five, would be wrong."""
    snapshot = without_keys(110.0, 10.0, 10.0, 10.0, groups={0: 5.0, 4: 5.0, 1: 10.0, 2: 10.0, 3: 10.0})
    told = problem(plan_keys(snapshot, SETTINGS), "unmet_goal").text
    assert "100 of its 100 records/s have no key: they go where their producers send them" in told
    assert "largest key group" not in told


def test_the_part_of_a_split_key_is_not_without_a_key() -> None:
    """Partition 0 has half of ann's 100, a group of 50, and 10 without a key."""
    snapshot = without_keys(
        110.0, 60.0, 10.0, 10.0, keys=(a_key("ann", 0, 100.0, 0, 1),), groups={0: 150.0, 2: 10.0, 3: 10.0}
    )
    told = problem(plan_keys(snapshot, replace(SETTINGS, max_groups=0)), "unmet_goal").text
    assert "its largest key group has 50 records/s" in told


def test_a_topic_without_any_key_is_planned() -> None:
    """Nothing to move, and why."""
    plan = plan_keys(without_keys(100.0, 10.0, 10.0, 10.0, groups={}), SETTINGS)
    assert (plan.moves, plan.verdict) == ((), Verdict.INCOMPLETE)
    assert "100 of its 100 records/s have no key" in problem(plan, "unmet_goal").text
    level = plan_keys(without_keys(10.0, 10.0, 10.0, 10.0, groups={}), SETTINGS)
    assert (level.moves, level.problems, level.verdict) == ((), (), Verdict.BALANCED)


def test_how_full_the_fullest_partition_is_and_will_be() -> None:
    """40, 20, 20, 20 become 25 each; what is added counts after, not before."""
    fine = {0: 20.0, 4: 5.0, 8: 5.0, 12: 5.0, 16: 5.0, 1: 20.0, 2: 20.0, 3: 20.0}
    plan = plan_keys(a_snapshot(fine), SETTINGS)
    assert plan.max_over_mean == pytest.approx((1.6, 1.0))
    more = plan_keys(a_snapshot(HOT, capacity=60.0), replace(SETTINGS, max_partitions=8))
    assert more.cost.partitions == 1
    found = more.max_over_mean
    assert found is not None
    assert found[0] == pytest.approx(120 / 52.5)
    assert found[1] == pytest.approx(max(one.after_per_second for one in more.drains) / 42)
    assert reverted(plan).max_over_mean is None


PLACED = Path(__file__).with_name("placed-by-another-hash.json")
"""Partitions as records arrive that CRC-32 placed, and key groups as murmur2 has them."""


def told(share: float, **extra: Any) -> KeysSnapshot:
    """A snapshot of uneven partitions with what a reading tells of where records lie."""
    found = a_snapshot(HOT)
    named = tuple((f"x_{name}", value) for name, value in extra.items())
    more = (*found.quality.extra, ("x_placed_share", share), *named)
    return replace(found, quality=replace(found.quality, extra=more))


def test_a_topic_that_contradicts_the_hash_is_not_planned() -> None:
    """As a snapshot without the share has it: the fullest contradiction is named, and nothing moves."""
    plan = plan_keys(SNAPSHOT_FORMAT.read(PLACED), SETTINGS)
    assert (plan.moves, plan.verdict) == ((), Verdict.INCOMPLETE)
    (found,) = plan.problems
    assert found.kind == "another_partitioner"
    assert found.text.startswith(
        "partition 1 gets 55 records/s and its key groups have 78: 82.0% of the records with a key or fewer "
        "lie where murmur2, the plain hash, puts them, less than keys.min_placed_share (90%): producers go "
        "by another partitioner. By a table nearly all keys would change their partition at once. Let all"
    )


def test_keys_that_lie_elsewhere_are_not_planned() -> None:
    """The plan states their number, the matching partitioner, and an example."""
    plan = plan_keys(
        told(0.25, partitioner="consistent_random", elsewhere=["user 3", 1, 3]),
        replace(SETTINGS, max_partitions=8),
    )
    assert (plan.moves, plan.verdict, plan.partitions) == ((), Verdict.INCOMPLETE, 4)
    (found,) = plan.problems
    assert "25.0% of the records with a key lie where murmur2, the plain hash, puts them" in found.text
    assert (
        "another partitioner: consistent_random fits (CRC-32, the default of librdkafka: confluent-kafka, "
        "kcat, node-rdkafka, Go, .NET); key user 3 lies in partition 1, not in 3. By a table" in found.text
    )
    assert found.proof == {
        "min_placed_share": 0.9, "placed_share": 0.25, "partitioner": "consistent_random"
    }  # fmt: skip
    unknown = plan_keys(replace(told(0.89, partitioner=""), version=7), SETTINGS).problems[0].text
    assert "lie where table 7 puts them" in unknown
    assert "another partitioner, and no known one fits. By a table" in unknown


def test_a_few_keys_that_lie_elsewhere_stop_no_plan() -> None:
    """The limit is a setting; what is read of the time before a table contradicts the snapshot as well."""
    assert plan_keys(told(0.9), SETTINGS).moves
    assert plan_keys(told(0.1), replace(SETTINGS, min_placed_share=0.0)).moves
    doubtful = SNAPSHOT_FORMAT.read(PLACED)
    assert plan_keys(doubtful, replace(SETTINGS, min_placed_share=0.8)).moves
    quality = replace(doubtful.quality, extra=(("x_placed_share", 1.0),))
    assert plan_keys(replace(doubtful, quality=quality), SETTINGS).moves
