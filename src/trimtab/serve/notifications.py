"""Notifications of people: an outbox in the journal, and its delivery to receivers, at least once each.

Rows are written in the transaction of their decision. A row that was sent and not marked, because the process
was killed, is sent again with the same id. Neither errors nor logs show an address or a key: the address of a
chat's webhook is itself a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from trimtab.decide.events import LASTING_CONDITIONS
from trimtab.files.machine import Runtime
from trimtab.files.serve_settings import NotificationTarget, ServeSettings
from trimtab.serve.client import NoRedirects
from trimtab.serve.documents import DecisionRecord, Finding, NotificationStatus
from trimtab_common.errors import TrimtabError

LOG = logging.getLogger("trimtab.serve")

OUTBOX_SCHEMA: Final[tuple[str, ...]] = (
    "CREATE TABLE IF NOT EXISTS outbox (number INTEGER NOT NULL, receiver TEXT NOT NULL, "
    "condition TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, "
    "next_at REAL NOT NULL, error TEXT NOT NULL, PRIMARY KEY (number, receiver))",
    "CREATE INDEX IF NOT EXISTS outbox_waiting ON outbox (receiver, condition, number) "
    "WHERE state = 'waiting'",
)
PAUSES_SECONDS: Final = (10.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 10_800.0, 25_200.0, 43_200.0)
"""Pauses between the ten attempts, 23.7 h in all; after the last one the row is abandoned."""
MAX_ATTEMPTS: Final = len(PAUSES_SECONDS) + 1
TIMEOUT_SECONDS: Final = 10.0
RETAINED_ROWS: Final = 10_000
"""Rows that are delivered or abandoned are removed after so many further decisions."""
PASS_ROWS: Final = 100
LASTING_SECONDS: Final = 30 * 86_400.0
EVENT_SECONDS: Final = 86_400.0
"""Alertmanager ends an alert by itself after 5 min unless it knows a later end. A condition lasts until its
end is notified; the alert of an event ends after a day."""


class DeliveryError(TrimtabError):
    """A receiver did not accept a notification; the text shows neither its address nor a key."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A notification for one receiver; number and receiver identify it.

    Attributes
    ----------
    number
        Number of the decision.
    receiver
        Name of the receiver, by `receiver_name`.
    condition
        Cluster, balancer and key. Notifications of one condition are delivered in their order.
    body
        The JSON document that is sent.
    at
        Time of the first attempt, seconds since 1970.
    attempts
        Number of failed attempts.
    """

    number: int
    receiver: str
    condition: str
    body: str
    at: float
    attempts: int = 0


class Outbox(Protocol):
    """Notifications that wait for delivery."""

    def add(self, rows: Iterable[OutboxRow]) -> None:
        """Add rows, in the transaction of the caller."""

    def pending(self, now: float) -> Sequence[OutboxRow]:
        """Rows whose next attempt is not after `now`, oldest first, one of each receiver and condition."""

    def delivered(self, row: OutboxRow) -> None:
        """Mark a row as delivered."""

    def failed(self, row: OutboxRow, next_at: float | None, error: str) -> None:
        """Count a failed attempt; without `next_at` the row is abandoned."""

    def status(self) -> NotificationStatus:
        """Number of waiting rows, and the newest abandoned ones."""


class SqliteOutbox:
    """The outbox in tables of `OUTBOX_SCHEMA`; all writes are single statements with explicit values.

    Parameters
    ----------
    execute
        Runs one statement and returns its rows, like `sqlite3.Connection.execute`.
    transaction
        A transaction as a context manager.
    """

    def __init__(
        self,
        execute: Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]],
        transaction: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._execute = execute
        self._transaction = transaction

    def add(self, rows: Iterable[OutboxRow]) -> None:
        """As `Outbox.add`; removes old rows that are delivered or abandoned."""
        for row in rows:
            self._execute(
                "INSERT INTO outbox VALUES (?, ?, ?, ?, 'waiting', ?, ?, '')",
                (row.number, row.receiver, row.condition, row.body, row.attempts, row.at),
            )
            self._execute(
                "DELETE FROM outbox WHERE state <> 'waiting' AND number <= ?", (row.number - RETAINED_ROWS,)
            )

    def pending(self, now: float) -> Sequence[OutboxRow]:
        """As `Outbox.pending`, at most 100 rows."""
        found = self._execute(
            "SELECT number, receiver, condition, body, next_at, attempts FROM outbox AS one "
            "WHERE state = 'waiting' AND next_at <= ? AND NOT EXISTS (SELECT 1 FROM outbox AS earlier "
            "WHERE earlier.state = 'waiting' AND earlier.receiver = one.receiver "
            "AND earlier.condition = one.condition AND earlier.number < one.number) "
            "ORDER BY next_at, number LIMIT ?",
            (now, PASS_ROWS),
        )
        return [OutboxRow(*row) for row in found]

    def delivered(self, row: OutboxRow) -> None:
        """Mark a row as delivered, in a transaction."""
        self._update(row, "delivered", row.attempts, row.at, "")

    def failed(self, row: OutboxRow, next_at: float | None, error: str) -> None:
        """Count a failed attempt, in a transaction."""
        state, at = ("abandoned", row.at) if next_at is None else ("waiting", next_at)
        self._update(row, state, row.attempts + 1, at, error)

    def _update(self, row: OutboxRow, state: str, attempts: int, next_at: float, error: str) -> None:
        with self._transaction():
            self._execute(
                "UPDATE outbox SET state = ?, attempts = ?, next_at = ?, error = ? "
                "WHERE number = ? AND receiver = ? AND state = 'waiting'",
                (state, attempts, next_at, error, row.number, row.receiver),
            )

    def status(self) -> NotificationStatus:
        """As `Outbox.status`; it names the 20 newest abandoned rows."""
        counts = dict(self._execute("SELECT state, count(*) FROM outbox GROUP BY state", ()))
        rows = self._execute(
            "SELECT number, receiver, attempts, error FROM outbox WHERE state = 'abandoned' "
            "ORDER BY number DESC LIMIT 20",
            (),
        )
        return NotificationStatus(
            waiting=counts.get("waiting", 0),
            abandoned=counts.get("abandoned", 0),
            abandoned_texts=tuple(
                f"notification of decision {number} to {receiver}: {attempts} attempts, {error}"
                for number, receiver, attempts, error in rows
            ),
        )


def status_findings(status: NotificationStatus) -> list[Finding]:
    """A finding for each abandoned notification that the status names."""
    remedy = "check `[[serve.notifications]]` and the receiver; the decision stays in the history"
    return [
        Finding(subject="notifications", text=text, remedy=remedy, is_error=False)
        for text in status.abandoned_texts
    ]


# ---------------------------------------------------------------- documents


def receiver_name(target: NotificationTarget) -> str:
    """Name of a receiver: its kind, host and a digest of its address, which does not reveal the address."""
    digest = hashlib.sha256(target.url.encode()).hexdigest()[:8]
    return f"{target.kind}-{urlsplit(target.url).hostname or 'unknown'}-{digest}"


def notification_id(decision: DecisionRecord) -> str:
    """Id by which a receiver recognizes a duplicate: the same at each attempt and each receiver."""
    text = f"{decision.cluster}/{decision.balancer}/{decision.number}/{decision.at:.6f}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def outbox_rows(decision: DecisionRecord, settings: ServeSettings) -> list[OutboxRow]:
    """A row for each receiver of `[[serve.notifications]]`; none unless the decision is of kind `notify`."""
    if decision.kind != "notify":
        return []
    condition = f"{decision.cluster}/{decision.balancer}/{decision.key}"
    bodies = {
        receiver_name(target): _FORMS[target.kind](decision, decision_link(decision, settings))
        for target in settings.notifications
    }
    return [
        OutboxRow(decision.number, name, condition, msgspec.json.encode(body).decode(), decision.at)
        for name, body in bodies.items()
    ]


def decision_link(decision: DecisionRecord, settings: ServeSettings) -> str:
    """Address of the page about a decision: its plan, its execution, or the balancer."""
    scheme = "https" if settings.tls_certificate_file else "http"
    base = (settings.public_url or f"{scheme}://{settings.listen}").rstrip("/")
    if decision.execution is not None:
        return f"{base}/clusters/{quote(decision.cluster)}/executions/{decision.execution}"
    if decision.digest:
        return f"{base}/plans/{decision.digest}"
    return f"{base}/clusters/{quote(decision.cluster)}/{quote(decision.balancer)}"


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _webhook_body(decision: DecisionRecord, link: str) -> object:
    return {
        "id": notification_id(decision),
        "decision": decision.number,
        "cluster": decision.cluster,
        "balancer": decision.balancer,
        "at": _time_text(decision.at),
        "key": decision.key,
        "is_over": decision.is_over,
        "reason": decision.reason,
        "link": link,
    }


def _slack_body(decision: DecisionRecord, link: str) -> object:
    state = "Over: " if decision.is_over else ""
    reason = decision.reason.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": f"{state}trimtab {decision.cluster}/{decision.balancer}: {reason} <{link}|details>"}


def _alertmanager_body(decision: DecisionRecord, link: str) -> object:
    labels = {
        "alertname": "TrimtabNotification",
        "cluster": decision.cluster,
        "balancer": decision.balancer,
        "key": decision.key,
    }
    annotations = {"summary": decision.reason, "id": notification_id(decision)}
    alert: dict[str, object] = {"labels": labels, "annotations": annotations, "generatorURL": link}
    if decision.is_over:  # Alertmanager knows the start
        return [{**alert, "endsAt": _time_text(decision.at)}]
    lasts = LASTING_SECONDS if decision.key in LASTING_CONDITIONS else EVENT_SECONDS
    times = {"startsAt": _time_text(decision.at), "endsAt": _time_text(decision.at + lasts)}
    return [{**alert, **times}]


_FORMS: Final[Mapping[str, Callable[[DecisionRecord, str], object]]] = {
    "webhook": _webhook_body,
    "slack": _slack_body,
    "alertmanager": _alertmanager_body,
}


# ---------------------------------------------------------------- delivery

_REAL: Final = Runtime()
Send = Callable[[NotificationTarget, OutboxRow], None]


def deliver_pending(
    outbox: Outbox, receivers: Mapping[str, NotificationTarget], now: float, send: Send
) -> tuple[int, int]:
    """Attempt all pending rows once; a receiver that fails gets no further row in this pass.

    Parameters
    ----------
    receivers
        Receivers by `receiver_name`; a row for another one is abandoned.
    now
        Seconds since 1970.
    send
        Sends a row; raises `DeliveryError` where the receiver does not accept it.

    Returns
    -------
    tuple of int
        Rows that were delivered, and attempts that failed.
    """
    delivered, failing = 0, set[str]()
    for row in outbox.pending(now):
        target = receivers.get(row.receiver)
        if target is None:
            outbox.failed(row, None, "the receiver is no longer in the settings")
            LOG.warning("notification of decision %d to %s is abandoned", row.number, row.receiver)
            continue
        if row.receiver in failing:
            continue
        try:
            send(target, row)
        except DeliveryError as error:
            failing.add(row.receiver)
            is_last = row.attempts + 1 >= MAX_ATTEMPTS
            outbox.failed(row, None if is_last else now + PAUSES_SECONDS[row.attempts], str(error))
            LOG.warning(
                "notification of decision %d to %s: attempt %d of %d failed: %s",
                row.number, row.receiver, row.attempts + 1, MAX_ATTEMPTS, error,
            )  # fmt: skip
        else:
            outbox.delivered(row)
            delivered += 1
    return delivered, len(failing)


_OPENER: Final = urllib.request.build_opener(NoRedirects)
_ALERTS_PATH: Final = "/api/v2/alerts"


def post(target: NotificationTarget, row: OutboxRow, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Send a row to its receiver, which accepts it with a status 200 to 299.

    Raises
    ------
    DeliveryError
        If the key cannot be read, or the receiver does not answer in time, redirects or refuses.
    """
    body, url = row.body.encode(), target.url
    headers = {"Content-Type": "application/json", "User-Agent": "trimtab"}
    if target.kind == "alertmanager" and not url.endswith(_ALERTS_PATH):
        url = url.rstrip("/") + _ALERTS_PATH
    if target.kind == "webhook":
        headers["X-Trimtab-Id"] = msgspec.json.decode(body)["id"]
        if target.secret_file:
            headers["X-Trimtab-Signature"] = f"sha256={signature(_key(target.secret_file), body)}"
    try:
        request = urllib.request.Request(url, body, headers, method="POST")
        with _OPENER.open(request, timeout=timeout_seconds):
            return
    except urllib.error.HTTPError as error:
        error.close()
        hint = "; name the address that it redirects to" if 300 <= error.code < 400 else ""
        raise DeliveryError(f"the receiver answered {error.code}{hint}") from None
    except urllib.error.URLError as error:
        cause = error.reason
        raise DeliveryError(f"no connection: {cause if isinstance(cause, OSError) else 'see url'}") from None
    except TimeoutError:
        raise DeliveryError(f"no answer within {timeout_seconds:g} s") from None
    except Exception as error:  # their texts may show the address
        raise DeliveryError(f"no answer that can be read: {type(error).__name__}") from None


