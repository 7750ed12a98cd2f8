"""One balancer of one cluster in the service: events in, decisions written down and carried out.

Events come from any thread. Each is decided, and written to the journal with its decisions, before anything
is carried out. Work that takes time runs in threads of its own and answers with an event.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from trimtab import executions
from trimtab.act.control import ExecutionControl, receipt_of
from trimtab.act.execution.state import ExecutionStatus
from trimtab.balancers import Balancer, balancer_named
from trimtab.balancers.balancer import PlanRequest
from trimtab.balancers.clusters import Cluster
from trimtab.balancers.planning import plan_balancer
from trimtab.decide import events as ev
from trimtab.decide.machine import decide
from trimtab.decide.state import APPROVED_BY, Stage, State, Work
from trimtab.executions import ExecutionContext, ExecutionOutcome
from trimtab.files.machine import Runtime
from trimtab.files.serve_settings import ServeSettings
from trimtab.files.store import Location
from trimtab.model.errors import ObserveError
from trimtab.model.goals import limit_goals
from trimtab.model.load import resource_name
from trimtab.model.plan import AnyPlan, Verdict
from trimtab.model.policy import Trigger
from trimtab.model.text import bytes_text
from trimtab.serve.documents import DecisionRecord, PlanRecord
from trimtab.serve.interface import ConflictError, UnknownError
from trimtab.serve.journal import MeasuredEffect, ServiceJournal
from trimtab.serve.observing import Observation, conflict_text, observation_of, with_online_brokers
from trimtab_common.errors import TrimtabError
from trimtab_common.settings import Settings

if TYPE_CHECKING:
    from trimtab.executions.measuring import Measurement
    from trimtab.model.documents import AnyReceipt

LOG = logging.getLogger("trimtab.serve")
STORED_PLAN: Final = "plan"
"""Setting of a request that names a plan the service holds already, by its digest."""
_OWN: Final = (STORED_PLAN, APPROVED_BY)
WIDEST_EPSILON: Final = 0.99
RETRY_SECONDS: Final = (2.0, 5.0, 5.0, 10.0)
"""Pauses before an interrupted execution is resumed; the last one repeats."""

_ENDED: Final = (ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE, ExecutionStatus.CANCELLED)
"""Statuses after which the service does not go on; a stopped execution is resumed."""
_UNFINISHED: Final = (Stage.EXECUTING, Stage.STOPPING, Stage.STOPPED, Stage.HELD)
MAX_ASK_SECONDS: Final = 10.0
"""At least this often the cluster itself is asked for its brokers and for reassignments."""
PAST: Final = {"stop": "stopped", "cancel": "cancelled"}
_OUTCOMES: Final = {
    "finished": ev.Outcome.FINISHED,
    "incomplete": ev.Outcome.INCOMPLETE,
    "stopped": ev.Outcome.STOPPED,
    "cancelled": ev.Outcome.CANCELLED,
}


@dataclass(frozen=True, kw_only=True)
class TargetContext:
    """What all targets of a service share.

    Attributes
    ----------
    settings_file, overrides
        Where planners read the settings.
    read_settings
        The settings in force, with further overrides.
    execution_context
        The place of executions of a cluster; its `require` and journal are those of the service.
    on_decision
        Rows that belong to a decision, in the same transaction.
    on_replaced
        Called where another instance decides from now on.
    sleep
        Waits, and returns early where the service ends.
    """

    serve: ServeSettings
    settings: Settings
    settings_file: Path | None
    overrides: Sequence[str]
    read_settings: Callable[[Sequence[str]], Settings]
    lake: Location
    journal: ServiceJournal
    execution_context: Callable[[Cluster], ExecutionContext]
    on_decision: Callable[[DecisionRecord], None]
    on_replaced: Callable[[], None]
    runtime: Runtime
    sleep: Callable[[float], None]


class Target:
    """One balancer of one cluster.

    Attributes
    ----------
    observation
        The newest snapshot as it was read; None before the first.
    wait
        The last decision to wait.
    progress
        The last line of progress of executions.
    running
        The states of executions that a thread of this process runs.
    is_running
        Whether an execution runs in a thread of this process.
    """

    def __init__(self, cluster: Cluster, balancer: Balancer, context: TargetContext) -> None:
        assert cluster.name is not None
        self.cluster, self.balancer, self.name = cluster, balancer, cluster.name
        self.observation: Observation | None = None
        self.observe_error = ""
        self.wait = ev.Wait(reason="the first snapshot is waited for", until=inf)
        self.progress: dict[int, str] = {}
        self.running: dict[int, Any] = {}
        self._context = context
        self._lock = threading.RLock()
        self._events: deque[tuple[ev.Event, str, tuple[PlanRecord, bytes] | None]] = deque()
        self._is_deciding = False
        self._state = State()
        self._leads = False
        self.is_running = False
        self._control: ExecutionControl | None = None
        self._attempts = 0
        self._term = 0
        self._runs = context.runtime.lock()
        self._asks_again_at = 0.0
        self._offered: tuple[str, AnyPlan] | None = None

    # ------------------------------------------------------------ leadership

    @property
    def state(self) -> State:
        """The state as this instance decides by, or as the deciding instance wrote it last.

        It takes no lock: a reader must not wait for a slow lake.
        """
        if self._leads:
            return self._state
        return self._context.journal.state(self.name, self.balancer.name)

    def lead(self) -> None:
        """Decide from now on: go on from the state that was written last."""
        with self._lock:
            self._state = self._context.journal.state(self.name, self.balancer.name)
            self._leads = True
            self._term += 1
            self._control, self._attempts = None, 0
            restart = ev.Restarted() if self._state.is_leader else ev.LeadershipChanged(True)
            work = self._state.work
            if work is not None and work.stage is Stage.STARTING and work.plan is not None:
                found = self._execution_of(work)
                if found is not None:
                    self.handle(ev.ExecutionStarted(found))
            self.handle(restart)

    def follow(self) -> None:
        """Decide no longer; another instance does."""
        with self._lock:
            self._leads = False
            self._events.clear()

    def _execution_of(self, work: Work) -> int | None:
        """The execution that was ordered for a work; the same plan may have been executed before."""
        with self._executions().open_store() as store:
            for entry in store.journal.entries():
                if entry.facts.get("ordered_at") == work.since:
                    return entry.id
        return None

    # ------------------------------------------------------------ events

    def handle(self, event: ev.Event, by: str = "", plan: tuple[PlanRecord, bytes] | None = None) -> bool:
        """Decide what follows from an event, write it down, and carry it out.

        Returns False where this instance does not decide, or no longer: nothing was written then.

        Parameters
        ----------
        by
            The person or program behind the event.
        plan
            Record and file of the plan that `PlanMade` is about.
        """
        with self._lock:
            if not self._leads:
                return False
            self._events.append((event, by, plan))
            if self._is_deciding:
                return True
            self._is_deciding = True
            try:
                while self._events and self._leads:
                    self._decide(*self._events.popleft())
            finally:
                self._is_deciding = False
            return self._leads

    def _decide(self, event: ev.Event, by: str, plan: tuple[PlanRecord, bytes] | None) -> None:
        now = self._context.runtime.clock()
        state, decisions = decide(self._state, event, now, self._context.serve)
        records = [*self._event_records(event, now, by), *self._decision_records(decisions, now)]
        if state != self._state or records:
            journal = self._context.journal
            try:
                with journal.transaction():
                    journal.write_state(self.name, self.balancer.name, state)
                    if plan is not None:
                        journal.add_plan(*plan)
                    self._update_plans(event, decisions, by, state)
                    for record in records:
                        self._context.on_decision(journal.add_decision(record))
            except (OSError, TrimtabError, sqlite3.Error) as error:
                # What cannot be written is not decided: the next leader, perhaps this instance, goes on from
                # the last state in the lake.
                LOG.warning("%s/%s: %s", self.name, self.balancer.name, error)
                self.follow()
                self._context.on_replaced()
                return
        self._state = state
        for decision in decisions:
            if isinstance(decision, ev.Wait):
                self.wait = decision
            else:
                LOG.info("%s/%s: %s: %s", self.name, self.balancer.name, kind_of(decision), decision.reason)
                self._carry_out(decision)

    def _carry_out(self, decision: ev.Decision) -> None:
        match decision:
            case ev.MakePlan():
                work = self._state.work
                self._start("plan", lambda: self._make_plan(decision, work))
            case ev.Execute(digest=digest):
                self._start("execute", lambda: self._execute(digest))
            case ev.Resume(execution=execution):
                self._start("resume", lambda: self._resume(execution))
            case ev.Stop():
                if self._control is not None:
                    self._control.stop()
            case ev.Measure(execution=execution):
                self._start("measure", lambda: self._measure(execution))

    def _start(self, what: str, run: Callable[[], None]) -> None:
        term = self._term

        def guarded() -> None:
            try:
                run()
            except Exception as error:
                LOG.exception("%s/%s: %s failed", self.name, self.balancer.name, what)
                if what == "plan":
                    self.handle(ev.PlanFailed(f"{type(error).__name__}: {error}"))
                else:
                    self._interrupted(term, str(error))

        self._context.runtime.start(f"{what} {self.name}/{self.balancer.name}", guarded)

    # ------------------------------------------------------------ observation

    def observe(self) -> None:
        """Read the newest snapshot of the lake, if it is new, and tell the deciding instance."""
        try:
            found = observation_of(
                self.balancer, self.cluster, self._context.lake, self._settings(), self.observation
            )
        except TrimtabError as error:
            self.observe_error = str(error)
            return
        self.observe_error = ""
        ahead = found.event.taken_at - self._context.runtime.clock()
        if ahead > self._context.serve.interval_seconds:
            # Decided upon, it would hide all snapshots until that time.
            self.observe_error = f"the newest snapshot is {ahead:.0f} s ahead of the clock of this machine"
            return
        is_new, before = found is not self.observation, self.state.observed
        if self._leads and (is_new or before is None):
            event = self._as_present(found.event)
            self.handle(replace(event, conflict=self._conflict()))
        elif self._leads and before is not None and self._context.runtime.monotonic() >= self._asks_again_at:
            event = self._as_present(replace(found.event, conflict=before.conflict))
            if event.brokers != before.brokers or bool(event.foreign_work) != bool(before.foreign_work):
                self.handle(event)
        self.observation = found

    def _as_present(self, event: ev.Observed) -> ev.Observed:
        """The event of a snapshot, with what the cluster itself tells: its brokers, and other work."""
        seconds = min(self._context.serve.interval_seconds / 3, MAX_ASK_SECONDS)
        self._asks_again_at = self._context.runtime.monotonic() + seconds
        if self.balancer.present_state is None:
            return event
        is_own = self._acts()
        try:
            online, work = self.balancer.present_state()(
                self.cluster.connection(), self._context.runtime.clock
            )
        except TrimtabError as error:
            LOG.warning("%s/%s: the cluster does not answer: %s", self.name, self.balancer.name, error)
            work = "what others do there is not known, because the cluster does not answer"
        else:
            event = with_online_brokers(event, online)
        return event if is_own or self._acts() else replace(event, foreign_work=work)

    def _acts(self) -> bool:
        with self._lock:
            work = self._state.work
            return work is not None and work.stage in (Stage.STARTING, Stage.EXECUTING, Stage.STOPPING)

    def _conflict(self) -> str:
        work = self._state.work
        if work is None or work.stage is not Stage.PROPOSED or work.plan is None:
            return ""
        digest = work.plan.digest
        if self._offered is None or self._offered[0] != digest:
            self._offered = digest, self._plan(self._context.journal.plan_content(digest))
        return conflict_text(executions.changes_since(self._offered[1], self._executions()))

    # ------------------------------------------------------------ plans

    def _settings(self, overrides: Sequence[str] = ()) -> Any:
        settings = self._context.settings if not overrides else self._context.read_settings(overrides)
        return settings.of(self.balancer.settings())

    def plan_of(self, settings: Mapping[str, object], trigger: str, by: str) -> tuple[PlanRecord, bytes]:
        """A plan from the newest snapshot, with settings that replace the configured ones.

        Raises
        ------
        InputError
            If a setting is unknown or its value does not fit.
        TrimtabError
            If there is no snapshot, or the planner fails.
        """
        begun = self._context.runtime.clock()
        wanted = {name: value for name, value in settings.items() if name not in _OWN}
        if "undo" in wanted:
            number, place = int(str(wanted["undo"])), self._executions().state_folder
            content, figures = self._context.runtime.call(undo_content, number, place, self._context.lake)
        else:
            configured = self._settings()
            words = tuple(
                f"{self.balancer.name}.{name}={msgspec.json.encode(_value(name, value, configured)).decode()}"
                for name, value in wanted.items()
            )
            self._settings(words)  # a wrong one is refused before a process is started
            request = PlanRequest(
                snapshot=None,
                lake=self._context.lake,
                settings=self._context.settings_file,
                cluster=self.cluster.id,
                overrides=(*self._context.overrides, *words),
                own={option.name: option.default for option in self.balancer.plan_options},
                loaded=no_report,
            )
            content, figures = self._context.runtime.call(plan_content, self.balancer.name, request)
        record = PlanRecord(
            digest=hashlib.sha256(content).hexdigest(),
            cluster=self.name,
            balancer=self.balancer.name,
            trigger=trigger,
            requested_by=by,
            settings=dict(wanted),
            made_at=self._context.runtime.clock(),
            state="what-if",
            state_reason="nothing changes until the plan is applied",
            expires_at=None,
            seconds=self._context.runtime.clock() - begun,
            **figures,
        )
        return record, content

    def _make_plan(self, decision: ev.MakePlan, work: Work | None) -> None:
        settings = dict(decision.settings)
        by = str(settings.get(APPROVED_BY, "")) or decision.trigger.value
        try:
            if STORED_PLAN in settings:
                stored = self._context.journal.plan(str(settings[STORED_PLAN]))
                if stored is None:
                    raise UnknownError(f"plan {settings[STORED_PLAN]} is not known")
                record, content = stored, self._context.journal.plan_content(stored.digest)
            else:
                if decision.trigger is not Trigger.REQUEST:
                    settings = settings_of_policy(settings, self._settings())
                record, content = self.plan_of(settings, decision.trigger.value, by)
        except TrimtabError as error:
            with self._lock:
                if self._state.work is work:
                    self.handle(ev.PlanFailed(str(error)))
            return
        if work is not None:
            record = msgspec.structs.replace(
                record, trigger=decision.trigger.value, state_reason=decision.reason
            )
        summary = ev.PlanSummary(
            record.digest,
            Verdict(record.verdict),
            record.moves,
            record.bytes,
            record.leader_moves,
            record.problems[0] if record.problems else "",
        )
        with self._lock:
            # A plan that comes too late must not answer the trigger that is planned for now.
            if self._state.work is work:
                self.handle(ev.PlanMade(summary), plan=(record, content))

    def _plan(self, content: bytes) -> AnyPlan:
        plan: AnyPlan = self.balancer.plan().from_bytes(Path("plan of the service"), content)
        return plan

    # ------------------------------------------------------------ executions

    def _executions(self) -> ExecutionContext:
        context = self._context.execution_context(self.cluster)
        # One reporter for a run: it computes rates from the states before.
        reporter = self.balancer.renderer().progress_reporter()
        return replace(context, notify=lambda event: self._notify(event, reporter))

    def _notify(self, event: executions.ExecutionEvent, reporter: Callable[[Any], str]) -> None:
        if isinstance(event, executions.ExecutionStarted):
            self._attempts = 0
            self.handle(ev.ExecutionStarted(event.execution))
        elif isinstance(event, executions.ExecutionProgress):
            self.progress[event.execution] = reporter(event.state)
            self.running[event.execution] = event.state
        elif isinstance(event, executions.Message):
            LOG.info("%s/%s: %s", self.name, self.balancer.name, event.text)

    def _execute(self, digest: str) -> None:
        with self._lock:
            work, term = self._state.work, self._term
            if work is None or work.plan is None or work.plan.digest != digest:
                return
        plan = self._plan(self._context.journal.plan_content(digest))
        facts = {
            "digest": digest,
            "trigger": work.trigger.value,
            "approved_by": work.approved_by,
            "ordered_at": work.since,
        }
        for pause in (*RETRY_SECONDS, None):
            with self._controlled(term, Stage.STARTING) as control:
                if control is None:
                    return
                outcome = executions.apply(plan, self._executions(), control=control, facts=facts)
            if pause is None or not isinstance(outcome, executions.Refused):
                break
            if outcome.kind not in ("unreachable", "busy"):
                break
            # Clients lose their connections when a broker dies: that must not cost the pause of a trigger.
            self._context.sleep(pause)
            if term != self._term or not self._leads:
                return
        self._ended(outcome, None, term)

    def _resume(self, execution: int, request: Literal["cancel"] | None = None) -> None:
        context, term = self._executions(), self._term
        with context.open_store() as store:
            entry = store.journal.entry(execution)
            if ExecutionStatus(entry.status) in _ENDED:
                self._report(receipt_of(self.balancer.executor(), store, execution))
                return
        stages = (Stage.HELD,) if request is not None else (Stage.EXECUTING, Stage.STOPPING)
        with self._controlled(term, *stages) as control:
            if control is None:
                return  # a person has stopped it meanwhile, or another instance decides
            if self._state.work is not None and self._state.work.stage is Stage.STOPPING:
                control.stop()  # ordered before this thread began
            outcome = executions.resume(execution, context, request=request, control=control)
        self._ended(outcome, execution, term)

    @contextmanager
    def _controlled(self, term: int, *stages: Stage) -> Iterator[ExecutionControl | None]:
        """The control of an execution that runs in this thread; None where it must not run any longer.

        Nothing runs beside a thread of an earlier leadership, which ends at its next order.
        """
        control = ExecutionControl()
        with self._runs:
            with self._lock:
                work = self._state.work
                may = term == self._term and self._leads and work is not None and work.stage in stages
                if may:
                    self._control, self.is_running = control, True
            try:
                yield control if may else None
            finally:
                self.running.clear()
                with self._lock:
                    self.is_running = False
                    if self._control is control:
                        self._control = None

    def _ended(self, outcome: ExecutionOutcome, execution: int | None, term: int) -> None:
        if term != self._term:
            return  # the journal tells a later leadership how it ended
        match outcome:
            case executions.Done(receipt) if receipt is None:
                reason = "no step is left: the cluster is already as planned"
                self.handle(ev.ExecutionEnded(None, ev.Outcome.REFUSED, reason=reason))
            case executions.Done(receipt) | executions.Stopped(receipt):
                assert receipt is not None
                self._report(receipt)
            case executions.Refused() if execution is None:
                reason = "; ".join(outcome.reasons[:3])
                self.handle(ev.ExecutionEnded(None, ev.Outcome.REFUSED, reason=reason))
            case _:
                error = outcome.error
                LOG.warning("%s/%s: %s", self.name, self.balancer.name, error)
                self._interrupted(term, str(error))

    def _interrupted(self, term: int, reason: str) -> None:
        """Let the execution be resumed after a pause: the cluster, or this process, was not able to go on.

        An execution that never got a number is refused. A later term of leadership begins with the journal,
        and needs nothing from threads of an earlier one.
        """
        pause = RETRY_SECONDS[min(self._attempts, len(RETRY_SECONDS) - 1)]
        self._attempts += 1
        self._context.sleep(pause)
        with self._lock:
            if term != self._term or not self._leads:
                return
            work = self._state.work
            if work is not None and work.stage is Stage.STARTING and work.plan is not None:
                found = self._execution_of(work)
                if found is None:
                    self.handle(ev.ExecutionEnded(None, ev.Outcome.REFUSED, reason=reason))
                    return
                self.handle(ev.ExecutionStarted(found))
            self.handle(ev.Restarted())

    def _report(self, receipt: AnyReceipt) -> None:
        copied, leads = _spent(receipt)
        self.handle(
            ev.ExecutionEnded(
                receipt.execution,
                _OUTCOMES[receipt.status],
                bytes=copied,
                leader_moves=leads,
                can_undo=self.balancer.undo is not None,
                reason=receipt.reason,
            )
        )

    def _measure(self, execution: int) -> None:
        """Measure until there are samples under a comparable load; `decide` gives up in the end."""
        from trimtab.executions.measuring import Effect, measure

        while self._is_measuring(execution):
            try:
                found = measure(execution, self._executions())
            except Exception as error:  # `decide` gives a measurement up in time, whatever keeps failing
                LOG.info(
                    "%s/%s: execution %d is not measured yet: %s",
                    self.name,
                    self.balancer.name,
                    execution,
                    error,
                )
            else:
                if found.is_comparable or found.effect is Effect.WORSE:
                    self.handle(ev.EffectMeasured(execution, found.effect, _effect_text(found)))
                    return
            self._context.sleep(min(self._context.serve.interval_seconds, 60.0) / 2)

    def _is_measuring(self, execution: int) -> bool:
        with self._lock:
            work = self._state.work
            return (
                self._leads
                and work is not None
                and work.stage is Stage.MEASURING
                and work.execution == execution
            )

    def end_execution(self, number: int, how: Literal["stop", "cancel"], by: str) -> None:
        """Stop or cancel an execution of this target; it stays so, also where no thread runs it now.

        Raises
        ------
        ConflictError
            If it has ended, or is stopped already.
        """
        with self._lock:
            work = self._state.work
            if work is None or work.execution != number or work.stage not in _UNFINISHED:
                raise ConflictError(f"execution {number} has ended: nothing is left to {how}")
            if how == "stop" and work.stage is Stage.HELD:
                raise ConflictError(f"execution {number} is stopped already: resume or cancel it")
            self._record_action(f"{PAST[how]}_execution", number, by)
            if self._control is not None:
                self._control.cancel() if how == "cancel" else self._control.stop()
                return
            if work.stage is not Stage.HELD:
                # Nobody runs it at the moment: the service must not resume it.
                self._hold(number, by)
            if how == "cancel":
                self._start("resume", lambda: self._resume(number, "cancel"))

    def change_throttle(self, number: int, bytes_per_second: float, by: str) -> None:
        """Change the throttle of an execution that runs; its copies go on at the new rate.

        Raises
        ------
        ConflictError
            If it does not run now, or the balancer has no throttle.
        """
        with self._lock:
            work = self._state.work
            if work is None or work.execution != number or self._control is None:
                raise ConflictError(f"execution {number} does not run: its throttle cannot be changed")
            acting = self.balancer.executor()
            if "throttle" not in {one.name for one in fields(acting.settings)}:
                raise ConflictError(f"executions of {self.balancer.name} copy nothing: they have no throttle")
            self._record_action("changed_throttle", number, by, f" to {bytes_text(bytes_per_second)}/s")
            self._control.change_settings({"throttle": bytes_per_second})

    def _hold(self, number: int, by: str) -> None:
        with self._executions().open_store() as store:
            receipt = receipt_of(self.balancer.executor(), store, number)
        copied, leads = _spent(receipt)
        self.handle(ev.ExecutionEnded(number, ev.Outcome.STOPPED, copied, leads, reason=f"stopped by {by}"))

    def resume_execution(self, number: int, by: str) -> None:
        """Continue an execution that a person stopped.

        Raises
        ------
        ConflictError
            If it was not stopped by a person.
        """
        with self._lock:
            work = self._state.work
            if work is None or work.execution != number or work.stage is not Stage.HELD:
                raise ConflictError(
                    f"execution {number} is not stopped by a person: there is nothing to resume"
                )
            self._record_action("resumed_execution", number, by)
            self.handle(ev.ExecutionResumed(number, by), by)

    def _record_action(self, kind: str, number: int, by: str, detail: str = "") -> None:
        reason = f"{kind.replace('_', ' ')} {number}{detail}, by {by}"
        record = self._record(self._context.runtime.clock(), kind, reason, execution=number, by=by)
        with self._context.journal.transaction():
            self._context.journal.add_decision(record)

    # ------------------------------------------------------------ records

    def _record(self, now: float, kind: str, reason: str, **values: Any) -> DecisionRecord:
        return DecisionRecord(
            number=0,
            cluster=self.name,
            balancer=self.balancer.name,
            at=now,
            kind=kind,
            reason=reason,
            **values,
        )

    def _event_records(self, event: ev.Event, now: float, by: str) -> list[DecisionRecord]:
        """Records of events that people look for: what somebody did, and how executions went."""
        match event:
            case ev.PlanRequested(settings=settings):
                wanted = ", ".join(f"{name}={value}" for name, value in settings if name not in _OWN)
                return [self._record(now, "requested", f"{by} asked for a plan {wanted}".strip(), by=by)]
            case ev.Approved(digest, by):
                return [
                    self._record(
                        now, "approved", f"plan {digest[:12]} approved by {by}", by=by, digest=digest
                    )
                ]
            case ev.Rejected(digest, by, note):
                reason = f"plan {digest[:12]} rejected by {by}" + (f": {note}" if note else "")
                return [self._record(now, "rejected", reason, by=by, digest=digest)]
            case ev.Paused(by, reason, until):
                return [self._record(now, "paused", f"paused by {by}: {reason}", by=by, until=until)]
            case ev.Resumed(by):
                return [self._record(now, "resumed", f"resumed by {by}", by=by)]
            case ev.ExecutionStarted(number):
                return [self._record(now, "started", f"execution {number} has started", execution=number)]
            case ev.ExecutionEnded():
                text = f"execution {event.execution or 'refused'}: {event.outcome.value}"
                reason = f"{text}: {event.reason}" if event.reason else text
                return [self._record(now, "ended", reason, execution=event.execution)]
            case ev.EffectMeasured(number, effect, text):
                return [self._record(now, "measured", f"{effect.value}: {text}", execution=number)]
            case ev.LeadershipChanged(is_leader) if is_leader:
                return [self._record(now, "leadership", "this instance decides")]
        return []

    def _decision_records(self, decisions: Sequence[ev.Decision], now: float) -> list[DecisionRecord]:
        found = []
        for one in decisions:
            if isinstance(one, ev.Wait) and one.reason == self.wait.reason:
                continue
            trigger = getattr(one, "trigger", None)
            until = getattr(one, "until", None)
            found.append(
                self._record(
                    now,
                    kind_of(one),
                    one.reason,
                    trigger=trigger.value if isinstance(trigger, Trigger) else "",
                    by=getattr(one, "by", ""),
                    digest=getattr(one, "digest", ""),
                    execution=getattr(one, "execution", None),
                    until=until if until is not None and until != inf else None,
                    remedy=getattr(one, "remedy", ""),
                    key=getattr(one, "key", ""),
                    is_over=getattr(one, "over", False),
                )
            )
        return found

    def _update_plans(self, event: ev.Event, decisions: Sequence[ev.Decision], by: str, after: State) -> None:
        before = self._state
        work = before.work
        digest = work.plan.digest if work is not None and work.plan is not None else ""
        for lost in _lost_requests(before, after):
            self._set_plan(lost, "withdrawn", next((one.reason for one in decisions), "it was not made"))
        match event:
            case ev.PlanRequested(settings=settings) if STORED_PLAN in dict(settings):
                self._set_plan(
                    str(dict(settings)[STORED_PLAN]), "approved", f"applied by {by}; it waits for its turn"
                )
            case ev.ExecutionStarted(number) if digest:
                self._set_plan(digest, "executing", f"execution {number}", execution=number)
            case ev.ExecutionEnded(outcome=outcome, reason=reason) if digest:
                if outcome is ev.Outcome.REFUSED:
                    self._set_plan(digest, "withdrawn", reason)
                elif outcome is not ev.Outcome.STOPPED:
                    self._set_plan(digest, "executed", reason or outcome.value)
            case ev.EffectMeasured(number, effect, text):
                self._context.journal.write_effect(number, MeasuredEffect(effect.value, text))
            case ev.Approved(offered) if offered == digest:
                self._set_plan(digest, "approved", f"approved by {event.by}")
        for one in decisions:
            match one:
                case ev.Propose(digest=offered, ask=ask, until=until):
                    is_approved = after.work is not None and after.work.approved_by
                    state = "approved" if is_approved else "asking" if ask else "proposed"
                    self._set_plan(offered, state, one.reason, expires_at=until)
                case ev.Withdraw(digest=offered):
                    self._set_plan(offered, "withdrawn", one.reason)
                case ev.Execute(digest=offered):
                    self._set_plan(offered, "executing", one.reason)

    def _set_plan(self, digest: str, state: str, reason: str, **values: Any) -> None:
        journal = self._context.journal
        record = journal.plan(digest)
        if record is not None:
            journal.update_plan(msgspec.structs.replace(record, state=state, state_reason=reason, **values))


def _lost_requests(before: State, after: State) -> list[str]:
    """Stored plans that were asked for and are neither waited for nor in work any longer, without a plan."""

    def stored_plans(state: State) -> set[str]:
        works = () if state.work is None else (state.work,)
        found = (dict(one.settings).get(STORED_PLAN) for one in (*state.requests, *works))
        return {str(one) for one in found if one is not None}

    # A plan that was on offer or in execution has its own end.
    is_done = before.work is not None and before.work.plan is not None
    return [] if is_done else sorted(stored_plans(before) - stored_plans(after))


def _effect_text(found: Measurement) -> str:
    """What the measurement shows, as text for people: the worst deviations before and after."""
    comparison, verdict = found.comparison, found.comparison.outcome
    before, after = comparison.before.means().worst_deviation, comparison.after.means().worst_deviation

    def figures(names: Iterable[str]) -> str:
        return ", ".join(
            f"{resource_name(one)} {before[one]:.1%} → {after[one]:.1%}" for one in names if one in before
        )

    parts = [("more even", verdict.improved), ("worse", verdict.worse), ("goal missed", verdict.unmet)]
    texts = [f"{label}: {figures(names)}" for label, names in parts if names]
    if found.counterfactual is not None:
        texts.append(found.counterfactual.text)
    return "; ".join(texts) or f"as even as before: {figures(after)}"


def _spent(receipt: AnyReceipt) -> tuple[int, int]:
    """Bytes that were copied between brokers, and leaderships that were moved."""
    done = receipt.done
    copied = sum(getattr(one, "bytes", 0) for one in done if getattr(one, "kind", "copy") == "copy")
    return copied, sum(1 for one in done if getattr(one, "kind", "lead") == "lead")


def kind_of(decision: ev.Decision) -> str:
    """The kind of a decision as records name it: `MakePlan` is `make_plan`."""
    name = type(decision).__name__
    return "".join(
        f"_{letter.lower()}" if letter.isupper() and at else letter.lower() for at, letter in enumerate(name)
    )


def settings_of_policy(settings: Mapping[str, object], configured: Any) -> dict[str, object]:
    """The settings of a trigger that the plans of a balancer have.

    Triggers know what plans of `replicas` have. Where a plan has no choice of goals, the widest ε has the
    same effect as the goal θ alone.
    """
    known = {one.name for one in fields(configured)} | {"undo"}
    chosen = {name: value for name, value in settings.items() if name.partition(".")[0] in known}
    if "goals" in settings.keys() - known and "epsilon" in known:
        chosen["epsilon"] = WIDEST_EPSILON
    return chosen


def _value(name: str, value: object, configured: Any) -> object:
    """A setting as the balancer's section takes it."""
    if name == "goals" and isinstance(value, tuple | list) and tuple(value) == ("theta",):
        return limit_goals(getattr(configured, "goals", ()))
    if isinstance(value, tuple | list):
        return [int(one) if isinstance(one, str) and one.isdecimal() else one for one in value]
    return value


