"""Notifications: rows of the outbox, their forms, delivery at least once, and what errors show."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import logging
import signal
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from support.authority import Authority
from support.http_receiver import Receiver, receiver
from trimtab.files.replicated import LakeLog, WriterReplacedError
from trimtab.files.serve_settings import NotificationTarget, ServeSettings
from trimtab.lab.sandbox.processes import free_ports
from trimtab.serve.documents import DecisionRecord, NotificationStatus
from trimtab.serve.journal import DATABASE, ServiceJournal
from trimtab.serve.notifications import (
    MAX_ATTEMPTS,
    OUTBOX_SCHEMA,
    PAUSES_SECONDS,
    RETAINED_ROWS,
    Deliverer,
    DeliveryError,
    OutboxRow,
    SqliteOutbox,
    deliver_pending,
    notification_id,
    outbox_rows,
    post,
    receiver_name,
    status_findings,
)

NOW = 1_790_000_000.0


def decision(number: int = 7, **changes: Any) -> DecisionRecord:
    """A notification about an outage."""
    record = DecisionRecord(
        number=number,
        cluster="payments",
        balancer="replicas",
        at=NOW,
        kind="notify",
        reason="3 of 6 brokers are lost <b1> & more",
        key="outage",
    )
    return msgspec.structs.replace(record, **changes)


def open_outbox(path: str | Path = ":memory:") -> tuple[SqliteOutbox, sqlite3.Connection]:
    """An outbox over a database of its own."""
    connection = sqlite3.connect(path, check_same_thread=False)
    for statement in OUTBOX_SCHEMA:
        connection.execute(statement)
    connection.commit()
    return SqliteOutbox(connection.execute, lambda: connection), connection


@pytest.fixture
def outbox() -> Iterator[SqliteOutbox]:
    """An empty outbox in memory."""
    found, connection = open_outbox()
    with closing(connection):
        yield found


def settings_of(*targets: NotificationTarget) -> ServeSettings:
    """Settings with these receivers."""
    return ServeSettings(notifications=targets, public_url="https://trimtab.example/")


def by_name(*targets: NotificationTarget) -> dict[str, NotificationTarget]:
    """Receivers by their name."""
    return {receiver_name(one): one for one in targets}


def test_only_notifications_reach_the_outbox() -> None:
    """A wait and a refusal notify nobody; a notification has a row for each receiver, named once."""
    hook, chat = NotificationTarget("webhook", "http://a/x"), NotificationTarget("slack", "http://b/y")
    settings = settings_of(hook, chat, hook)
    assert outbox_rows(decision(kind="wait"), settings) == []
    assert outbox_rows(decision(kind="refuse"), settings) == []
    rows = outbox_rows(decision(), settings)
    assert [row.receiver for row in rows] == [receiver_name(hook), receiver_name(chat)]
    assert {(row.number, row.condition, row.at) for row in rows} == {(7, "payments/replicas/outage", NOW)}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, "clusters/payments/replicas"),
        ({"digest": "ab" * 32}, f"plans/{'ab' * 32}"),
        ({"digest": "ab" * 32, "execution": 4}, "clusters/payments/executions/4"),
    ],
)
def test_a_webhook_names_the_decision_and_its_page(changes: dict[str, Any], path: str) -> None:
    """The document of a webhook has id, target, time, condition, reason and a link."""
    record = decision(**changes)
    (row,) = outbox_rows(record, settings_of(NotificationTarget("webhook", "http://a/x")))
    assert json.loads(row.body) == {
        "id": notification_id(record),
        "decision": 7,
        "cluster": "payments",
        "balancer": "replicas",
        "at": "2026-09-21T14:13:20.000+00:00",
        "key": "outage",
        "is_over": False,
        "reason": "3 of 6 brokers are lost <b1> & more",
        "link": f"https://trimtab.example/{path}",
    }


def test_ids_differ_between_decisions_and_journals() -> None:
    """A new journal counts from 1 again; its ids differ from those of the old one."""
    ids = {notification_id(one) for one in (decision(7), decision(8), decision(7, at=NOW + 60))}
    assert len(ids) == 3
    assert notification_id(decision(7)) == notification_id(decision(7, reason="other words"))


def test_a_chat_receives_escaped_text() -> None:
    """Characters with a meaning in Slack's text are escaped, and an end is marked."""
    (row,) = outbox_rows(decision(is_over=True), settings_of(NotificationTarget("slack", "http://a/x")))
    text = json.loads(row.body)["text"]
    assert text.startswith("Over: trimtab payments/replicas: 3 of 6 brokers are lost &lt;b1&gt; &amp; more")
    assert "<https://trimtab.example/clusters/payments/replicas|details>" in text


