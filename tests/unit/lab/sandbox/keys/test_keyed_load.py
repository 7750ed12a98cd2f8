"""Processes of a keyed load: what a bounded consumer does by the clock, and what a check finds."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from trimtab.lab.sandbox.keys import worker
from trimtab.lab.sandbox.keys.load import (
    BacklogSample,
    KeyedLoad,
    KeysViolation,
    LoadedTopic,
    check_effects,
    checked_text,
)
from trimtab.lab.sandbox.keys.worker import RateLimitedWork, SqliteEffects, WorkerTask
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_keys.core.order import OrderingConfig


def test_a_bounded_consumer_takes_its_time_and_makes_up_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four a second: a value each quarter of a second; of a long pause two seconds count."""
    now, slept = [100.0], list[float]()

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

        @staticmethod
        def sleep(seconds: float) -> None:
            slept.append(seconds)
            now[0] += seconds

    monkeypatch.setattr(worker, "time", Clock)
    bounded = RateLimitedWork(4.0)
    assert [bounded(b"a") for _ in range(10)] == [b"a"] * 10
    # It may begin two seconds behind the clock.
    assert slept == [0.0] * 8 + [0.25, 0.25]
    now[0] += 60
    slept.clear()
    for _ in range(9):
        bounded(None)
    assert slept == [0.0] * 8 + [0.25]


def test_work_is_handed_over_as_it_is() -> None:
    """Time-outs of the guard too."""
    work = WorkerTask(
        "produce",
        "aiokafka",
        "h:1",
        "t",
        "n",
        "/f",
        key_distribution="zipf:1.2",
        ordering=OrderingConfig(run_records=3),
    )
    assert WorkerTask.read(work.text()) == work


def left_behind(folder: Path, effects: list[str], acknowledged: str) -> Path:
    """What processes leave: effects of key `user 1`, and numbers that brokers confirmed to run `a`."""
    folder.mkdir()
    with sqlite3.connect(folder / "effects") as database:
        database.execute("CREATE TABLE effects (place INTEGER PRIMARY KEY, key BLOB, value BLOB)")
        database.executemany(
            "INSERT INTO effects (key, value) VALUES (?, ?)", [(b"user 1", one.encode()) for one in effects]
        )
    database.close()
    (folder / "acknowledged-a").write_text("".join(f"user 1 {one}\n" for one in acknowledged.split()))
    return folder


def test_effects_are_checked_record_by_record(tmp_path: Path) -> None:
    """Keys have blanks, values more than a number; what is unconfirmed may take effect."""
    good = check_effects(left_behind(tmp_path / "good", ["a 1 0.5", "b 1 0.5", "a 2 0.6", "a 3 0.7"], "1 2"))
    assert good.counts == (2, 4)
    assert good.effects["a", b"user 1"] == [(1, 1), (2, 3), (3, 4)]
    assert checked_text(good).startswith("2 records of 1 keys were confirmed by brokers, 4 took effect")
    for name, effects, told in (
        ("order", ["a 2 0", "a 1 0"], "out of order or doubled"),
        ("twice", ["a 1 0", "a 1 0", "a 2 0"], "out of order or doubled"),
        ("lost", ["a 2 0"], "1 acknowledged records had no effect, first 1"),
    ):
        with pytest.raises(KeysViolation, match=told):
            check_effects(left_behind(tmp_path / name, effects, "1 2"))


def test_a_sandbox_with_users_is_refused(tmp_path: Path) -> None:
    """Processes of the load come without a password."""
    secured = KafkaConnection(
        ("h:1",), security_protocol="SASL_SSL", sasl_mechanism="PLAIN", user="u", password="p"
    )
    with pytest.raises(SandboxError, match="without --scram"):
        LoadedTopic(secured, None, tmp_path, KeyedLoad())


def test_the_backlog_is_reported() -> None:
    """By partition."""
    assert BacklogSample((0, 1234)).text == "0, 1,234 records wait in partitions 0 to 1"


def test_effects_are_read_through_another_connection(tmp_path: Path) -> None:
    """Read through the consumer's own, its next transaction may fail."""
    effects = SqliteEffects(tmp_path / "effects")
    record = SimpleNamespace(key=b"k", value=b"1", partition=2)
    with effects.checkpoints.transaction():
        effects.handle(record)
        assert (effects.count(), effects.all()) == (0, [])
    assert (effects.count(), effects.all()) == (1, [(b"k", b"1", 2)])
