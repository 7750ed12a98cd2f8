"""How the consumer on kafka-python handles a client that is joining its group."""

from __future__ import annotations

import inspect
from typing import Any

from kafka.coordinator.base import BaseCoordinator

from trimtab_keys.clients.kafka_python import JOIN_SECONDS, Consumer


class Joining:
    """A client whose coordinator loses its join state at each poll."""

    def __init__(self, polls_until_joined: int) -> None:
        self._coordinator = self
        self._left, self.rejoin_needed = polls_until_joined, False
        self.rejoining = polls_until_joined > 0
        self.timeouts_ms: list[int] = []

    def request_rejoin(self) -> None:
        """Note a request to join, like the coordinator of kafka-python."""
        self.rejoin_needed = True

    def poll(self, timeout_ms: int) -> dict[Any, Any]:
        """Return no records; the join advances only after a request."""
        self.timeouts_ms.append(timeout_ms)
        self._left -= self.rejoin_needed
        self.rejoining, self.rejoin_needed = self._left > 0, False
        raise TimeoutError


class Waiting:
    """The method of `OrderedConsumer` that a poll calls."""

    def poll_timeout(self, seconds: float) -> float:
        """The short time-out while records wait."""
        return 0.005


def polled(client: Joining) -> None:
    """Run a step up to its poll."""
    consumer: Any = Consumer.__new__(Consumer)
    consumer.client, consumer.receiving = client, Waiting()
    for _ in range(4):
        try:
            consumer.step()
        except TimeoutError:
            continue


def test_a_poll_requests_the_join_again_and_waits_for_it() -> None:
    """kafka-python 3.0.12 loses its join state if the group leader rejoins because partitions were added."""
    client = Joining(2)
    polled(client)
    assert not client.rejoining
    assert client.timeouts_ms == [int(JOIN_SECONDS * 1000)] * 2 + [5, 5]
    steady = Joining(0)
    polled(steady)
    assert steady.timeouts_ms == [5] * 4
    assert not steady.rejoin_needed


def test_the_client_still_has_its_join_state() -> None:
    """The retry uses private attributes of kafka-python, which another version may rename."""
    told = inspect.getsource(BaseCoordinator)
    assert "self.rejoining = True" in told
    assert "self.rejoining = False" in told
    assert callable(BaseCoordinator.request_rejoin)