@pytest.mark.parametrize(("key", "days"), [("outage", 30), ("worse-3", 1)])
def test_an_alert_of_an_event_ends_after_a_day(key: str, days: int) -> None:
    """Alertmanager holds a lasting condition until its end is notified, and an event for a day."""
    target = NotificationTarget("alertmanager", "http://a")
    (row,) = outbox_rows(decision(key=key), settings_of(target))
    (alert,) = json.loads(row.body)
    assert alert["labels"] == {
        "alertname": "TrimtabNotification", "cluster": "payments", "balancer": "replicas", "key": key,
    }  # fmt: skip
    day = 21 + days
    assert alert["startsAt"] == "2026-09-21T14:13:20.000+00:00"
    assert alert["endsAt"] == (f"2026-09-{day}" if day < 31 else "2026-10-21") + "T14:13:20.000+00:00"
    (row,) = outbox_rows(decision(key=key, is_over=True), settings_of(target))
    (alert,) = json.loads(row.body)
    assert (alert["endsAt"], "startsAt" in alert) == ("2026-09-21T14:13:20.000+00:00", False)


def test_a_failing_receiver_is_attempted_ten_times_in_a_day(outbox: SqliteOutbox) -> None:
    """Pauses grow; after the tenth attempt, 23.7 h after the first, the row is abandoned and named."""
    target = NotificationTarget("webhook", "http://hook.example/secret-path")
    outbox.add(outbox_rows(decision(), settings_of(target)))
    at: list[float] = []

    def refuse(_: NotificationTarget, __: OutboxRow) -> None:
        at.append(now)
        raise DeliveryError("the receiver answered 500")

    for step in range(30 * 360):  # 30 h in steps of 10 s
        now = NOW + 10.0 * step
        deliver_pending(outbox, by_name(target), now, refuse)
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert (len(at), pauses) == (MAX_ATTEMPTS, list(PAUSES_SECONDS))
    assert 23 * 3600 < at[-1] - at[0] <= 24 * 3600
    assert pauses == sorted(pauses)
    status = outbox.status()
    assert (status.waiting, status.abandoned) == (0, 1)
    (finding,) = status_findings(status)
    assert "decision 7" in finding.text
    assert "10 attempts" in finding.text
    assert "500" in finding.text
    assert "secret-path" not in finding.text


def test_notifications_of_a_condition_keep_their_order(outbox: SqliteOutbox) -> None:
    """The end of an outage is not sent before its begin; other conditions and receivers do not wait."""
    first, second = NotificationTarget("webhook", "http://a/x"), NotificationTarget("webhook", "http://b/x")
    settings = settings_of(first, second)
    for record in (decision(1), decision(2, is_over=True), decision(3, key="stale")):
        outbox.add(outbox_rows(record, settings))
    sent: list[tuple[str, int]] = []

    def send(target: NotificationTarget, row: OutboxRow) -> None:
        if target is first and row.number == 1 and not any(at == ("a", 3) for at in sent):
            raise DeliveryError("busy")
        sent.append((target.url[7], row.number))

    for step in range(5):
        deliver_pending(outbox, by_name(first, second), NOW + 10 * step, send)
    assert [number for name, number in sent if name == "b"] == [1, 3, 2]
    assert [number for name, number in sent if name == "a"] == [3, 1, 2]
    assert outbox.status().waiting == 0


