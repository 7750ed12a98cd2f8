"""The order of Java's hash maps, held against what OpenJDK 17 gave back for the same keys."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.plan.pulsar.java import (
    ConcurrentHashMapKeys,
    concurrent_hash_map_order,
    copied_map_order,
    hash_map_order,
    java_hashes,
)


def numbers(brokers: list[str]) -> list[int]:
    """The i of each `broker-i:8080`."""
    return [int(broker[7:-5]) for broker in brokers]


def brokers(count: int) -> list[str]:
    """As many brokers."""
    return [f"broker-{i}:8080" for i in range(count)]


def test_texts_are_hashed_as_in_java() -> None:
    """'Aa' and 'BB' are known to have the same hash, 2112; spreading changes nothing in 16 bits."""
    assert java_hashes(["Aa", "BB", "", "a"]).tolist() == [2112, 2112, 0, 97]
    assert java_hashes([]).tolist() == []


def test_long_texts_run_over_and_are_spread() -> None:
    """The hash of 'hello world' is 1794106052, whose upper half is mixed into the lower."""
    assert java_hashes(["hello world"]).tolist() == [1794106052 ^ (1794106052 >> 16)]


def test_a_few_brokers_come_in_the_order_of_their_hashes() -> None:
    """Recorded from both of Java's maps."""
    assert numbers(hash_map_order(brokers(5))) == [2, 1, 3, 0, 4]
    assert numbers(concurrent_hash_map_order(brokers(5))) == [2, 1, 3, 0, 4]


def test_the_concurrent_map_grows_one_entry_earlier() -> None:
    """With twelve entries one map has 16 places and the other 32; recorded from Java."""
    assert numbers(hash_map_order(brokers(12))) == [5, 7, 2, 6, 9, 11, 1, 3, 0, 10, 4, 8]
    assert numbers(concurrent_hash_map_order(brokers(12))) == [7, 6, 9, 11, 1, 4, 5, 2, 3, 0, 10, 8]


def test_two_hundred_bundles_keep_their_order_of_java() -> None:
    """Recorded from Java, of which the concurrent map turns around entries of one place while it grows."""
    bundles = [f"t/n/0x{i << 24:08x}_0x{(i + 1) << 24:08x}" for i in range(200)]
    assert zlib.crc32(" ".join(hash_map_order(bundles)).encode()) == 2942666064
    assert zlib.crc32(" ".join(concurrent_hash_map_order(bundles)).encode()) == 3033647090


def test_a_map_that_survives_neither_shrinks_nor_restarts() -> None:
    """Five brokers left of twelve come as in a table of 32; one that returns is put behind its equals."""
    twelve = ConcurrentHashMapKeys().after(brokers(12))
    assert twelve.table == 32
    five = twelve.after(brokers(5))
    assert (five.table, numbers(list(five.names))) == (32, [1, 4, 2, 3, 0])
    assert five.names != tuple(concurrent_hash_map_order(brokers(5)))
    equals = [name for name in brokers(400) if java_hashes([name])[0] % 16 == 3][:2]
    first = ConcurrentHashMapKeys().after(equals)
    assert first.after(equals[1:]).after(equals).names == tuple(reversed(equals))
    assert first.after(equals) is first


def test_a_full_map_grows_at_the_next_key() -> None:
    """Eleven keys have 16 places; the twelfth makes them 32, also long after."""
    eleven = ConcurrentHashMapKeys().after(brokers(11))
    assert (eleven.table, eleven.after(brokers(12)).table) == (16, 32)


@pytest.mark.parametrize(
    ("count", "recorded"),
    [
        (10, [7, 6, 9, 1, 4, 5, 2, 3, 0, 8]),
        (11, [7, 1, 4, 5, 2, 10, 8, 6, 9, 3, 0]),
        (21, [7, 19, 11, 1, 17, 14, 4, 5, 16, 2, 10, 13, 8, 12, 15, 6, 9, 20, 3, 0, 18]),
        (22, [19, 14, 4, 21, 5, 13, 12, 15, 20, 18, 7, 11, 1, 17, 16, 2, 10, 8, 6, 9, 3, 0]),
    ],
)
def test_a_copy_of_a_map_is_larger_than_the_map(count: int, recorded: list[int]) -> None:
    """Recorded from Java: a `ConcurrentHashMap` made of another has an order of its own."""
    names = concurrent_hash_map_order(brokers(count))
    assert numbers(copied_map_order(names, names)) == recorded
    left = names[::2]
    assert set(copied_map_order(names, left)) == set(left)


def test_an_emptied_map_keeps_its_size() -> None:
    """Five brokers left of twenty come in another order than five that were always alone."""
    assert hash_map_order(brokers(5), most=20) != hash_map_order(brokers(5))
    assert hash_map_order(brokers(5), most=12) == hash_map_order(brokers(5))


@settings(deadline=None)
@given(st.lists(st.text(st.characters(max_codepoint=126, min_codepoint=33), max_size=12), unique=True))
def test_no_key_is_lost_or_doubled(keys: list[str]) -> None:
    """For any keys, both orders contain each of them once."""
    assert sorted(hash_map_order(keys)) == sorted(keys)
    assert sorted(concurrent_hash_map_order(keys)) == sorted(keys)
