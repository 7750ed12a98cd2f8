"""Marks and effects in a real PostgreSQL that several consumers share."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator

import psycopg
import pytest

from support.postgres import postgres_server
from trimtab_common.errors import SettingsError
from trimtab_keys.clients.checkpoints import PostgresCheckpointStore

pytestmark = pytest.mark.skipif(shutil.which("initdb") is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of its own."""
    with postgres_server("-F") as found:
        yield found


def test_checkpoints_and_effects_are_stored_together(address: str) -> None:
    """Or neither; another connection reads only committed values, and old checkpoints are
    deleted on request.
    """
    now = [1000.0]
    with psycopg.connect(address) as connection, psycopg.connect(address) as other:
        marks, others = PostgresCheckpointStore(connection, lambda: now[0]), PostgresCheckpointStore(other)
        with marks.transaction():
            connection.execute("CREATE TABLE effects (number int)")
        with pytest.raises(RuntimeError, match="halfway"), marks.transaction():
            connection.execute("INSERT INTO effects VALUES (1)")
            marks.write(b"a", 5)
            raise RuntimeError("halfway")
        assert (marks.read(b"a"), others.read(b"a")) == (0, 0)
        with marks.transaction():
            connection.execute("INSERT INTO effects VALUES (1)")
            marks.write(b"a", 5)
            assert others.read(b"a") == 0
        assert others.read(b"a") == 5
        assert connection.execute("SELECT count(*) FROM effects").fetchone() == (1,)
        now[0] += 100
        with marks.transaction():
            marks.write(b"b", 2**40)
        assert marks.prune(50) == 1
        assert (others.read(b"a"), others.read(b"b")) == (0, 2**40)


def test_a_checkpoint_grows_once_among_concurrent_consumers(address: str) -> None:
    """Eight consumers raise the same mark by what they read; it is not there when they begin."""
    effects: list[int] = []

    def consume() -> None:
        with psycopg.connect(address) as connection:
            marks = PostgresCheckpointStore(connection)
            for _ in range(25):
                with marks.transaction():
                    mark = marks.read(b"shared")
                    marks.write(b"shared", mark + 1)
                    effects.append(mark + 1)

    threads = [threading.Thread(target=consume) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert effects == list(range(1, 201))


def test_a_connection_that_commits_by_itself_is_refused(address: str) -> None:
    """An effect would be kept without its mark."""
    with (
        psycopg.connect(address, autocommit=True) as connection,
        pytest.raises(SettingsError, match="autocommit of the connection is on, expected off"),
    ):
        PostgresCheckpointStore(connection)
