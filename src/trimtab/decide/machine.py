"""The one decision procedure: state and event in, state and decisions out.

The service, `trimtab replay --policy` and the simulation run this code. It has no clock.
"""

from dataclasses import replace
from math import inf
from typing import Any

from trimtab.decide.conditions import (
    Condition,
    Obstacle,
    blind,
    conditions,
    execution_obstacle,
    mode,
    outage,
    planning_obstacle,
    remaining,
    time_obstacle,
    worse_obstacle,
)
from trimtab.decide.events import (
    LASTING_CONDITIONS,
    Approved,
    Decision,
    Effect,
    EffectMeasured,
    Event,
    Execute,
    ExecutionEnded,
    ExecutionResumed,
    ExecutionStarted,
    LeadershipChanged,
    MakePlan,
    Measure,
    Notify,
    Observed,
    Outcome,
    Paused,
    PlanFailed,
    PlanMade,
    PlanRequested,
    Propose,
    Refuse,
    Rejected,
    Restarted,
    Resume,
    Resumed,
    Stop,
    Wait,
    Withdraw,
)
from trimtab.decide.state import APPROVED_BY, Pause, Retry, Spent, Stage, State, WaitingRequest, Work
from trimtab.decide.windows import opening_at
from trimtab.model.policy import DAY, Mode, Policy, Trigger
from trimtab.model.text import bytes_text, counted, duration_text

SERVICE = "trimtab"
"""Who pauses, where the service pauses itself."""
POLICY = "policy"
"""Who approves, in the mode `act`."""


def decide(state: State, event: Event, now: float, policy: Policy) -> tuple[State, tuple[Decision, ...]]:
    """What follows from an event.

    Parameters
    ----------
    state
        All that is known so far.
    event
        What has happened.
    now
        Seconds since 1970.
    policy
        Triggers, limits and times.

    Returns
    -------
    The new state, and decisions in their order. The last is a `Wait`, with its reason and the time of the
    next look. The state must be written down before a decision is carried out.
    """
    turn = _Turn(state, now, policy)
    turn.receive(event)
    turn.proceed()
    return turn.state, tuple(turn.decisions)


