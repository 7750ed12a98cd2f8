"""The invariants of a whole service, checked on what it writes and on what it does to a cluster.

The checker reads each document of the log in the lake as it is added, each heartbeat, and the cluster's own
record of orders. What the world did (pauses, losses, snapshots, foreign work) it knows from the world. It
reads no state of the service and uses none of its code for decisions.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from simulate.decisions import DAY, HARD, Violation, is_in_window
from simulate.kafka.state import Happening, PartitionName
from simulate.virtual_threads import VirtualProcess
from trimtab.files.replicated import unpacked
from trimtab.model.policy import Mode, Policy, Trigger
from trimtab.serve.documents import DecisionRecord, PlanRecord

GRACE_SECONDS = 20.0
"""Time in which a running execution notices that it must begin nothing more."""
FINAL = ("stopped", "finished", "incomplete", "cancelled")
WITH_FIGURES = ("make_plan", "propose", "execute", "measure", "measured", "resume")
"""Kinds of decisions whose reason has a figure; others may be about words of a person."""


@dataclass(frozen=True)
class Published:
    """A snapshot as the world knows it: when it came into the lake, and what it shows."""

    at: float
    taken_at: float
    coverage: float
    lost: frozenset[int]
    racks: dict[int, str | None]
    since: dict[int, float] = field(default_factory=dict)
    """When each broker was lost or came back last, which the service may know before a snapshot comes."""

    @property
    def is_outage(self) -> bool:
        """Whether more than one broker and a fifth of all are lost, or a rack of several brokers."""
        by_rack: dict[str | None, list[bool]] = {}
        for broker, rack in self.racks.items():
            by_rack.setdefault(rack, []).append(broker in self.lost)
        whole = any(len(one) > 1 and all(one) for one in by_rack.values())
        return whole or len(self.lost) > max(1, math.floor(0.2 * len(self.racks)))


@dataclass
class KnownExecution:
    """An execution as the log has it."""

    number: int
    begun_at: float
    digest: str
    trigger: Trigger
    status: str = "running"
    ended_at: float = math.inf
    undo: bool = False


@dataclass
class ServiceRecord:
    """What the service has written, in order, and what is wrong with it.

    Attributes
    ----------
    clock
        Virtual time.
    poll_seconds
        Time after which a published snapshot has been read.
    lost_since, back_since
        When a broker was lost or came back, and when a snapshot showed it.
    paused_since, foreign_since
        When the last pause began that has not ended, and the oldest reassignment of others; None for none.
    approvals
        Digests that persons have approved.
    violation
        The first one; the service under test may catch what is raised in its threads.
    writer, heartbeat_at
        Who began to write the log last, and when each process last renewed its lease.
    """

    clock: Callable[[], float]
    policy: Policy
    poll_seconds: float
    paused_since: float | None = None
    paused_until: float = math.inf
    foreign_since: float | None = None
    approvals: set[str] = field(default_factory=set)
    writer: VirtualProcess | None = None
    leading_since: float = math.inf
    heartbeat_at: dict[VirtualProcess, float] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    lost_since: dict[int, tuple[float, float]] = field(default_factory=dict)
    back_since: dict[int, tuple[float, float]] = field(default_factory=dict)
    decisions: list[DecisionRecord] = field(default_factory=list)
    plans: dict[str, PlanRecord] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    proposed_at: dict[str, float] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    executions: dict[int, KnownExecution] = field(default_factory=dict)
    steps: dict[tuple[int, int], tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)
    must_ask: set[str] = field(default_factory=set)
    unmeasured: dict[int, float] = field(default_factory=dict)
    outbox: dict[tuple[int, str], str] = field(default_factory=dict)
    receivers: tuple[str, ...] = ()
    documents: int = 0
    orders: int = 0
    trace: list[str] = field(default_factory=list)
    executed: dict[str, int] = field(default_factory=dict)
    violation: Violation | None = None

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.clock():.2f} {text}")

    def fail(self, text: str) -> None:
        """Raise: an invariant is broken."""
        violation = Violation("\n".join([f"at {self.clock():.1f}: {text}", *self.trace[-60:]]))
        self.violation = self.violation or violation
        raise violation

    # ------------------------------------------------------------ the log in the lake

    def document(self, process: VirtualProcess, number: int, content: bytes) -> None:
        """A document of the log was added."""
        if number <= self.documents:
            return  # its writer is refused: it takes the document back
        if number != self.documents + 1:
            self.fail(f"log: document {number} follows {self.documents}")
        self.documents = number
        found = json.loads(content)
        if "by" in found:
            self.writer, self.leading_since = process, self.clock()
            self.note(f"{process} leads")
        if process is not self.writer:
            self.fail(f"leader: {process} writes, but {self.writer} decides")
        self._require_lease(process, "writes")
        notified: list[int] = []
        for sql, values in found["statements"]:
            self._statement(sql, values, notified)
        for number in notified:
            for receiver in self.receivers:
                if (number, receiver) not in self.outbox:
                    self.fail(f"outbox: decision {number} notifies without a row for {receiver}")

    def _require_lease(self, process: VirtualProcess, verb: str) -> None:
        age = self.clock() - self.heartbeat_at.get(process, -math.inf)
        if age > self.policy.lease_seconds:  # type: ignore[attr-defined]
            self.fail(f"leader: {process} {verb} {age:.0f} s after its last heartbeat")

    def _statement(self, sql: str, values: Sequence[Any], notified: list[int]) -> None:
        if sql.startswith("INSERT INTO decisions"):
            record = msgspec.json.decode(values[3], type=DecisionRecord)
            if self.decisions and record.number != self.decisions[-1].number + 1:
                self.fail(f"log: decision {record.number} follows {self.decisions[-1].number}")
            self.decisions.append(record)
            if record.kind == "notify":
                notified.append(record.number)
            self.note(f"{record.kind} {record.trigger} {record.execution or ''} {record.reason}")
            self._decision(record)
        elif sql.startswith("INSERT OR REPLACE INTO plans"):
            plan = msgspec.json.decode(values[2], type=PlanRecord)
            content = unpacked(values[3])
            if hashlib.sha256(content).hexdigest() != plan.digest:
                self.fail(f"digest: the stored plan {plan.digest[:12]} has other bytes")
            self.plans[plan.digest], self.contents[plan.digest] = plan, content.decode()
        elif sql.startswith("UPDATE plans SET record"):
            self.plans[values[1]] = msgspec.json.decode(values[0], type=PlanRecord)
        elif sql.startswith("INSERT INTO executions"):
            self._execution_begins(values)
        elif sql.startswith("UPDATE executions SET status"):
            status, _, ended_at, number = values
            one = self.executions[number]
            if one.status in FINAL and one.status != "stopped":
                self.fail(f"execution {number} was {one.status} and is {status}")
            one.status, one.ended_at = status, math.inf if ended_at is None else ended_at
        elif sql.startswith("INSERT INTO steps"):
            self.steps[values[0], values[1]] = json.loads(values[2]), json.loads(values[3])
        elif sql.startswith("UPDATE steps SET record"):
            key = (values[1], values[2])
            self.steps[key] = self.steps[key][0], json.loads(values[0])
        elif sql.startswith("INSERT INTO outbox"):
            self.outbox[values[0], values[1]] = "waiting"
        elif sql.startswith("UPDATE outbox"):
            self.outbox[values[4], values[5]] = values[0]

    def _execution_begins(self, values: Sequence[Any]) -> None:
        facts = json.loads(values[6])
        digest = hashlib.sha256(unpacked(values[5])).hexdigest()
        if others := [one.number for one in self.executions.values() if one.status not in FINAL]:
            self.fail(f"two executions at once: {others} and another")
        if held := [one.number for one in self.executions.values() if one.status == "stopped"]:
            self.fail(f"two executions at once: {held} can be resumed still")
        if digest != facts["digest"] or digest not in self.executed:
            self.fail(f"digest: the plan {digest[:12]} of the execution was not decided")
        if any(one.digest == digest for one in self.executions.values()):
            self.fail(f"digest: the plan {digest[:12]} is executed twice")
        number = len(self.executions) + 1
        trigger = Trigger(facts["trigger"])
        one = KnownExecution(number, self.clock(), digest, trigger, undo=trigger is Trigger.UNDO)
        self.executions[number] = one

    # ------------------------------------------------------------ decisions

    def _decision(self, record: DecisionRecord) -> None:
        now = self.clock()
        if not record.reason.strip():
            self.fail(f"reason: {record} has none")
        is_request = record.kind == "make_plan" and record.trigger == Trigger.REQUEST
        if record.kind in WITH_FIGURES and not is_request and not any(map(str.isdigit, record.reason)):
            self.fail(f"reason: {record.kind} without a figure: {record.reason}")
        if record.kind == "refuse" and not record.remedy:
            self.fail(f"reason: {record} has no remedy")
        match record.kind:
            case "propose":
                self.proposed_at[record.digest] = now
                self.withdrawn.discard(record.digest)
            case "withdraw":
                self.withdrawn.add(record.digest)
            case "execute":
                self._may_act("execute")
                self._may_execute(record)
                self.executed[record.digest] = self.executed.get(record.digest, 0) + 1
            case "resume":
                self._may_act("resume")
                assert record.execution is not None
                if self.executions[record.execution].status in FINAL[1:]:
                    self.note(f"execution {record.execution} has ended already")
            case "measured":
                assert record.execution is not None
                self.unmeasured.pop(record.execution, None)
                trigger = self.executions[record.execution].trigger
                if record.reason.startswith("worse") and trigger != Trigger.BROKER_LOST:
                    self.must_ask.add(trigger)
            case "resumed":
                self.must_ask.clear()
                self.paused_since, self.paused_until = None, math.inf
            case "paused":
                self.paused_since = now
                self.paused_until = math.inf if record.until is None else record.until
            case "ended":
                if record.execution is not None and "stopped" not in record.reason.split(": ")[1]:
                    self.unmeasured[record.execution] = now
            case "notify":
                if record.key == "paused" and not record.is_over:
                    self.paused_since, self.paused_until = now, math.inf
                for number in list(self.unmeasured):
                    if record.reason.startswith(f"execution {number} is not measured"):
                        del self.unmeasured[number]

    def is_paused(self, now: float) -> bool:
        """Whether a pause is in force."""
        return self.paused_since is not None and now < self.paused_until

    def _visible(self, now: float) -> list[Published]:
        """Snapshots of which one is the newest that the service has read."""
        new = [one for one in self.published if one.at > now - self.poll_seconds - 1]
        old = [one for one in self.published if one.at <= now - self.poll_seconds - 1]
        return [*old[-1:], *new]

    def _may_act(self, verb: str) -> None:
        now, policy = self.clock(), self.policy
        if self.is_paused(now):
            self.fail(f"paused: {verb} during a pause")
        if not is_in_window(policy, now):
            self.fail(f"window: {verb} outside of the windows")
        seen = self._visible(now)
        if not seen or all(now - one.taken_at > 3 * policy.interval_seconds for one in self.published):
            self.fail(f"stale: {verb} without a new snapshot")
        if all(one.coverage < policy.min_coverage for one in seen):
            self.fail(f"coverage: {verb} with {seen[-1].coverage:.0%} of the loads")
        if all(one.is_outage for one in seen):
            self.fail(f"outage: {verb} with brokers {sorted(seen[-1].lost)} lost")
        if self.foreign_since is not None and all(self.foreign_since < one.at for one in seen):
            self.fail(f"foreign: {verb} while others reassign since {self.foreign_since:.0f}")
        for broker, (at, shown_at) in self.lost_since.items():
            was_seen = self.leading_since < at and now > shown_at + self.poll_seconds + 1
            if was_seen and now < at + policy.broker_lost.after_seconds:
                self.fail(f"restart: {verb} {now - at:.0f} s after the loss of broker {broker}")
        for broker, (at, shown_at) in self.back_since.items():
            was_seen = self.leading_since < at and now > shown_at + self.poll_seconds + 1
            if was_seen and now < at + policy.restart_quiet_seconds:
                self.fail(f"restart: {verb} {now - at:.0f} s after the return of broker {broker}")

    def _may_execute(self, record: DecisionRecord) -> None:
        now, policy, digest = self.clock(), self.policy, record.digest
        if open_ones := [one.number for one in self.executions.values() if not self._is_over(one)]:
            self.fail(f"two executions at once: {open_ones} and plan {digest[:12]}")
        if digest not in self.proposed_at or digest in self.withdrawn:
            self.fail(f"digest: plan {digest[:12]} is not on offer")
        trigger = Trigger(record.trigger)
        by_policy = policy.mode_of(trigger) is Mode.ACT
        if trigger is not Trigger.UNDO and trigger in self.must_ask:
            by_policy = False
        if digest not in self.approvals and not by_policy:
            self.fail(f"approval: nobody approved plan {digest[:12]} for {trigger}")
        ended = max((one.ended_at for one in self.executions.values()), default=-math.inf)
        if trigger not in HARD and trigger is Trigger.DRIFT and now < ended + policy.drift.rest_seconds - 1:
            self.fail(f"rest: {trigger} {now - ended:.0f} s after an execution")
        if trigger is not Trigger.UNDO:
            self._check_budget(digest, now)

    def _is_over(self, one: KnownExecution) -> bool:
        return one.status in FINAL and one.status != "stopped"

    def _check_budget(self, digest: str, now: float) -> None:
        spent = [one for one in self.executions.values() if now - one.begun_at < DAY - 60 and not one.undo]
        plan, budget = self.plans[digest], self.policy.budget
        for name, limit, used, needed in (
            ("executions", budget.max_executions, len(spent), 1),
            ("bytes", budget.max_bytes, sum(self._done(one.number, "copy") for one in spent), plan.bytes),
            (
                "leaderships",
                budget.max_leader_moves,
                sum(self._done(one.number, "lead") for one in spent),
                plan.leader_moves,
            ),
        ):
            if limit is not None and used + needed > limit:
                self.fail(f"budget of {name}: {used} spent and {needed} needed, limit {limit}")

    def _done(self, execution: int, kind: str) -> int:
        done = [
            step
            for (number, _), (step, record) in self.steps.items()
            if number == execution and record["state"] == "done" and step["kind"] == kind
        ]
        return sum(one["bytes"] for one in done) if kind == "copy" else len(done)

    # ------------------------------------------------------------ orders

    def order(self, process: VirtualProcess, one: Happening) -> None:
        """A process has changed the cluster."""
        now = self.clock()
        if one.verb not in ("reassign", "cancel", "elect", "move_log_dir"):
            return
        self.orders += 1
        self.note(f"{process} {one.verb} {one.subject} {one.detail}")
        if process is not self.writer:
            self.fail(f"leader: {process} orders, but {self.writer} decides")
        self._require_lease(process, "orders")
        running = [one for one in self.executions.values() if one.status not in FINAL]
        if len(running) != 1:
            self.fail(f"order without its execution: {[one.number for one in running]} run")
        if one.verb != "reassign" or not one.detail[3]:
            return
        self._check_target(running[0], one)
        if self.is_paused(now) and self.paused_since is not None and now > self.paused_since + GRACE_SECONDS:
            self.fail(f"paused: a copy begins {now - self.paused_since:.0f} s after the pause")
        if not is_in_window(self.policy, now) and not is_in_window(self.policy, now - GRACE_SECONDS - 35):
            self.fail("window: a copy begins outside of the windows")
        seen = [one for one in self.published if one.at <= now - self.poll_seconds - GRACE_SECONDS]
        if seen and all(one.is_outage for one in (seen[-1], *self._visible(now))):
            self.fail("outage: a copy begins")
        if self.foreign_since is not None and now > self.foreign_since + GRACE_SECONDS:
            self.fail(f"foreign: a copy begins while others reassign since {self.foreign_since:.0f}")

    def _check_target(self, execution: KnownExecution, order: Happening) -> None:
        plan = json.loads(self.contents[execution.digest])
        target = order.detail[1]
        assert isinstance(order.subject, PartitionName) and isinstance(target, tuple)
        lists = [
            (one["before"], one["after"])
            for one in plan["assignments"]
            if (one["topic"], one["partition"]) == tuple(order.subject)
        ]
        if not any(sorted(target) in (sorted(before), sorted(after)) for before, after in lists):
            self.fail(f"digest: {order.subject} to {target} is not in plan {execution.digest[:12]}")

    # ------------------------------------------------------------ as time passes

    def publish(self, one: Published) -> None:
        """A snapshot was published."""
        self.published = [*self.published[-9:], one]
        for broker in one.racks:
            times = one.since.get(broker, one.at), one.at
            if broker in one.lost:
                self.lost_since.setdefault(broker, times)
            elif self.lost_since.pop(broker, None) is not None:
                self.back_since[broker] = times
        self.back_since = {b: at for b, at in self.back_since.items() if b not in self.lost_since}

    def look(self, led_since: float) -> None:
        """What must have ended by now has ended.

        Parameters
        ----------
        led_since
            Since when an instance has decided without a break.
        """
        now, policy = self.clock(), self.policy
        for plan in self.plans.values():
            if plan.state in ("asking", "proposed", "approved") and plan.digest in self.proposed_at:
                end = max(self.proposed_at[plan.digest] + policy.plan_max_age_seconds, led_since)
                # A plan that is offered again after a restart has its whole time again.
                if now > end + policy.plan_max_age_seconds * (plan.state == "approved") + 900:
                    self.fail(f"approval: plan {plan.digest[:12]} is {plan.state} and does not end")
        slowest = policy.settle_seconds + policy.measure_seconds + 900
        for number, at in self.unmeasured.items():
            if now > max(at, led_since) + slowest:
                self.fail(f"execution {number} was not measured and nobody was notified")
