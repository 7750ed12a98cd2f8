"""The router of a producer beside its records, with a simulated follower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trimtab_common.errors import InputError
from trimtab_keys.clients import table_router as module
from trimtab_keys.clients.metadata_connection import TopicDescription
from trimtab_keys.clients.ordered_producer import Headers
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.clients.table_router import TableRouter
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import PublishedTable

SPLIT = {b"hot": Route((0, 1))}


class Beside:
    """A follower that has read nothing yet, and whose thread is the test."""

    table: PublishedTable | None = None
    description: TopicDescription | None = TopicDescription("id", 3)
    recreated: str | None = None

    def __init__(self, *_: Any) -> None:
        self.stopped = False

    def start(self) -> None:
        """Nothing begins."""

    def stop(self) -> None:
        """It ends."""
        self.stopped = True


class Side:
    """Answers what is asked of the topic."""

    def ends(self, partitions: list[int]) -> dict[int, int]:
        """Nothing was written."""
        return dict.fromkeys(partitions, 0)


class Client:
    """A client with a full queue, until it is flushed; or one that takes nothing at all."""

    quiet = False

    def __init__(self, deaf: bool = False) -> None:
        self.asked, self.room, self._deaf = 0, False, deaf

    def may_hold_unsent_record(self) -> bool:
        """Nobody does."""
        return False

    def flush(self, seconds: float) -> bool:
        """There is room afterwards."""
        self.room = True
        return True

    def partitions(self, desired: int) -> int:
        """As many as anybody asks for."""
        return max(3, desired)

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        """Refuse it at once, as a full queue does."""
        self.asked += 1
        assert self.asked < 100, "for ever"
        if self._deaf or not self.room:
            failed()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread, no cluster."""
    monkeypatch.setattr(module, "TableFollower", Beside)


def turn(guide: TableRouter, table: RoutingTable | None, partitions: int = 3) -> str | None:
    """The reason why a table is not followed."""
    published = None if table is None else PublishedTable("t", "id", table)
    return guide._turn(published, TopicDescription("id", partitions), Side())  # type: ignore[arg-type]


def split(client: Client) -> TableRouter:
    """A producer whose hot key is split, two records of which have failed."""
    guide = TableRouter(RoutingConfig({}), "t", "c", client)
    client.room = True
    assert turn(guide, RoutingTable(1, 3, 3, {}, SPLIT)) is None
    client.room = False
    for _ in range(2):
        number, _, stamp = guide.sending.begin(b"hot")
        guide.sending.failed(b"hot", stamp)
        guide.sending.end(number)
    return guide


def test_a_table_of_another_base_is_not_followed() -> None:
    """Keys that it does not name would go elsewhere than where this producer has been sending them."""
    guide = TableRouter(RoutingConfig({}), "t", "c", Client())
    told = turn(guide, RoutingTable(1, 4, 4, {}, {}), partitions=4)
    assert told == (
        "table 1 divides by 4 partitions, this producer by 3 since it began without a table; start it anew"
    )
    assert guide.sending.version == 0


def test_a_table_of_more_partitions_than_there_are_is_not_followed() -> None:
    """Its topic was recreated, or it was made for another."""
    guide = TableRouter(RoutingConfig({}), "t", "c", Client())
    told = turn(guide, RoutingTable(1, 3, 5, {}, {b"hot": Route((4,))}))
    assert "names 5 partitions, the topic has 3" in str(told)
    assert guide.sending.version == 0


def test_added_partitions_without_a_table_are_reported_with_both_remedies() -> None:
    """A new process would divide by more; it cannot know, and this one can."""
    guide = TableRouter(RoutingConfig({}), "t", "c", Client())
    assert turn(guide, None) is None
    told = str(turn(guide, None, partitions=4))
    assert "has 4 partitions now, and this producer's hash divides by the 3 that it began with" in told
    assert "give base=3 in RoutingConfig, or publish a table" in told


def test_a_configured_base_is_not_reported() -> None:
    """It is what the next run divides by as well."""
    guide = TableRouter(RoutingConfig({}, base=2), "t", "c", Client())
    assert guide.sending.base == 2
    assert turn(guide, None, partitions=4) is None


def test_close_sends_fillers_that_a_full_queue_rejected() -> None:
    """Flushed in between, or the last streams would wait for their gap."""
    client = Client()
    guide = split(client)
    guide.close()
    assert client.asked == 4
    assert guide.sending.fill_gap(client) == 0


def test_close_ends_although_the_client_rejects_all_fillers() -> None:
    """A deleted topic accepts nothing; two attempts are enough."""
    client = Client(deaf=True)
    guide = split(client)
    guide.close()
    assert client.asked == 4


def test_a_recreated_topic_receives_nothing() -> None:
    """The fences name offsets of the old topic."""
    guide = TableRouter(RoutingConfig({}), "t", "c", Client())
    guide.check()
    guide.follower.recreated = "other"
    with pytest.raises(InputError, match="deleted and made anew"):
        guide.check()
    guide.sending.plain[b"cold"] = 1
    assert turn(guide, RoutingTable(1, 4, 4, {}, {}), partitions=4) is None
    assert not guide.sending.plain, "who looks there first would not be refused"
