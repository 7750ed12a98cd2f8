"""Takeovers carried out: asked for a few at a time, watched, tried again, and never taken for granted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.act.execution.codec import Codecs
from trimtab.act.execution.messages import Failure
from trimtab.act.journal import Journal
from trimtab.act.masters.acting import ACTING, prepare, warnings
from trimtab.act.masters.machine import MastersMachine
from trimtab.act.masters.settings import Handing, TakeoverSettings
from trimtab.act.masters.state import Answer, Seen, TakeoverState
from trimtab.act.runner import Runner
from trimtab.model.errors import ActError
from trimtab.model.imbalance import Measures
from trimtab.model.masters.plan import (
    Mastership,
    MastersPlan,
    MoveKind,
    Takeover,
    TakeoverBound,
    TakeoverCost,
    TakeoverReason,
)
from trimtab.model.plan import Prediction, Verdict
from trimtab.model.snapshot import SnapshotReference

NOTHING = Measures({}, {}, {})


def a_plan(**targets: tuple[str | None, str]) -> MastersPlan:
    """Groups by name, each with its master before and after."""
    moves = tuple(
        Takeover(order, MoveKind.TAKEOVER, group, *both, 0.0, 0.0, TakeoverReason("epsilon", None, ""))
        for order, (group, both) in enumerate(targets.items(), 1)
    )
    return MastersPlan(
        level="masters",
        strategy="trim",
        seed=0,
        settings={},
        snapshot=SnapshotReference("store", "2026-11-24T15:00:00Z", "0" * 64),
        verdict=Verdict.LEVELLED,
        moves=moves,
        predicted=Prediction(NOTHING, NOTHING),
        system="paxos",
        assignments=tuple(Mastership(group, *both) for group, both in targets.items()),
        cost=TakeoverCost(len(moves)),
        bound=TakeoverBound(0, ""),
    )


class Store:
    """Masterships that come where they are asked to be after some looks; some refuse, some never come."""

    claim_rights = ""

    def __init__(self, looks: int = 2, **masters: str | None) -> None:
        self.masters, self.looks, self.version = dict(masters), looks, 1
        self.wanted: dict[str, tuple[str, int]] = {}
        self.asked: list[Mapping[str, str]] = []
        self.refuse: dict[str, int] = {}
        self.behind: set[str] = set()
        self.faster = 0

    def observe(self, groups: Collection[str]) -> Seen:
        for group, (node, looks) in list(self.wanted.items()):
            self.wanted[group] = node, looks - 1
            if looks <= 1:
                self.masters[group] = node
                del self.wanted[group]
        seen = {group: self.masters[group] for group in groups if group in self.masters}
        able = {group: frozenset({"0", "1", "2"} - self.behind) for group in seen}
        return Seen("id", "store", self.version, seen, able, frozenset({"0", "1", "2"}))

    def ask_for(self, base: int, targets: Mapping[str, str]) -> Answer:
        self.asked.append(dict(targets))
        if self.faster:
            self.faster -= 1
            self.version += 1
        if base != self.version:
            return Answer(None)
        failures = {}
        for group, node in targets.items():
            if self.refuse.get(group, 0):
                self.refuse[group] -= 1
                failures[group] = Failure("NotReady", "a moment", transient=True)
            else:
                self.wanted[group] = node, self.looks
        self.version += 1
        return Answer(self.version, failures)

    def read_claims(self) -> frozenset[str]:
        return frozenset()

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        pass


def carried_out(
    store: Store,
    plan: MastersPlan,
    folder: Path,
    settings: TakeoverSettings | None = None,
    meanwhile: Callable[[float], None] = lambda now: None,
) -> TakeoverState:
    """Prepared, journaled and run to its end in virtual time."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.01)
        meanwhile(now[0])

    ready = prepare(plan, store.observe([move.group for move in plan.moves]), False)
    chosen = TakeoverSettings() if settings is None else settings
    state = ACTING.new_execution(ready.cluster_id, ready.steps, chosen, now[0])
    with Journal(folder / "journal.sqlite", Codecs({"masters": ACTING.codec}, unnamed="masters")) as journal:
        number = journal.create(state, "store", "{}", "test", {})
        machine = MastersMachine(store, lambda: now[0], None)
        return Runner(machine, journal, None, number, state, clock=lambda: now[0], sleep=sleep).run()


