"""Transfers carried out: asked for a few at a time, watched, tried again, and never taken for granted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.act.control import Runner
from trimtab.act.execution.port import Failure
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.executor import StateCodecs
from trimtab.act.journal import Journal
from trimtab.act.masters import (
    EXECUTOR,
    MastersExecutionState,
    MastersMachine,
    MastersObservation,
    TransferLimits,
    TransferRequestResult,
    TransferSettings,
    prepare,
    warnings,
)
from trimtab.model.documents import SnapshotReference
from trimtab.model.errors import ActError
from trimtab.model.load import ImbalanceSummary
from trimtab.model.masters import (
    MastershipAssignment,
    MastershipMoveKind,
    MastershipTransfer,
    MastersPlan,
    TransferBound,
    TransferCost,
    TransferReason,
)
from trimtab.model.plan import Prediction, Verdict

NOTHING = ImbalanceSummary({}, {}, {})


def a_plan(**targets: tuple[str | None, str]) -> MastersPlan:
    """Groups by name, each with its master before and after."""
    moves = tuple(
        MastershipTransfer(
            order, MastershipMoveKind.TRANSFER, group, *both, 0.0, 0.0, TransferReason("epsilon", None, "")
        )
        for order, (group, both) in enumerate(targets.items(), 1)
    )
    return MastersPlan(
        balancer="masters",
        strategy="trim",
        seed=0,
        settings={},
        snapshot=SnapshotReference("store", "2026-11-24T15:00:00Z", "0" * 64),
        verdict=Verdict.BALANCED,
        moves=moves,
        predicted=Prediction(NOTHING, NOTHING),
        system="paxos",
        assignments=tuple(MastershipAssignment(group, *both) for group, both in targets.items()),
        cost=TransferCost(len(moves)),
        bound=TransferBound(0, ""),
    )


class Store:
    """Masterships that come where they are asked to be after some looks; some refuse, some never come."""

    claim_rights = ""

    def __init__(self, looks: int = 2, **masters: str | None) -> None:
        self.masters, self.looks, self.version = dict(masters), looks, 1
        self.wanted: dict[str, tuple[str, int]] = {}
        self.requested: list[Mapping[str, str]] = []
        self.refuse: dict[str, int] = {}
        self.behind: set[str] = set()
        self.faster = 0

    def observe(self, groups: Collection[str]) -> MastersObservation:
        for group, (node, looks) in list(self.wanted.items()):
            self.wanted[group] = node, looks - 1
            if looks <= 1:
                self.masters[group] = node
                del self.wanted[group]
        seen = {group: self.masters[group] for group in groups if group in self.masters}
        able = {group: frozenset({"0", "1", "2"} - self.behind) for group in seen}
        return MastersObservation("id", "store", self.version, seen, able, frozenset({"0", "1", "2"}))

    def request_transfers(self, base: int, targets: Mapping[str, str]) -> TransferRequestResult:
        self.requested.append(dict(targets))
        if self.faster:
            self.faster -= 1
            self.version += 1
        if base != self.version:
            return TransferRequestResult(None)
        failures = {}
        for group, node in targets.items():
            if self.refuse.get(group, 0):
                self.refuse[group] -= 1
                failures[group] = Failure("NotReady", "a moment", transient=True)
            else:
                self.wanted[group] = node, self.looks
        self.version += 1
        return TransferRequestResult(self.version, failures)

    def read_claims(self) -> frozenset[str]:
        return frozenset()

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        pass


class Execution:
    """An execution with its journal, which processes take up one after the other in virtual time."""

    def __init__(
        self, store: Store, plan: MastersPlan, folder: Path, settings: TransferSettings | None = None
    ) -> None:
        self.store, self.now = store, 1000.0
        ready = prepare(plan, store.observe([move.group for move in plan.moves]), False)
        chosen = TransferSettings() if settings is None else settings
        state = EXECUTOR.new_execution(ready.cluster_id, ready.steps, chosen, self.now)
        codecs = StateCodecs({"masters": EXECUTOR.codec}, unnamed="masters")
        self.journal = Journal(folder / "journal.sqlite", codecs)
        self.number = self.journal.create(state, "store", "{}", "test", {})
        self.runner: Runner[MastersExecutionState]

    def live(
        self,
        watch: Callable[[MastersExecutionState], None] | None = None,
        meanwhile: Callable[[float], None] = lambda now: None,
    ) -> MastersExecutionState:
        """Take it up, and run it to its end."""

        def sleep(seconds: float) -> None:
            self.now += max(seconds, 0.01)
            meanwhile(self.now)

        machine = MastersMachine(self.store, lambda: self.now, None)
        state = self.journal.state(self.number)
        assert isinstance(state, MastersExecutionState)
        self.runner = Runner(
            machine, self.journal, None, self.number, state, clock=lambda: self.now, sleep=sleep, watch=watch
        )
        return self.runner.run()

    def when_asked(
        self, ask: Callable[[Runner[MastersExecutionState]], None]
    ) -> Callable[[MastersExecutionState], None]:
        """A watch that asks something of the runner once a transfer is under way."""
        return lambda state: (
            ask(self.runner) if state.active and state.status is ExecutionStatus.RUNNING else None
        )


def carried_out(
    store: Store,
    plan: MastersPlan,
    folder: Path,
    settings: TransferSettings | None = None,
    meanwhile: Callable[[float], None] = lambda now: None,
) -> MastersExecutionState:
    """Prepared, journaled and run to its end in virtual time."""
    return Execution(store, plan, folder, settings).live(meanwhile=meanwhile)


def test_transfers_are_requested_in_batches(tmp_path: Path) -> None:
    """Two at a time: the third is requested once the first two are complete."""
    store = Store(a="0", b="0", c="0")
    settings = TransferSettings(masters=TransferLimits(max_in_flight=2))
    state = carried_out(store, a_plan(a=("0", "1"), b=("0", "2"), c=("0", "1")), tmp_path, settings)
    assert store.requested == [{"a": "1", "b": "2"}, {"c": "1"}]
    assert store.masters == {"a": "1", "b": "2", "c": "1"}
    assert (state.status, [record.state for record in state.records]) == ("finished", ["done"] * 3)


def test_a_completed_transfer_is_not_requested(tmp_path: Path) -> None:
    """Another process did it already."""
    store = Store(a="1", b="0")
    plan = a_plan(a=("0", "1"), b=("0", "2"))
    carried_out(store, plan, tmp_path)
    assert store.requested == [{"b": "2"}]


def test_a_plan_that_does_not_fit_any_more_is_refused() -> None:
    """Another node is master: the operator is told which one, or leaves the step out."""
    store = Store(a="2", b="0")
    plan = a_plan(a=("0", "1"), b=("0", "2"))
    seen = store.observe(["a", "b"])
    with pytest.raises(ActError, match="a is led by node 2, and was by node 0 in the plan"):
        prepare(plan, seen, False)
    assert [step.group for step in prepare(plan, seen, True).steps] == ["b"]


def test_a_group_without_a_master_is_as_good_a_step_as_ever() -> None:
    """Its master died since: what the plan wants still holds."""
    store = Store(a=None)
    assert [step.group for step in prepare(a_plan(a=("0", "1")), store.observe(["a"]), False).steps] == ["a"]


def test_a_plan_for_another_store_is_refused() -> None:
    """Names are compared, where the system has them."""
    plan = a_plan(a=("0", "1"))
    with pytest.raises(ActError, match="the plan is for 'other', and the connection leads to 'store'"):
        EXECUTOR.observe(Store(a="0"), replace(plan, snapshot=replace(plan.snapshot, cluster="other")))


def test_a_rejected_transfer_is_retried(tmp_path: Path) -> None:
    """Twice refused, done at the third time."""
    store = Store(a="0")
    store.refuse["a"] = 2
    state = carried_out(store, a_plan(a=("0", "1")), tmp_path)
    assert (state.status, len(store.requested), state.records[0].attempts) == ("finished", 3, 2)
    assert 1000.0 < (state.records[0].ended_at or 0) < 1010.0  # not only when it should have been there


def test_a_map_published_by_another_process_becomes_the_new_base(tmp_path: Path) -> None:
    """Another map was published between observation and publication: the request is repeated over the new
    one.
    """
    store = Store(a="0")
    store.faster = 1
    state = carried_out(store, a_plan(a=("0", "1")), tmp_path)
    assert (state.status, len(store.requested)) == ("finished", 2)


def test_a_transfer_without_effect_is_repeated_and_then_fails(tmp_path: Path) -> None:
    """Again after each transfer_timeout_seconds, up to the limit; then the execution reports what is left."""
    store = Store(looks=10**9, a="0")
    settings = TransferSettings(max_attempts=3, masters=TransferLimits(transfer_timeout_seconds=5.0))
    state = carried_out(store, a_plan(a=("0", "1")), tmp_path, settings)
    assert (state.status, len(store.requested)) == ("incomplete", 3)
    assert state.records[0].reason == "is not there after 5 s (3 attempts)"
    assert 1015.0 <= (state.records[0].ended_at or 0) < 1020.0


def test_a_node_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    """The node catches up after ten seconds; no transfer is requested before."""
    store = Store(a="0")
    store.behind = {"1"}
    plan = a_plan(a=("0", "1"))

    def meanwhile(now: float) -> None:
        assert now >= 1010 or not store.requested
        if now >= 1010:
            store.behind = set()

    assert carried_out(store, plan, tmp_path, meanwhile=meanwhile).status == "finished"
    store.masters, store.behind = {"a": "0"}, {"1"}
    ready = prepare(plan, store.observe(["a"]), False)
    assert warnings(store, ready, TransferSettings(), None) == [
        "a: node 1 is down, behind or without a vote now; it is waited for, 30 s"
    ]


def test_a_node_that_keeps_lagging_fails_its_transfers(tmp_path: Path) -> None:
    """After the grace time it is reported, and the rest continues."""
    store = Store(a="0", b="0")
    store.behind = {"1"}
    state = carried_out(store, a_plan(a=("0", "1"), b=("0", "2")), tmp_path)
    assert [record.state for record in state.records] == ["failed", "done"]
    assert state.records[0].reason == "node 1 is down, behind or without a vote in a"


def test_a_missing_group_is_reported(tmp_path: Path) -> None:
    """No transfer of a missing group is requested."""
    store = Store(a="0", b="0")
    plan = a_plan(a=("0", "1"), b=("0", "2"))
    execution = Execution(store, plan, tmp_path)
    del store.masters["a"]
    ended = execution.live()
    assert [record.state for record in ended.records] == ["failed", "done"]
    assert ended.records[0].reason == "is not there any more"


ONE_BY_ONE = TransferSettings(masters=TransferLimits(max_in_flight=1))


def two_steps(folder: Path, looks: int = 2) -> Execution:
    """Two groups that are to leave node 0, one after the other."""
    return Execution(Store(looks, a="0", b="0"), a_plan(a=("0", "1"), b=("0", "2")), folder, ONE_BY_ONE)


def test_a_stop_awaits_requested_transfers(tmp_path: Path) -> None:
    """The transfer in flight is awaited, the other one is not started; a resume performs it, too."""
    execution = two_steps(tmp_path)
    state = execution.live(execution.when_asked(Runner.stop))
    assert (state.status, state.reason) == ("stopped", "stopped on request")
    assert [record.state for record in state.records] == ["done", "pending"]
    assert execution.store.requested == [{"a": "1"}]
    state = execution.live()
    assert state.status == "finished"
    assert execution.store.requested == [{"a": "1"}, {"b": "2"}]
    assert execution.store.masters == {"a": "1", "b": "2"}


def test_a_cancel_takes_nothing_back(tmp_path: Path) -> None:
    """A requested mastership arrives and stays; no further one starts, and the journal records it."""
    execution = two_steps(tmp_path)
    state = execution.live(execution.when_asked(Runner.cancel))
    assert (state.status, [record.state for record in state.records]) == ("cancelled", ["done", "pending"])
    assert execution.store.requested == [{"a": "1"}]
    assert execution.store.masters == {"a": "1", "b": "0"}
    assert execution.journal.state(execution.number).status == "cancelled"


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A transfer that does not happen fails after its time-out, and is not requested again."""
    execution = two_steps(tmp_path, looks=10**9)
    state = execution.live(execution.when_asked(Runner.stop))
    assert (state.status, [record.state for record in state.records]) == ("stopped", ["pending"] * 2)
    assert execution.store.requested == [{"a": "1"}]
    assert state.records[0].reason == "is not there after 60 s"
    assert execution.now < 1000.0 + 60.0 + 5.0


