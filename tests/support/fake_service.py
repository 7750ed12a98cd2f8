"""A service in memory behind `ServiceInterface`: two clusters, a plan that waits for approval, an execution.

Its answers depend on nothing but the calls before. `advance` moves its clock and the executions that run.
"""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_fields
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec.structs import replace

from support.plans import plan_of
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.documents import (
    BrokerStatus,
    DecisionRecord,
    ExecutionDetail,
    ExecutionRecord,
    Finding,
    LargestPart,
    LoadSeries,
    NotificationStatus,
    PauseStatus,
    PlanRecord,
    ResourceStatus,
    StepRecord,
    TargetDetail,
    TargetStatus,
    Waiting,
)
from trimtab.serve.interface import ConflictError, NotLeaderError, UnknownError
from trimtab_common.errors import InputError

START = 1_795_000_000.0
"""Seconds since 1970 at which each fake service begins."""
WINDOW_SECONDS = 900.0
RESOURCES = ("network_out", "network_in", "disk")
MODES = {
    "undo": "act",
    "broker_lost": "ask",
    "hard_limit": "ask",
    "request": "ask",
    "broker_added": "propose",
    "drift": "propose",
}
PLAN_SETTINGS: dict[str, type | tuple[type, ...]] = {
    "drain": list,
    "demote": list,
    "add": list,
    "fix_offline_replicas": bool,
    "intra_broker_only": bool,
    "replication_factor": dict,
    "goals": list,
    "excluded_topics": list,
    "excluded_brokers_for_replicas": list,
    "epsilon": (int, float),
    "theta": (int, float),
    "max_bytes": int,
}
"""Settings of a what-if plan, with the types that are accepted."""
GIGABYTE = 10**9
KIBIBYTE = 2**10
CAPACITY = 2.0**30
"""Of each broker and resource."""
STEPS = 12
MOVES = 14