def test_a_receiver_that_is_down_does_not_delay_the_others(outbox: SqliteOutbox) -> None:
    """One attempt in a pass tells that a receiver is down; the others get all their rows in it."""
    down, up = NotificationTarget("webhook", "http://a/x"), NotificationTarget("webhook", "http://b/x")
    for number in range(1, 21):
        outbox.add(outbox_rows(decision(number, key=f"execution-{number}"), settings_of(down, up)))
    attempts: list[str] = []

    def send(target: NotificationTarget, _: OutboxRow) -> None:
        attempts.append(target.url[7])
        if target is down:
            raise DeliveryError("no answer within 10 s")

    assert deliver_pending(outbox, by_name(down, up), NOW, send) == (20, 1)
    assert (attempts.count("a"), attempts.count("b")) == (1, 20)


def test_rows_of_a_removed_receiver_are_abandoned(outbox: SqliteOutbox) -> None:
    """A receiver that the settings no longer name gets nothing, and its rows do not wait for ever."""
    outbox.add(outbox_rows(decision(), settings_of(NotificationTarget("webhook", "http://a/x"))))
    assert deliver_pending(outbox, {}, NOW, post) == (0, 0)
    assert "no longer in the settings" in outbox.status().abandoned_texts[0]


def test_rows_follow_their_transaction(tmp_path: Path) -> None:
    """A decision that is rolled back leaves no notification."""
    outbox, connection = open_outbox(tmp_path / "journal")
    rows = outbox_rows(decision(), settings_of(NotificationTarget("webhook", "http://a/x")))
    with pytest.raises(RuntimeError), connection:
        outbox.add(rows)
        raise RuntimeError
    assert outbox.status().waiting == 0
    with connection:
        outbox.add(rows)
    other, second = open_outbox(tmp_path / "journal")
    assert list(other.pending(NOW)) == rows
    connection.close()
    second.close()


def test_old_rows_are_removed(outbox: SqliteOutbox) -> None:
    """Delivered rows stay for a number of decisions; waiting rows stay until they are delivered."""
    target = NotificationTarget("webhook", "http://a/x")
    settings = settings_of(target)
    outbox.add(outbox_rows(decision(1), settings))
    deliver_pending(outbox, by_name(target), NOW, lambda *_: None)
    outbox.add(outbox_rows(decision(2, at=NOW + 1e6), settings))
    outbox.add(outbox_rows(decision(2 + RETAINED_ROWS, at=NOW + 1e6), settings))
    numbers = [row[0] for row in outbox._execute("SELECT number FROM outbox ORDER BY number", ())]
    assert numbers == [2, 2 + RETAINED_ROWS]


def sent_by(target: NotificationTarget, record: DecisionRecord | None = None, **limits: float) -> None:
    """Send one notification through HTTP."""
    (row,) = outbox_rows(record or decision(), settings_of(target))
    post(target, row, **limits)


@pytest.fixture
def server() -> Iterator[Receiver]:
    """A receiver on the loopback."""
    with receiver() as found:
        yield found


def test_a_webhook_is_signed(server: Receiver, tmp_path: Path) -> None:
    """The signature is the HMAC of the exact body with the key of the file, read at each attempt."""
    secret = tmp_path / "key"
    target = NotificationTarget("webhook", f"{server.url}/hook?a=1", str(secret))
    for key in (b"first-key-of-the-test", b"second-key-of-the-test"):
        secret.write_bytes(key + b"\n")
        sent_by(target)
        path, headers, body = server.requests[-1]
        assert path == "/hook?a=1"
        assert headers["content-type"] == "application/json"
        assert headers["x-trimtab-id"] == json.loads(body)["id"] == notification_id(decision())
        assert headers["x-trimtab-signature"] == f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"


