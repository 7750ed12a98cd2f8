"""Transactions reach the lake first, one writer at a time, and another machine goes on from there."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from support.journals import CODECS
from trimtab.act.journal import Journal, use_write_ahead_log
from trimtab.files import replicated
from trimtab.files.replicated import LakeLog, WriterReplacedError, packed, unpacked
from trimtab.files.versioned_documents import VersionedDocuments
from trimtab_common.errors import TrimtabError

INSERT = "INSERT INTO numbers VALUES (?, ?, ?)"
TABLE = "CREATE TABLE IF NOT EXISTS numbers (value INTEGER PRIMARY KEY, text TEXT, share REAL)"


class Instance:
    """One instance of a service: its local databases, and a connection to one of them."""

    def __init__(self, lake: Path, local: Path) -> None:
        self.log = LakeLog(lake / "log", local, ("a", "b"))
        self.log.restore()
        self.open()

    def open(self) -> None:
        self.db = self.log.connect(self.log.path("a"))
        self.db.execute(TABLE)
        with closing(sqlite3.connect(self.log.path("b"))) as other:
            other.execute(TABLE)

    def add(self, value: int, share: float = 0.1) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            self.db.execute("INSERT INTO numbers VALUES (?, ?, ?)", (value, f"it's {value}\nθ", share))
            self.db.execute("COMMIT")
        except BaseException:
            self.db.execute("ROLLBACK")
            raise

    def rows(self) -> list[tuple[int, str, float]]:
        return self.db.execute("SELECT * FROM numbers ORDER BY value").fetchall()


@pytest.fixture
def instance(tmp_path: Path) -> Callable[[str], Instance]:
    """Make an instance of a name; all have one lake."""
    return lambda name: Instance(tmp_path / "lake", tmp_path / name)


def test_another_machine_reads_committed_transactions(instance: Callable[[str], Instance]) -> None:
    """Text, numbers and null arrive as they are, to the last bit of a fraction."""
    first, second = instance("first"), instance("second")
    with first.log.writing(lambda: None, "first"):
        for value in range(5):
            first.add(value, 1 / (value + 3))
    assert second.log.follow() == 6
    assert second.rows() == first.rows()
    assert second.log.follow() == 0


def test_an_earlier_writer_is_refused_and_keeps_nothing(instance: Callable[[str], Instance]) -> None:
    """A frozen writer wakes up after another took over: its transaction has no effect anywhere."""
    first, second = instance("first"), instance("second")
    with ExitStack() as writers:
        writers.enter_context(first.log.writing(lambda: None, "first"))
        first.add(1)
        writers.enter_context(second.log.writing(lambda: None, "second"))
        with pytest.raises(WriterReplacedError, match="another instance has taken over"):
            first.add(2)
        assert [row[0] for row in first.rows()] == [1]
        with pytest.raises(WriterReplacedError, match="does not decide"):
            first.add(3)
        second.add(4)
    first.log.follow()
    assert first.rows() == second.rows()
    assert [row[0] for row in first.rows()] == [1, 4]


def test_a_lost_lease_forbids_a_transaction(instance: Callable[[str], Instance]) -> None:
    """`require` is asked before each transaction reaches the lake."""
    first, second = instance("first"), instance("second")
    lost = False

    def require() -> None:
        if lost:
            raise TrimtabError("the lease is lost")

    with first.log.writing(require, "first"):
        first.add(1)
        lost = True
        with pytest.raises(TrimtabError, match="the lease is lost"):
            first.add(2)
    second.log.follow()
    assert [row[0] for row in second.rows()] == [1]


def test_without_the_right_to_write_nothing_is_committed(instance: Callable[[str], Instance]) -> None:
    """An instance that only follows cannot write by mistake."""
    first = instance("first")
    with pytest.raises(WriterReplacedError, match="does not decide"):
        first.add(1)
    assert first.rows() == []


def test_a_rolled_back_transaction_is_not_in_the_lake(instance: Callable[[str], Instance]) -> None:
    """Statements of a transaction that failed are forgotten."""
    first, second = instance("first"), instance("second")
    with first.log.writing(lambda: None, "first"):
        first.add(1)
        with pytest.raises(sqlite3.IntegrityError):
            first.add(1)
        first.add(2)
    second.log.follow()
    assert [row[0] for row in second.rows()] == [1, 2]


def test_a_commit_that_fails_after_the_lake_has_it_is_made_good(
    instance: Callable[[str], Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the store is lost: the document counts, and the writer finds it when it follows."""
    first = instance("first")
    with first.log.writing(lambda: None, "first"):
        first.add(1)
        create = VersionedDocuments.add

        def answers_late(self: object, number: int, content: bytes) -> None:
            create(self, number, content)  # type: ignore[arg-type]
            raise OSError("timed out")

        monkeypatch.setattr(VersionedDocuments, "add", answers_late)
        with pytest.raises(OSError, match="timed out"):
            first.add(2)
        monkeypatch.undo()
        assert [row[0] for row in first.rows()] == [1]
        with pytest.raises(WriterReplacedError):
            first.add(3)
    with first.log.writing(lambda: None, "first"):
        assert [row[0] for row in first.rows()] == [1, 2]
        first.add(4)
    assert [row[0] for row in first.rows()] == [1, 2, 4]


