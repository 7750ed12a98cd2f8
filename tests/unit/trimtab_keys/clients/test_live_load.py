"""A topic's load as a thread reads it, and partitions that it has added, on a cluster that is made up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError, GroupAuthorizationFailedError, KafkaConnectionError

from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_keys.clients.live_load import LiveLoad
from trimtab_keys.clients.metadata_connection import TopicDescription
from trimtab_keys.clients.settings import LoadConfig


@dataclass
class Cluster:
    """A topic of three partitions and a group that has done everything; also the connection to it."""

    topic_id: str = "id"
    offsets: list[int] = field(default_factory=lambda: [10, 20, 30])
    done: dict[int, int] = field(default_factory=lambda: {0: 10, 1: 20, 2: 30})
    members_have: set[int] | None = field(default_factory=lambda: {0, 1, 2})
    trouble: Exception | None = None
    now: float = 100.0
    closed: bool = False

    def topic(self) -> TopicDescription:
        """The topic."""
        if self.trouble is not None:
            raise self.trouble
        return TopicDescription(self.topic_id, len(self.offsets))

    def ends(self, partitions: range) -> dict[int, int]:
        """Offsets behind the last records."""
        if self.trouble is not None:
            raise self.trouble
        return {one: self.offsets[one] for one in partitions}

    def committed(self, group: str) -> dict[int, int]:
        """Of the one group."""
        assert group == "readers"
        return dict(self.done)

    def assigned(self, group: str) -> set[int] | None:
        """What members have."""
        return None if self.members_have is None else set(self.members_have)

    def add_partition(self, count: int) -> None:
        """As a broker does: from one less only."""
        assert count == len(self.offsets) + 1
        self.offsets.append(0)

    def close(self) -> None:
        """Noted."""
        self.closed = True


@pytest.fixture
def cluster() -> Cluster:
    """A new one."""
    return Cluster()


_open: list[LiveLoad] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No thread is left."""
    yield
    while _open:
        _open.pop().close()


def begun(cluster: Cluster, **settings: Any) -> LiveLoad:
    """Read once by its thread; whatever more is read the test asks for."""
    given = {"max_partitions": 5, "interval_seconds": 3600.0, "capacity_per_second": 50.0} | settings
    load = LiveLoad(LoadConfig({}, "t", "readers", **given), lambda *_: cluster, lambda: cluster.now)
    _open.append(load)
    return load


def wait_for(caplog: pytest.LogCaptureFixture, words: str) -> None:
    """Wait until the thread has logged something."""
    until = time.monotonic() + 30
    while words not in caplog.text:
        assert time.monotonic() < until, f"not logged: {words}"
        time.sleep(0.01)


def test_the_constructor_returns_after_the_first_reading(cluster: Cluster) -> None:
    """Backlogs by the group's commits; all partitions are the hash's."""
    cluster.done[1] = 5
    seen = begun(cluster).load
    assert (seen.topic_id, seen.base, seen.in_use) == ("id", 3, 3)
    assert (seen.backlog, seen.rate, seen.capacity) == ([0, 15, 0], [0, 0, 0], [50, 50, 50])