def test_a_webhook_without_key_and_a_chat_are_not_signed(server: Receiver) -> None:
    """Without `secret_file` no signature is sent, rather than one of an empty key."""
    sent_by(NotificationTarget("webhook", server.url))
    sent_by(NotificationTarget("slack", server.url))
    assert all("x-trimtab-signature" not in headers for _, headers, _ in server.requests)
    assert list(json.loads(server.requests[1][2])) == ["text"]


@pytest.mark.parametrize("content", [None, b"\n"])
def test_a_missing_or_empty_key_sends_nothing(
    server: Receiver, tmp_path: Path, content: bytes | None
) -> None:
    """A webhook that should be signed is never sent unsigned."""
    secret = tmp_path / "key"
    if content is not None:
        secret.write_bytes(content)
    with pytest.raises(DeliveryError, match="secret_file"):
        sent_by(NotificationTarget("webhook", server.url, str(secret)))
    assert server.requests == []


def test_alerts_go_to_the_path_of_alertmanager(server: Receiver) -> None:
    """The address may end with the path of the API, or leave it out."""
    for end in ("", "/", "/api/v2/alerts"):
        sent_by(NotificationTarget("alertmanager", server.url + end))
    assert [path for path, _, _ in server.requests] == ["/api/v2/alerts"] * 3


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 429, 500, 503])
def test_other_statuses_are_failures(server: Receiver, status: int) -> None:
    """A receiver that refuses, fails or redirects has not accepted; the redirect is not followed."""
    with receiver() as elsewhere:
        server.answer, server.headers = lambda _: status, {"Location": f"{elsewhere.url}/secret-place"}
        with pytest.raises(DeliveryError, match=str(status)) as caught:
            sent_by(NotificationTarget("webhook", f"{server.url}/secret-path"))
        assert elsewhere.requests == []
    assert "secret" not in str(caught.value)


