"""Hashes and ranges: the article's examples, Pulsar's edges, and what must hold of any split."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.bundles.snapshot import (
    FULL_UPPER,
    BundleRange,
    bundle_positions,
    bundles_between,
    initial_boundaries,
    namespace_of,
    overlapping,
    parse_bundle,
    topic_hash,
    topic_hashes,
)
from trimtab_common.errors import InputError


def test_the_articles_hashes_are_in_its_bundles() -> None:
    """0x0000000F is in the first of two bundles, 0x80000000 already in the second."""
    hashes = np.array([0x0000000F, 0x80000000], dtype=np.uint32)
    assert bundle_positions([0, 0x80000000, 0xFFFFFFFF], hashes).tolist() == [0, 1]


def test_the_highest_hash_is_in_the_last_bundle() -> None:
    """Ranges are open above, but for the last: else the topic of hash 0xffffffff would be nowhere."""
    last = np.array([0xFFFFFFFE, 0xFFFFFFFF], dtype=np.uint32)
    assert bundle_positions([0, 0x80000000, 0xFFFFFFFF], last).tolist() == [1, 1]
    assert BundleRange("t/n", 0x80000000, FULL_UPPER).holds(FULL_UPPER)
    assert not BundleRange("t/n", 0, 0x80000000).holds(0x80000000)


def test_a_name_is_hashed_as_guava_hashes_it() -> None:
    """Guava's crc32 of the UTF-8 bytes is the standard one; 0xCBF43926 is its published check value."""
    assert topic_hash("123456789") == 0xCBF43926
    assert topic_hash("persistent://t/n/überall") == zlib.crc32("persistent://t/n/überall".encode())


def test_four_bundles_is_how_a_namespace_begins() -> None:
    """Pulsar's default: boundaries at the quarters, the last at 0xffffffff and not one above."""
    assert initial_boundaries(4) == (0, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF)
    assert initial_boundaries(1) == (0, 0xFFFFFFFF)


def test_a_remainder_of_three_bundles_belongs_to_the_last_bundle() -> None:
    """2^32 is not divisible by three; Pulsar cuts off the fraction and the last bundle has what is left."""
    assert initial_boundaries(3) == (0, 0x55555555, 0xAAAAAAAA, 0xFFFFFFFF)


@pytest.mark.parametrize("count", [0, -1, 2**32])
def test_no_namespace_has_so_many_bundles(count: int) -> None:
    """Zero bundles, or more than there are hashes, are refused by name."""
    with pytest.raises(InputError, match=f"{count} bundles asked for"):
        initial_boundaries(count)


@given(st.integers(1, 5000), st.lists(st.integers(0, FULL_UPPER), min_size=1, max_size=50))
def test_every_hash_is_in_exactly_one_bundle(count: int, hashes: list[int]) -> None:
    """The binary search finds the one bundle that holds the hash, however the namespace was divided."""
    bundles = bundles_between("t/n", initial_boundaries(count))
    found = bundle_positions(initial_boundaries(count), np.array(hashes, dtype=np.uint32))
    for position, number in zip(found.tolist(), hashes, strict=True):
        assert [at for at, bundle in enumerate(bundles) if bundle.holds(number)] == [position]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=20))
def test_many_names_hash_as_one_by_one(names: list[str]) -> None:
    """The fast way for a million names gives the same hashes."""
    assert topic_hashes(names).tolist() == [topic_hash(name) for name in names]


@pytest.mark.parametrize(
    "key",
    ["t/n/0x00000000_0x40000000", "t/n/0xc0000000_0xffffffff", "pulsar/c1/h:8080/0x00000000_0xffffffff"],
)
def test_a_key_is_read_back_unchanged(key: str) -> None:
    """Keys are read and written alike, also those of heartbeat namespaces in the old form."""
    assert parse_bundle(key).key == key
    assert namespace_of(key) == key.rpartition("/")[0]


@pytest.mark.parametrize(
    "key",
    [
        "t/n/0x0_0x40000000",
        "t/n/0x00000000_0X40000000",
        "t/n/0x00000000_0xFFFFFFFF",
        "n/0x00000000_0x40000000",
        "t/n/0x40000000_0x40000000",
        "t/n/0x40000000_0x00000000",
        "",
    ],
)
def test_an_invalid_bundle_is_rejected(key: str) -> None:
    """Short, upper-case, tenant-less, empty and reversed ranges are named in the message."""
    with pytest.raises(InputError, match="bundle"):
        parse_bundle(key)


def test_a_bundle_of_one_hash_cannot_be_split() -> None:
    """`hi - lo > 1`: two hashes can be parted, one cannot."""
    assert BundleRange("t/n", 4, 6).can_split
    assert not BundleRange("t/n", 4, 5).can_split


def test_neighbours_do_not_overlap() -> None:
    """Sharing a boundary is not sharing a topic, nor is the same range in another namespace."""
    middle = BundleRange("t/n", 10, 20)
    assert not middle.overlaps(BundleRange("t/n", 20, 30))
    assert not middle.overlaps(BundleRange("t/other", 10, 20))
    assert middle.overlaps(BundleRange("t/n", 19, 21))
    assert middle.overlaps(BundleRange("t/n", 12, 13))


def test_overlapping_ranges_are_found_with_the_innermost_whole() -> None:
    """A bundle, its half and a quarter of that, all in one: each part with the innermost whole."""
    whole, half, quarter = (BundleRange("t/n", 0, high) for high in (400, 200, 100))
    others = [BundleRange("t/n", 400, 500), BundleRange("t/m", 0, 400), BundleRange("t/n", 100, 200)]
    found = list(overlapping([quarter, *others, half, whole]))
    assert found == [(whole, half), (half, quarter), (half, others[2])]
    crossing = BundleRange("t/n", 399, 401)
    assert (whole, crossing) in list(overlapping([whole, half, crossing]))
    assert list(overlapping([whole, *others[:2]])) == []