class _Turn:
    """One call of `decide`: the state as it becomes, and the decisions so far."""

    def __init__(self, state: State, now: float, policy: Policy) -> None:
        self.state = state
        self.now = now
        self.policy = policy
        self.decisions: list[Decision] = []

    def _set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def _work(self, **changes: Any) -> None:
        assert self.state.work is not None
        stage = changes.get("stage", self.state.work.stage)
        if stage is not self.state.work.stage:
            changes["since"] = self.now
        self._set(work=replace(self.state.work, **changes))

    def _alert(self, key: str, holds: bool, reason: str) -> None:
        """Notify once when a condition begins, and once when it ends."""
        assert key in LASTING_CONDITIONS
        if holds == (key in self.state.alerts):
            return
        self._set(alerts=self.state.alerts | {key} if holds else self.state.alerts - {key})
        self.decisions.append(Notify(reason=reason, key=key, over=not holds))

    # ------------------------------------------------------------ events

    def receive(self, event: Event) -> None:
        """Take an event into the state."""
        match event:
            case Observed():
                self._observed(event)
            case PlanMade():
                self._plan_made(event)
            case PlanFailed(error):
                if self._at(Stage.PLANNING):
                    self._give_up(f"no plan: {error}", "see the log of the service")
            case PlanRequested(by, settings):
                self._set(requests=(*self.state.requests, WaitingRequest(by, settings, self.now)))
            case Approved(digest, by):
                self._approved(digest, by)
            case Rejected(digest, by, note):
                self._rejected(digest, by, note)
            case ExecutionStarted(execution):
                if self._at(Stage.STARTING):
                    self._work(stage=Stage.EXECUTING, execution=execution)
            case ExecutionResumed(execution):
                if self._at(Stage.HELD) and self.state.work and self.state.work.execution == execution:
                    self._work(stage=Stage.STOPPED)
            case ExecutionEnded():
                self._ended(event)
            case EffectMeasured(execution, effect, text):
                work = self.state.work
                if self._at(Stage.MEASURING) and work is not None and work.execution == execution:
                    self._measured(work, execution, effect, text)
            case Paused(by, reason, until):
                self._set(pause=Pause(by, reason, self.now, until))
            case Resumed(by):
                self._set(pause=None, must_ask=frozenset(), worse_at=(), retries={})
                self._alert("paused", False, f"{by} resumed the service")
            case LeadershipChanged(is_leader):
                begins = is_leader and not self.state.is_leader
                self._set(is_leader=is_leader)
                if begins:
                    self._restarted()
            case Restarted():
                self._restarted()

    def _at(self, *stages: Stage) -> bool:
        return self.state.work is not None and self.state.work.stage in stages

    def _observed(self, event: Observed) -> None:
        before = self.state.observed
        if before is not None and event.taken_at <= before.taken_at:
            # The same snapshot, and what the cluster itself tells meanwhile.
            same = event if event.taken_at == before.taken_at else before
            if same.brokers != before.brokers:
                self._set(**self._broker_changes(same))
            kept = replace(before, brokers=same.brokers, changed_brokers=same.changed_brokers)
            self._set(observed=replace(kept, foreign_work=event.foreign_work, conflict=event.conflict))
            return
        quiet = before is not None and before.brokers == event.brokers
        moving = self.state.lost_since or self.state.back_since or self.state.arrived_since
        if not quiet or moving:
            self._set(**self._broker_changes(event))
        acts = self._at(Stage.STARTING, Stage.EXECUTING, Stage.STOPPING)
        disturbed = bool(acts or event.foreign_work or self.state.lost_since or self._recent_return())
        # Load that moves by other causes is no drift: the count begins anew afterwards.
        drifts = not disturbed and self._is_uneven(event)
        since = self.state.drift_since
        forecast = event.forecast_limits and event.forecast_error <= self.policy.hard_limit.max_forecast_error
        self._set(
            observed=event,
            drift_since=(self.now if since is None else since) if drifts else None,
            broken_snapshots=0 if acts or not event.broken_limits else self.state.broken_snapshots + 1,
            forecast_snapshots=0 if acts or not forecast else self.state.forecast_snapshots + 1,
        )

    def _is_uneven(self, event: Observed) -> bool:
        """Whether the load deviates enough now, and in the forecast that a plan would be made for."""
        drift, ahead = self.policy.drift, event.forecast_deviation
        lasts = ahead is None or drift.load == "recent" or ahead > drift.begin
        return event.worst_deviation > drift.begin and lasts

    def _recent_return(self) -> bool:
        quiet = self.policy.restart_quiet_seconds
        return any(self.now < at + quiet for at in self.state.back_since.values())

    def _broker_changes(self, event: Observed) -> dict[str, Any]:
        """Keep who is lost, back, or new, and since when; times of loss outlive a restart of the service."""
        state, now = self.state, self.now
        known = state.known
        lost: dict[str, float] = {}
        back: dict[str, float] = {}
        arrived: dict[str, float] = {}
        alive = [one for one in event.brokers if one.alive]
        mean = sum(one.replicas for one in event.brokers) / max(1, len(alive))
        least = self.policy.broker_added.max_replica_share * mean
        for one in event.brokers:
            if not one.alive:
                if one.replicas:
                    lost[one.name] = state.lost_since.get(one.name, now)
                continue
            if one.name in state.lost_since:
                back[one.name] = now
            elif now < state.back_since.get(one.name, -inf) + self.policy.restart_quiet_seconds:
                back[one.name] = state.back_since[one.name]
            is_new = bool(known) and one.name not in known
            if (is_new or one.name in state.lost_since or one.name in state.arrived_since) and (
                one.replicas < least
            ):
                arrived[one.name] = state.arrived_since.get(one.name, now)
        # A broker that is gone and holds nothing is no longer a part of the cluster; it may come back as new.
        listed = {one.name: one.rack for one in event.brokers if one.alive or one.replicas}
        return {"known": listed, "lost_since": lost, "back_since": back, "arrived_since": arrived}

    def _plan_made(self, event: PlanMade) -> None:
        work = self.state.work
        if work is None or work.stage is not Stage.PLANNING:
            return
        plan = event.plan
        if not plan.verdict.is_complete:
            self._give_up(
                f"the plan is {plan.verdict.value}: {plan.problems or 'a goal cannot be met'}",
                "see the plan's problems",
                alert=True,
            )
            return
        if not plan.moves:
            self._drop_undo()
            self._give_up(f"the plan has no moves: {plan.problems or 'every goal holds'}", "nothing to do")
            return
        to = mode(self.state, self.policy, work.trigger)
        until = self.now + self.policy.plan_max_age_seconds
        approved_by = str(dict(work.settings).get(APPROVED_BY, POLICY if to is Mode.ACT else ""))
        self._work(stage=Stage.PROPOSED, plan=plan, approved_by=approved_by)
        reason = (
            f"{counted(plan.moves, 'move')}, {bytes_text(plan.bytes)}, "
            f"{counted(plan.leader_moves, 'leadership')}, {plan.verdict.value}"
        )
        ask = to is Mode.ASK and not approved_by
        self.decisions.append(
            Propose(reason=reason, trigger=work.trigger, digest=plan.digest, ask=ask, until=until)
        )
        if ask:
            self.decisions.append(
                Notify(reason=f"plan {plan.digest[:12]} waits for an approval: {reason}", key=plan.digest)
            )

    def _give_up(self, reason: str, remedy: str, alert: bool = False) -> None:
        """End the work without an execution; its trigger waits before it fires again."""
        work = self.state.work
        assert work is not None
        if alert:
            self.decisions.append(Notify(reason=reason, key=f"refused-{work.trigger.value}"))
        self.decisions.append(Refuse(reason=reason, remedy=remedy))
        self._pause_trigger(work.trigger, reason)
        self._set(work=None)

    def _drop_undo(self) -> None:
        """End the undo that is under way, if one is, whatever became of it."""
        if self.state.work is not None and self.state.work.trigger is Trigger.UNDO:
            others = {one: retry for one, retry in self.state.retries.items() if one is not Trigger.UNDO}
            self._set(undo=self.state.undo[1:], retries=others)

    def _pause_trigger(self, trigger: Trigger, reason: str) -> None:
        """Let a trigger wait, longer each time; a request is single, and does not fire again.

        An undo is tried again too, until its pause would be longer than the longest.
        """
        is_undo = trigger is Trigger.UNDO
        execution = dict(self.state.work.settings).get("undo") if is_undo and self.state.work else None
        if trigger is Trigger.REQUEST or (is_undo and execution not in self.state.undo):
            return
        before, longest = self.state.retries.get(trigger), self.policy.max_retry_seconds
        seconds = self.policy.retry_seconds if before is None else 2 * before.seconds
        if is_undo and seconds > longest:
            text = f"execution {execution} is not undone, and not tried again: {reason}"
            self.decisions.append(Notify(reason=text, key=f"undo-{execution}"))
            self._drop_undo()
            return
        seconds = min(seconds, longest)
        retry = Retry(self.now + seconds, seconds, f"again after {duration_text(seconds)}: {reason}")
        self._set(retries={**self.state.retries, trigger: retry})

    def _approved(self, digest: str, by: str) -> None:
        if self._is_on_offer(digest):
            self._work(approved_by=by)
        else:
            self._refuse_digest(digest)

    def _is_on_offer(self, digest: str) -> bool:
        work = self.state.work
        return (
            self._at(Stage.PROPOSED)
            and work is not None
            and work.plan is not None
            and work.plan.digest == digest
        )

    def _refuse_digest(self, digest: str) -> None:
        self.decisions.append(
            Refuse(
                reason=f"plan {digest[:12]} is not on offer: it was withdrawn, executed or never proposed",
                remedy="ask for a new plan",
            )
        )

    def _rejected(self, digest: str, by: str, note: str) -> None:
        work = self.state.work
        if work is None or not self._is_on_offer(digest):
            self._refuse_digest(digest)
            return
        reason = f"rejected by {by}" + (f": {note}" if note else "")
        self._drop_undo()
        self._pause_trigger(work.trigger, reason)
        self._withdraw(work, reason)

    def _withdraw(self, work: Work, reason: str) -> None:
        assert work.plan is not None
        self.decisions.append(Withdraw(reason=reason, digest=work.plan.digest))
        if work.trigger is Trigger.UNDO:
            self._pause_trigger(work.trigger, reason)
        self._set(work=None)

    def _ended(self, event: ExecutionEnded) -> None:
        work = self.state.work
        if work is None or not self._at(
            Stage.STARTING, Stage.EXECUTING, Stage.STOPPING, Stage.STOPPED, Stage.HELD
        ):
            return
        if work.execution is not None and event.execution != work.execution:
            return
        if event.outcome is Outcome.REFUSED and work.execution is None:
            self._set(spent=self.state.spent[:-1])
            self._give_up(f"the execution was refused: {event.reason}", "see the differences", alert=True)
            return
        execution = work.execution if event.execution is None else event.execution
        self._account(event)
        if event.outcome is Outcome.STOPPED:
            by_service = work.stage is Stage.STOPPING
            self._work(stage=Stage.STOPPED if by_service else Stage.HELD, execution=execution)
            return
        self._set(last_execution_at=self.now, drift_since=None, broken_snapshots=0, forecast_snapshots=0)
        self._drop_undo()
        if not event.bytes and not event.leader_moves:
            cause = event.reason or event.outcome.value
            reason = f"execution {execution} is not measured: nothing was moved ({cause})"
            self.decisions.append(Notify(reason=reason, key=f"execution-{execution}"))
            self._pause_trigger(work.trigger, reason)
            self._set(work=None)
            return
        self._work(stage=Stage.SETTLING, execution=execution, can_undo=event.can_undo)

    def _account(self, event: ExecutionEnded) -> None:
        """Replace what was planned to be spent by what was."""
        if self.state.spent:
            last = replace(self.state.spent[-1], bytes=event.bytes, leader_moves=event.leader_moves)
            self._set(spent=(*self.state.spent[:-1], last))

    def _measured(self, work: Work, execution: int, effect: Effect, text: str) -> None:
        retries = dict(self.state.retries)
        is_healing = work.trigger is Trigger.BROKER_LOST  # for replicas in sync, whatever the load is then
        if effect is Effect.HELPED or is_healing or (effect is Effect.NOTHING and self._is_answered(work)):
            retries.pop(work.trigger, None)
            self._set(retries=retries)
        else:
            self._pause_trigger(work.trigger, f"execution {execution} had the effect `{effect.value}`")
        if effect is Effect.WORSE and is_healing:
            reason = f"execution {execution} replaced lost replicas, and the load is less even ({text})"
            self.decisions.append(Notify(reason=reason, key=f"worse-{execution}"))
        elif effect is Effect.WORSE:
            self._set(
                worse_at=(*self.state.worse_at, self.now), must_ask=self.state.must_ask | {work.trigger}
            )
            undoes = self.policy.undo and work.can_undo and work.trigger is not Trigger.UNDO
            if undoes:
                self._set(undo=(*self.state.undo, execution))
            follows = "it is undone" if undoes else "it is not undone"
            self.decisions.append(
                Notify(
                    reason=f"execution {execution} made the load less even ({text}); {follows}, and "
                    f"{work.trigger.value} asks for an approval from now on",
                    key=f"worse-{execution}",
                )
            )
        self._set(work=None)

    def _is_answered(self, work: Work) -> bool:
        """Whether the limits that the work answers hold now, perhaps because a burst is over."""
        observed = self.state.observed
        if observed is None or not work.limits:
            return False
        broken = (*observed.broken_limits, *observed.forecast_limits)
        return not {(one.broker, one.resource) for one in broken} & set(work.limits)

    def _restarted(self) -> None:
        """A plan in preparation is lost, a request is not; an execution goes on if nothing forbids it.

        An approved plan whose execution has not begun is offered again: what forbids it now counts.
        """
        work = self.state.work
        if work is not None and work.stage is Stage.PLANNING:
            if work.trigger is Trigger.REQUEST:
                by = str(dict(work.settings).get(APPROVED_BY, "a person"))
                self._set(requests=(WaitingRequest(by, work.settings, work.since), *self.state.requests))
            self._set(work=None)
        elif self._at(Stage.STARTING):
            self._set(spent=self.state.spent[:-1])
            self._work(stage=Stage.PROPOSED)
        elif self._at(Stage.EXECUTING, Stage.STOPPING):
            self._work(stage=Stage.STOPPED)
        elif self._at(Stage.MEASURING):
            self._work(stage=Stage.SETTLING)

    # ------------------------------------------------------------ decisions

    def proceed(self) -> None:
        """Go on with the work that is under way, or with the first trigger that fires; else wait."""
        self._forget_old()
        if not self.state.is_leader:
            self._wait("another instance decides", inf)
            return
        self._watch()
        work = self.state.work
        obstacle = None
        if work is not None:
            obstacle = self._advance(work)
        if self.state.work is None:
            obstacle = self._next_trigger()
        if obstacle is not None:
            self._wait(obstacle.reason, obstacle.until, obstacle.remedy)
        elif self.state.work is not None:
            self._wait_for_work(self.state.work)

    def _forget_old(self) -> None:
        state, now = self.state, self.now
        if state.spent and now - state.spent[0].at >= DAY:
            self._set(spent=tuple(one for one in state.spent if now - one.at < DAY))
        if state.worse_at and now - state.worse_at[0] >= DAY:
            self._set(worse_at=tuple(at for at in state.worse_at if now - at < DAY))
        pause = state.pause
        if pause is not None and pause.until is not None and now >= pause.until:
            self._set(pause=None)
        while self.state.requests and now >= self.state.requests[0].at + self.policy.plan_max_age_seconds:
            first = self.state.requests[0]
            self._set(requests=self.state.requests[1:])
            reason = f"the request of {first.by} waited {duration_text(now - first.at)} for a plan"
            self.decisions.append(Refuse(reason=reason, remedy="ask for the plan again"))

    def _watch(self) -> None:
        """Conditions that people are notified of, whatever is under way."""
        state, policy = self.state, self.policy
        missing = outage(state, policy)
        self._alert("outage", missing is not None, missing.reason if missing else "no outage any longer")
        old = blind(state, policy, self.now)
        is_stale = old is not None and old.alert == "stale"
        self._alert("stale", is_stale, old.reason if old and is_stale else "snapshots arrive again")
        undoing = state.undo or (state.work is not None and state.work.trigger is Trigger.UNDO)
        worse = worse_obstacle(state, policy, Trigger.DRIFT)
        if worse is not None and state.pause is None and not undoing:
            self._set(pause=Pause(SERVICE, worse.reason, self.now))
            self._alert("paused", True, f"the service pauses itself: {worse.reason}")

    def _advance(self, work: Work) -> Obstacle | None:
        """The next step of the work; what forbids it, if anything does."""
        since, policy, now = work.since, self.policy, self.now
        match work.stage:
            case Stage.PLANNING:
                if now >= since + policy.plan_seconds:
                    self._give_up(f"no plan within {duration_text(policy.plan_seconds)}", "see the log")
            case Stage.PROPOSED:
                return self._offer(work)
            case Stage.EXECUTING:
                obstacle = outage(self.state, policy) or time_obstacle(self.state, policy, now)
                if obstacle is not None and work.execution is not None:
                    self._work(stage=Stage.STOPPING)
                    self.decisions.append(Stop(reason=obstacle.reason, execution=work.execution))
            case Stage.STOPPED:
                obstacle = execution_obstacle(self.state, policy, replace(work, plan=None), now)
                if obstacle is not None:
                    return obstacle
                assert work.execution is not None
                self._work(stage=Stage.EXECUTING)
                reason = f"execution {work.execution} goes on after {duration_text(now - since)}"
                self.decisions.append(Resume(reason=reason, execution=work.execution))
            case Stage.SETTLING | Stage.MEASURING if (urgent := self._urgent()) is not None:
                reason = f"execution {work.execution} is not measured: {urgent.reason}"
                self.decisions.append(Notify(reason=reason, key=f"execution-{work.execution}"))
                self._set(work=None)
            case Stage.SETTLING if now >= since + policy.settle_seconds:
                assert work.execution is not None
                self._work(stage=Stage.MEASURING)
                reason = f"{duration_text(now - since)} after the end of execution {work.execution}"
                self.decisions.append(Measure(reason=reason, execution=work.execution))
            case Stage.MEASURING if now >= since + policy.measure_seconds:
                reason = (
                    f"execution {work.execution} is not measured: no figures within "
                    f"{duration_text(policy.measure_seconds)}"
                )
                self.decisions.append(Notify(reason=reason, key=f"execution-{work.execution}"))
                self._set(work=None)
        return None

    def _urgent(self) -> Condition | None:
        """What cannot wait for a measurement: a broker lost, or a limit broken, after the last execution."""
        state, policy, now = self.state, self.policy, self.now
        for one in conditions(state, policy, now):
            is_later = state.last_execution_at is None or one.at > state.last_execution_at
            if (
                one.trigger in (Trigger.BROKER_LOST, Trigger.HARD_LIMIT)
                and is_later
                and one.at <= now
                and mode(state, policy, one.trigger) is not Mode.OBSERVE
                and planning_obstacle(state, policy, one.trigger, now) is None
            ):
                return one
        return None

    def _offer(self, work: Work) -> Obstacle | None:
        """Execute the proposed plan, withdraw it, or leave it on offer."""
        state, now, plan = self.state, self.now, work.plan
        assert plan is not None
        ends = work.since + self.policy.plan_max_age_seconds
        observed = state.observed
        found = {one.trigger: one for one in conditions(state, self.policy, now)}
        if observed is not None and observed.conflict:
            self._set(observed=replace(observed, conflict=""))  # it is of this plan, not of the next
            self._withdraw(work, f"the cluster has changed: {observed.conflict}")
        elif now >= ends:
            self._withdraw(work, f"not approved within {duration_text(now - work.since)}")
        elif work.trigger not in (Trigger.REQUEST, Trigger.UNDO) and work.trigger not in found:
            self._withdraw(work, f"the condition of {work.trigger.value} has ended")
        elif not work.approved_by:
            first = next(
                (one for one in found.values() if one.at <= now and self._supersedes(one, work)), None
            )
            if first is not None:
                self._withdraw(work, f"{first.trigger.value} comes first: {first.reason}")
        else:
            obstacle = execution_obstacle(state, self.policy, work, now)
            if obstacle is not None:
                return obstacle
            undo = work.trigger is Trigger.UNDO
            self._set(spent=(*state.spent, Spent(now, plan.bytes, plan.leader_moves, undo)))
            self._work(stage=Stage.STARTING)
            until = opening_at(self.policy, now).until
            self.decisions.append(
                Execute(
                    reason=f"approved by {work.approved_by}: {counted(plan.moves, 'move')}, "
                    f"{bytes_text(plan.bytes)}",
                    trigger=work.trigger,
                    digest=plan.digest,
                    by=work.approved_by,
                    until=until,
                )
            )
        return None

    def _supersedes(self, condition: Condition, work: Work) -> bool:
        """Whether a plan for a condition is made although another one waits for an approval.

        What a person has asked for comes before proposals that nobody has approved. Only a trigger that acts
        by itself comes before it.
        """
        first, second = condition.trigger, work.trigger
        state, policy, now = self.state, self.policy, self.now
        to = mode(state, policy, first)
        if first is second or to is Mode.OBSERVE or planning_obstacle(state, policy, first, now) is not None:
            return False
        if second is Trigger.REQUEST:
            return to is Mode.ACT
        return first is Trigger.REQUEST or _precedes(first, second)

    def _next_trigger(self) -> Obstacle | None:
        """Order a plan for the first trigger that fires and may; else what is waited for."""
        state, policy, now = self.state, self.policy, self.now
        waits: list[Obstacle] = []
        for one in conditions(state, policy, now):
            if mode(state, policy, one.trigger) is Mode.OBSERVE:
                waits.append(Obstacle(f"{one.reason}; {one.trigger.value} is in mode observe", inf, ""))
                continue
            obstacle = planning_obstacle(state, policy, one.trigger, now)
            if obstacle is None and one.at <= now:
                self._order_plan(one)
                return None
            waits.append(obstacle or Obstacle(one.reason, one.at, ""))
        if waits:
            return waits[0]._replace(until=min(one.until for one in waits))
        nothing = Obstacle(self._nothing_fires(), inf, "") if state.observed else None
        return planning_obstacle(state, policy, Trigger.DRIFT, now) or nothing

    def _nothing_fires(self) -> str:
        observed, begin = self.state.observed, self.policy.drift.begin
        assert observed is not None
        deviation = f"the worst deviation is {observed.worst_deviation:.0%}, limit {begin:.0%}"
        ahead = observed.forecast_deviation
        if observed.worst_deviation > begin and not self._is_uneven(observed):
            return (
                f"{deviation}, but that of the forecast is {ahead:.0%}: the load becomes even without moves"
            )
        if observed.worst_deviation > begin or observed.broken_limits:
            return f"the next snapshot is waited for; {deviation}"
        return f"balanced: {deviation}"

    def _order_plan(self, condition: Condition) -> None:
        settings = (*condition.settings, *remaining(self.state, self.policy, self.now))
        if condition.trigger is Trigger.REQUEST:
            self._set(requests=self.state.requests[1:])
        self._set(work=Work(condition.trigger, Stage.PLANNING, self.now, settings, condition.limits))
        self.decisions.append(MakePlan(reason=condition.reason, trigger=condition.trigger, settings=settings))

    def _wait_for_work(self, work: Work) -> None:
        policy, since, execution = self.policy, work.since, work.execution
        reason, until = {
            Stage.PLANNING: (f"a plan for {work.trigger.value} is made", since + policy.plan_seconds),
            Stage.PROPOSED: ("the plan waits for an approval", since + policy.plan_max_age_seconds),
            Stage.STARTING: ("the execution begins", inf),
            Stage.EXECUTING: (f"execution {execution} runs", opening_at(policy, self.now).until),
            Stage.STOPPING: (f"execution {execution} ends after the steps under way", inf),
            Stage.STOPPED: (f"execution {execution} is stopped", inf),
            Stage.HELD: (f"execution {execution} was stopped by a person: resume or cancel it", inf),
            Stage.SETTLING: (
                f"the load settles after execution {execution}",
                since + policy.settle_seconds,
            ),
            Stage.MEASURING: (
                f"the effect of execution {execution} is measured",
                since + policy.measure_seconds,
            ),
        }[work.stage]
        self._wait(reason, until)

    def _wait(self, reason: str, until: float, remedy: str = "") -> None:
        observed = self.state.observed
        if observed is not None and self.state.is_leader:
            stale = observed.taken_at + self.policy.max_snapshot_intervals * self.policy.interval_seconds
            if stale > self.now:
                until = min(until, stale)
        self.decisions.append(Wait(reason=reason, until=until, remedy=remedy))


def _precedes(first: Trigger, second: Trigger) -> bool:
    order = list(Trigger)
    return order.index(first) < order.index(second)
