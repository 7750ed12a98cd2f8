"""Publishing: a plan held against what is published, carried out, and taken back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from trimtab.act.control import Runner
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.executor import StateCodecs
from trimtab.act.journal import Journal
from trimtab.act.queues import (
    EXECUTOR,
    PublishedObservation,
    QueuesExecutionState,
    QueuesMachine,
    Value,
    prepare,
)
from trimtab.model.documents import SnapshotReference
from trimtab.model.errors import ActError
from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import Prediction, Verdict
from trimtab.model.queues import (
    PublicationAssignment,
    PublicationBound,
    PublicationCost,
    PublicationKind,
    QueuesPlan,
)

NOTHING = ImbalanceSummary({}, {}, {})


def a_plan(version: int, **weights: tuple[float | None, float]) -> QueuesPlan:
    """A plan made at a version: before and after of each weight."""
    return QueuesPlan(
        balancer="queues",
        strategy="trim",
        seed=0,
        settings={},
        snapshot=SnapshotReference("queues", "2026-11-23T04:00:00Z", "0" * 64),
        verdict=Verdict.BALANCED,
        moves=(),
        predicted=Prediction(NOTHING, NOTHING),
        version=version,
        assignments=tuple(
            PublicationAssignment(PublicationKind.WEIGHT, name, *both) for name, both in weights.items()
        ),
        cost=PublicationCost(0, 0),
        bound=PublicationBound(0, ""),
    )


class Server:
    """What is published, in memory; others may publish in between."""

    claim_rights = ""

    def __init__(self) -> None:
        self.tables: list[dict[str, Value]] = []
        self.faster = 0

    def observe(self) -> PublishedObservation:
        table = self.tables[-1] if self.tables else {}
        history = dict(enumerate(self.tables, 1))
        return PublishedObservation("queues at here", "queues", len(self.tables), table, history)

    def publish(self, base: int, changes: Mapping[str, Value | None]) -> int | None:
        if self.faster:
            self.faster -= 1
            self.tables.append({**self.observe().table, "weight/other": float(len(self.tables))})
        if base != len(self.tables):
            return None
        table = {**self.observe().table, **changes}
        self.tables.append({key: value for key, value in table.items() if value is not None})
        return len(self.tables)

    def read_claims(self) -> frozenset[str]:
        return frozenset()

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        pass


def carried_out(server: Server, plan: QueuesPlan, folder: Path) -> QueuesExecutionState:
    """Prepared, journaled and run to its end in virtual time."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.01)

    ready = prepare(plan, server.observe(), False)
    state = EXECUTOR.new_execution(ready.cluster_id, ready.steps, RetryPolicy(), now[0])
    with Journal(
        folder / "journal.sqlite", StateCodecs({"queues": EXECUTOR.codec}, unnamed="queues")
    ) as journal:
        number = journal.create(state, "queues", "{}", "test", {})
        machine = QueuesMachine(server, lambda: now[0], None)
        return Runner(machine, journal, None, number, state, clock=lambda: now[0], sleep=sleep).run()


def test_all_weights_go_out_in_one_document(tmp_path: Path) -> None:
    """Senders see all of a plan or nothing of it."""
    server = Server()
    state = carried_out(server, a_plan(0, vote=(None, 0.01), report=(None, 0.5)), tmp_path)
    assert server.tables == [{"weight/vote": 0.01, "weight/report": 0.5}]
    assert (state.status, state.version) == ("finished", 1)


def test_a_plan_that_is_published_already_does_nothing(tmp_path: Path) -> None:
    """Applied a second time, it reports that nothing is left to do."""
    server = Server()
    plan = a_plan(0, vote=(None, 0.01))
    carried_out(server, plan, tmp_path)
    again = prepare(plan, server.observe(), False)
    assert again.steps == ()
    assert again.comparison.fit == {"weight/vote": "already done"}


def test_weights_that_changed_since_are_not_overwritten() -> None:
    """Another process published a weight after the plan: rejected by name, or left out."""
    server = Server()
    server.tables = [{"weight/vote": 0.01}, {"weight/vote": 0.02, "weight/report": 0.5}]
    plan = a_plan(1, vote=(0.01, 0.03), report=(0.5, 0.6))
    with pytest.raises(ActError, match=r"weight/vote is 0.02 by now \(version 2\), and was 0.01"):
        prepare(plan, server.observe(), False)
    assert [one.key for one in prepare(plan, server.observe(), True).steps] == ["weight/report"]


def test_an_older_plan_reverts_later_changes(tmp_path: Path) -> None:
    """Version 1 again, under a new number; a class of version 2 is removed."""
    server = Server()
    first = a_plan(0, vote=(None, 0.01))
    carried_out(server, first, tmp_path)
    (tmp_path / "two").mkdir()
    carried_out(server, a_plan(1, vote=(0.01, 0.02), report=(None, 0.5)), tmp_path / "two")
    (tmp_path / "three").mkdir()
    carried_out(server, first, tmp_path / "three")
    assert server.tables[-1] == {"weight/vote": 0.01}
    assert len(server.tables) == 3


def test_changes_of_a_faster_publisher_are_not_lost(tmp_path: Path) -> None:
    """Another document was published between observation and publication, twice: its changes stay."""
    server = Server()
    server.faster = 2
    state = carried_out(server, a_plan(0, vote=(None, 0.01)), tmp_path)
    assert state.status == "finished"
    assert server.tables[-1] == {"weight/other": 1.0, "weight/vote": 0.01}
    assert [record.attempts for record in state.records] == [2]


def test_a_publisher_that_always_loses_the_race_fails_with_that_reason(tmp_path: Path) -> None:
    """After the last attempt the step names the other publisher as its cause."""
    server = Server()
    server.faster = 100
    state = carried_out(server, a_plan(0, vote=(None, 0.01)), tmp_path)
    assert state.status == "incomplete"
    assert [record.reason for record in state.records] == [
        "another document was published meanwhile (8 attempts)"
    ]
