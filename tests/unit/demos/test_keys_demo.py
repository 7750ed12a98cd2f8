"""The figures of the demo of keys, worked out by hand, and the load that it draws."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from demos.keys import (
    CONSUMER_PER_SECOND,
    FULLEST,
    KEY_DISTRIBUTION,
    PARTITIONS,
    RATE,
    _helped,
    followed_text,
    names_drawn,
)
from demos.keys_records import AppliedRecords, draw_records, following, records_in
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.format import ClientHeartbeat, PublishedTable, heartbeat_bytes, table_bytes
from trimtab_keys.format import heartbeat_record_key as beat_key
from trimtab_keys.format import table_record_key as table_key


def effects(path: Path, *rows: tuple[bytes, float, int, float]) -> AppliedRecords:
    """Records by key, time of sending, partition and time of effect, as the file of effects has them."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE effects (place INTEGER PRIMARY KEY, key, value, partition, at)")
        for key, sent, partition, done in rows:
            value = f"produce-0 1 {sent:.6f}".encode()
            database.execute(
                "INSERT INTO effects (key, value, partition, at) VALUES (?, ?, ?, ?)",
                (key, value, partition, done),
            )
    database.close()
    return records_in(path, 2)


def test_figures_of_a_period_by_hand(tmp_path: Path) -> None:
    """Of four records in two seconds three go to partition 1, where two wait in the end."""
    found = effects(
        tmp_path / "effects",
        (b"cold", 10.5, 0, 10.75),
        (b"hot", 10.0, 1, 11.0),
        (b"hot", 11.0, 1, 13.0),
        (b"hot", 11.5, 1, 15.5),
        (b"cold", 12.0, 0, 12.0),
    )
    assert found.keys == ("hot", "cold")
    assert found.sent.tolist() == [10.0, 10.5, 11.0, 11.5, 12.0]
    assert found.per_second((10.0, 12.0), 1).tolist() == [[0.0, 0.5], [1.5, 0.0]]
    figures = found.figures((10.0, 12.0))
    assert figures["records_per_second"] == [0.5, 1.5]
    assert figures["max_over_mean"] == 1.5
    assert figures["waiting_at_end"] == [0.0, 2.0]
    assert (figures["p50_seconds"], figures["p99_seconds"]) == (1.0, 4.0)
    better = figures | {"max_over_mean": 1.1, "p99_seconds": 0.5}
    assert _helped({"before": figures, "after": better})
    for name in ("max_over_mean", "p99_seconds"):
        assert not _helped({"before": figures, "after": better | {name: figures[name]}})


def test_the_picture_is_drawn_from_every_record(tmp_path: Path) -> None:
    """Both forms, from periods with records of four keys and from one without waiting."""
    chance = np.random.default_rng(1)
    keys = (b"a", b"a", b"a", b"b", b"b", b"c", b"d")
    rows = [(keys[n % 7], 100 + n / 10, n % 2, 100 + n / 10 + float(chance.random())) for n in range(400)]
    found = effects(tmp_path / "effects", *rows)
    periods = {"before": (105.0, 115.0), "after": (125.0, 139.0)}
    drawn = draw_records(found, tmp_path, periods, {"table published": 120.0}, 10.0, 1)
    assert [one.name for one in drawn] == ["demo-keys.svg", "demo-keys.png"]
    assert all(one.stat().st_size > 10_000 for one in drawn)


def told(process: str, version: int, at: float) -> tuple[bytes, bytes, float]:
    """A heartbeat as it stands on the topic of tables."""
    beat = ClientHeartbeat(
        process=process, role="producer", client="kafka-python", topic="orders", topic_id="7", at=at,
        version=version, partitions=2, wrapped=True,
    )  # fmt: skip
    return beat_key("orders", process), heartbeat_bytes(beat), at


def table(version: int, at: float) -> tuple[bytes, bytes, float]:
    """A table as it stands there."""
    published = PublishedTable("orders", "7", RoutingTable(version, 2, 2))
    return table_key("orders"), table_bytes(published), at


def test_following_is_measured_from_the_records_own_times() -> None:
    """Two processes follow table 1 after 0.25 s and 0.5 s; later heartbeats and table 2 change nothing."""
    records = [
        told("a", 0, 9.0), told("b", 0, 9.5), told("gone", 0, 9.6), table(1, 10.0), told("a", 1, 10.25),
        (beat_key("orders", "gone"), None, 10.3), told("b", 1, 10.5), table(2, 20.0), told("a", 2, 20.25),
    ]  # fmt: skip
    found = following(records, "orders", 1)
    assert found is not None
    published_at, followed_at = found
    assert (published_at, sorted(followed_at.values())) == (10.0, [10.25, 10.5])
    assert followed_text(published_at, followed_at).startswith(
        "all 2 producers and consumers followed it within 0.50 s"
    )


def test_missing_measurements_are_not_printed() -> None:
    """A process that never follows, a missing table, and times that contradict each other."""
    assert following([told("a", 0, 9.0), table(1, 10.0), told("b", 1, 10.5)], "orders", 1) is None
    assert following([told("a", 1, 10.5)], "orders", 1) is None
    assert following([table(1, 10.0)], "orders", 1) is None
    for seconds in (-0.2, 0.0, 0.0001):
        said = followed_text(10.0, {"a": 10.0 + seconds, "b": 10.5})
        assert said == "all 2 producers and consumers follow it; their clocks do not tell how soon"


@pytest.mark.parametrize("seed", [0, 5, 7])
def test_drawn_names_make_one_partition_too_full(seed: int) -> None:
    """Consumers together have room, and one partition gets more than its consumer can do."""
    names, partition, full = names_drawn(seed)
    assert 0 <= partition < PARTITIONS
    assert FULLEST[0] <= full <= FULLEST[1]
    assert names_drawn(seed) == (names, partition, full)
    assert RATE < 0.6 * PARTITIONS * CONSUMER_PER_SECOND
    assert KEY_DISTRIBUTION.shares()[0] * RATE < CONSUMER_PER_SECOND