def test_errors_do_not_show_addresses(server: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """The address of a chat's webhook is a secret: neither errors, nor logs, nor names have it."""
    (port,) = free_ports(1)
    server.delay_seconds = 1.0
    addresses = [
        f"http://127.0.0.1:{port}/hush-1",  # nothing listens
        f"{server.url}/hush-2",  # too slow
        "http://127.0.0.1:1/hush 3\n",  # no address
        "gopher://127.0.0.1/hush-4",
        f"http://no-such-host.invalid:{port}/hush-5",
        f"https://127.0.0.1:{server.url.rpartition(':')[2]}/hush-6",  # no TLS there
    ]
    outbox, connection = open_outbox()
    caplog.set_level(logging.DEBUG)
    targets = [NotificationTarget("slack", one) for one in addresses]
    outbox.add(outbox_rows(decision(), settings_of(*targets)))

    def send(target: NotificationTarget, row: OutboxRow) -> None:
        post(target, row, 0.3)

    for attempt in range(MAX_ATTEMPTS):
        assert deliver_pending(outbox, by_name(*targets), NOW + 1e6 * attempt, send) == (0, len(addresses))
    shown = [caplog.text, *outbox.status().abandoned_texts]
    connection.close()
    assert all("hush" not in text for text in shown)
    assert len(shown) == 1 + len(addresses)
    assert caplog.text.count("attempt 10 of 10 failed") == len(addresses)


def test_a_certificate_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    """A notification is not sent to a host whose certificate nobody vouches for."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))

    certificate, key = Authority(tmp_path).signed("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    with pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED"):
        sent_by(NotificationTarget("webhook", f"https://127.0.0.1:{server.server_address[1]}/x"))
    server.shutdown()
    server.server_close()
    assert received == []


KILLED = """
import os, signal, sqlite3, sys
from trimtab.files.serve_settings import NotificationTarget
from trimtab.serve.notifications import OUTBOX_SCHEMA, SqliteOutbox, deliver_pending, post, receiver_name
path, url, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = sqlite3.connect(path)
target = NotificationTarget("webhook", url)
sent = 0
def send(target, row):
    global sent
    post(target, row)
    sent += 1
    if sent == after:
        os.kill(os.getpid(), signal.SIGKILL)
outbox = SqliteOutbox(connection.execute, lambda: connection)
deliver_pending(outbox, {receiver_name(target): target}, 2e9, send)
"""


def test_a_kill_between_sending_and_marking_loses_nothing(server: Receiver, tmp_path: Path) -> None:
    """Processes are killed with -9 after a notification is sent, before it is marked.

    Every notification arrives. Only those of a kill arrive twice, with the same id and the same bytes.
    """
    target = NotificationTarget("webhook", server.url)
    outbox, connection = open_outbox(tmp_path / "journal")
    with connection:
        for number in range(1, 21):
            outbox.add(outbox_rows(decision(number, key=f"execution-{number}"), settings_of(target)))
    killed = 0
    for after in (1, 3, 5, 2, 0):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "journal"), server.url, str(after)]
        code = subprocess.run(command, check=False, timeout=60).returncode
        assert code == (-signal.SIGKILL if after else 0)
        killed += code != 0
    bodies = [body for _, _, body in server.requests]
    ids = [headers["x-trimtab-id"] for _, headers, _ in server.requests]
    assert set(ids) == {
        notification_id(decision(number, key=f"execution-{number}")) for number in range(1, 21)
    }
    assert len(ids) == 20 + killed == 24
    assert len(set(bodies)) == 20
    assert outbox.status() == NotificationStatus()
    connection.close()


def test_the_next_deciding_instance_delivers(tmp_path: Path, server: Receiver) -> None:
    """Rows and marks reach the lake; an instance that was replaced cannot mark, and its row is sent again."""
    target = NotificationTarget("webhook", server.url)
    receivers = by_name(target)
    with ExitStack() as stack:
        journals, outboxes = [], []
        for name in ("first", "second"):
            log = LakeLog(tmp_path / "lake", tmp_path / name, (DATABASE,))
            log.restore()
            journal = ServiceJournal(log, OUTBOX_SCHEMA)
            stack.callback(journal.close)
            journals.append((log, journal))
            outboxes.append(SqliteOutbox(journal.execute, journal.transaction))
        (first, journal), (second, _) = journals
        stack.enter_context(first.writing(lambda: None, "first"))
        with journal.transaction():
            for number in (1, 2):
                outboxes[0].add(outbox_rows(decision(number, key=f"worse-{number}"), settings_of(target)))

        def send_one(receiver: NotificationTarget, row: OutboxRow) -> None:
            if row.number == 2:  # another instance takes over while this one is sending
                second.follow()
                stack.enter_context(second.writing(lambda: None, "second"))
            post(receiver, row)

        with pytest.raises(WriterReplacedError):
            deliver_pending(outboxes[0], receivers, NOW, send_one)
        assert deliver_pending(outboxes[1], receivers, NOW, post) == (1, 0)
        assert outboxes[1].status().waiting == 0
    ids = [headers["x-trimtab-id"] for _, headers, _ in server.requests]
    assert ids[1] == ids[2]
    assert len(ids) == 3


def test_the_thread_delivers_while_this_instance_decides(server: Receiver) -> None:
    """A standby sends nothing; a failure of the outbox does not end the thread."""
    target = NotificationTarget("webhook", server.url)
    settings = settings_of(target)
    outbox, connection = open_outbox()
    outbox.add(outbox_rows(decision(), settings))
    is_leader, calls = False, 0

    def leads() -> bool:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError("the lake is not reachable")
        return is_leader

    deliverer = Deliverer(outbox, lambda: settings, leads, poll_seconds=0.02)
    deliverer.start()
    wait_until(lambda: calls > 4)
    assert server.requests == []
    is_leader = True
    deliverer.wake()
    wait_until(lambda: outbox.status().waiting == 0)
    deliverer.stop()
    assert len(server.requests) == 1
    before = calls
    time.sleep(0.1)
    assert calls == before
    connection.close()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait at most 10 s for a condition."""
    ends = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)
