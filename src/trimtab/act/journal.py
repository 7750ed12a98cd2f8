"""The journal of the executions of all balancers, and the state folder with the journal and the leases."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from trimtab.act.execution.port import ClaimPort
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import FINAL, AnyExecution, ExecutionStatus
from trimtab.act.executor import BALANCER, ExecutionSummary, StateCodecs
from trimtab.act.lease import ClusterBusyError, Lease, clock_text, locked, this_process
from trimtab.files.replicated import packed, unpacked
from trimtab.model.errors import ActError

SCHEMA_VERSION = 2

_SCHEMA = (
    """CREATE TABLE executions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id TEXT NOT NULL, cluster TEXT NOT NULL,
    created_at REAL NOT NULL, ended_at REAL, status TEXT NOT NULL, owner TEXT NOT NULL, plan TEXT NOT NULL,
    facts TEXT NOT NULL, head TEXT NOT NULL);""",
    """CREATE TABLE steps (
    execution INTEGER NOT NULL REFERENCES executions(id), number INTEGER NOT NULL,
    step TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (execution, number)) WITHOUT ROWID;""",
    """CREATE TABLE log (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER NOT NULL, at REAL NOT NULL,
    event TEXT NOT NULL, order_given TEXT NOT NULL, changes TEXT NOT NULL,
    PRIMARY KEY (execution, sequence)) WITHOUT ROWID;""",
    """CREATE TABLE requests (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, request TEXT NOT NULL, by TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0);""",
    "CREATE TRIGGER log_is_only_added_to BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER log_is_never_cut BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END",
)
_OVER = (ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE, ExecutionStatus.CANCELLED)
"""Statuses of executions that may be removed; a stopped one may be resumed."""


ConnectDatabase = Callable[[Path], sqlite3.Connection]
"""Opens a database, without transactions of its own."""


def connect_database(path: Path) -> sqlite3.Connection:
    """A connection that waits for other processes, and begins no transaction by itself."""
    return sqlite3.connect(path, timeout=30.0, isolation_level=None)


def use_write_ahead_log(db: sqlite3.Connection, seconds: float = 30.0) -> None:
    """Let readers and a writer work at once; waits for others that open the file for the first time too.

    SQLite does not wait by itself here: the change of the mode ignores the time-out of the connection.

    Raises
    ------
    sqlite3.OperationalError
        If the file is locked for so long.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class Journal:
    """All executions of one state folder; many processes may read, and add requests, while one writes.

    Parameters
    ----------
    path
        The file; made anew where there is none.
    codecs
        Of all balancers that it may hold.
    connect
        Opens the database, without transactions of its own.

    Raises
    ------
    ActError
        If the file is no journal, or one of another version.
    """

    def __init__(self, path: Path, codecs: StateCodecs, connect: ConnectDatabase = connect_database) -> None:
        self.path = path
        self._codecs = codecs
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = connect(path)
            self._open()
        except sqlite3.DatabaseError as error:
            raise ActError(
                f"the journal {path} cannot be read ({error}): let this user read and write there, or, if "
                "it is broken, move it away, once no reassignment and no throttle is left in the cluster"
            ) from error

    def _open(self) -> None:
        use_write_ahead_log(self._db)
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA foreign_keys=ON")
        if self._db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
            return  # a reader must not wait for who writes
        with self._transaction():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _SCHEMA:
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            elif version != SCHEMA_VERSION:
                raise ActError(
                    f"the journal {self.path} has version {version}, this trimtab knows {SCHEMA_VERSION}: "
                    "use the trimtab that wrote it"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the database."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that is executed inside takes effect together, durably, or not at all."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def create(
        self, state: AnyExecution, cluster: str, plan: str, owner: str, facts: Mapping[str, object]
    ) -> int:
        """Write a new execution down, before its first order; returns its id."""
        codec = self._codecs.of(state.balancer)
        head = json.dumps(codec.head_to_json(state))
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO executions (cluster_id, cluster, created_at, status, owner, plan, facts, head) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    state.cluster_id,
                    cluster,
                    state.now,
                    state.status,
                    owner,
                    packed(plan.encode()),
                    json.dumps(facts),
                    head,
                ),
            )
            execution = cursor.lastrowid
            assert execution is not None
            rows = ((r.step.number, codec.step_to_json(r), codec.record_to_json(r)) for r in state.records)
            self._db.executemany(
                "INSERT INTO steps VALUES (?, ?, ?, ?)",
                ((execution, number, json.dumps(step), json.dumps(record)) for number, step, record in rows),
            )
        return execution

    def write(
        self, execution: int, before: AnyExecution, after: AnyExecution, event: str, order: str
    ) -> bool:
        """Write a change of state down and make it durable; False if there was nothing worth writing."""
        codec = self._codecs.of(after.balancer)
        changed = [
            new
            for old, new in zip(before.records, after.records, strict=True)
            if old is not new and codec.must_write(old, new)
        ]
        head = codec.head_to_json(after)
        if not changed and head == codec.head_to_json(before):
            return False
        with self._transaction():
            self._db.execute(
                "UPDATE executions SET status = ?, head = ?, ended_at = ? WHERE id = ?",
                (after.status, json.dumps(head), after.now if after.final else None, execution),
            )
            self._db.executemany(
                "UPDATE steps SET record = ? WHERE execution = ? AND number = ?",
                ((json.dumps(codec.record_to_json(r)), execution, r.step.number) for r in changed),
            )
            changes = {"status": after.status} | {str(r.step.number): [r.state, r.reason] for r in changed}
            self._db.execute(
                "INSERT INTO log SELECT ?, coalesce(max(sequence), 0) + 1, ?, ?, ?, ? FROM log "
                "WHERE execution = ?",
                (execution, after.now, event, order, json.dumps(changes), execution),
            )
        return True

    def remove_old(self, retained: int, besides: Collection[int] = ()) -> list[int]:
        """Remove executions that have ended, except the newest `retained` of them and those of `besides`.

        Each is removed with its steps, log and requests in one transaction. Returns their ids.
        """
        ended = [one.id for one in self.entries() if one.status in _OVER and one.id not in besides]
        removed = sorted(ended[retained:])
        for execution in removed:
            with self._transaction():
                self._db.execute("DROP TRIGGER log_is_never_cut")
                for table, key in (
                    ("steps", "execution"), ("log", "execution"), ("requests", "execution"),
                    ("executions", "id"),
                ):  # fmt: skip
                    self._db.execute(f"DELETE FROM {table} WHERE {key} = ?", (execution,))
                self._db.execute(_SCHEMA[-1])
        return removed

    def newest_sequence(self, execution: int) -> int:
        """Number of its newest entry in the log; where that is the same, so is the state."""
        row = self._db.execute("SELECT max(sequence) FROM log WHERE execution = ?", (execution,)).fetchone()
        return int(row[0] or 0)

    def take_over(self, execution: int, owner: str) -> None:
        """Say who runs it from now on."""
        with self._transaction():
            self._db.execute("UPDATE executions SET owner = ? WHERE id = ?", (owner, execution))

    def request(self, execution: int, what: str, by: str, at: float) -> None:
        """Ask whoever runs it to `stop` or `cancel`."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO requests (execution, at, request, by) VALUES (?, ?, ?, ?)",
                (execution, at, what, by),
            )

    def pop_requests(self, execution: int) -> list[tuple[str, str]]:
        """Requests not yet taken, as (what, by), oldest first; each is given out once."""
        rows = self._db.execute(
            "SELECT sequence, request, by FROM requests WHERE execution = ? AND taken = 0 ORDER BY sequence",
            (execution,),
        ).fetchall()
        if rows:
            with self._transaction():
                self._db.executemany(
                    "UPDATE requests SET taken = 1 WHERE sequence = ?", ((r[0],) for r in rows)
                )
        return [(what, by) for _, what, by in rows]

    def entries(self, of_cluster: str | None = None) -> list[ExecutionSummary]:
        """Summaries of all executions, or of one cluster's, newest first."""
        rows = self._db.execute(
            "SELECT id, cluster_id, cluster, created_at, ended_at, status, owner, facts, "
            "coalesce(json_extract(head, '$.balancer'), ?) "
            "FROM executions WHERE ? IS NULL OR cluster_id = ? ORDER BY id DESC",
            (self._codecs.unnamed, of_cluster, of_cluster),
        )
        return [
            ExecutionSummary(
                id, cluster_id, cluster, created_at, ended_at, status, owner, json.loads(facts), balancer
            )
            for id, cluster_id, cluster, created_at, ended_at, status, owner, facts, balancer in rows
        ]

    def entry(self, execution: int) -> ExecutionSummary:
        """One of them.

        Raises
        ------
        ActError
            If there is none of that id.
        """
        entries = self.entries()
        for entry in entries:
            if entry.id == execution:
                return entry
        known = ", ".join(str(entry.id) for entry in entries[:5]) or "none"
        raise ActError(
            f"there is no execution {execution} in {self.path} (the newest: {known}): "
            "see `trimtab execution list`"
        )

    def state(self, execution: int) -> AnyExecution:
        """Its state as last written; tell it `Resumed` before anything else."""
        self.entry(execution)  # refuses an id that is not known
        (head,) = self._db.execute("SELECT head FROM executions WHERE id = ?", (execution,)).fetchone()
        steps = self._db.execute(
            "SELECT step, record FROM steps WHERE execution = ? ORDER BY number", (execution,)
        )
        head = json.loads(head)
        codec = self._codecs.of(head.get(BALANCER, self._codecs.unnamed))
        records = tuple(
            codec.record_from_json(json.loads(step), json.loads(record)) for step, record in steps
        )
        return codec.state_from_json(head, records)

    def plan(self, execution: int) -> str:
        """The plan that it carries out, as it was written down at the start."""
        row = self._db.execute("SELECT plan FROM executions WHERE id = ?", (execution,)).fetchone()
        return unpacked(row[0]).decode()

    def log(self, execution: int) -> list[tuple[float, str, str, dict[str, object]]]:
        """(time, event, order, changes) of every write since the start."""
        rows = self._db.execute(
            "SELECT at, event, order_given, changes FROM log WHERE execution = ? ORDER BY sequence",
            (execution,),
        )
        return [(at, event, order, json.loads(changes)) for at, event, order, changes in rows]


