"""Marks and effects are stored together, or not at all."""

import sqlite3

import pytest

from trimtab_keys.clients.checkpoints import (
    CheckpointStore,
    InMemoryCheckpointStore,
    SqliteCheckpointStore,
    mark_name,
)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_transaction_that_fails_leaves_nothing(kind: str) -> None:
    """It leaves neither new marks nor changes of old ones."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    marks: CheckpointStore = (
        InMemoryCheckpointStore() if kind == "memory" else SqliteCheckpointStore(connection)
    )
    one, other = mark_name("t", 1), mark_name("t", 2)
    with marks.transaction():
        marks.write(one, 5)
    with pytest.raises(RuntimeError, match="halfway"), marks.transaction():
        marks.write(one, 6)
        marks.write(one, 7)
        marks.write(other, 1)
        raise RuntimeError("halfway")
    assert (marks.read(one), marks.read(other)) == (5, 0)
    connection.close()


def test_old_checkpoints_are_deleted_on_request() -> None:
    """A mark that changed since stays."""
    now = [1000.0]
    connection = sqlite3.connect(":memory:", isolation_level=None)
    marks = SqliteCheckpointStore(connection, lambda: now[0])
    for name in (b"old", b"new"):
        with marks.transaction():
            marks.write(name, 1)
        now[0] += 100
    assert marks.prune(150) == 1
    assert (marks.read(b"old"), marks.read(b"new")) == (0, 1)
    connection.close()


def test_names_reveal_nothing_of_a_key() -> None:
    """Names have the same length for any key, and differ for any part."""
    names = {mark_name("id", "g", "p", key, 1) for key in (b"a", b"b", b"k" * 1_000_000)}
    assert {len(name) for name in names} == {16}
    assert len(names | {mark_name("id", "g", "p", b"a", 2)}) == 4
