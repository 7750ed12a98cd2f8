"""A cluster, its operators and its faults, at random, around `decide`; and the invariants of its decisions.

The world answers each decision late, wrongly or never. The checker keeps its own record of what was observed:
it does not read the state of `decide`, and it does not use its code.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trimtab.decide.events import (
    Approved,
    BrokenLimit,
    BrokerObservation,
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
    Notify,
    Observed,
    Outcome,
    Paused,
    PlanFailed,
    PlanMade,
    PlanRequested,
    PlanSummary,
    Propose,
    Refuse,
    Rejected,
    Restarted,
    Resume,
    Resumed,
    Stop,
    TimeReached,
    Wait,
    Withdraw,
)
from trimtab.decide.machine import decide
from trimtab.decide.state import State, state_bytes, state_from
from trimtab.model.plan import Verdict
from trimtab.model.policy import (
    BrokerAdded,
    BrokerLost,
    Budget,
    Drift,
    HardLimit,
    Mode,
    Policy,
    Request,
    Trigger,
    Window,
)

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TICK_SECONDS = 300.0
DAY = 86400.0
HARD = (Trigger.UNDO, Trigger.BROKER_LOST, Trigger.HARD_LIMIT, Trigger.REQUEST)
"""Triggers whose plans need no rest after the execution before."""


class Violation(AssertionError):
    """A decision that breaks an invariant."""


def random_policy(rng: random.Random) -> Policy:
    """A policy in which triggers act, with windows and budgets in some."""
    modes = [Mode.ACT, Mode.ACT, Mode.ACT, Mode.ASK, Mode.PROPOSE, Mode.OBSERVE]
    days = ",".join(rng.sample(DAYS, 5))
    window = Window(f"{rng.randrange(24):02}:00", f"{rng.randrange(24):02}:00", days)
    return Policy(
        broker_lost=BrokerLost(rng.choice(modes), after_seconds=rng.choice([900.0, 1800.0])),
        hard_limit=HardLimit(rng.choice(modes)),
        broker_added=BrokerAdded(rng.choice(modes)),
        drift=Drift(rng.choice(modes), rest_seconds=rng.choice([4 * 3600.0, 12 * 3600.0])),
        request=Request(rng.choice([Mode.ASK, Mode.ACT])),
        budget=Budget(
            max_bytes=rng.choice([None, 3000]),
            max_leader_moves=rng.choice([None, 60]),
            max_executions=rng.choice([None, 3, 12]),
        ),
        windows=(window,) if rng.random() < 0.4 else (),
        interval_seconds=TICK_SECONDS,
        undo=rng.random() < 0.8,
    )


@dataclass
class Execution:
    """An execution in the world."""

    number: int
    trigger: Trigger
    plan: PlanSummary
    left: int
    running: bool = True
    stopping: bool = False
    begun_at: float = 0.0
    done: float = 0.0
    effect: Effect = Effect.HELPED


@dataclass
class Broker:
    """A broker in the world."""

    rack: str
    replicas: int
    alive: bool = True
    changed_at: float = -math.inf
    back_at: float = math.inf


@dataclass
class Truth:
    """What the checker knows, from the world and from the decisions as they came."""

    offered: str = ""
    offered_at: float = 0.0
    offered_trigger: Trigger | None = None
    approved: str = ""
    executed: set[str] = field(default_factory=set)
    begun: list[tuple[float, int, int, bool]] = field(default_factory=list)
    ended_at: float = -math.inf
    owed: dict[int, float] = field(default_factory=dict)
    lost_at: dict[str, float] = field(default_factory=dict)
    back_at: dict[str, float] = field(default_factory=dict)
    measuring: int | None = None
    must_ask: set[Trigger] = field(default_factory=set)
    worse_at: list[float] = field(default_factory=list)


class ServiceWorld:
    """One cluster with its service, driven by a seed."""

    def __init__(self, seed: int, decide: Callable[..., tuple[State, tuple[Decision, ...]]] = decide) -> None:
        self.rng = random.Random(seed)
        self.policy = random_policy(self.rng)
        self.decide = decide
        self.now = 1_700_000_000.0 + self.rng.randrange(7) * DAY
        self.state = State()
        self.is_leader = False
        self.paused_until = -math.inf
        self.paused_by = ""
        number = self.rng.randrange(5, 13)
        self.brokers = {str(one): Broker(f"rack-{one % 4}", 100) for one in range(number)}
        self.skew = 0.1
        self.broken = False
        self.silent_until = -math.inf
        self.coverage = 1.0
        self.foreign_until = -math.inf
        self.unexplained_until = -math.inf
        self.taken_at = -math.inf
        self.execution: Execution | None = None
        self.numbers = 0
        self.later: list[tuple[float, Event]] = []
        self.truth = Truth()
        self.seen: Observed | None = None
        self._effects: dict[int, Effect] = {}
        self._plans: dict[str, PlanSummary] = {}
        self._triggers: dict[int, Trigger] = {}
        self.leader_since = -math.inf
        self.calm = False
        self.counts: dict[str, int] = {}
        self.log: list[tuple[float, object]] = []
        self.send(LeadershipChanged(True))

    # ------------------------------------------------------------ the world

    def play(self, hours: float) -> None:
        """Let so many hours pass, with faults."""
        end = self.now + hours * 3600
        while self.now < end:
            self.tick()

    def calm_down(self, days: float) -> None:
        """End all faults, and check that a balanced cluster is left alone after the first days."""
        self.calm = True
        self.silent_until = self.foreign_until = self.unexplained_until = -math.inf
        self.coverage = 1.0
        for broker in self.brokers.values():
            broker.back_at = min(broker.back_at, self.now)
        if not self.is_leader:
            self.send(LeadershipChanged(True))
        self.send(Resumed("operator"))
        settled = self.now + days * DAY
        while self.now < settled:
            self.tick()
        self.skew, self.broken = 0.05, False
        for broker in self.brokers.values():
            broker.replicas = 100
        quiet, begun = self.now + DAY, len(self.truth.begun)
        while self.now < settled + 8 * DAY:
            if self.now < quiet:
                begun = len(self.truth.begun)
            self.tick()
        if len(self.truth.begun) > begun:
            raise Violation("quiescence: a balanced cluster without faults was changed")

    def tick(self) -> None:
        """One interval: faults, answers to earlier decisions, a snapshot."""
        self.now += TICK_SECONDS
        if not self.calm:
            self._faults()
        self._brokers_return()
        self._go_on()
        due = [one for one in self.later if one[0] <= self.now]
        self.later = [one for one in self.later if one[0] > self.now]
        for _, event in due:
            self.send(event)
        self._people()
        if self.now >= self.silent_until:
            self.taken_at = self.now
            self.send(self._observation())
        elif self.seen is not None:
            self.send(self._listed(self.seen))
        else:
            self.send(TimeReached())

    def _faults(self) -> None:
        rng, draw = self.rng, self.rng.random
        alive = [name for name, one in self.brokers.items() if one.alive]
        if draw() < 0.004 and alive:
            self._lose(rng.sample(alive, min(len(alive), rng.choice([1, 1, 1, 1, 2, 3, len(alive) // 2]))))
        if draw() < 0.001:
            racks = sorted({one.rack for one in self.brokers.values()})
            gone = rng.choice(racks)
            self._lose([name for name in alive if self.brokers[name].rack == gone])
        if draw() < 0.001:
            for place, name in enumerate(alive):
                self.later.append((self.now + place * 600, TimeReached()))
                if place < 3:
                    self._lose([name], back_in=rng.uniform(60, 600))
        if draw() < 0.002:
            name = str(100 + len(self.brokers))
            self.brokers[name] = Broker(f"rack-{len(self.brokers) % 4}", 0, changed_at=self.now)
        self.skew = max(0.0, self.skew + rng.gauss(0.002, 0.01))
        if draw() < 0.002:
            self.skew = rng.uniform(0, 0.6)
        if draw() < 0.003:
            self.broken = not self.broken
        for rate, name, longest in (
            (0.003, "silent_until", 7200),
            (0.003, "foreign_until", 7200),
            (0.002, "unexplained_until", 3600),
        ):
            if draw() < rate:
                setattr(self, name, self.now + rng.uniform(0, longest))
        self.coverage = 0.7 if draw() < 0.01 else 1.0
        if draw() < 0.003:
            self.send(LeadershipChanged(not self.is_leader))
        if draw() < 0.003:
            self._restart()

    def _lose(self, names: list[str], back_in: float | None = None) -> None:
        for name in names:
            broker = self.brokers[name]
            seconds = self.rng.expovariate(1 / 3600) if back_in is None else back_in
            broker.alive, broker.changed_at, broker.back_at = False, self.now, self.now + seconds

    def _brokers_return(self) -> None:
        for broker in self.brokers.values():
            if not broker.alive and self.now >= broker.back_at:
                broker.alive, broker.changed_at, broker.back_at = True, self.now, math.inf

    def _restart(self) -> None:
        """The service dies and starts again: answers of its planner are lost, the journal is not."""
        written = state_from(state_bytes(self.state))
        if written != self.state:
            raise Violation(f"restart: the state that was written is another one: {written}")
        self.state = written
        self.later = [
            one for one in self.later if not isinstance(one[1], PlanMade | PlanFailed | EffectMeasured)
        ]
        started = [one for one in self.later if isinstance(one[1], ExecutionStarted | ExecutionEnded)]
        for one in started:
            self.later.remove(one)
            self.send(one[1])
        if self.execution is not None and self.execution.running:
            self.execution.running = False
        self.send(Restarted())

    def _people(self) -> None:
        draw, rng = self.rng.random, self.rng
        if draw() < 0.002 and not self.calm:
            until = None if draw() < 0.3 else self.now + rng.uniform(0, 6 * 3600)
            self.paused_until, self.paused_by = math.inf if until is None else until, "operator"
            self.send(Paused("operator", "works on the cluster", until))
        if draw() < 0.01 and self.now < self.paused_until:
            self.send(Resumed("operator"))
        if draw() < 0.003 and not self.calm:
            self.send(PlanRequested("operator", (("drain", ("3",)),)))
        if self.truth.offered and draw() < 0.1:
            wrong = draw() < 0.2
            digest = "0" * 64 if wrong else self.truth.offered
            if draw() < 0.2:
                self.send(Rejected(digest, "operator"))
            else:
                if not wrong:
                    self.truth.approved = digest
                self.send(Approved(digest, "operator"))
        execution = self.execution
        if execution is not None and draw() < 0.005:
            self._end(execution, rng.choice([Outcome.STOPPED, Outcome.CANCELLED]))
        elif execution is not None and not execution.running and draw() < 0.02:
            self._end(execution, Outcome.CANCELLED)

    def _go_on(self) -> None:
        execution = self.execution
        if execution is None or not execution.running:
            return
        execution.left -= 1
        execution.done = min(1.0, execution.done + 0.25)
        if execution.stopping:
            self._end(execution, Outcome.STOPPED)
        elif execution.left <= 0:
            self._end(execution, Outcome.FINISHED if self.rng.random() < 0.9 else Outcome.INCOMPLETE)

    def _end(self, execution: Execution, outcome: Outcome) -> None:
        execution.running = execution.stopping = False
        moved = execution.done > 0
        if outcome is not Outcome.STOPPED:
            self.execution = None
            self.truth.ended_at = self.now
            if moved:
                self.truth.owed[execution.number] = self.now
            self._apply(execution)
        part = int(execution.plan.bytes * execution.done)
        at, _, _, is_undo = self.truth.begun[-1]
        leads = int(execution.plan.leader_moves * execution.done) if moved else 0
        if moved and not part and not leads:
            leads = 1
        self.truth.begun[-1] = (at, part, leads, is_undo)
        self.send(ExecutionEnded(execution.number, outcome, part, leads, self.rng.random() < 0.8, "as it is"))

    def _apply(self, execution: Execution) -> None:
        if execution.done < 1:
            return
        if execution.trigger is Trigger.BROKER_LOST:
            for broker in self.brokers.values():
                if not broker.alive:
                    broker.replicas = 0
        elif execution.trigger is Trigger.BROKER_ADDED:
            for broker in self.brokers.values():
                broker.replicas = max(broker.replicas, 60) if broker.alive else broker.replicas
        elif execution.effect is Effect.HELPED:
            self.skew, self.broken = 0.05, False
        elif execution.effect is Effect.WORSE:
            self.skew += 0.1

    def _observation(self) -> Observed:
        names = list(self.brokers)
        limits = (BrokenLimit("disk", names[0], 0.9, 0.8),) if self.broken else ()
        ahead = (BrokenLimit("disk", names[0], 0.85, 0.8),) if self.skew > 0.5 else ()
        foreign = self.now < self.foreign_until
        return Observed(
            taken_at=self.taken_at,
            coverage=self.coverage,
            brokers=tuple(
                BrokerObservation(name, one.rack, one.alive, one.replicas)
                for name, one in self.brokers.items()
                if one.alive or one.replicas
            ),
            worst_deviation=self.skew,
            worst_resource="cpu",
            worst_broker=names[0],
            broken_limits=limits,
            forecast_limits=ahead,
            forecast_error=0.1,
            foreign_work="a reassignment of kafka-reassign-partitions" if foreign else "",
            unexplained=3 if self.now < self.unexplained_until else 0,
            conflict="12 partitions have moved" if self.truth.offered and self.rng.random() < 0.01 else "",
        )

    def _listed(self, seen: Observed) -> Observed:
        """The last snapshot, with the brokers as the cluster lists them now."""
        alive = {one.name: self.brokers[one.name].alive for one in seen.brokers}
        changed = {name for name in seen.changed_brokers if name in alive}
        changed ^= {one.name for one in seen.brokers if one.alive != alive[one.name]}
        brokers = tuple(replace(one, alive=alive[one.name]) for one in seen.brokers)
        return replace(seen, brokers=brokers, changed_brokers=tuple(sorted(changed)))

    # ------------------------------------------------------------ the service

    def send(self, event: Event) -> None:
        """Give an event to `decide`, check its decisions, and carry them out."""
        match event:
            case LeadershipChanged(is_leader):
                if is_leader and not self.is_leader:
                    self.leader_since = self.now
                self.is_leader = is_leader
            case Resumed():
                self.paused_until = -math.inf
                self.truth.must_ask.clear()
                self.truth.worse_at.clear()
            case Restarted():
                self.truth.measuring = None
            case Observed():
                self._see(event)
        self._note_effect(event)
        self.state, decisions = self.decide(self.state, event, self.now, self.policy)
        self.log.append((self.now, event))
        self.log[:-40] = []
        self.check(event, decisions)
        for one in decisions:
            self.log.append((self.now, one))
            self.counts[type(one).__name__] = self.counts.get(type(one).__name__, 0) + 1
            self._carry_out(one)

    def _see(self, event: Observed) -> None:
        """Note what the service can know: who is lost, and who has come back."""
        truth = self.truth
        for one in event.brokers:
            if not one.alive and one.replicas:
                truth.lost_at.setdefault(one.name, self.now)
            elif one.alive and truth.lost_at.pop(one.name, None) is not None:
                truth.back_at[one.name] = self.now
        listed = {one.name for one in event.brokers}
        truth.lost_at = {name: at for name, at in truth.lost_at.items() if name in listed}
        truth.back_at = {
            name: at for name, at in truth.back_at.items() if name in listed and name not in truth.lost_at
        }
        self.seen = event

    def _note_effect(self, event: Event) -> None:
        truth = self.truth
        if not isinstance(event, EffectMeasured) or event.execution != truth.measuring:
            return
        truth.measuring = None
        trigger = self._triggers[event.execution]
        if event.effect is Effect.WORSE and trigger is not Trigger.BROKER_LOST:
            truth.worse_at.append(self.now)
            truth.must_ask.add(trigger)

    def _carry_out(self, decision: Decision) -> None:
        rng = self.rng
        match decision:
            case MakePlan():
                self._make_plan()
            case Execute(trigger=trigger, digest=digest):
                self._execute(trigger, digest)
            case Stop():
                if self.execution is not None:
                    self.execution.stopping = True
            case Resume():
                if self.execution is not None:
                    self.execution.running, self.execution.stopping = True, False
            case Measure(execution=number):
                if rng.random() < 0.95:
                    effect = self._effects.get(number, Effect.HELPED)
                    self._later(EffectMeasured(number, effect, "γ 0.31 → 0.12"))

    def _later(self, event: Event) -> None:
        self.later.append((self.now + self.rng.choice([0, 1, 1, 2]) * TICK_SECONDS, event))

    def _make_plan(self) -> None:
        rng = self.rng
        fate = rng.random()
        if fate < 0.05:
            return
        if fate < 0.1:
            self._later(PlanFailed("the planner ran out of memory"))
            return
        verdict = rng.choice([Verdict.INCOMPLETE, Verdict.INFEASIBLE]) if fate < 0.2 else Verdict.BALANCED
        moves = 0 if fate > 0.95 else rng.randrange(1, 40)
        digest = f"{rng.getrandbits(256):064x}"
        plan = PlanSummary(digest, verdict, moves, rng.randrange(1000), rng.randrange(30))
        self._later(PlanMade(plan))
        self._plans[digest] = plan

    def _execute(self, trigger: Trigger, digest: str) -> None:
        if self.rng.random() < 0.05:
            self.truth.begun.pop()
            self._later(ExecutionEnded(None, Outcome.REFUSED, reason="another trimtab holds the lease"))
            return
        self.numbers += 1
        effect = self.rng.choices(list(Effect), [0.8, 0.1, 0.1])[0]
        if self.calm:
            effect = Effect.HELPED
        self._effects[self.numbers], self._triggers[self.numbers] = effect, trigger
        self.execution = Execution(
            self.numbers,
            trigger,
            self._plans[digest],
            self.rng.randrange(1, 12),
            begun_at=self.now,
            effect=effect,
        )
        self.send(ExecutionStarted(self.numbers))

    # ------------------------------------------------------------ the invariants

    def check(self, event: Event, decisions: tuple[Decision, ...]) -> None:
        """Raise `Violation` if a decision breaks an invariant."""
        truth = self.truth
        unknown = isinstance(event, Rejected | Approved) and event.digest != truth.offered
        if unknown and not any(isinstance(one, Refuse) for one in decisions):
            raise Violation("digest: an unknown one was accepted")
        for one in decisions:
            if not one.reason.strip():
                raise Violation(f"reason: {one} has none")
            match one:
                case Propose(digest=digest, trigger=trigger):
                    truth.offered, truth.offered_at, truth.offered_trigger = digest, self.now, trigger
                    truth.approved = ""
                    if not one.ask and self._acts(trigger):
                        truth.approved = digest
                case Withdraw(digest=digest):
                    if digest != truth.offered:
                        raise Violation("a plan was withdrawn that was not on offer")
                    truth.offered = truth.approved = ""
                case Execute():
                    self._check_execution(one)
                    plan = self._plans[one.digest]
                    undo = one.trigger is Trigger.UNDO
                    truth.begun.append((self.now, plan.bytes, plan.leader_moves, undo))
                    truth.executed.add(one.digest)
                    truth.offered = truth.approved = ""
                case Resume():
                    self._check_may_act("resume")
                    if self.execution is None or self.execution.running:
                        raise Violation("an execution was resumed that does not wait")
                case Measure(execution=number):
                    truth.owed.pop(number, None)
                    truth.measuring = number
                case Notify(key="paused", over=False):
                    self.paused_until = math.inf
                case Notify() if "not measured" in one.reason:
                    if f"execution {truth.measuring} " in one.reason:
                        truth.measuring = None  # figures that come later say nothing more
                    truth.owed = {
                        number: at
                        for number, at in truth.owed.items()
                        if f"execution {number} " not in one.reason
                    }
        if self.is_leader:
            self._check_waits(event, decisions)
            self._check_ends()

    def _acts(self, trigger: Trigger) -> bool:
        if trigger in self.truth.must_ask and trigger is not Trigger.UNDO:
            return False
        return trigger is Trigger.UNDO or self.policy.mode_of(trigger) is Mode.ACT

    def _check_waits(self, event: Event, decisions: tuple[Decision, ...]) -> None:
        orders = [one for one in decisions if not isinstance(one, Wait)]
        last = decisions[-1] if decisions else None
        if not isinstance(last, Wait):
            if not orders:
                raise Violation(f"silence: no decision and no wait after {event}")
        elif last.until <= self.now and not orders:
            raise Violation(f"wait: until {last.until} is not after now, {self.now}: {last.reason}")
        uneven = self.seen is not None and self.seen.worst_deviation > self.policy.drift.begin
        if uneven and isinstance(last, Wait) and last.reason.startswith("balanced"):
            raise Violation(f"false: says balanced with a deviation of {self.skew:.2f}")

    def _check_ends(self) -> None:
        truth = self.truth
        if truth.offered and self.now > truth.offered_at + self.policy.plan_max_age_seconds + TICK_SECONDS:
            raise Violation("an offered plan did not end")
        slowest = self.policy.settle_seconds + self.policy.measure_seconds + 2 * TICK_SECONDS
        for number, at in truth.owed.items():
            if self.now > at + slowest and self.now > self.leader_since + slowest:
                raise Violation(f"execution {number} was not measured and nobody was notified")

    def _check_may_act(self, verb: str) -> None:
        if not self.is_leader:
            raise Violation(f"leader: {verb} without leadership")
        if self.now < self.paused_until:
            raise Violation(f"paused: {verb} during a pause")
        if not is_in_window(self.policy, self.now):
            raise Violation(f"window: {verb} outside of the windows")
        seen, truth = self.seen, self.truth
        if seen is None or self.now - seen.taken_at > 3 * TICK_SECONDS:
            raise Violation(f"stale: {verb} without a new snapshot")
        if seen.coverage < self.policy.min_coverage:
            raise Violation(f"coverage: {verb} with {seen.coverage:.0%} of the samples")
        if seen.foreign_work:
            raise Violation(f"foreign: {verb} while another program changes the cluster")
        if seen.changed_brokers:
            raise Violation(f"changed: {verb} with brokers that the snapshot has otherwise")
        if seen.unexplained:
            raise Violation(f"unexplained: {verb} with partitions that are offline for another cause")
        lost = {one.name for one in seen.brokers if not one.alive and one.replicas}
        if len(lost) > max(1, math.floor(0.2 * len(seen.brokers))):
            raise Violation(f"outage: {verb} with {len(lost)} brokers lost")
        racks: dict[str, list[bool]] = {}
        for one in seen.brokers:
            racks.setdefault(one.rack, []).append(one.name in lost)
        if any(len(gone) > 1 and all(gone) for gone in racks.values()):
            raise Violation(f"outage: {verb} with a rack lost")
        if any(self.now < at + self.policy.broker_lost.after_seconds for at in truth.lost_at.values()):
            raise Violation(f"restart: {verb} right after the loss of a broker")
        if any(self.now < at + self.policy.restart_quiet_seconds for at in truth.back_at.values()):
            raise Violation(f"restart: {verb} right after the return of a broker")

    def _check_execution(self, order: Execute) -> None:
        truth, policy = self.truth, self.policy
        self._check_may_act("execute")
        if self.execution is not None:
            raise Violation("two executions at once")
        if order.digest != truth.offered:
            raise Violation("digest: the plan was not on offer")
        if order.digest in truth.executed:
            raise Violation("digest: the plan was executed twice")
        if order.digest != truth.approved:
            raise Violation("approval: nobody approved the plan")
        plan = self._plans[order.digest]
        if not plan.verdict.is_complete or not plan.moves:
            raise Violation(f"verdict: a plan that is {plan.verdict.value} with {plan.moves} moves")
        if order.trigger not in HARD and self.now < truth.ended_at + self._rest(order.trigger):
            raise Violation(
                f"rest: {order.trigger.value} {self.now - truth.ended_at:.0f} s after an execution"
            )
        if order.trigger is Trigger.UNDO:
            return
        if sum(self.now - at < DAY for at in truth.worse_at) >= policy.max_worse:
            raise Violation("worse: execute after executions that made it worse")
        spent = [one for one in truth.begun if self.now - one[0] < DAY and not one[3]]
        for limit, used, wanted in (
            (policy.budget.max_executions, len(spent), 1),
            (policy.budget.max_bytes, sum(one[1] for one in spent), plan.bytes),
            (policy.budget.max_leader_moves, sum(one[2] for one in spent), plan.leader_moves),
        ):
            if limit is not None and used + wanted > limit:
                raise Violation(f"budget: {used} spent and {wanted} wanted, limit {limit}")

    def _rest(self, trigger: Trigger) -> float:
        return self.policy.drift.rest_seconds if trigger is Trigger.DRIFT else 0.0


def play(seed: int, hours: float) -> ServiceWorld:
    """Play a seed: hours with faults, then nine days without.

    Raises
    ------
    Violation
        If a decision breaks an invariant.
    """
    world = ServiceWorld(seed)
    world.play(hours)
    world.calm_down(3)
    return world


def is_in_window(policy: Policy, now: float) -> bool:
    """The window of the policy at UTC, reckoned by the second and not by the code under test."""
    if not policy.windows:
        return True
    window = policy.windows[0]
    day, second = divmod(now, DAY)
    weekday = (int(day) + 3) % 7
    today, yesterday = DAYS[weekday] in window.days, DAYS[weekday - 1] in window.days
    begin, end = int(window.begin[:2]) * 3600, int(window.end[:2]) * 3600
    if begin < end:
        return today and begin <= second < end
    return (today and second >= begin) or (yesterday and second < end)
