"""The ledger of a sandbox of groups notices what must not be."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kill_tests import masters
from kill_tests.masters import ReportedMasterships
from trimtab.lab.sandbox.masters.clients import MessageLedger, StoreViolation, payload
from trimtab_store.clients.cluster import StoreConfig, masters_of
from trimtab_store.clients.consumer import StoredMessage
from trimtab_store.core.messages import GroupStatus, MapChanged
from trimtab_store.format.configuration import TransportSecurity


def message(offset: int, sequence: int, producer: str = "p") -> StoredMessage:
    """One as its producer sent it."""
    return StoredMessage(offset, producer, sequence, payload(producer, sequence, 40))


def read(ledger: MessageLedger, *messages: StoredMessage, consumer: str = "c") -> None:
    """One consumer gets these."""
    before = None
    for one in messages:
        ledger.read(consumer, one, before)
        before = one


def test_a_log_in_order_passes() -> None:
    """With two producers between one another, and one message that was not acknowledged."""
    ledger = MessageLedger("t")
    ledger.stored("p", 2)
    read(ledger, message(0, 1), message(1, 1, "q"), message(2, 2), message(3, 3))
    assert ledger.audit() == 4


def test_a_consumer_resumes_between_the_stored_and_the_last_offset() -> None:
    """Messages read but not stored are received again, and counted."""
    ledger = MessageLedger("t")
    read(ledger, *(message(offset, offset + 1) for offset in range(5)))
    ledger.committed["c"] = 2
    read(ledger, message(3, 4))
    assert ledger.again == 2
    with pytest.raises(StoreViolation, match="begins at 1, and 2 was kept"):
        read(ledger, message(1, 2))
    with pytest.raises(StoreViolation, match="begins at 6, and was at 5"):
        read(ledger, message(6, 7))


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ((message(0, 1), message(2, 2)), "got 2 after 0"),
        ((message(0, 1)._replace(payload=b"q 1 "),), "which nobody sent"),
        ((message(0, 1), message(1, 1)), "message 1 of p stands at 1 of t, not 2"),
        ((message(0, 2), message(1, 1)), "message 2 of p stands at 0 of t, not 1"),
        ((message(0, 1), message(1, 2)), "3 messages of p in t were acknowledged, and 2 are there"),
    ],
)
def test_missing_duplicate_or_different_messages_are_reported(
    messages: tuple[StoredMessage, ...], sentence: str
) -> None:
    """One sentence each."""
    ledger = MessageLedger("t")
    ledger.stored("p", 3)
    with pytest.raises(StoreViolation, match=sentence):
        read(ledger, *messages)
        ledger.audit()


def test_two_consumers_with_different_messages_at_one_offset_are_reported() -> None:
    """A log that was written again."""
    ledger = MessageLedger("t")
    read(ledger, message(0, 1))
    with pytest.raises(StoreViolation, match="read .'q', 1. at 0, where .'p', 1. stood"):
        read(ledger, message(0, 1, "q"), consumer="d")


def test_messages_deleted_earlier_are_no_loss() -> None:
    """An earlier load's messages begin anywhere; those of this one do not."""
    ledger = MessageLedger("t")
    ledger.stored("p", 1)
    read(ledger, message(70, 9, "old"), message(71, 10, "old"), message(72, 1))
    assert ledger.audit() == 3
    read(ledger, message(73, 12, "old"), consumer="d")
    with pytest.raises(StoreViolation, match="message 12 of old stands at 73 of t, not 11"):
        ledger.audit()


def holding(**nodes: int) -> dict[int, dict[int, GroupStatus]]:
    """A round of answers about group 0: `n1=7`, node 1 is master by version 7; with -1 it is not."""
    return {
        int(name[1:]): {0: GroupStatus(version >= 0, 0, abs(version), 0, 0, True)}
        for name, version in nodes.items()
    }


def test_one_master_after_another_passes() -> None:
    """Renewed, handed over between two answers of a round, taken over again."""
    masterships = ReportedMasterships()
    for one in (holding(n0=5, n1=-1), holding(n0=9), holding(n0=9, n1=11), holding(n1=11), holding(n0=12)):
        masterships.check_round(one)
    assert masterships.answers == 7


def test_two_masters_are_noticed() -> None:
    """By one version at once; and one that is master still after another one was by a newer version."""
    with pytest.raises(StoreViolation, match="several nodes are master of group 0 by one version"):
        ReportedMasterships().check_round(holding(n0=5, n1=5))
    masterships = ReportedMasterships()
    masterships.check_round(holding(n0=5, n1=7))
    with pytest.raises(StoreViolation, match="node 0 is master of group 0 by version 5, after node 1 was by"):
        masterships.check_round(holding(n0=5, n1=7))
    masterships = ReportedMasterships()
    masterships.check_round(holding(n0=5))
    with pytest.raises(StoreViolation, match="node 1 is master of group 0 by version 5, after node 0 was by"):
        masterships.check_round(holding(n1=5))


def test_kill_tests_detect_two_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends with the violation if two nodes claim one group, whatever its clients observe."""

    async def both(cluster: object, seconds: float) -> dict[int, dict[int, GroupStatus]]:
        return holding(n0=5, n2=5)

    monkeypatch.setattr(masters, "query_group_status", both)
    monkeypatch.setattr(masters, "TIMEOUT_SECONDS", 1.0)
    cluster = StoreConfig("c", ("127.0.0.1:1",) * 3, masters.GROUPS, TransportSecurity())
    sandbox: Any = SimpleNamespace(state=SimpleNamespace(cluster=cluster), require_running=lambda: None)
    run = masters.StoreKillTest(sandbox, seed=1)

    async def never(*words: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(run._clients, "produce", never)
    monkeypatch.setattr(run._clients, "consume", never)
    with pytest.raises(StoreViolation, match="several nodes are master of group 0"):
        run.run(1)


@pytest.mark.parametrize(
    ("version", "preferred", "lost"), [(3, (0,), True), (4, (1,), True), (4, (0,), False), (5, (1,), False)]
)
def test_kill_tests_detect_a_lost_map(
    monkeypatch: pytest.MonkeyPatch, version: int, preferred: tuple[int, ...], lost: bool
) -> None:
    """The last published map, or a later unconfirmed one, is in force."""
    cluster = StoreConfig("c", ("127.0.0.1:1",) * 3, masters.GROUPS, TransportSecurity())
    monkeypatch.setattr(masters, "SETTLE_SECONDS", 0.0)
    paxos = SimpleNamespace(preferred_map=lambda: MapChanged(version, preferred))
    run = masters.StoreKillTest(
        SimpleNamespace(state=SimpleNamespace(cluster=cluster), paxos=paxos, publish=lambda preferred: 4),  # type: ignore[arg-type]
        seed=1,
    )
    run._publish((0,))
    if lost:
        with pytest.raises(
            StoreViolation, match=rf"version 4 of the map was published as \[0\].* version {version}"
        ):
            run._audit_map()
    else:
        run._audit_map()


def test_the_master_is_the_node_with_the_newest_version() -> None:
    """A transfer happened between two answers: in any order of arrival, the new master is found."""
    answers = holding(n0=5, n1=7)
    assert masters_of(answers, 1) == masters_of(dict(reversed(answers.items())), 1) == [1]
    assert masters_of(holding(n0=-1), 1) == [-1]
