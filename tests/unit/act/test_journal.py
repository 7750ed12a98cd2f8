"""What is written down survives, and nothing that was written is changed."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.executing import assert_clean, prepared, run
from support.fake_port import FakeCluster
from support.journals import CODECS
from support.plans import plan_of
from trimtab.act.control import Runner
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.act.replicas.machine import ReplicasMachine
from trimtab.act.replicas.state import ReplicasExecutionState
from trimtab.model.errors import ActError

PLAN = plan_of(("t", 0, (1, 2), (4, 2)), ("t", 1, (1, 3), (3, 1)))
SUPPORT = Path(__file__).parents[2]


def new_cluster() -> FakeCluster:
    """As the plan found it."""
    cluster = FakeCluster()
    cluster.add("t", 0, [1, 2], size=300_000_000)
    cluster.add("t", 1, [1, 3], size=100_000_000)
    return cluster


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """All that the state machine needs to go on is in the file."""
    cluster = new_cluster()
    state = run(cluster, prepared(cluster, PLAN), tmp_path)
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        read = journal.state(1)
        assert (read.status, read.records) == (state.status, state.records)
        assert isinstance(read, ReplicasExecutionState)
        assert read.throttle == state.throttle
        assert (read.baseline, read.brokers, read.batches) == (state.baseline, state.brokers, state.batches)


def test_every_order_that_changes_the_cluster_is_written_before_and_after(tmp_path: Path) -> None:
    """In the log, each reassignment appears as an order, and its answer as an event."""
    cluster = new_cluster()
    run(cluster, prepared(cluster, PLAN), tmp_path)
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        log = journal.log(1)
    orders = [order for _, _, order, _ in log]
    events = [event for _, event, _, _ in log]
    assert orders.count("Reassign") == cluster.calls.count("reassign") == events.count("ReassignAnswered")
    assert orders.count("WriteThrottle") == cluster.calls.count("write_throttle")


def test_the_log_is_only_added_to(tmp_path: Path) -> None:
    """Neither changing nor deleting an entry is possible, even by hand."""
    cluster = new_cluster()
    run(cluster, prepared(cluster, PLAN), tmp_path)
    db = sqlite3.connect(tmp_path / "journal.sqlite")
    for statement in ("UPDATE log SET event = ''", "DELETE FROM log"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.close()


def test_old_executions_are_removed(tmp_path: Path) -> None:
    """With all that belongs to them; the newest, those in work and those that a person stopped stay."""
    path = tmp_path / "journal.sqlite"
    with Journal(path, CODECS) as journal:
        for _ in range(6):
            cluster = new_cluster()
            run(cluster, prepared(cluster, PLAN), tmp_path)
        db = sqlite3.connect(path)
        db.execute("UPDATE executions SET status = 'stopped' WHERE id = 2")
        db.commit()
        assert journal.remove_old(2, besides=[3]) == [1, 4]
        assert [one.id for one in journal.entries()] == [6, 5, 3, 2]
        for table in ("steps", "log"):
            left = db.execute(f"SELECT DISTINCT execution FROM {table} ORDER BY execution").fetchall()
            assert left == [(2,), (3,), (5,), (6,)], table
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute("DELETE FROM log")
        db.close()
        assert journal.remove_old(2, besides=[3]) == []


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    """A file that a later trimtab wrote is not touched."""
    path = tmp_path / "journal.sqlite"
    Journal(path, CODECS).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(ActError, match="has version 99, this trimtab knows 2"):
        Journal(path, CODECS)


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    """The error states the conditions for moving the file away."""
    path = tmp_path / "journal.sqlite"
    path.write_text("not a database" * 100)
    with pytest.raises(ActError, match="cannot be read .* no throttle is left in the cluster"):
        Journal(path, CODECS)


def test_an_unknown_execution_is_named_with_those_that_are_known(tmp_path: Path) -> None:
    """The newest ids are listed."""
    cluster = new_cluster()
    run(cluster, prepared(cluster, PLAN), tmp_path)
    with (
        Journal(tmp_path / "journal.sqlite", CODECS) as journal,
        pytest.raises(ActError, match=r"there is no execution 7 .*the newest: 1"),
    ):
        journal.entry(7)


def test_an_execution_without_a_balancer_name_is_one_of_replicas(tmp_path: Path) -> None:
    """Its head names no balancer: it is listed, read and finished all the same."""
    cluster = new_cluster()
    _run_until(cluster, tmp_path, 6)
    path = tmp_path / "journal.sqlite"
    _change_head(path, "json_remove(head, '$.balancer')")
    with Journal(path, CODECS) as journal:
        assert journal.entry(1).balancer == "replicas"
        state = journal.state(1)
        assert isinstance(state, ReplicasExecutionState)
        machine = ReplicasMachine(cluster, cluster.clock)
        ended = Runner(machine, journal, None, 1, state, clock=cluster.clock, sleep=cluster.sleep).run()
    assert ended.status is ExecutionStatus.FINISHED


def test_an_execution_of_an_unknown_balancer_is_named(tmp_path: Path) -> None:
    """A later version may have more balancers: this one reports the unknown one and changes nothing."""
    cluster = new_cluster()
    _run_until(cluster, tmp_path, 6)
    path = tmp_path / "journal.sqlite"
    _change_head(path, "json_set(head, '$.balancer', 'masters')")
    with (
        Journal(path, CODECS) as journal,
        pytest.raises(ActError, match="of balancer masters, this trimtab carries out replicas, bundles"),
    ):
        journal.state(1)


def _change_head(path: Path, expression: str) -> None:
    db = sqlite3.connect(path)
    db.execute(f"UPDATE executions SET head = {expression}")
    db.commit()
    db.close()


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support import executing, mortal
from support.executing import prepared, run
from trimtab.act import journal
from unit_act_journal import PLAN, new_cluster
mortal.kill_at(sys.argv[3])
executing.Journal = journal.Journal
cluster = new_cluster()
run(cluster, prepared(cluster, PLAN), Path(sys.argv[2]))
"""


