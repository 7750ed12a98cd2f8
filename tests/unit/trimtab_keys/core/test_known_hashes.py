"""Which partitioner puts keys where they lie, held against librdkafka itself."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka
import pytest

from trimtab_keys.core.routing import HASH_SOURCE, HASHES, matching_partitioner

PARTITIONS = 4
"""Of a topic that librdkafka's cluster in memory makes when it is asked for."""
DRAW = random.Random(7)
KEYS = [
    *(b"user %d" % one for one in range(150)),
    *(DRAW.randbytes(DRAW.randrange(1, 40)) for _ in range(50)),
]


def lying(partitioner: str) -> dict[bytes, int]:
    """Keys, with the partition that librdkafka puts each in."""
    found: dict[bytes, int] = {}

    def told(error: Any, message: Any) -> None:
        assert error is None
        found[message.key()] = message.partition()

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": "", "test.mock.num.brokers": 1, "partitioner": partitioner, "log_level": 0}
    )
    for key in KEYS:
        producer.produce("orders", b"", key, on_delivery=told)
    assert not producer.flush(30)
    return found


@pytest.mark.parametrize("name", HASHES)
def test_the_partitioner_of_a_client_is_recognised(name: str) -> None:
    """Each key is where its hash puts it, and no other known hash does."""
    found = lying(name)
    assert found == {key: HASHES[name](key) % PARTITIONS for key in KEYS}
    assert matching_partitioner(list(found.items()), PARTITIONS) == name
    assert name in HASH_SOURCE


def test_nine_of_ten_keys_are_enough_and_fewer_are_not() -> None:
    """Some keys may lie where a table before put them; keys at random fit no partitioner."""
    right = [(b"%d" % one, HASHES["fnv1a_random"](b"%d" % one) % 7) for one in range(90)]
    wrong = [(key, (place + 1) % 7) for key, place in right]
    assert matching_partitioner(right + wrong[:10], 7) == "fnv1a_random"
    assert matching_partitioner(right + wrong[:11], 7) is None
    assert matching_partitioner(wrong, 7) is None
    assert matching_partitioner([], 7) is None
    assert matching_partitioner([(b"", 3)], 7) is None, "an empty key goes anywhere"