class FakeService:
    """The clusters `orders` (balanced, paused) and `payments` (a plan asks; its keys are being moved)."""

    def __init__(
        self, settings: ServeSettings | None = None, is_leader: bool = True, now: float = START
    ) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._settings = settings or ServeSettings(clusters=("orders", "payments"))
        self.now = now
        self.is_leader = is_leader
        self.leader_url = "" if is_leader else "http://leader.example:8230"
        self.findings: list[Finding] = []
        self.faults: list[Finding] = []
        self.deliveries = NotificationStatus(waiting=1)
        self._decisions: list[DecisionRecord] = []
        self._plans: dict[str, PlanRecord] = {}
        self._plan_bytes: dict[str, bytes] = {}
        self._executions: dict[tuple[str, int], ExecutionRecord] = {}
        self._targets: dict[tuple[str, str], TargetStatus] = {}
        with self._changed:
            self._fill()

    # ------------------------------------------------------------ the story

    def _fill(self) -> None:
        for cluster, balancer in (("orders", "replicas"), ("payments", "replicas"), ("payments", "keys")):
            self._targets[cluster, balancer] = _target(
                cluster,
                balancer,
                self.now,
                self.is_leader,
                uneven=(cluster, balancer) != ("orders", "replicas"),
            )
        self._decide("orders", "replicas", "started", "The service has started.")
        self._add_execution("payments", "replicas", 1, "finished", effect="helped", trigger="drift")
        self._add_execution("payments", "replicas", 2, "finished", effect="worse", trigger="hard_limit")
        self._add_execution("payments", "keys", 3, "running", trigger="drift")
        pause = PauseStatus(by="alice", reason="Migration of the storage.", since=self.now - 3600, until=None)
        self._decide("orders", "replicas", "paused", pause.reason, by=pause.by)
        self._change(
            "orders",
            "replicas",
            pause=pause,
            waiting=Waiting(reason="alice has paused executions: Migration of the storage.", until=None),
        )
        asking = self._add_plan(
            "payments", "replicas", {"epsilon": 0.1}, "policy", trigger="hard_limit", state="asking"
        )
        self._decide(
            "payments",
            "replicas",
            "propose",
            "Broker 2 uses 91 % of its network out (limit 80 %). 14 moves bring it to 74 %.",
            trigger="hard_limit",
            digest=asking.digest,
            until=asking.expires_at,
        )
        self._change(
            "payments",
            "replicas",
            plan=asking,
            stage="asking",
            trigger="hard_limit",
            waiting=Waiting(reason="A plan of 14 moves waits for an approval.", until=asking.expires_at),
            alerts=("hard_limit",),
        )
        self._decide(
            "payments", "replicas", "wait", "A plan of 14 moves waits for an approval.", until=self.now + 3600
        )

    def advance(self, seconds: float) -> None:
        """Move the clock; executions that run do one step in 10 s."""
        with self._changed:
            self.now += seconds
            for key, one in list(self._executions.items()):
                if one.status == "running":
                    done = min(one.steps, one.steps_done + int(seconds // 10))
                    self._executions[key] = replace(
                        one,
                        steps_done=done,
                        bytes_done=one.bytes_total * done // one.steps,
                        progress=f"{done} of {one.steps} steps",
                    )
                    if done == one.steps:
                        self._end(key, "finished", "The execution has finished.")
            self._changed.notify_all()

    # ------------------------------------------------------------ reading

    @property
    def settings(self) -> ServeSettings:
        return self._settings

    @property
    def instance(self) -> str:
        return "fake-1"

    def targets(self) -> Sequence[TargetStatus]:
        with self._lock:
            return [self._status(*key) for key in self._targets]

    def target(self, cluster: str, balancer: str) -> TargetDetail:
        with self._lock:
            status = self._status(cluster, balancer)
            return TargetDetail(status=status, brokers=_brokers(status), largest=_largest())

    def largest(
        self, cluster: str, balancer: str, of: str, sort: str = "", count: int = 20
    ) -> Sequence[LargestPart]:
        with self._lock:
            self._status(cluster, balancer)
            if sort not in ("", *RESOURCES):
                raise InputError(f"sort is {sort[:40]}: use {', '.join(RESOURCES)}")
            found = sorted(_largest(), key=lambda one: -one.load[sort or "disk"])
            if of == "topics":
                found = [replace(one, name=one.name.rpartition("-")[0], leader="") for one in found]
            return found[:count]

    def loads(self, cluster: str, balancer: str, since: float, max_points: int) -> LoadSeries:
        with self._lock:
            status = self._status(cluster, balancer)
            begin = max(since, self.now - 7 * 86400)
            number = max(0, int((self.now - begin) // WINDOW_SECONDS))
            stride = max(1, -(-number // max_points))
            at = tuple(self.now - WINDOW_SECONDS * i for i in range(0, number, stride))[::-1]
            peaks = {one.resource: one.peak or 0.5 for one in status.resources}
            ahead = tuple(self.now + WINDOW_SECONDS * i for i in range(1, min(17, max_points)))
            return LoadSeries(
                cluster=cluster,
                balancer=balancer,
                at=at,
                deviation={name: tuple(_wave(peak / 4, t) for t in at) for name, peak in peaks.items()},
                peak={name: tuple(_wave(peak, t) for t in at) for name, peak in peaks.items()},
                forecast_at=ahead,
                forecast_peak={name: tuple(_wave(peak, t) for t in ahead) for name, peak in peaks.items()},
            )

    def plans(self, cluster: str | None = None, limit: int = 50) -> Sequence[PlanRecord]:
        with self._lock:
            found = [one for one in self._plans.values() if cluster in (None, one.cluster)]
            return found[::-1][:limit]

    def plan(self, digest: str) -> PlanRecord:
        with self._lock:
            found = [one for key, one in self._plans.items() if len(digest) >= 8 and key.startswith(digest)]
            if len(found) != 1:
                raise UnknownError(f"the service holds no plan {digest[:80]}; list the plans")
            return found[0]

    def plan_bytes(self, digest: str) -> bytes:
        return self._plan_bytes[self.plan(digest).digest]

    def plan_text(self, digest: str, all_moves: bool = False) -> str:
        plan = self.plan(digest)
        shown = plan.moves if all_moves else min(5, plan.moves)
        lines = [
            f"plan {plan.digest[:12]} for {plan.cluster}/{plan.balancer}: {plan.verdict}",
            *(f"  move live-{i:02}-0 from broker 2 to broker {3 + i % 4}" for i in range(shown)),
        ]
        return "\n".join(lines) + "\n"

    def plan_brokers(self, digest: str) -> Sequence[BrokerStatus]:
        plan = self.plan(digest)
        return _brokers(self._status(plan.cluster, plan.balancer), is_even=True)

    def executions(self, cluster: str | None = None, limit: int = 50) -> Sequence[ExecutionRecord]:
        with self._lock:
            if cluster is not None and all(cluster != name for name, _ in self._targets):
                raise UnknownError(f"there is no cluster {cluster[:80]}; list the clusters")
            found = [one for one in self._executions.values() if cluster in (None, one.cluster)]
            return sorted(found, key=lambda one: (-one.started_at, -one.number))[:limit]

    def execution(self, cluster: str, number: int) -> ExecutionDetail:
        with self._lock:
            one = self._execution(cluster, number)
            states = ["done"] * one.steps_done + ["running"] * (one.status == "running")
            states += ["pending"] * (one.steps - len(states))
            steps = tuple(
                StepRecord(number=i, text=f"move live-{i:02}-0 to broker {3 + i % 4}", state=state, reason="")
                for i, state in enumerate(states[: one.steps])
            )
            return ExecutionDetail(execution=one, steps=steps)

    def decisions(
        self,
        after: int | None = None,
        limit: int = 100,
        cluster: str | None = None,
        balancer: str | None = None,
    ) -> Sequence[DecisionRecord]:
        with self._lock:
            found = [
                one
                for one in self._decisions
                if cluster in (None, one.cluster) and balancer in (None, one.balancer)
            ]
            if after is None:
                return found[::-1][:limit]
            return [one for one in found if one.number > after][:limit]

    def wait_for_decisions(self, after: int, seconds: float) -> Sequence[DecisionRecord]:
        with self._changed:
            self._changed.wait_for(lambda: self._decisions[-1].number > after, seconds)
            return self.decisions(after)

    def notifications(self) -> NotificationStatus:
        return self.deliveries

    def liveness(self) -> Sequence[Finding]:
        return list(self.faults)

    def readiness(self) -> Sequence[Finding]:
        return list(self.findings)

    # ------------------------------------------------------------ changes

    def make_plan(self, cluster: str, balancer: str, settings: Mapping[str, object], by: str) -> PlanRecord:
        with self._changed:
            self._require_leader()
            self._status(cluster, balancer)
            for name, value in settings.items():
                if name not in PLAN_SETTINGS:
                    raise InputError(f"plans have no setting {name}; use one of {', '.join(PLAN_SETTINGS)}")
                if not isinstance(value, PLAN_SETTINGS[name]):
                    raise InputError(f"{name} is {value!r}: correct its type")
            return self._add_plan(cluster, balancer, settings, by, trigger="what-if", state="what-if")

    def apply_plan(self, digest: str, by: str) -> PlanRecord:
        with self._changed:
            self._require_leader()
            plan = self.plan(digest)
            if plan.state in ("approved", "executing", "executed"):
                return plan
            if plan.state == "withdrawn":
                raise ConflictError(f"plan {plan.digest[:12]} was withdrawn; make a new plan")
            approved = replace(plan, state="approved", state_reason=f"approved by {by}", expires_at=None)
            if self._status(plan.cluster, plan.balancer).pause is None:
                # As in the real service, a thread begins the execution after the answer.
                self._execute(plan, by)
            else:
                self._plans[plan.digest] = approved
            return approved

    def approve(self, digest: str, by: str) -> PlanRecord:
        with self._changed:
            return self._execute(self._offered(digest), by)

    def reject(self, digest: str, by: str, note: str = "") -> PlanRecord:
        with self._changed:
            plan = self._offered(digest)
            rejected = replace(
                plan, state="withdrawn", state_reason=f"{by} rejected the plan. {note}".strip()
            )
            self._plans[plan.digest] = rejected
            self._decide(
                plan.cluster, plan.balancer, "rejected", rejected.state_reason, by=by, digest=plan.digest
            )
            self._idle(plan.cluster, plan.balancer, f"{by} rejected the plan.")
            return rejected

    def pause(self, cluster: str, balancer: str, by: str, reason: str, until: float | None) -> TargetStatus:
        with self._changed:
            self._require_leader()
            status = self._status(cluster, balancer)
            if until is not None and until <= self.now:
                raise InputError(f"until is {until:.0f}: give a time that comes")
            for key, one in list(self._executions.items()):
                if (one.cluster, one.balancer, one.status) == (cluster, balancer, "running"):
                    self._end(key, "stopped", f"{by} has paused executions.")
            self._decide(cluster, balancer, "paused", reason, by=by, until=until)
            return self._change(
                cluster,
                balancer,
                pause=status.pause or PauseStatus(by=by, reason=reason, since=self.now, until=until),
                waiting=Waiting(reason=f"{by} has paused executions: {reason}", until=until),
            )

    def resume(self, cluster: str, balancer: str, by: str) -> TargetStatus:
        with self._changed:
            self._require_leader()
            self._status(cluster, balancer)
            self._decide(cluster, balancer, "resumed", f"{by} ended the pause.", by=by)
            self._idle(cluster, balancer, "The load is even.", pause=None)
            for plan in list(self._plans.values()):
                if (plan.cluster, plan.balancer, plan.state) == (cluster, balancer, "approved"):
                    self._execute(plan, by)
            return self._status(cluster, balancer)

    def end_execution(
        self, cluster: str, number: int, how: Literal["stop", "cancel"], by: str
    ) -> ExecutionRecord:
        with self._changed:
            self._require_leader()
            one = self._execution(cluster, number)
            if one.status not in ("running", "stopped") or (how, one.status) == ("stop", "stopped"):
                raise ConflictError(f"execution {number} of {cluster} is {one.status}: nothing to {how}")
            status = {"stop": "stopped", "cancel": "cancelled"}[how]
            text = f"{by} asked to {how} the execution."
            self._decide(cluster, one.balancer, f"{status}_execution", text, by=by, execution=number)
            return self._end((cluster, number), status, text)

    def resume_execution(self, cluster: str, number: int, by: str) -> ExecutionRecord:
        with self._changed:
            self._require_leader()
            one = self._execution(cluster, number)
            if one.status != "stopped":
                raise ConflictError(
                    f"execution {number} of {cluster} is {one.status}; only a stopped one resumes"
                )
            running = replace(one, status="running", ended_at=None)
            self._executions[cluster, number] = running
            self._change(cluster, one.balancer, execution=running, stage="executing")
            self._decide(
                cluster, one.balancer, "resumed_execution", f"{by} resumed it.", by=by, execution=number
            )
            return running

    def set_throttle(self, cluster: str, number: int, bytes_per_second: float, by: str) -> ExecutionRecord:
        with self._changed:
            self._require_leader()
            one = self._execution(cluster, number)
            if one.status != "running":
                raise ConflictError(f"execution {number} does not run: its throttle cannot be changed")
            changed = replace(one, throttle_bytes_per_second=bytes_per_second)
            self._executions[cluster, number] = changed
            reason = f"{by} changed the throttle."
            self._decide(cluster, one.balancer, "changed_throttle", reason, by=by, execution=number)
            return changed

    # ------------------------------------------------------------ inside

    def _require_leader(self) -> None:
        if not self.is_leader:
            raise NotLeaderError("another instance decides; send the request to it", self.leader_url)

    def _status(self, cluster: str, balancer: str) -> TargetStatus:
        found = self._targets.get((cluster, balancer))
        if found is None:
            raise UnknownError(
                f"the service has no {balancer[:80]} of a cluster {cluster[:80]}; list the clusters"
            )
        plan, execution = found.plan, found.execution
        return replace(
            found,
            plan=plan and self._plans[plan.digest],
            execution=execution and self._executions[cluster, execution.number],
        )

    def _execution(self, cluster: str, number: int) -> ExecutionRecord:
        found = self._executions.get((cluster, number))
        if found is None:
            raise UnknownError(f"cluster {cluster[:80]} has no execution {number}; list the executions")
        return found

    def _offered(self, digest: str) -> PlanRecord:
        self._require_leader()
        plan = self.plan(digest)
        if plan.state != "asking":
            raise ConflictError(f"plan {plan.digest[:12]} is {plan.state}: it does not wait for an approval")
        return plan

    def _decide(self, cluster: str, balancer: str, kind: str, reason: str, **more: Any) -> DecisionRecord:
        number = self._decisions[-1].number + 1 if self._decisions else 1
        made = DecisionRecord(
            number=number, cluster=cluster, balancer=balancer, at=self.now, kind=kind, reason=reason, **more
        )
        self._decisions.append(made)
        self._changed.notify_all()
        return made

    def _change(self, cluster: str, balancer: str, **fields: Any) -> TargetStatus:
        self._targets[cluster, balancer] = replace(self._targets[cluster, balancer], **fields)
        return self._status(cluster, balancer)

    def _idle(self, cluster: str, balancer: str, reason: str, **more: Any) -> TargetStatus:
        waiting = Waiting(reason=reason, until=self.now + 60)
        return self._change(cluster, balancer, plan=None, stage="", trigger="", waiting=waiting, **more)

    def _end(self, key: tuple[str, int], status: str, reason: str) -> ExecutionRecord:
        ended = replace(self._executions[key], status=status, ended_at=self.now)
        self._executions[key] = ended
        self._decide(ended.cluster, ended.balancer, "ended", reason, execution=ended.number)
        if ended.digest in self._plans:
            self._plans[ended.digest] = replace(
                self._plans[ended.digest], state="executed", state_reason=reason
            )
        self._idle(ended.cluster, ended.balancer, reason, execution=ended)
        return ended

    def _execute(self, plan: PlanRecord, by: str) -> PlanRecord:
        status = self._status(plan.cluster, plan.balancer)
        if status.pause is not None:
            raise ConflictError(f"{plan.cluster}/{plan.balancer} is paused; resume it first")
        if status.execution is not None and status.execution.status == "running":
            raise ConflictError(
                f"execution {status.execution.number} of {plan.cluster} runs; wait for its end"
            )
        number = max(one for _, one in self._executions) + 1
        self._decide(plan.cluster, plan.balancer, "approved", f"{by} approved.", by=by, digest=plan.digest)
        running = replace(
            plan,
            state="executing",
            state_reason=f"{by} approved the plan.",
            expires_at=None,
            execution=number,
        )
        self._plans[plan.digest] = running
        self._add_execution(
            plan.cluster, plan.balancer, number, "running", plan.trigger, digest=plan.digest, by=by
        )
        return running

    def _add_execution(
        self,
        cluster: str,
        balancer: str,
        number: int,
        status: str,
        trigger: str,
        effect: str = "",
        digest: str = "",
        by: str = "policy",
    ) -> None:
        ended = status == "finished"
        made = ExecutionRecord(
            cluster=cluster,
            balancer=balancer,
            number=number,
            digest=digest or hashlib.sha256(f"{cluster}-{number}".encode()).hexdigest(),
            trigger=trigger,
            approved_by=by,
            started_at=self.now - (86400.0 * (4 - number) if ended else 0),
            ended_at=self.now - 86400.0 * (4 - number) + 600 if ended else None,
            status=status,
            steps=STEPS,
            steps_done=STEPS if ended else 0,
            steps_failed=0,
            bytes_done=40 * GIGABYTE if ended else 0,
            bytes_total=40 * GIGABYTE,
            progress=f"{STEPS if ended else 0} of {STEPS} steps",
            effect=effect,
            effect_text={
                "helped": "The largest deviation fell from 0.31 to 0.08.",
                "worse": "The largest deviation rose from 0.12 to 0.26.",
            }.get(effect, ""),
            throttle_bytes_per_second=5e7,
        )
        self._executions[cluster, number] = made
        self._decide(cluster, balancer, "execute", f"Execution {number}.", trigger=trigger, execution=number)
        if not ended:
            waiting = Waiting(reason=f"Execution {number} is running.", until=None)
            self._change(
                cluster, balancer, execution=made, stage="executing", trigger=trigger, waiting=waiting
            )

    def _add_plan(
        self, cluster: str, balancer: str, settings: Mapping[str, object], by: str, trigger: str, state: str
    ) -> PlanRecord:
        content = _plan_content(cluster, balancer, settings, trigger, _instant(self.now))
        digest = hashlib.sha256(content).hexdigest()
        if digest in self._plans:
            return self._plans[digest]
        made = PlanRecord(
            digest=digest,
            cluster=cluster,
            balancer=balancer,
            trigger=trigger,
            requested_by=by,
            settings=dict(settings),
            made_at=self.now,
            snapshot_taken_at=_instant(self.now),
            verdict="balanced",
            moves=MOVES,
            bytes=62 * GIGABYTE,
            leader_moves=3,
            bound_bytes=58.5 * GIGABYTE,
            problems=(),
            state=state,
            state_reason="A person asked what would happen." if state == "what-if" else "It waits.",
            expires_at=self.now + 3600 if state == "asking" else None,
        )
        self._plans[digest], self._plan_bytes[digest] = made, content
        self._decide(cluster, balancer, "make_plan", "14 moves of 62 GB.", by=by, digest=digest)
        return made


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _plan_content(
    cluster: str, balancer: str, settings: Mapping[str, object], trigger: str, taken_at: str
) -> bytes:
    """A plan file; of `replicas` a real one, with eleven copies and three changes of leaders.

    A plan that is made later differs, as plans of a newer snapshot do.
    """
    if balancer != "replicas":
        document = {"form": "trimtab/plan/1", "cluster": cluster, "level": balancer, "settings": settings}
        return (
            json.dumps(
                {**document, "trigger": trigger, "taken_at": taken_at}, indent=2, sort_keys=True
            ).encode()
            + b"\n"
        )
    copies = [(f"live-{i:02}", 0, (2, 3), (4 + i % 3, 3)) for i in range(11)]
    leaders = [(f"live-{i:02}", 0, (2, 3), (3, 2)) for i in range(11, MOVES)]
    made = plan_of(*copies, *leaders, size=62 * GIGABYTE // 11)
    reference = with_fields(made.snapshot, cluster=cluster, taken_at=taken_at)
    return plan_bytes(with_fields(made, settings={**settings, "trigger": trigger}, snapshot=reference))


def with_settings(service: FakeService, **fields: Any) -> FakeService:
    """The same service with other settings."""
    service._settings = with_fields(service._settings, **fields)
    return service


def _wave(peak: float, at: float) -> float:
    """A load that rises and falls within 6 h, the same at each call."""
    phase = (at % 21600) / 21600
    return round(peak * (0.7 + 0.3 * abs(1 - 2 * phase)), 6)


def _target(cluster: str, balancer: str, now: float, is_leader: bool, uneven: bool) -> TargetStatus:
    resources = tuple(
        ResourceStatus(
            resource=name,
            mean=(0.91 - 0.1 * i) * 0.84 if uneven else 0.55 - 0.05 * i,
            peak=0.91 - 0.1 * i if uneven else 0.58 - 0.05 * i,
            peak_broker="2",
            deviation=0.31 - 0.05 * i if uneven else 0.04,
            deviation_broker="2",
            limit=0.8,
        )
        for i, name in enumerate(RESOURCES)
    )
    return TargetStatus(
        cluster=cluster,
        balancer=balancer,
        modes=dict(MODES),
        is_leader=is_leader,
        leader="fake-1" if is_leader else "fake-2",
        verdict="above_limit" if uneven else "balanced",
        worst="Broker 2 uses 91 % of its network out (limit 80 %)." if uneven else "",
        waiting=Waiting(reason="The load is even.", until=now + 60),
        snapshot_taken_at=now - 30,
        snapshot_coverage=0.99,
        resources=resources,
        stage="",
        trigger="",
        plan=None,
        execution=None,
        pause=None,
        budget_left={"bytes": None, "leader_moves": None, "executions": 9},
        alerts=(),
        problems=("Broker 6 has sent no sample for 4 min.",) if uneven else (),
        lost_brokers=("6",) if uneven else (),
    )


def _brokers(status: TargetStatus, is_even: bool = False) -> tuple[BrokerStatus, ...]:
    """Six brokers; broker 2 carries most, unless they are even."""
    found = []
    for number in range(1, 7):
        share = 1.0 if number == 2 and not is_even else 0.8
        is_online = str(number) not in status.lost_brokers
        usage = tuple(share * (one.peak or 0) if is_online else None for one in status.resources)
        deviation = tuple(
            (one.deviation or 0) * (0 if is_even else 1 if number == 2 else -0.2) if is_online else None
            for one in status.resources
        )
        found.append(
            BrokerStatus(
                name=str(number),
                rack=f"r{1 + number % 3}",
                is_online=is_online,
                replicas=120 + number,
                leaders=40 + number if is_online else 0,
                bytes_stored=number * 100.0 * GIGABYTE if is_online else None,
                usage=usage,
                deviation=deviation,
                host=f"h{number}",
                load=tuple(None if one is None else one * CAPACITY for one in usage),
                capacity=(CAPACITY,) * len(usage),
                figures={"leader_network_in": 3 * KIBIBYTE, "follower_network_in": 6 * KIBIBYTE},
            )
        )
    return tuple(found)


def _largest() -> tuple[LargestPart, ...]:
    return tuple(
        LargestPart(
            name=f"live-{i:02}-0",
            leader="2",
            brokers=("2", "3", "4"),
            load={"network_in": 9e6 - i * 1e5, "network_out": 2.7e7 - i * 3e5, "disk": 4e10 - i * 1e9},
        )
        for i in range(10)
    )