PlanContent = tuple[bytes, dict[str, Any]]
"""A plan file, and the fields of its `PlanRecord` that tell what it does."""


def no_report() -> None:
    """Nothing is said when a planner is loaded; unlike a lambda it can be sent to another process."""


def plan_content(name: str, request: PlanRequest) -> PlanContent:
    """Make a plan of a balancer; runs in a process of its own.

    Raises
    ------
    TrimtabError
        If there is nothing to plan from, or the planner fails.
    """
    balancer = balancer_named(name, "balancer")
    made = plan_balancer(balancer, request)
    if made.plan is None:
        raise ObserveError(made.text)
    return _content(balancer, made.plan)


def undo_content(execution: int, state_folder: Path, lake: Location) -> PlanContent:
    """Make the plan that undoes an execution; runs in a process of its own.

    Raises
    ------
    TrimtabError
        As `executions.plan_undo`.
    """
    plan, _ = executions.plan_undo(execution, state_folder, lake)
    return _content(balancer_named(plan.balancer, "balancer"), plan)


def _content(balancer: Balancer, plan: AnyPlan) -> PlanContent:
    cost, bound = getattr(plan, "cost", None), getattr(plan, "bound", None)
    return balancer.plan().to_bytes(plan), {
        "snapshot_taken_at": plan.snapshot.taken_at,
        "verdict": plan.verdict.value,
        "moves": len(plan.moves),
        "bytes": int(getattr(cost, "bytes", 0)),
        "leader_moves": int(getattr(cost, "leader_moves", len(plan.moves))),
        "bound_bytes": getattr(bound, "bytes", None),
        "problems": tuple(one.text for one in plan.problems),
    }