class Killed(BaseException):
    """A process that ends in the middle."""


def test_a_killed_execution_is_resumed(tmp_path: Path) -> None:
    """The process died after its request, and the mastership moved: this is observed, and not requested
    again.
    """
    execution = two_steps(tmp_path)

    def dies(runner: Runner[MastersExecutionState]) -> None:
        if execution.store.requested:
            raise Killed

    with pytest.raises(Killed):
        execution.live(execution.when_asked(dies))
    for _ in range(2):
        execution.store.observe([])
    state = execution.live()
    assert (state.status, [record.state for record in state.records]) == ("finished", ["done"] * 2)
    assert execution.store.requested == [{"a": "1"}, {"b": "2"}]


def test_a_request_lost_with_a_killed_execution_is_repeated(tmp_path: Path) -> None:
    """The process died between the journal and the request: the request is sent now."""
    execution = two_steps(tmp_path)

    def dies(runner: Runner[MastersExecutionState]) -> None:
        raise Killed

    with pytest.raises(Killed):
        execution.live(execution.when_asked(dies))
    assert execution.store.requested == []
    state = execution.live()
    assert state.status == "finished"
    assert execution.store.requested == [{"a": "1"}, {"b": "2"}]
    assert execution.now < 1060.0  # not only when it should have been there