@pytest.mark.parametrize(("write", "when"), [(1, "-"), (5, ""), (9, "-")])
def test_a_process_may_be_killed_at_any_write(write: int, when: str, tmp_path: Path) -> None:
    """SIGKILL right after the fifth write, or right before the first or ninth: the file is sound."""
    (tmp_path / "unit_act_journal.py").write_text(Path(__file__).read_text())
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-c", CHILD, str(SUPPORT), str(tmp_path), f"{write}{when}"]
    died = subprocess.run(words, env=dict(os.environ, PYTHONPATH=path))
    assert died.returncode == -signal.SIGKILL
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        entries = journal.entries()
        # The first write creates the execution; each later one adds a line to the log.
        written = write if when == "" else write - 1
        assert len(entries) == min(1, written)
        if entries:
            assert len(journal.log(entries[0].id)) == written - 1
            assert ExecutionStatus(entries[0].status) is ExecutionStatus.RUNNING


def test_an_execution_can_be_resumed_from_every_write(tmp_path: Path) -> None:
    """A run is interrupted after each of its writes, and the next process completes the plan."""
    total = _writes_of_a_whole_run(tmp_path / "whole")
    assert total > 10
    for cut in range(1, total + 1):
        cluster = new_cluster()
        folder = tmp_path / str(cut)
        folder.mkdir()
        _run_until(cluster, folder, cut)
        with Journal(folder / "journal.sqlite", CODECS) as journal:
            state = journal.state(1)
            assert isinstance(state, ReplicasExecutionState)
            resumed = Runner(
                ReplicasMachine(cluster, cluster.clock),
                journal,
                None,
                1,
                state,
                clock=cluster.clock,
                sleep=cluster.sleep,
            ).run()
        assert resumed.status is ExecutionStatus.FINISHED, cut
        assert_clean(cluster, resumed)


class Died(BaseException):
    """Stands for SIGKILL: nothing catches it."""


class MortalJournal(Journal):
    """Dies right after a given write."""

    lives = 10**9

    def write(self, *arguments: object) -> bool:
        """Write, then perhaps die."""
        written = super().write(*arguments)  # type: ignore[arg-type]
        self.lives -= written
        if self.lives <= 0:
            raise Died
        return written


def _writes_of_a_whole_run(folder: Path) -> int:
    folder.mkdir()
    cluster = new_cluster()
    run(cluster, prepared(cluster, PLAN), folder)
    with Journal(folder / "journal.sqlite", CODECS) as journal:
        return len(journal.log(1))


def _run_until(cluster: FakeCluster, folder: Path, writes: int) -> None:
    state = prepared(cluster, PLAN)
    with MortalJournal(folder / "journal.sqlite", CODECS) as journal:
        journal.create(state, "fake", "{}", "test", {})
        journal.lives = writes
        runner = Runner(
            ReplicasMachine(cluster, cluster.clock),
            journal,
            None,
            1,
            state,
            clock=cluster.clock,
            sleep=cluster.sleep,
        )
        with pytest.raises(Died):
            runner.run()
