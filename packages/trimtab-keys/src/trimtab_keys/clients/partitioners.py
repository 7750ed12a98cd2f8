"""Key policies as partitioners of clients; they keep the order of keys only as far as the policy does."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection
from functools import partial
from typing import Protocol

from trimtab_common.errors import InputError, SettingsError
from trimtab_keys.clients.settings import LoadConfig
from trimtab_keys.core.load import PartitionLoadView, SentRecordCounts, TopicLoad
from trimtab_keys.core.policies import Chance, KeyPolicy, KeyPolicyInputs, OverloadOptimisation, policy_named
from trimtab_keys.core.routing import Hashes, group_count


class LoadSource(Protocol):
    """What a partitioner needs of a topic's load; `LiveLoad` reads it from brokers."""

    settings: LoadConfig
    load: TopicLoad
    partitions: int

    def request_partition(self, known: int) -> None:
        """Record that a policy found no partition below its threshold."""
        ...


class PolicyPartitioner:
    """A policy as a callable for aiokafka and kafka-python 2, and for confluent-kafka's `partition=`.

    Moving and splitting keys without breaking their order needs headers, which a partitioner cannot write.
    The producers of this package can.

    Parameters
    ----------
    policy
        Name of a key policy.
    values
        Arguments of the policy.
    seed
        Seed for ties and for records without a key.
    load
        The load of the topic, a `LiveLoad`; the partitioner is then for this topic only. None: the policy
        uses the records sent by this producer.

    Raises
    ------
    SettingsError
        If there is no such policy, an argument is missing, or it needs a load and has none.
    """

    def __init__(
        self,
        policy: str = "hash",
        values: KeyPolicyInputs | None = None,
        seed: int | None = None,
        load: LoadSource | None = None,
    ) -> None:
        self._made = partial(policy_named, policy, values)
        # One for each number of partitions: a producer may send to topics of several, by turns, and a policy
        # keeps what it found of a view.
        self._by_count: dict[int, tuple[KeyPolicy, PartitionLoadView, range]] = {}
        self._chance, self._lock = random.Random(seed).random, threading.Lock()
        self._load, self._topic = load, None if load is None else _LoadedTopic(self._made(), load.load)
        if load is None and self._made().needs_load:
            raise SettingsError(
                f"policy {policy!r} goes by the load of partitions and was given none, so that it would be "
                "the plain hash: give load=LiveLoad(LoadSettings(connection, topic, group))"
            )

    def __call__(
        self, key: bytes | None, all_partitions: Collection[int], available: Collection[int] | None = None
    ) -> int:
        """The partition of a record.

        Parameters
        ----------
        key
            The serialised key.
        all_partitions
            All partitions, in any order: aiokafka does not sort them.
        available
            Partitions with a leader. They are ignored, because a key must not change its partition with them.

        Raises
        ------
        InputError
            If the client knows fewer partitions than the number by which the hash of the topic divides.
        """
        with self._lock:
            count = len(all_partitions)
            if self._load is not None:
                return self._by_load(self._load, key, count)
            known = self._by_count.get(count)
            if known is None:
                known = self._by_count[count] = self._made(), PartitionLoadView(count), range(count)
            policy, view, whole = known
            place = policy.choose(key, view, self._chance)
        # A range is told from another at once; a set or a list is gone through.
        if all_partitions == whole or max(all_partitions) < count:
            return place
        return sorted(all_partitions)[place]

    def _by_load(self, load: LoadSource, key: bytes | None, count: int) -> int:
        seen, topic = load.load, self._topic
        assert topic is not None
        if seen.topic_id != topic.load.topic_id:
            topic = self._topic = _LoadedTopic(self._made(), seen)
        if count < seen.base:
            raise InputError(
                f"topic {load.settings.topic} has {seen.base} partitions, and the client gave {count}: this "
                "partitioner is for that topic alone"
            )
        place, wanted = topic.choose(key, seen, count, self._chance)
        if wanted:
            load.request_partition(count)
        return place


class _LoadedTopic:
    """A policy with its view of one topic, kept up to date by observations of it."""

    def __init__(self, policy: KeyPolicy, observation: TopicLoad) -> None:
        self.load, self._known = observation, 0
        self._policy, self._view = policy, PartitionLoadView(observation.base)
        self._contents: SentRecordCounts | None = None
        if isinstance(policy, OverloadOptimisation) and policy.settings.uses_content:
            self._contents = SentRecordCounts(group_count(observation.base), policy.settings.isc == "literal")
        self._hashes = Hashes()

    def choose(
        self, key: bytes | None, observation: TopicLoad, known: int, chance: Chance
    ) -> tuple[int, bool]:
        """The partition of a record, and whether the policy asked for one more."""
        view = self._view
        if observation is not self.load or known != self._known:
            self.load, self._known = observation, known
            view.observe(observation, known)
            if self._contents is not None:
                view.content[:] = self._contents.histograms(len(view))
                view.keys[:] = self._contents.keys(len(view))
        wanted = view.requested_partitions
        place = self._policy.choose(key, view, chance)
        if self._contents is not None and key is not None:
            self._contents.count(place, self._hashes[key])
        return place, view.requested_partitions > wanted