def test_a_reading_that_fails_leaves_the_last_one_in_force(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Reset, so the producer's own counts are dropped; reported once, as is the recovery."""
    load = begun(cluster, interval_seconds=0.01)
    first = load.load
    cluster.trouble = KafkaConnectionError("no broker")
    wait_for(caplog, "holds")
    assert load.load is not first
    assert load.load.backlog == first.backlog
    cluster.trouble = None
    wait_for(caplog, "is read again")
    assert caplog.text.count("the last reading holds: KafkaConnectionError: no broker") == 1


def test_a_partition_is_added_on_request(cluster: Cluster) -> None:
    """One more; it is offered as spare once a member of the group has it."""
    load = begun(cluster)
    load.refresh()
    assert len(cluster.offsets) == 3, "nobody asked"
    load.request_partition(3)
    load.refresh()
    assert len(cluster.offsets) == 4
    load.refresh()
    assert load.partitions == 4
    assert len(load.load.backlog) == 3, "no consumer has it: its records would wait, or be skipped"
    assert cluster.members_have is not None
    cluster.members_have.add(3)
    load.refresh()
    assert len(load.load.backlog) == 3, "members are not asked for at each reading"
    cluster.now += 2
    load.refresh()
    assert (len(load.load.backlog), load.load.in_use, load.load.base) == (4, 3, 3)
    cluster.offsets[3] = 1
    load.refresh()
    assert load.load.in_use == 4


@pytest.mark.parametrize("told", ["commits", "no members"])
def test_a_partition_counts_as_read_by_commits_if_members_are_unknown(cluster: Cluster, told: str) -> None:
    """For a group of the newer protocol brokers report no members to this client."""
    load = begun(cluster)
    cluster.offsets.append(0)
    if told == "commits":
        cluster.done[3] = 0
    else:
        cluster.members_have = None
    cluster.now += 2
    load.refresh()
    assert len(load.load.backlog) == 4


def test_partitions_are_added_one_at_a_time_with_time_in_between_up_to_a_number(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Sixty seconds between additions, five partitions at most, which is reported once."""
    cluster.members_have = None
    load = begun(cluster)
    for after, count in ((0, 4), (59, 4), (1, 5), (60, 5), (60, 5)):
        cluster.now += after
        load.refresh()
        load.request_partition(len(cluster.offsets))
        load.refresh()
        load.refresh()
        assert len(cluster.offsets) == count
    assert caplog.text.count("no partition is added above max_partitions, 5") == 1


def test_no_partition_is_added_while_an_added_one_is_not_read(cluster: Cluster) -> None:
    """However long consumers take for it, and whichever client requests it."""
    load = begun(cluster)
    load.request_partition(3)
    load.refresh()
    for _ in range(5):
        cluster.now += 60
        load.request_partition(4)
        load.refresh()
    assert len(cluster.offsets) == 4


def test_a_partition_added_by_another_producer_counts(cluster: Cluster) -> None:
    """It is observed before one is added, and the time to the next starts with it."""
    cluster.members_have = None
    load = begun(cluster)
    cluster.offsets.append(0)
    load.request_partition(3)
    load.refresh()
    assert len(cluster.offsets) == 4
    load.request_partition(4)
    load.refresh()
    assert len(cluster.offsets) == 4
    cluster.now += 60
    load.request_partition(4)
    load.refresh()
    assert len(cluster.offsets) == 5


def test_a_client_that_does_not_know_all_partitions_is_ignored(cluster: Cluster) -> None:
    """It has not tried the one that was added for it, and the question before has had its answer."""
    cluster.members_have = None
    load = begun(cluster)
    load.request_partition(3)
    load.refresh()
    cluster.now += 60
    load.refresh()
    load.request_partition(3)
    load.refresh()
    assert len(cluster.offsets) == 4
    cluster.now += 60
    load.refresh()
    assert len(cluster.offsets) == 4, "nobody asked again"
    load.request_partition(3)
    load.refresh()
    assert len(cluster.offsets) == 4
    load.request_partition(4)
    load.refresh()
    assert len(cluster.offsets) == 5, "only that client's knowledge was in the way"


def test_no_partition_is_added_by_default(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """By default no partition is added to any topic."""
    load = begun(cluster, max_partitions=0)
    load.request_partition(3)
    load.refresh()
    assert len(cluster.offsets) == 3
    assert not caplog.text


def test_a_recreated_topic_is_another_one(cluster: Cluster) -> None:
    """Its offsets begin at 0, and its hash divides by what it has."""
    load = begun(cluster)
    cluster.topic_id, cluster.offsets, cluster.done = "other", [4, 0], {}
    cluster.now += 2
    load.refresh()
    assert (load.load.topic_id, load.load.base, load.load.backlog) == ("other", 2, [0, 0])
    cluster.offsets[0] += 10
    cluster.now += 60
    load.refresh()
    assert load.load.backlog == [10, 0], "what the group had done of the old topic is of no account"


def test_the_base_may_be_the_number_before_an_addition(cluster: Cluster) -> None:
    """Of a topic to which a partition was added; the last holds records."""
    assert begun(cluster, base=2).load.in_use == 3
    assert begun(cluster, base=2).load.base == 2
    cluster.offsets[2] = 0
    assert begun(cluster, base=2).load.in_use == 2


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"base": 4}, SettingsError, "base is 4, and topic t has 3 partitions: give at most"),
        ({"max_partitions": 2}, SettingsError, "max_partitions is 2, and topic t has 3 partitions already"),
        (
            {"trouble": KafkaConnectionError("none"), "start_seconds": 0.3},
            ConnectError,
            "group readers cannot be read .*none.*rights",
        ),
        ({"trouble": InputError("topic t: is not there")}, InputError, "topic t: is not there"),
    ],
)
def test_invalid_arguments_are_rejected_at_construction(
    cluster: Cluster, settings: dict[str, Any], error: type[Exception], told: str
) -> None:
    """And the connection is closed."""
    cluster.trouble = settings.pop("trouble", None)
    with pytest.raises(error, match=told):
        begun(cluster, **settings)
    assert cluster.closed


def test_the_first_reading_is_retried_if_that_may_help(cluster: Cluster) -> None:
    """The first group of a new cluster has no coordinator yet; rights that lack are lacking for good."""
    threading.Timer(0.1, lambda: setattr(cluster, "trouble", None)).start()
    cluster.trouble = CoordinatorNotAvailableError("not yet")
    assert begun(cluster).load.base == 3
    cluster.trouble = GroupAuthorizationFailedError("no right")
    with pytest.raises(ConnectError, match="no right"):
        begun(cluster, start_seconds=60.0)


def test_brokers_that_do_not_answer_are_not_waited_for_without_end() -> None:
    """The thread hangs in its request."""

    class Hanging(Cluster):
        """Says nothing for a while."""

        def topic(self) -> TopicDescription:
            """Wait until the test is over."""
            time.sleep(0.5)
            return super().topic()

    with pytest.raises(ConnectError, match=r"did not answer within 0.05 s; check bootstrap_servers"):
        begun(Hanging(), start_seconds=0.05)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"topic": ""}, "topic is empty"),
        ({"group": ""}, "group is empty"),
        ({"capacity_per_second": 0}, "capacity_per_second is 0, expected records a second above 0"),
        ({"interval_seconds": 0}, "interval_seconds is 0, expected seconds above 0"),
        ({"rate_seconds": float("inf")}, "rate_seconds is inf"),
        ({"commit_seconds": -1}, "commit_seconds is -1"),
        ({"start_seconds": 0}, "start_seconds is 0"),
        ({"add_seconds": 0}, "add_seconds is 0"),
        ({"base": 0}, "base is 0, expected 1 partition or more"),
        ({"max_partitions": -1}, r"max_partitions is -1, expected 0 \(never add\) or more"),
    ],
)
def test_load_settings_out_of_range_are_rejected(given: dict[str, Any], told: str) -> None:
    """With the setting, its value and what is expected."""
    with pytest.raises(SettingsError, match=rf"^LoadSettings\.{told}"):
        LoadConfig({}, **{"topic": "t", "group": "g"} | given)


def test_an_added_partition_is_logged(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Partitions can never be removed, so the addition is logged."""
    load = begun(cluster)
    load.request_partition(3)
    with caplog.at_level(logging.WARNING):
        load.refresh()
    assert "load of t: no partition tried was below the threshold, partition 3 was added" in caplog.text
