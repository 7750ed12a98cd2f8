"""The journal of the service: states, decisions, plans and executions, written before they take effect.

Each transaction reaches the lake before it is committed here (`trimtab.files.replicated`), so that an
instance on another machine goes on from the last decision.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from trimtab.act.journal import use_write_ahead_log
from trimtab.decide.state import State, state_bytes, state_from
from trimtab.files.replicated import LakeLog, packed, unpacked
from trimtab.serve.documents import DecisionRecord, PlanRecord

DATABASE: Final = "serve"
EXECUTIONS: Final = "executions"
"""Names of the databases in the state folder: this journal, and that of executions (`act.journal`)."""

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS states (cluster TEXT, balancer TEXT, state TEXT NOT NULL, "
    "PRIMARY KEY (cluster, balancer))",
    "CREATE TABLE IF NOT EXISTS decisions (number INTEGER PRIMARY KEY, cluster TEXT NOT NULL, "
    "balancer TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS plans (digest TEXT PRIMARY KEY, made_at REAL NOT NULL, record TEXT NOT NULL, "
    "content TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS effects (execution INTEGER PRIMARY KEY, effect TEXT NOT NULL, "
    "text TEXT NOT NULL)",
)
RETAINED_DECISIONS: Final = 100_000
RETAINED_PLAN_BYTES: Final = 64_000_000
"""Bytes of the packed files of plans that nothing waits for, which each checkpoint holds."""


@dataclass(frozen=True, slots=True)
class MeasuredEffect:
    """The measured effect of an execution, with its figures as text."""

    effect: str
    text: str


class ServiceJournal:
    """States, decisions, plans and effects of all targets; safe for threads.

    Parameters
    ----------
    log
        The log in the lake, which transactions reach first.
    schema
        Further tables that belong to the same transactions, such as the outbox of notifications.
    retained_plans
        Number of plans that nothing waits for.
    """

    def __init__(self, log: LakeLog, schema: Sequence[str] = (), retained_plans: int = 100) -> None:
        self._log = log
        self._retained_plans = retained_plans
        self._schema = (*_SCHEMA, *schema)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._db = self._opened()
        self._reader = self._read_only()
        self._read_lock = threading.Lock()
        self._writer: int | None = None

    def _read_only(self) -> sqlite3.Connection:
        """A second connection, for reads that must not wait while a transaction goes to the lake."""
        return sqlite3.connect(
            f"file:{self._log.path(DATABASE)}?mode=ro", uri=True, timeout=30.0, check_same_thread=False
        )

    def _opened(self) -> sqlite3.Connection:
        db = self._log.connect(self._log.path(DATABASE))
        use_write_ahead_log(db)
        for statement in ("PRAGMA synchronous=FULL", *self._schema):
            db.execute(statement)
        return db

    def reopen(self, between: Callable[[], None]) -> None:
        """Close the database, call a function that may replace it, and open it again."""
        with self._lock, self._read_lock:
            self._db.close()
            self._reader.close()
            between()
            self._db = self._opened()
            self._reader = self._read_only()

    def close(self) -> None:
        """Close the connection to the database."""
        with self._lock, self._read_lock:
            self._db.close()
            self._reader.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside takes effect together, in the lake first, or not at all.

        Raises
        ------
        WriterReplacedError
            If this instance does not decide any longer.
        """
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            self._writer = threading.get_ident()
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            finally:
                self._writer = None
            self._changed.notify_all()

    def notify_readers(self) -> None:
        """Wake up who waits for decisions, after documents of another instance were applied."""
        with self._changed:
            self._changed.notify_all()

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """One statement; a write must be in a `transaction`, and a read waits for none of another thread."""
        if self._writer == threading.get_ident():
            return self._db.execute(sql, parameters).fetchall()
        with self._read_lock:
            return self._reader.execute(sql, parameters).fetchall()

    # ------------------------------------------------------------ states and decisions

    def state(self, cluster: str, balancer: str) -> State:
        """The state of a target as last written; a new one where there is none."""
        rows = self.execute(
            "SELECT state FROM states WHERE cluster = ? AND balancer = ?", (cluster, balancer)
        )
        return state_from(rows[0][0].encode()) if rows else State()

    def write_state(self, cluster: str, balancer: str, state: State) -> None:
        """Write the state of a target; only in a transaction."""
        self.execute(
            "INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (cluster, balancer, state_bytes(state).decode())
        )

    def add_decision(self, record: DecisionRecord) -> DecisionRecord:
        """Add a decision with the next number, only in a transaction; returns it with its number."""
        newest = self.newest_number()
        numbered = msgspec.structs.replace(record, number=newest + 1)
        self.execute(
            "INSERT INTO decisions VALUES (?, ?, ?, ?)",
            (numbered.number, numbered.cluster, numbered.balancer, msgspec.json.encode(numbered).decode()),
        )
        if numbered.number % 1000 == 0:
            oldest = numbered.number - RETAINED_DECISIONS
            self.execute("DELETE FROM decisions WHERE number <= ?", (oldest,))
        return numbered

    def newest_number(self) -> int:
        """Number of the newest decision; 0 where there is none."""
        return int(self.execute("SELECT coalesce(max(number), 0) FROM decisions")[0][0])

    def decisions(
        self, after: int | None, limit: int, cluster: str | None, balancer: str | None
    ) -> list[DecisionRecord]:
        """Decisions of all targets or of some, as `ServiceInterface.decisions` gives them."""
        order = "DESC" if after is None else "ASC"
        rows = self.execute(
            "SELECT record FROM decisions WHERE number > ? AND (? IS NULL OR cluster = ?) "
            f"AND (? IS NULL OR balancer = ?) ORDER BY number {order} LIMIT ?",
            (after or 0, cluster, cluster, balancer, balancer, limit),
        )
        return [msgspec.json.decode(row[0], type=DecisionRecord) for row in rows]

    def wait_for_decisions(self, after: int, seconds: float) -> list[DecisionRecord]:
        """Decisions after a number; waits for one where there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self.newest_number() > after, timeout=seconds)
            return self.decisions(after, 1000, None, None)

    # ------------------------------------------------------------ plans

    def add_plan(self, record: PlanRecord, content: bytes) -> None:
        """Add a plan, or its record anew; only in a transaction."""
        self.execute(
            "INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?)",
            (record.digest, record.made_at, msgspec.json.encode(record).decode(), packed(content)),
        )
        self.execute(
            "DELETE FROM plans WHERE digest IN (SELECT digest FROM (SELECT digest, row_number() OVER newest "
            "AS place, sum(length(content)) OVER newest AS bytes FROM plans "
            "WHERE json_extract(record, '$.state') IN ('what-if', 'withdrawn', 'executed') "
            "WINDOW newest AS (ORDER BY made_at DESC, digest)) WHERE place > ? OR (place > 1 AND bytes > ?))",
            (self._retained_plans, RETAINED_PLAN_BYTES),
        )

    def update_plan(self, record: PlanRecord) -> None:
        """Write the record of a plan anew; only in a transaction."""
        document = msgspec.json.encode(record).decode()
        self.execute("UPDATE plans SET record = ? WHERE digest = ?", (document, record.digest))

    def plan(self, digest: str) -> PlanRecord | None:
        """The record of a plan, also by the beginning of its digest where that is unique."""
        if len(digest) < 8 or not digest.isalnum():
            return None
        rows = self.execute("SELECT record FROM plans WHERE digest GLOB ? LIMIT 2", (f"{digest}*",))
        return msgspec.json.decode(rows[0][0], type=PlanRecord) if len(rows) == 1 else None

    def plan_content(self, digest: str) -> bytes:
        """The bytes of a plan file."""
        return unpacked(self.execute("SELECT content FROM plans WHERE digest = ?", (digest,))[0][0])

    def plans(self, cluster: str | None, limit: int) -> list[PlanRecord]:
        """Records of plans, newest first."""
        rows = self.execute(
            "SELECT record FROM plans WHERE ? IS NULL OR json_extract(record, '$.cluster') = ? "
            "ORDER BY made_at DESC, digest LIMIT ?",
            (cluster, cluster, limit),
        )
        return [msgspec.json.decode(row[0], type=PlanRecord) for row in rows]

    # ------------------------------------------------------------ effects

    def write_effect(self, execution: int, effect: MeasuredEffect) -> None:
        """Write the measured effect of an execution; only in a transaction."""
        self.execute(
            "INSERT OR REPLACE INTO effects VALUES (?, ?, ?)", (execution, effect.effect, effect.text)
        )

    def effect(self, execution: int) -> MeasuredEffect | None:
        """The measured effect of an execution; None before it is measured."""
        rows = self.execute("SELECT effect, text FROM effects WHERE execution = ?", (execution,))
        return MeasuredEffect(*rows[0]) if rows else None
