"""Hashes of this project against those of Kafka's own classes."""

import random
from pathlib import Path

import pytest

from support.kafka_classes import hashes_of
from trimtab_keys.core.load import PartitionLoadView
from trimtab_keys.core.policies import HashPartitioning
from trimtab_keys.core.routing import murmur2

pytestmark = pytest.mark.kafka


def test_a_hundred_thousand_keys_have_the_partition_of_the_java_client(tmp_path: Path) -> None:
    """Drawn bytes of every length up to 300, the signed hash and the partition of 24."""
    chance = random.Random(20261123)
    keys = [chance.randbytes(min(int(chance.expovariate(1 / 20)), 300)) for _ in range(100_000)]
    keys += [chance.randbytes(length) for length in range(301)]
    policy, view = HashPartitioning(), PartitionLoadView(24)
    ours = [(murmur2(key), policy.choose(key, view, chance.random)) for key in keys]
    theirs = hashes_of(keys, tmp_path)
    assert ours == [(hashed % 2**32, place) for hashed, place in theirs]
