"""Murmur2 and what is derived from it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2 as of_the_client

from trimtab_keys.core import routing as module
from trimtab_keys.core.routing import Hashes, mix_bits, murmur2, partition_choices


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_that_kafkas_own_test_expects(data: bytes, signed: int) -> None:
    """The values of `UtilsTest.testMurmur2` in Kafka."""
    assert murmur2(data) == signed % 2**32


@given(st.binary(max_size=400))
def test_the_hash_is_that_of_the_python_client(data: bytes) -> None:
    """Of any length, also beyond the words unpacked in one step."""
    assert murmur2(data) == of_the_client(data)


def test_neither_long_nor_many_keys_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte is hashed and forgotten; what is remembered is cleared at the limit."""
    monkeypatch.setattr(module, "MAX_CACHED_KEYS", 3)
    hashes = Hashes()
    for long in (b"x" * 65, b"x" * 2**20):
        assert hashes[long] == murmur2(long) & 0x7FFFFFFF
        assert not hashes
    for number in range(3):
        assert hashes[b"%d" % number] == murmur2(b"%d" % number) & 0x7FFFFFFF
    assert len(hashes) == 3
    assert hashes[b"fourth"] == murmur2(b"fourth") & 0x7FFFFFFF
    assert list(hashes) == [b"fourth"]


@given(st.integers(0, 2**31 - 1), st.integers(1, 40), st.integers(1, 40))
def test_places_are_distinct_and_begin_with_the_hash(h: int, count: int, among: int) -> None:
    """Fewer places are the beginning of more."""
    found = partition_choices(h, min(count, among), among)
    assert found[0] == h % among
    assert len(set(found)) == len(found) == min(count, among)
    assert all(0 <= one < among for one in found)
    assert partition_choices(h, 1, among) == found[:1]


def test_each_place_is_second_and_third_equally_often() -> None:
    """Over 7,000 keys in seven partitions each is expected 1,000 times, with a deviation of 29."""
    found = [partition_choices(mix_bits(number) >> 1, 3, 7) for number in range(7000)]
    for turn in range(3):
        counts = Counter(one[turn] for one in found)
        assert all(abs(count - 1000) < 5 * 29 for count in counts.values())
