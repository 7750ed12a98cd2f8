"""A policy over recorded load: the decisions of a service, whose plans begin in the step of their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from trimtab.decide.events import (
    Approved,
    Decision,
    Effect,
    EffectMeasured,
    Event,
    Execute,
    ExecutionEnded,
    ExecutionStarted,
    LeadershipChanged,
    MakePlan,
    Measure,
    Outcome,
    PlanFailed,
    PlanMade,
    PlanSummary,
    Propose,
    Resume,
    Stop,
)
from trimtab.decide.loads import effect_of, placement_load
from trimtab.decide.machine import decide
from trimtab.decide.replicas import observed_of
from trimtab.decide.state import State
from trimtab.model.errors import PlanError
from trimtab.model.goals import limit_goals
from trimtab.model.policy import Mode, Policy, Trigger
from trimtab.model.replicas.plan import Plan, ReplicaMove
from trimtab.model.replicas.settings import RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot, with_load

Planner = Callable[[ReplicasSnapshot, ReplicasSettings], Plan]


def replayed_policy(policy: Policy, step_seconds: float) -> Policy:
    """A policy as a replay follows it.

    Nobody watches a replay: proposals are approved at once, but a trigger in the mode `observe` stays so. A
    step gives one snapshot, so numbers of snapshots are scaled to its length. Nothing is undone.
    """
    snapshots = round(policy.hard_limit.min_snapshots * policy.interval_seconds / step_seconds)

    def acting(mode: Mode) -> Mode:
        return mode if mode is Mode.OBSERVE else Mode.ACT

    return replace(
        policy,
        broker_lost=replace(policy.broker_lost, mode=acting(policy.broker_lost.mode)),
        hard_limit=replace(
            policy.hard_limit, mode=acting(policy.hard_limit.mode), min_snapshots=max(1, snapshots)
        ),
        broker_added=replace(policy.broker_added, mode=acting(policy.broker_added.mode)),
        drift=replace(policy.drift, mode=acting(policy.drift.mode)),
        interval_seconds=step_seconds,
        undo=False,
    )


def settings_with(settings: ReplicasSettings, overrides: Sequence[tuple[str, object]]) -> ReplicasSettings:
    """Settings with those of an order to plan; one ε stands for all resources."""
    changes: dict[str, Any] = {name: value for name, value in overrides if "." not in name}
    theta = list(settings.theta)
    for name, value in overrides:
        if name.startswith("theta."):
            theta[RESOURCES.index(name.partition(".")[2])] = float(str(value))
    changes["theta"] = tuple(theta)
    if "epsilon" in changes:
        changes["epsilon"] = (changes["epsilon"],) * len(RESOURCES)
    if changes.get("goals") is not None:
        changes["goals"] = limit_goals(settings.goals)
    return replace(settings, **changes)


class PolicyReplay:
    """The service of a replay: it looks at each step, and gives the moves that are under way then.

    Attributes
    ----------
    plans
        Number of plans made.
    """

    def __init__(self, policy: Policy, planner: Planner, settings: ReplicasSettings) -> None:
        self.policy, self.planner, self.settings = policy, planner, settings
        self.plans = 0
        self._state = State()
        self._now = 0.0
        self._snapshot: ReplicasSnapshot | None = None
        self._before: ReplicasSnapshot | None = None
        self._plan: Plan | None = None
        self._execution = 0
        self._runs = self._peak_only = False
        self._moves: list[ReplicaMove] = []
        self._done = (0, 0)

    def step(
        self,
        snapshot: ReplicasSnapshot,
        now: float,
        left: Sequence[ReplicaMove],
        done: tuple[int, int],
    ) -> list[ReplicaMove]:
        """The moves that are under way after a step.

        Parameters
        ----------
        snapshot
            The cluster at the end of the step.
        now
            Seconds since 1970.
        left
            Moves of the execution that have not arrived yet.
        done
            Bytes copied and leader roles handed over in this step.
        """
        self._snapshot, self._now = snapshot, now
        if not self._state.is_leader:
            self._send(LeadershipChanged(True))
        if self._runs:
            self._moves = list(left)
            self._done = (self._done[0] + done[0], self._done[1] + done[1])
            if not left:
                self._runs = False
                self._send(ExecutionEnded(self._execution, Outcome.FINISHED, *self._done))
        observed = observed_of(snapshot, self.settings, now)
        self._send(observed)
        return self._moves if self._runs else []

    def _send(self, event: Event) -> None:
        self._state, decisions = decide(self._state, event, self._now, self.policy)
        for one in decisions:
            self._carry_out(one)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case MakePlan(settings=settings):
                self._make_plan(settings)
            case Propose(digest=digest) if decision.ask:
                self._send(Approved(digest, "replay"))
            case Execute() if self._plan is not None:
                self._execution += 1
                self._runs, self._moves, self._done = True, list(self._plan.moves), (0, 0)
                self._before, self._peak_only = self._snapshot, decision.trigger is Trigger.HARD_LIMIT
                self._send(ExecutionStarted(self._execution))
            case Stop():
                self._runs = False
                self._send(ExecutionEnded(self._execution, Outcome.STOPPED, *self._done))
            case Resume():
                self._runs = True
            case Measure(execution=number):
                self._send(EffectMeasured(number, *self._effect()))

    def _effect(self) -> tuple[Effect, str]:
        """The load of now and of the hours to come, without and with the moves; the better effect counts."""
        assert self._snapshot is not None
        assert self._before is not None
        old, loads = self._before.partitions, ("recent", "forecast")
        found = []
        for load in loads:
            now = with_load(self._snapshot, load)
            before, after = now.imbalance(old.replicas, old.leader), now.imbalance()
            is_used = ~(after.mean < self.settings.min_utilization)
            found.append(
                effect_of(
                    placement_load(before, is_used),
                    placement_load(after, is_used),
                    peak_only=self._peak_only,
                )
            )
        return min(found, key=lambda one: list(Effect).index(one[0]))

    def _make_plan(self, settings: Sequence[tuple[str, object]]) -> None:
        assert self._snapshot is not None
        self.plans += 1
        try:
            plan = self._plan = self.planner(self._snapshot, settings_with(self.settings, settings))
        except PlanError as error:
            self._send(PlanFailed(str(error)))
            return
        problem = plan.problems[0].text if plan.problems else ""
        digest = f"plan of step {self._now:.0f}"
        summary = PlanSummary(
            digest, plan.verdict, len(plan.moves), plan.cost.bytes, plan.cost.leader_moves, problem
        )
        self._send(PlanMade(summary))
