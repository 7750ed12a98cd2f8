"""Key policies on examples that were worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import cycle

import pytest

from trimtab_keys.core.load import PartitionLoadView, least_loaded
from trimtab_keys.core.policies import (
    AdaptivePartition,
    BoundedLoads,
    DChoices,
    HashPartitioning,
    KeyGroups,
    PartialKeyGrouping,
    RandomPartition,
    RoundRobinPartition,
    SpaceSaving,
    StickyPartition,
    WChoices,
    choices,
)
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, mix_bits, murmur2, partition_choices


def drawing(*numbers: float) -> Callable[[], float]:
    """A generator that draws these numbers, again and again."""
    turn: Iterator[float] = cycle(numbers)
    return lambda: next(turn)


def hash_of(key: bytes) -> int:
    """Without its sign."""
    return murmur2(key) & POSITIVE


def view_of(*load: float) -> PartitionLoadView:
    """A view of partitions that hold so many records."""
    view = PartitionLoadView(len(load))
    view.reset_counts(load)
    return view


def key_in(partitions: int, home: int, second: int | None = None) -> bytes:
    """A key of that home, and of that second choice."""
    for number in range(100_000):
        key = b"k%d" % number
        h = hash_of(key)
        other = (home + 1 + mix_bits(h) % (partitions - 1)) % partitions if partitions > 1 else home
        if h % partitions == home and second in (None, other):
            return key
    raise AssertionError


def test_the_hash_is_that_of_the_java_client() -> None:
    """Of key 21 it is -973932308: without its sign 1173551340, 0 over 5 partitions and 12 over 24."""
    assert hash_of(b"21") == 1173551340
    assert HashPartitioning().choose(b"21", PartitionLoadView(5), drawing(0.5)) == 0
    assert HashPartitioning().choose(b"21", PartitionLoadView(24), drawing(0.5)) == 12
    assert HashPartitioning().choose(None, PartitionLoadView(4), drawing(0.5)) == 2


def test_the_hash_keeps_its_base_when_partitions_are_added() -> None:
    """The key stays, and what is without a key may go to the new partition."""
    view = PartitionLoadView(5, spare=1)
    assert view.add() == 5
    assert HashPartitioning().choose(b"21", view, drawing(0.99)) == 0
    assert HashPartitioning().choose(None, view, drawing(0.99)) == 5
    assert view.add() is None
    assert view.requested_partitions == 1


def test_random_and_round_robin_ignore_the_key() -> None:
    """The first of the round is drawn."""
    view = PartitionLoadView(4)
    chance = drawing(0.5, 0.0, 0.99)
    assert [RandomPartition().choose(b"a", view, chance) for _ in range(3)] == [2, 0, 3]
    in_turn = RoundRobinPartition()
    assert [in_turn.choose(b"a", view, drawing(0.5)) for _ in range(5)] == [2, 3, 0, 1, 2]


def test_a_batch_sticks_and_the_next_is_drawn() -> None:
    """Keys in between are hashed and end no batch."""
    policy, view, chance = StickyPartition(batch_records=2), PartitionLoadView(4), drawing(0.5, 0.0)
    assert [policy.choose(key, view, chance) for key in (None, b"21", None, None, None)] == [2, 0, 2, 0, 0]


def test_adaptive_weighs_by_the_room_below_the_fullest() -> None:
    """Loads 0, 3 and 1 weigh 4, 1 and 3: below 4/8 the first, below 5/8 the second, else the third."""
    for draw, place in ((0.0, 0), (0.49, 0), (0.5, 1), (0.62, 1), (0.625, 2), (0.999, 2)):
        assert AdaptivePartition(1).choose(None, view_of(0, 3, 1), drawing(draw)) == place


def test_pkg_takes_the_lighter_of_two_and_draws_among_equals() -> None:
    """A key with home 1 and second choice 3, of four partitions; 0 and 2 are empty, and not considered."""
    key, policy = key_in(4, 1, 3), PartialKeyGrouping()
    assert policy.choose(key, view_of(0, 5, 0, 6), drawing(0.4)) == 1
    assert policy.choose(key, view_of(0, 6, 0, 5), drawing(0.9)) == 3
    assert policy.choose(key, view_of(0, 5, 0, 5), drawing(0.4)) == 3
    assert policy.choose(key, view_of(0, 5, 0, 5), drawing(0.6)) == 1
    assert policy.choose(key_in(1, 0), PartitionLoadView(1), drawing(0.4)) == 0


def test_space_saving_with_two_counters() -> None:
    """Of X Y Y Z the first two are counted, then Z takes over X with its count of 1; a further Y makes 3."""
    sketch = SpaceSaving(2)
    assert [sketch.add(key) for key in (b"X", b"Y", b"Y", b"Z")] == [1, 1, 2, 2]
    assert sketch.count == {b"Y": 2, b"Z": 2}
    sketch.add(b"Y")
    assert sketch.head(0.5) == [(b"Y", 0.6)]
    assert sketch.head(0.4) == [(b"Y", 0.6), (b"Z", 0.4)]


def test_space_saving_bounds_every_count() -> None:
    """Never too low, at most observed / counters too high, and no key above that share is missing."""
    chance, exact = random.Random(5), dict.fromkeys(range(200), 0)
    sketch = SpaceSaving(20)
    for _ in range(5000):
        number = min(int(chance.paretovariate(0.8)), 199)
        exact[number] += 1
        sketch.add(b"%d" % number)
    assert sum(sketch.count.values()) == sketch.total == 5000
    for number, count in exact.items():
        counted = sketch.count.get(b"%d" % number)
        assert counted is not None or count <= 5000 / 20
        assert counted is None or count <= counted <= count + 5000 / 20


@pytest.mark.parametrize(("head", "d"), [([], 2), ([0.1], 2), ([0.3], 6), ([0.6], 10)])
def test_d_is_the_least_that_finds_room(head: list[float], d: int) -> None:
    """One key over ten partitions; three tenths need six choices, six tenths all ten.

    d=2: b=10-10·.9²=1.9; .3+.19²·.7=.325 > .190. d=3: b=2.71; .3+.0734·.7=.351 > .271. d=4: b=3.439;
    .3+.1183·.7=.383 > .344. d=5: b=4.095; .3+.1677·.7=.417 > .4096. d=6: b=4.686; .3+.2196·.7=.454 <= .469.
    """
    assert choices(head, 10) == d


def test_load_of_the_other_head_keys_counts_for_the_bound() -> None:
    """Two keys of .15 over ten: the first alone fits with d=2, the two together do not.

    d=2, h=1: b=1.9; .15+.0361·.15+.0361·.7=.181 <= .190. h=2: b=10-10·.9⁴=3.439; .3+.1183·.7=.383 > .344.
    d=3, h=1: b=2.71; .15+.271³·.15+.0734·.7=.204; h=2: b=10-10·.9⁶=4.686; .3+.2196·.7=.454 <= .469.
    """
    assert choices([0.15, 0.15], 10) == 3


def test_rarer_keys_of_the_head_take_room_from_the_first() -> None:
    """Shares .35, .05 and .05 over five: without the two last d = 3 would do.

    d=3, h=1: b=5-5·.8³=2.44, within .488; .35+.488³·.1+.488²·.55=.4926 > .488; without .1162·.1 it is .481.
    """
    assert choices([0.35, 0.05, 0.05], 5) == 4


def test_the_head_may_go_everywhere_and_the_tail_to_two() -> None:
    """A key with all records so far is in the head: W-Choices finds the empty partition, PKG would not."""
    key = key_in(6, 1, 3)
    view = view_of(9, 9, 9, 9, 9, 0)
    assert WChoices().choose(key, view, drawing(0.0)) == 5
    rare, policy = key_in(6, 1, 3), WChoices(head=0.5)
    for _ in range(9):
        policy.choose(b"frequent", PartitionLoadView(6), drawing(0.0))
    assert policy.choose(rare, view_of(9, 9, 9, 8, 9, 0), drawing(0.0)) == 3


def test_d_choices_go_to_d_places_of_the_key() -> None:
    """With one key alone d is all partitions; with twenty even keys over ten, two."""
    alone = DChoices()
    assert alone.choose(b"a", view_of(*[3] * 9, 0), drawing(0.0)) == 9
    assert alone.d == 10
    # A key of three tenths needs six choices (worked out above); EVERY records later d is solved for anew.
    policy, view = DChoices(head=0.2), PartitionLoadView(10)
    for number in range(3000):
        policy.choose(b"hot" if number % 10 < 3 else b"cold %d" % number, view, random.Random(number).random)
    assert policy.d == 6
    went = {policy.choose(b"hot", view, random.Random(number).random) for number in range(500)}
    assert went == set(partition_choices(hash_of(b"hot"), 6, 10))


def test_bounded_loads_keep_every_partition_below_the_bound() -> None:
    """One key alone over four partitions, the bounds ceil(1.25·m/4): 1 1 1 2 2 2 3 3.

    Its own partition takes the first record, the next two on the ring one each; with a bound of 2 the same
    three take one more each, with a bound of 3 the first two: 3, 3, 2 and none.
    """
    policy, view = BoundedLoads(epsilon=0.25), PartitionLoadView(4)
    went = [policy.choose(b"hot", view, drawing(0.5)) for _ in range(8)]
    assert went == [*went[:3], *went[:3], *went[:2]]
    assert sorted(view.load) == [0, 2, 3, 3]


def test_a_full_partition_hands_on_clockwise() -> None:
    """The ring as it is defined: a hundred hashes of "partition:point" each, the key's own stirred once."""
    ring = sorted((murmur2(b"%d:%d" % (place, point)), place) for place in range(4) for point in range(100))
    at = mix_bits(hash_of(b"hot"))
    owners = [place for where, place in ring if where >= at] + [place for where, place in ring if where < at]
    policy, view = BoundedLoads(epsilon=0.25), PartitionLoadView(4)
    went = [policy.choose(b"hot", view, drawing(0.5)) for _ in range(3)]
    assert went == list(dict.fromkeys(owners))[:3]