def test_a_checkpoint_never_misses_a_transaction_of_its_number(
    instance: Callable[[str], Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread writes a checkpoint between the log and the local commit: it waits for the commit."""
    monkeypatch.setattr(replicated, "CHECKPOINT_DOCUMENTS", 1)
    first = instance("first")
    with first.log.writing(lambda: None, "first"):
        append = first.log.append
        writers: list[threading.Thread] = []

        def then_checkpoint(*arguments: Any) -> None:
            append(*arguments)
            writers.append(threading.Thread(target=first.log.write_checkpoint))
            writers[-1].start()
            writers[-1].join(0.2)

        monkeypatch.setattr(first.log, "append", then_checkpoint)
        first.add(1)
        writers[-1].join()
    second = instance("second")
    second.log.follow()
    assert second.rows() == first.rows() != []


def test_transactions_do_not_wait_for_the_compression_of_a_checkpoint(
    instance: Callable[[str], Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order that is written down meanwhile is not delayed, and is in the document after the checkpoint."""
    monkeypatch.setattr(replicated, "CHECKPOINT_DOCUMENTS", 1)
    first = instance("first")
    with first.log.writing(lambda: None, "first"):
        first.add(1)
        compressed = replicated._compressed

        def then_add(images: Any) -> bytes:
            adder = threading.Thread(target=first.add, args=(2,))
            adder.start()
            adder.join(10)
            assert not adder.is_alive()
            return compressed(images)

        monkeypatch.setattr(replicated, "_compressed", then_add)
        assert first.log.write_checkpoint()
    second = instance("second")
    assert [row[0] for row in second.rows()] == [1]
    second.log.follow()
    assert second.rows() == first.rows()
    assert len(second.rows()) == 2


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 3 * (1 << 20) + 2])
def test_a_checkpoint_is_written_in_chunks(tmp_path: Path, size: int) -> None:
    """Whatever the size of a database: the document is the one that earlier versions read and write."""
    content = {name: bytes(range(256)) * (size // 256) + b"end"[: size % 3] for name in ("a", "b")}
    images = {name: tmp_path / name for name in content}
    for name, image in images.items():
        image.write_bytes(content[name])
    found = json.loads(gzip.decompress(replicated._compressed(images)))
    assert found == {name: base64.b85encode(one).decode() for name, one in content.items()}
    assert not any(image.exists() for image in images.values())


def test_packed_documents_are_short_and_plain_ones_are_read() -> None:
    """A plan of 10,000 moves takes a fifth of its bytes."""
    plan = json.dumps(
        {"moves": [{"topic": f"t{n % 97}", "partition": n, "to": n % 7} for n in range(10_000)]}
    )
    text = packed(plan.encode())
    assert len(text) < len(plan) / 5
    assert unpacked(text) == unpacked(plan) == plan.encode()


def test_removed_executions_are_removed_everywhere(tmp_path: Path) -> None:
    """A follower removes them too, although its log of executions is only added to."""
    logs = []
    for name in ("first", "second"):
        log = LakeLog(tmp_path / "lake", tmp_path / name, ("executions",))
        log.restore()
        with Journal(log.path("executions"), CODECS, log.connect):
            logs.append(log)
    with (
        logs[0].writing(lambda: None, "first"),
        Journal(logs[0].path("executions"), CODECS, logs[0].connect) as one,
    ):
        with one._transaction():
            one._db.execute(
                "INSERT INTO executions VALUES (1, 'c', 'c', 0.0, 1.0, 'finished', '', '{}', '{}', '{}')"
            )
            one._db.execute("INSERT INTO log VALUES (1, 1, 0.0, '', '', '{}')")
        assert one.remove_old(0) == [1]
    logs[1].follow()
    with closing(sqlite3.connect(logs[1].path("executions"))) as db:
        assert db.execute("SELECT count(*) FROM log").fetchone() == (0,)
        db.execute("INSERT INTO log VALUES (1, 1, 0.0, '', '', '{}')")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute("DELETE FROM log")


def test_a_local_commit_that_fails_is_made_good_from_the_lake(instance: Callable[[str], Instance]) -> None:
    """The disk of the writer is full: it stops to write, and follows the log like everybody."""
    first = instance("first")
    with first.log.writing(lambda: None, "first"), closing(sqlite3.connect(first.log.path("a"))) as other:
        first.add(1)
        first.db.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(RuntimeError, match="no room"), first.log.appended("a", [(INSERT, [2, "", 0.0])]):
            raise RuntimeError("no room")
        with pytest.raises(WriterReplacedError):
            first.add(3)
        assert other.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
    assert first.log.follow() == 1
    assert [row[0] for row in first.rows()] == [1, 2]


def test_a_connection_of_an_earlier_term_cannot_write(instance: Callable[[str], Instance]) -> None:
    """The right to write belongs to the connection, not to what the process may do later."""
    first = instance("first")
    ended = False

    def require() -> None:
        if ended:
            raise TrimtabError("that term is over")

    with (
        closing(first.log.connect(first.log.path("a"), require)) as db,
        first.log.writing(lambda: None, "first"),
    ):
        ended = True
        db.execute("BEGIN IMMEDIATE")
        db.execute(INSERT, (7, "", 0.0))
        with pytest.raises(TrimtabError, match="that term is over"):
            db.execute("COMMIT")
        db.execute("ROLLBACK")
        first.add(8)
    assert [row[0] for row in first.rows()] == [8]


def test_a_new_machine_begins_with_a_checkpoint(
    instance: Callable[[str], Instance], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Old documents are removed; a new instance reads the checkpoint and what came after it."""
    monkeypatch.setattr(replicated, "CHECKPOINT_DOCUMENTS", 5)
    first = instance("first")
    with first.log.writing(lambda: None, "first"):
        for value in range(12):
            first.add(value)
            first.log.write_checkpoint()
    assert len(list((tmp_path / "lake/log").glob("*.json"))) <= 6
    second = instance("second")
    second.log.follow()
    assert second.rows() == first.rows()
    with second.log.writing(lambda: None, "second"):
        second.add(99)
    first.log.follow()
    assert first.rows() == second.rows()


def test_a_reader_that_misses_documents_restores_a_checkpoint(
    instance: Callable[[str], Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that it needs are gone: it restores, and is up to date again."""
    monkeypatch.setattr(replicated, "CHECKPOINT_DOCUMENTS", 4)
    first, second = instance("first"), instance("second")
    with first.log.writing(lambda: None, "first"):
        for value in range(9):
            first.add(value)
            first.log.write_checkpoint()
    with pytest.raises(WriterReplacedError, match="document 1 is missing"):
        second.log.follow()
    second.db.close()
    second.log.restore()
    second.open()
    second.log.follow()
    assert second.rows() == first.rows()


def test_readers_see_the_databases_of_before_or_of_after_a_restore(
    instance: Callable[[str], Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of the service may read the journal of executions while a follower restores it."""
    monkeypatch.setattr(replicated, "CHECKPOINT_DOCUMENTS", 4)
    first, second = instance("first"), instance("second")
    use_write_ahead_log(second.db)
    second.db.execute("INSERT INTO numbers VALUES (-1, 'old', 0)")
    with first.log.writing(lambda: None, "first"):
        for value in range(9):
            first.add(value)
            first.log.write_checkpoint()
    path = second.log.path("a")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT value FROM numbers").fetchall() == [(-1,)]
        second.log.restore()
        assert reader.execute("SELECT value FROM numbers").fetchall() == [(-1,)]
        reader.execute("COMMIT")
        second.log.follow()
        assert reader.execute("SELECT * FROM numbers ORDER BY value").fetchall() == first.rows()
        assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert list(path.parent.glob(".*")) == []


def test_a_broken_local_file_is_replaced(instance: Callable[[str], Instance], tmp_path: Path) -> None:
    """The log in the lake is the truth."""
    first = instance("first")
    with first.log.writing(lambda: None, "first"):
        first.add(1)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "a.sqlite").write_bytes(b"no database" * 1000)
    second = instance("second")
    second.log.follow()
    assert second.rows() == first.rows()
