"""What kafka-python's consumer does about its client on the way into a group."""

from __future__ import annotations

import inspect
from typing import Any

from kafka.coordinator.base import BaseCoordinator

from trimtab_keys.clients.kafka_python import JOIN_SECONDS, Consumer


class Joining:
    """As much of a client as a poll asks for; its coordinator forgets that it joins at each poll."""

    def __init__(self, polls_until_joined: int) -> None:
        self._coordinator = self
        self._left, self.rejoin_needed = polls_until_joined, False
        self.rejoining = polls_until_joined > 0
        self.timeouts_ms: list[int] = []

    def request_rejoin(self) -> None:
        """As the coordinator's own."""
        self.rejoin_needed = True

    def poll(self, timeout_ms: int) -> dict[Any, Any]:
        """Nothing comes, and without a reminder nothing goes on."""
        self.timeouts_ms.append(timeout_ms)
        self._left -= self.rejoin_needed
        self.rejoining, self.rejoin_needed = self._left > 0, False
        raise TimeoutError


class Waiting:
    """As much of `OrderedConsumer` as a poll asks for."""

    def poll_timeout(self, seconds: float) -> float:
        """Something waits."""
        return 0.005


def polled(client: Joining) -> None:
    """A step as far as its poll."""
    consumer: Any = Consumer.__new__(Consumer)
    consumer.client, consumer.receiving = client, Waiting()
    for _ in range(4):
        try:
            consumer.step()
        except TimeoutError:
            continue


def test_a_client_that_joins_is_reminded_of_it_and_waited_for() -> None:
    """kafka-python 3.0.12 forgets it where the leader of the group joins because partitions were added."""
    client = Joining(2)
    polled(client)
    assert not client.rejoining
    assert client.timeouts_ms == [int(JOIN_SECONDS * 1000)] * 2 + [5, 5]
    steady = Joining(0)
    polled(steady)
    assert steady.timeouts_ms == [5] * 4
    assert not steady.rejoin_needed


def test_the_client_still_has_its_join_state() -> None:
    """The reminder goes by what is no part of its interface: another version may name it otherwise."""
    told = inspect.getsource(BaseCoordinator)
    assert "self.rejoining = True" in told
    assert "self.rejoining = False" in told
    assert callable(BaseCoordinator.request_rejoin)
