"""What processes of queues and trimtab leave one another on a server: reports there, weights back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from uuid import uuid4

import msgspec
import pytest
from redis import Redis

from support.redis_server import Server
from trimtab.systems.redis.client import QueueServerClient, RedisConnection, open_server
from trimtab_common.errors import InputError
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.redis_streams.streams import RedisBackend
from trimtab_queues.format.documents import (
    HISTORY,
    RETENTION_SECONDS,
    ClassReport,
    ProcessReport,
    PublishedWeights,
    document,
    read_published,
)


@pytest.fixture
def reader(server: Server) -> Iterator[QueueServerClient]:
    """The server as commands reach it."""
    with open_server(RedisConnection(server.url, name=uuid4().hex)) as reader:
        yield reader


def _report(process: str, processed: int) -> ProcessReport:
    classes = {"vote": ClassReport(processed=processed, busy_seconds=0.5)}
    return ProcessReport(
        process=process, at=1.0, queue=None, queues=2, capacity=9, version=0, default_weight=1.0,
        policy="least_work_left", scheduling=None, classes=classes,
    )  # fmt: skip


def _published(
    version: int, settings: dict[str, float | str] | None = None, **weights: float
) -> PublishedWeights:
    return PublishedWeights(version=version, published_at=0.0, weights=weights, settings=settings or {})


def test_a_report_replaces_the_one_before_and_is_forgotten(server: Server, reader: QueueServerClient) -> None:
    """Two processes, each with its newest report; a process without a report for ten minutes
    is not listed.
    """

    async def story() -> None:
        backend = RedisBackend(server.url, reader.connection.name, [9, 9])
        for process, processed in (("p", 1), ("q", 5), ("p", 2)):
            assert await backend.exchange(process, document(_report(process, processed))) is None
        found = {one.process: one.classes["vote"].processed for one in reader.reports()}
        assert found == {"p": 2, "q": 5}
        with Redis.from_url(server.url) as client:
            assert 0 < client.ttl(reader.keys.report("p")) <= RETENTION_SECONDS
            client.zadd(reader.keys.processes, {"q": client.time()[0] - RETENTION_SECONDS - 1})
            client.set(reader.keys.report("x"), b"no report")
            client.zadd(reader.keys.processes, {"x": client.time()[0]})
        assert [one.process for one in reader.reports()] == ["p"]
        await backend.exchange("p", document(_report("p", 3)))
        with Redis.from_url(server.url) as client:
            assert client.zscore(reader.keys.processes, "q") is None
        await backend.close()

    asyncio.run(story())


def test_a_version_is_published_only_over_the_previous_one(reader: QueueServerClient) -> None:
    """Of two simultaneous publishers the second gets an error; the server retains the last
    hundred versions.
    """
    assert reader.published() is None
    assert not reader.publish(_published(2, vote=1.0))
    assert reader.publish(_published(1, vote=1.0))
    assert not reader.publish(_published(1, vote=2.0))
    found = reader.published()
    assert found is not None
    assert (found.version, found.weights) == (1, {"vote": 1.0})
    for version in range(2, HISTORY + 4):
        assert reader.publish(_published(version, vote=float(version)))
    assert [one.version for one in reader.history()] == list(range(4, HISTORY + 4))


def test_a_process_applies_published_settings_completely_or_not_at_all(
    server: Server, reader: QueueServerClient, caplog: pytest.LogCaptureFixture
) -> None:
    """An unreadable document, or one with an unknown setting, is reported once and changes nothing."""

    async def story() -> None:
        broker = BalancedBroker(server.url, name=reader.connection.name, queues=2, weights={"vote": 3.0})
        await broker.startup()
        assert reader.publish(_published(1, {"cycle_seconds": 20.0, "policy": "round_robin"}, vote=0.25))
        await broker.reporter.exchange()
        assert broker.scheduling is not None
        assert (broker.weight_of("vote"), broker.scheduling.cycle_seconds) == (0.25, 20.0)
        assert broker.policy.name == "round_robin"
        slips: list[dict[str, float | str]] = [{"no_such": 1.0}, {"cycle_seconds": -1.0}, {"policy": "none"}]
        for version, settings in enumerate(slips, 2):
            assert reader.publish(_published(version, settings, vote=9.0))
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                await broker.reporter.exchange()
                await broker.reporter.exchange()
            assert caplog.text.count("published weights stay as they are") == 1
            assert (broker.weight_of("vote"), broker.policy.name) == (0.25, "round_robin")
        with Redis.from_url(server.url) as client:
            client.set(reader.keys.published, b"{")
        await broker.reporter.exchange()
        assert broker.weight_of("vote") == 0.25
        await broker.shutdown()
        assert {one.version for one in reader.reports()} == {1}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"weights": {"vote": 0.0}}, "is no trimtab/queues-published/1"),
        ({"weights": {"vote": "much"}}, "is no trimtab/queues-published/1"),
        ({"more": 1}, "unknown field"),
        ({"format": "trimtab/queues-published/2"}, "use one that wrote it"),
    ],
)
def test_a_document_that_is_none_is_refused_by_name(change: dict[str, object], why: str) -> None:
    """A weight of zero would make every queue look empty."""
    whole = {**msgspec.json.decode(document(_published(1, vote=1.0))), **change}
    with pytest.raises(InputError, match=why):
        read_published(msgspec.json.encode(whole), "the published weights")