def signature(key: bytes, body: bytes) -> str:
    """HMAC-SHA-256 of a body in hex, as in the header `X-Trimtab-Signature`."""
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def _key(path: str) -> bytes:
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise DeliveryError(f"secret_file {path} cannot be read: {error.strerror}") from None
    if not key:
        raise DeliveryError(f"secret_file {path} is empty: write a key of at least 16 characters into it")
    return key


class Deliverer:
    """A thread that delivers what is in the outbox while this instance decides.

    Parameters
    ----------
    settings
        The settings in force, for the receivers.
    is_leader
        Whether this instance decides; only the deciding instance can mark rows.
    """

    def __init__(
        self,
        outbox: Outbox,
        settings: Callable[[], ServeSettings],
        is_leader: Callable[[], bool],
        *,
        send: Send = post,
        runtime: Runtime = _REAL,
        poll_seconds: float = 5.0,
    ) -> None:
        self._outbox, self._settings, self._is_leader = outbox, settings, is_leader
        self._send, self._runtime, self._poll_seconds = send, runtime, poll_seconds
        self._ended = False
        self._wakeup = runtime.event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread of deliveries."""
        self._thread = self._runtime.start("notifications", self._run)

    def wake(self) -> None:
        """Look into the outbox now, after rows were added."""
        self._wakeup.set()

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """End the thread; an attempt that takes longer is left, and repeated after the next start."""
        self._ended = True
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._ended:
            try:
                if self._is_leader():
                    receivers = {receiver_name(one): one for one in self._settings().notifications}
                    deliver_pending(self._outbox, receivers, self._runtime.clock(), self._send)
            except Exception as error:  # the thread outlives an unreachable lake and a lost leadership
                LOG.warning("notifications wait: %s", error)
            self._wakeup.wait(self._poll_seconds)
            self._wakeup.clear()