def test_a_few_are_asked_for_at_once(tmp_path: Path) -> None:
    """Two at a time: the third is asked for when the first two are there."""
    store = Store(a="0", b="0", c="0")
    settings = TakeoverSettings(masters=Handing(at_once=2))
    state = carried_out(store, a_plan(a=("0", "1"), b=("0", "2"), c=("0", "1")), tmp_path, settings)
    assert store.asked == [{"a": "1", "b": "2"}, {"c": "1"}]
    assert store.masters == {"a": "1", "b": "2", "c": "1"}
    assert (state.status, [record.state for record in state.records]) == ("finished", ["done"] * 3)


def test_what_moved_by_itself_is_not_asked_for(tmp_path: Path) -> None:
    """Somebody else did it already."""
    store = Store(a="1", b="0")
    plan = a_plan(a=("0", "1"), b=("0", "2"))
    carried_out(store, plan, tmp_path)
    assert store.asked == [{"b": "2"}]


def test_a_plan_that_does_not_fit_any_more_is_refused() -> None:
    """Another node is master by now: the operator is told which, or leaves it out."""
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
        ACTING.look(Store(a="0"), replace(plan, snapshot=replace(plan.snapshot, cluster="other")))


def test_a_refusal_is_tried_again(tmp_path: Path) -> None:
    """Twice refused, done at the third time."""
    store = Store(a="0")
    store.refuse["a"] = 2
    state = carried_out(store, a_plan(a=("0", "1")), tmp_path)
    assert (state.status, len(store.asked), state.records[0].attempts) == ("finished", 3, 2)
    assert 1000.0 < (state.records[0].ended_at or 0) < 1010.0  # not only when it should have been there


def test_a_map_of_somebody_else_is_built_upon(tmp_path: Path) -> None:
    """Another map came between look and order: nothing was published, and it is tried over the new one."""
    store = Store(a="0")
    store.faster = 1
    state = carried_out(store, a_plan(a=("0", "1")), tmp_path)
    assert (state.status, len(store.asked)) == ("finished", 2)


def test_what_never_comes_is_asked_for_again_and_given_up(tmp_path: Path) -> None:
    """After each takeover_seconds anew, as often as is allowed; then the execution says what is left."""
    store = Store(looks=10**9, a="0")
    settings = TakeoverSettings(attempts=3, masters=Handing(takeover_seconds=5.0))
    state = carried_out(store, a_plan(a=("0", "1")), tmp_path, settings)
    assert (state.status, len(store.asked)) == ("incomplete", 3)
    assert state.records[0].reason == "is not there after 5 s (3 attempts)"
    assert 1015.0 <= (state.records[0].ended_at or 0) < 1020.0


def test_a_node_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    """It catches up after ten seconds; before that nothing is asked of it."""
    store = Store(a="0")
    store.behind = {"1"}
    plan = a_plan(a=("0", "1"))

    def meanwhile(now: float) -> None:
        assert now >= 1010 or not store.asked
        if now >= 1010:
            store.behind = set()

    assert carried_out(store, plan, tmp_path, meanwhile=meanwhile).status == "finished"
    store.masters, store.behind = {"a": "0"}, {"1"}
    ready = prepare(plan, store.observe(["a"]), False)
    assert warnings(store, ready, TakeoverSettings()) == [
        "a: node 1 is down or behind now; it is waited for, 30 s"
    ]


def test_a_node_that_stays_behind_is_given_up(tmp_path: Path) -> None:
    """After the grace it is told, and what remains goes on."""
    store = Store(a="0", b="0")
    store.behind = {"1"}
    state = carried_out(store, a_plan(a=("0", "1"), b=("0", "2")), tmp_path)
    assert [record.state for record in state.records] == ["failed", "done"]
    assert state.records[0].reason == "node 1 is down, or behind in a"


def test_a_group_that_is_gone_is_told(tmp_path: Path) -> None:
    """Nothing is asked for what does not exist."""
    store = Store(a="0", b="0")
    plan = a_plan(a=("0", "1"), b=("0", "2"))
    seen = store.observe(["a", "b"])
    ready = prepare(plan, seen, False)
    del store.masters["a"]
    state = ACTING.new_execution(ready.cluster_id, ready.steps, TakeoverSettings(), 1000.0)
    with Journal(tmp_path / "j.sqlite", Codecs({"masters": ACTING.codec}, unnamed="masters")) as journal:
        number = journal.create(state, "store", "{}", "test", {})
        now = [1000.0]

        def sleep(seconds: float) -> None:
            now[0] += max(seconds, 0.01)

        machine = MastersMachine(store, lambda: now[0], None)
        ended = Runner(machine, journal, None, number, state, clock=lambda: now[0], sleep=sleep).run()
    assert [record.state for record in ended.records] == ["failed", "done"]
    assert ended.records[0].reason == "is not there any more"