JOURNAL_FILE = "executions.sqlite"


class ExecutionStore:
    """The journal and the leases of one state folder.

    Parameters
    ----------
    folder
        The state folder.
    codecs
        Of all balancers that the journal may hold.
    clock, sleep
        Time.
    token
        Makes a name that no other process has.
    connect
        Opens the database of the journal.
    require
        Called before each change of a cluster; it raises `ActError` where this process must not act.
    """

    def __init__(
        self,
        folder: Path,
        codecs: StateCodecs,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        token: Callable[[], str],
        connect: ConnectDatabase = connect_database,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        self._require = require
        self.folder = folder
        self.journal = Journal(folder / JOURNAL_FILE, codecs, connect)
        self.clock = clock
        self.sleep = sleep
        self._token = token

    def close(self) -> None:
        """Close the connection to the database."""
        self.journal.close()

    @contextmanager
    def lease(
        self,
        port: ClaimPort,
        cluster_id: str,
        settings: RetryPolicy,
        print_progress: Callable[[str], None],
        *,
        besides: int | None = None,
    ) -> Iterator[Lease]:
        """The right to act on a cluster of which no execution waits to be resumed.

        Parameters
        ----------
        print_progress
            Told what is worth saying about it.
        besides
            The execution that is to be resumed.

        Raises
        ------
        ActError
            If another trimtab has it, or naming the execution that was interrupted.
        """
        lease = self._lease(port, cluster_id, settings)
        notes = lease.acquire()
        try:
            for note in notes:
                print_progress(note)
            self._require_uninterrupted(cluster_id, besides)
            yield lease
        finally:
            lease.release()

    def require_free_lease(
        self, port: ClaimPort, cluster_id: str, settings: RetryPolicy, print_progress: Callable[[str], None]
    ) -> None:
        """Raise where `lease` would, naming the execution, who runs or ran it, where and since when.

        Nothing is touched; what the dead may have left with state folders of their own is said.
        """
        dead = self._lease(port, cluster_id, settings).check_claims()
        self._require_uninterrupted(cluster_id, None)
        for holder in dead:
            if holder.folder != str(self.folder):  # else our journal knows that its execution has ended
                left = f"{holder} is no longer alive and may have left cluster {cluster_id} half changed"
                print_progress(
                    f"warning: {left}: go on there with `trimtab execution resume{holder.number}` first"
                )

    def status(self, entry: ExecutionSummary) -> str:
        """Its status as seen from here: `interrupted` where it has not ended and nobody runs it."""
        ended = ExecutionStatus(entry.status) in FINAL
        known = ended or locked(self.folder, entry.cluster_id)
        return entry.status if known else "interrupted"

    def _lease(self, port: ClaimPort, cluster_id: str, settings: RetryPolicy) -> Lease:
        seconds = settings.lease_seconds
        return Lease(
            port, self.folder, cluster_id, seconds, self.clock, self.sleep, self._token(), self._require
        )

    def _require_uninterrupted(self, cluster_id: str, besides: int | None) -> None:
        for entry in self.journal.entries(cluster_id):
            if entry.id != besides and ExecutionStatus(entry.status) not in FINAL:
                raise ClusterBusyError(
                    f"execution {entry.id} of cluster {cluster_id} was interrupted ({entry.owner}, begun "
                    f"{clock_text(entry.created_at)}): go on with `trimtab execution resume {entry.id}`, or "
                    f"clean up with `trimtab execution cancel {entry.id}`"
                )

    def owner(self) -> str:
        """The name by which the journal knows this process where it runs an execution."""
        holder = this_process("", self.clock())
        return f"{holder.user}@{holder.host}, process {holder.pid}"