def test_bounded_loads_move_few_keys_when_a_partition_is_added() -> None:
    """From 10 to 11 partitions about a eleventh moves; under a hash over the number ten elevenths would."""
    before, after = BoundedLoads(1e9), BoundedLoads(1e9)
    keys = [b"key %d" % number for number in range(2000)]
    few, more = PartitionLoadView(10), PartitionLoadView(11)
    moved = [
        (old, new)
        for key in keys
        if (old := before.choose(key, few, drawing(0))) != (new := after.choose(key, more, drawing(0)))
    ]
    assert {new for _, new in moved} == {10}
    assert 100 < len(moved) < 300


def test_the_table_moves_groups_and_splits_keys() -> None:
    """A key of a group that moved, one of a group that did not, and a hot one that has two partitions."""
    moved, stays = key_in(4, 1), key_in(4, 2)
    group = hash_of(moved) % 1024
    table = RoutingTable(1, 4, 6, {group: Route((5,))}, {b"hot": Route((3, 4))})
    policy, view = KeyGroups(table), PartitionLoadView(4, spare=2)
    view.add(), view.add()
    assert policy.group(moved) == group
    assert policy.choose(moved, view, drawing(0)) == 5
    assert policy.choose(stays, view, drawing(0)) == 2
    assert [policy.choose(b"hot", view, drawing(0.9)) for _ in range(3)] == [4, 3, 4]
    assert policy.choose(None, view, drawing(0.99)) == 5


def test_the_least_of_equals_is_drawn() -> None:
    """Partitions 2, 0 and 3 hold 1, 1 and 2: each of the equals has half of the draws."""
    assert [least_loaded([1, 0, 1, 2], (2, 0, 3), draw) for draw in (0.0, 0.49, 0.5, 0.99)] == [2, 2, 0, 0]
    assert least_loaded([1, 0, 1, 2], range(4), 0.99) == 1
