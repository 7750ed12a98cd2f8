"""The service: leadership, targets, and the answers that the API gives.

Of several instances with one lake, the holder of a lease decides. Before it decides, it adds a document to
the log in the lake: from then on no earlier holder can write, and what cannot be written is not carried
out.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final, Literal

from trimtab.act.control import state_of
from trimtab.act.execution.state import AnyExecution
from trimtab.act.executor import ExecutionSummary
from trimtab.act.journal import ExecutionStore
from trimtab.balancers import BALANCERS, balancer_named
from trimtab.balancers.clusters import Cluster, cluster_named, clusters_of
from trimtab.balancers.settings import read_settings
from trimtab.decide import events as ev
from trimtab.decide.conditions import counted_executions, mode
from trimtab.decide.state import APPROVED_BY, State
from trimtab.executions import ExecutionContext
from trimtab.files.lease import LeaseCandidate, StoredLease, StoredLeaseHolder, renewed
from trimtab.files.machine import Runtime
from trimtab.files.replicated import LakeLog, WriterReplacedError
from trimtab.files.serve_settings import SECTION, ServeSettings
from trimtab.files.store import Location, make_folder
from trimtab.model.errors import ActError
from trimtab.model.load import resource_name
from trimtab.model.policy import DAY, Trigger
from trimtab.serve.children import Child, Children
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
    StepRecord,
    TargetDetail,
    TargetStatus,
    Waiting,
)
from trimtab.serve.interface import ConflictError, NotLeaderError, UnknownError
from trimtab.serve.journal import DATABASE, EXECUTIONS, ServiceJournal
from trimtab.serve.loads import load_series
from trimtab.serve.notifications import (
    OUTBOX_SCHEMA,
    Deliverer,
    SqliteOutbox,
    outbox_rows,
    status_findings,
)
from trimtab.serve.observing import broker_rows_after, largest_parts
from trimtab.serve.target import STORED_PLAN, Target, TargetContext
from trimtab_common.errors import InputError, SettingsError, TrimtabError
from trimtab_common.settings import Overrides

LOG = logging.getLogger("trimtab.serve")
TURN_SECONDS: Final = 0.5
"""Time between two looks of the deciding instance at the clock, at its lease and at the log."""
MAX_ATTEMPT_SECONDS: Final = 5.0
"""Maximum time between two attempts of another instance to acquire the lease."""
_STUCK_SECONDS: Final = 60.0
_END_SECONDS: Final = 6.0
"""Time in which executions end their last order before the lease is released."""
_REAL: Final = Runtime()
_MAX_PAUSE_SECONDS: Final = 10 * 365 * DAY
_FINAL_STATUSES: Final = ("interrupted", "stopped", "finished", "incomplete", "cancelled")
"""Statuses of an execution that documents name; every other one is `running`."""


class Service:
    """All targets of one process; implements `trimtab.serve.interface.ServiceInterface`.

    Parameters
    ----------
    settings_file, overrides
        Where settings come from.
    lake
        The lake, which other instances share.
    state_folder
        Folder of the local copies of the journals.
    runtime
        Time and threads.
    """

    def __init__(
        self,
        settings_file: Path | None,
        overrides: Overrides,
        lake: Location,
        state_folder: Path,
        runtime: Runtime = _REAL,
    ) -> None:
        self._settings_file, self._overrides, self.lake = settings_file, overrides, lake
        self._all = read_settings(settings_file, overrides, os.environ)
        self.settings: ServeSettings = self._all.bound(SECTION)
        host = f"{socket.gethostname()}:{os.getpid()}"
        self.url = self.settings.public_url or f"http://{self.settings.listen}"
        self.instance = self.settings.instance or host
        self._folder = state_folder / "serve"
        self._runtime = runtime
        self._over, self._replaced = runtime.event(), runtime.event()
        self._holder: StoredLeaseHolder | None = None
        self._lease: StoredLease | None = None
        self._leadership: Any = None
        self._problem = ""
        self._ticked_at = self._runtime.monotonic()
        self._log = LakeLog(lake / "serve" / "log", self._folder, (EXECUTIONS, DATABASE))
        self._log.restore()
        self.journal = ServiceJournal(self._log, OUTBOX_SCHEMA, self.settings.retained_plans)
        self._outbox = SqliteOutbox(self.journal.execute, self.journal.transaction)
        self._deliverer = Deliverer(
            self._outbox, lambda: self.settings, lambda: self.is_leader, runtime=runtime
        )
        context = TargetContext(
            serve=self.settings,
            settings=self._all,
            settings_file=settings_file,
            overrides=[one if isinstance(one, str) else one.text for one in overrides],
            read_settings=lambda more: read_settings(settings_file, (*overrides, *more), os.environ),
            lake=lake,
            journal=self.journal,
            execution_context=self._execution_context,
            on_decision=self._on_decision,
            on_replaced=self._replaced.set,
            runtime=runtime,
            sleep=self._pause,
        )
        self._targets = [Target(cluster, BALANCERS[name], context) for cluster, name in self._chosen()]
        with self._store():
            pass  # makes the tables of the journal of executions, which documents of the log need
        self._children = Children(self._commands() if self.settings.observe != "watch" else ())
        self._figures: dict[int, tuple[int, dict[str, Any]]] = {}

    def _chosen(self) -> list[tuple[Cluster, str]]:
        known = clusters_of(self._all)
        names = self.settings.clusters or tuple(known)
        if not names:
            raise SettingsError("the settings name no cluster: add [clusters.NAME] with its address")
        served = [one for one in BALANCERS.values() if one.observed is not None]
        for name in self.settings.balancers:
            if balancer_named(name, "serve.balancers") not in served:
                known_names = " and ".join(one.name for one in served)
                raise SettingsError(f"serve.balancers is {name}: the service runs {known_names}")
        found = []
        for name in names:
            cluster = cluster_named(self._all, name, "serve.clusters")
            own = [one for one in served if one.system == cluster.system]
            if not own and self.settings.clusters:
                titles = " and ".join(one.system.title for one in served)
                raise SettingsError(
                    f"serve.clusters names {name}, a {cluster.system.title} cluster: the service balances "
                    f"clusters of {titles}"
                )
            wanted = self.settings.balancers
            found += [(cluster, one.name) for one in own if not wanted or one.name in wanted]
        for system in {cluster.system.name for cluster, _ in found}:
            ids = [cluster.id for cluster, _ in found if cluster.system.name == system]
            if len(ids) > 1 and None in ids:
                raise SettingsError(
                    f"the service has {len(ids)} clusters of {system} in one lake, and one has no id: set id "
                    "in each [clusters.NAME]"
                )
        if not found:
            raise SettingsError("no cluster of the settings is one that the service balances: name one")
        return found

    def _commands(self) -> list[Child]:
        common = ["--lake", str(self.lake)]
        if self._settings_file is not None:
            common += ["--settings", str(self._settings_file)]
        for word in self._overrides:
            if isinstance(word, str) and not word.startswith("serve."):
                common += ["--set", word]
        names = dict.fromkeys(target.name for target in self._targets)
        children = [Child(f"collect {name}", ["collect", "--cluster", name, *common]) for name in names]
        if self.settings.observe == "batch":
            once = ["pipeline", "stream", "--once", *common]
            return [*children, Child("pipeline", once, self.settings.interval_seconds)]
        return [*children, Child("pipeline stream", ["pipeline", "stream", *common])]

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to observe, to stand for the lease, and to start children."""
        make_folder(self.lake / "serve")
        self._children.start()
        self._deliverer.start()
        self._leadership = self._runtime.start("leadership", self._stand)
        for target in self._targets:
            name = f"observe {target.name}/{target.balancer.name}"
            self._runtime.start(name, partial(self._observe, target))

    def stop(self) -> None:
        """Leave executions to the journal, end the children, release the lease."""
        ends_at = self._runtime.monotonic() + _END_SECONDS + 1.0
        self._over.set()
        self._deliverer.stop()
        self._children.stop()
        if self._leadership is not None:
            self._leadership.join(max(0.0, ends_at - self._runtime.monotonic()))

    def _on_decision(self, record: DecisionRecord) -> None:
        if rows := outbox_rows(record, self.settings):
            self._outbox.add(rows)
            self._deliverer.wake()

    def _pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    def _observe(self, target: Target) -> None:
        while not self._over.is_set():
            try:
                target.observe()
            except Exception as error:  # one bad snapshot must not end the observation
                LOG.exception("%s/%s cannot be observed", target.name, target.balancer.name)
                target.observe_error = f"{type(error).__name__}: {error}"
            self._over.wait(self.settings.poll_seconds)

    def _stand(self) -> None:
        """Stand for the lease; decide while it is held, else follow the deciding instance."""
        seconds = self.settings.lease_seconds
        name = f"{self.instance} at {self.url}"
        folder = self.lake / "serve" / "lease"
        candidate = LeaseCandidate(folder, name, seconds, clock=self._runtime.monotonic)
        while not self._over.is_set():
            self._ticked_at = self._runtime.monotonic()
            try:
                self._catch_up()
                found = candidate.attempt()
                self._problem = ""
                if isinstance(found, StoredLease):
                    self._decide_with(found)
                else:
                    self._holder = found
            except (OSError, TrimtabError, sqlite3.Error) as error:
                self._problem = f"the lake cannot be used: {error}"
                LOG.warning("%s", self._problem)
            except Exception as error:  # a fault must not end the thread that decides
                self._problem = f"the deciding loop failed: {type(error).__name__}: {error}"
                LOG.exception("the deciding loop failed")
            self._over.wait(min(seconds / 6, MAX_ATTEMPT_SECONDS))

    def _catch_up(self) -> None:
        try:
            if self._log.follow():
                self.journal.notify_readers()
        except WriterReplacedError:
            self.journal.reopen(self._log.restore)
            self._figures.clear()
            self._log.follow()

    def _decide_with(self, lease: StoredLease) -> None:
        self._replaced.clear()

        def require() -> None:
            if self._over.is_set():
                raise ActError("the service is ending: the execution is resumed after its next start")
            lease.require()

        # The token differs for each acquisition, so that the documents of two writers never have equal bytes.
        with (
            renewed(lease, self._runtime),
            self._log.writing(require, f"{self.instance} {lease.holder.token}"),
        ):
            self._lease, self._holder = lease, lease.holder
            LOG.info("this instance decides (%s)", self.instance)
            try:
                for target in self._targets:
                    target.lead()
                while not self._over.is_set() and lease.is_valid and not self._replaced.is_set():
                    self._ticked_at = self._runtime.monotonic()
                    now = self._runtime.clock()
                    for target in self._targets:
                        if target.wait.until <= now:
                            target.handle(ev.TimeReached())
                    self._write_checkpoint()
                    self._over.wait(TURN_SECONDS)
            finally:
                self._lease = None
                for target in self._targets:
                    target.follow()
                self._wait_for_executions()
                if any(one.is_running for one in self._targets):
                    # An order may still be on its way: the next holder waits until the lease expires.
                    lease.lose()
                LOG.info("this instance no longer decides")

    def _wait_for_executions(self) -> None:
        """Wait until executions have ended their last order; from now on they are refused a further one."""
        ends_at = self._runtime.monotonic() + _END_SECONDS
        while any(one.is_running for one in self._targets) and self._runtime.monotonic() < ends_at:
            self._runtime.sleep(0.1)

    def _write_checkpoint(self) -> None:
        try:
            if self._log.write_checkpoint():
                self._remove_old_executions()
        except (OSError, TrimtabError, sqlite3.Error) as error:
            LOG.warning("no checkpoint of the journal: %s", error)  # the next look tries again

    def _remove_old_executions(self) -> None:
        works = [target.state.work for target in self._targets]
        in_work = {one.execution for one in works if one is not None and one.execution is not None}
        with self._store() as store:
            for number in store.journal.remove_old(self.settings.retained_executions, in_work):
                self._figures.pop(number, None)
                for target in self._targets:
                    target.progress.pop(number, None)

    def _execution_context(self, cluster: Cluster) -> ExecutionContext:
        # An execution belongs to the leadership in which it begins: a later one resumes it anew.
        require = partial(self._require, self._lease)
        return ExecutionContext(
            state_folder=self._folder,
            lake=self.lake,
            settings=self._all,
            connect=lambda system: cluster.connection(),
            clock=self._runtime.clock,
            sleep=self._runtime.sleep,
            connect_journal=partial(self._log.connect, require=require),
            require=require,
        )

    def _require(self, lease: StoredLease | None) -> None:
        if lease is None or lease is not self._lease or self._over.is_set():
            raise ActError("this instance does not decide: the deciding one resumes the execution")
        lease.require()

    def _store(self) -> Any:
        return self._execution_context(self._targets[0].cluster).open_store()

    # ------------------------------------------------------------ answers

    @property
    def leader(self) -> tuple[str, str]:
        """Name and address of the deciding instance; empty where there is none."""
        holder = self._holder
        if holder is None or holder.released:
            return "", ""
        name, _, url = holder.name.rpartition(" at ")
        return name, url

    @property
    def is_leader(self) -> bool:
        """Whether this instance decides now."""
        lease = self._lease
        return lease is not None and lease.is_valid

    def _handle(self, target: Target, event: ev.Event, by: str) -> None:
        if not target.handle(event, by):
            raise NotLeaderError("this instance no longer decides, nothing was written: try again", "")

    def _require_leader(self) -> None:
        if not self.is_leader:
            name, url = self.leader
            text = f"{name} decides, not this instance" if name else "no instance decides at the moment"
            raise NotLeaderError(f"{text}: send the request there, or try again", url)

    def _target(self, cluster: str, balancer: str) -> Target:
        for target in self._targets:
            if (target.name, target.balancer.name) == (cluster, balancer):
                return target
        known = ", ".join(f"{one.name}/{one.balancer.name}" for one in self._targets)
        raise UnknownError(f"there is no {cluster}/{balancer}: the service has {known}")

    def targets(self) -> Sequence[TargetStatus]:
        """All balancers of all clusters."""
        return [self._status(target) for target in self._targets]

    def target(self, cluster: str, balancer: str) -> TargetDetail:
        """One balancer of one cluster, with its brokers."""
        target = self._target(cluster, balancer)
        found = target.observation
        return TargetDetail(
            status=self._status(target),
            brokers=() if found is None else found.brokers,
            largest=() if found is None else found.largest,
        )

    def _status(self, target: Target) -> TargetStatus:
        state, found, now = target.state, target.observation, self._runtime.clock()
        work = state.work
        plan = self.journal.plan(work.plan.digest) if work is not None and work.plan is not None else None
        wait = target.wait if self.is_leader else self._last_wait(target)
        problems = [text for text in (target.observe_error, self._problem) if text]
        if found is not None:
            age = now - found.event.taken_at
            stale = self.settings.max_snapshot_intervals * self.settings.interval_seconds
            if age > stale:
                problems.append(f"the newest snapshot is {age:.0f} s old, limit {stale:.0f} s")
        pause = state.pause
        execution = None
        if work is not None and work.execution is not None:
            execution = self._execution_record(work.execution)
        return TargetStatus(
            cluster=target.name,
            balancer=target.balancer.name,
            modes={one.value: mode(state, self.settings, one).value for one in Trigger},
            is_leader=self.is_leader,
            leader=self.leader[0],
            verdict="unknown" if found is None else found.verdict,
            worst=_worst_text(found.event) if found is not None else "",
            waiting=Waiting(
                reason=wait.reason,
                until=wait.until if isfinite(wait.until) else None,
                remedy=wait.remedy,
            ),
            snapshot_taken_at=None if found is None else found.event.taken_at,
            snapshot_coverage=None if found is None else found.event.coverage,
            resources=() if found is None else found.resources,
            stage="" if work is None else work.stage.value,
            trigger="" if work is None else work.trigger.value,
            plan=plan,
            execution=execution,
            pause=None
            if pause is None
            else PauseStatus(by=pause.by, reason=pause.reason, since=pause.since, until=pause.until),
            budget_left=_budget_left(state, self.settings, now),
            alerts=tuple(sorted(state.alerts)),
            problems=tuple(problems),
            lost_brokers=tuple(sorted(state.lost_since)),
        )

    def _last_wait(self, target: Target) -> ev.Wait:
        for record in self.journal.decisions(None, 50, target.name, target.balancer.name):
            if record.kind == "wait":
                until = inf if record.until is None else record.until
                return ev.Wait(reason=record.reason, until=until, remedy=record.remedy)
        return ev.Wait(reason="another instance decides" if self.leader[0] else target.wait.reason, until=inf)

    def largest(
        self, cluster: str, balancer: str, of: str, sort: str = "", count: int = 20
    ) -> Sequence[LargestPart]:
        """The largest `partitions` or `topics` by a resource."""
        found = self._target(cluster, balancer).observation
        return () if found is None else largest_parts(found, of, sort, count)

    def loads(self, cluster: str, balancer: str, since: float, max_points: int) -> LoadSeries:
        """Load since an instant, thinned to at most `max_points` instants."""
        target = self._target(cluster, balancer)
        return load_series(target.balancer, target.cluster, target.observation, self.lake, since, max_points)

    def make_plan(self, cluster: str, balancer: str, settings: Mapping[str, object], by: str) -> PlanRecord:
        """A plan from the newest snapshot with these settings; changes nothing in the cluster."""
        self._require_leader()
        for name in settings:
            if name in (STORED_PLAN, APPROVED_BY, "undo"):
                raise InputError(f"{name} is no setting of a plan: leave it out")
        record, content = self._target(cluster, balancer).plan_of(settings, "what-if", by)
        with self.journal.transaction():
            known = self.journal.plan(record.digest)
            if known is None:
                self.journal.add_plan(record, content)
        return known or record

    def plans(self, cluster: str | None = None, limit: int = 50) -> Sequence[PlanRecord]:
        """Plans that the service holds, newest first."""
        return self.journal.plans(cluster, limit)

    def plan(self, digest: str) -> PlanRecord:
        """One of them, also by the beginning of its digest."""
        found = self.journal.plan(digest)
        if found is None:
            raise UnknownError(f"there is no plan {digest[:70]}: see the list of plans")
        return found

    def plan_bytes(self, digest: str) -> bytes:
        """The plan file, byte for byte."""
        return self.journal.plan_content(self.plan(digest).digest)

    def plan_text(self, digest: str, all_moves: bool = False) -> str:
        """The plan for people, as `trimtab plan` shows it."""
        record = self.plan(digest)
        balancer = BALANCERS[record.balancer]
        plan = balancer.plan().from_bytes(Path("plan of the service"), self.plan_bytes(digest))
        return balancer.renderer().plan_text(plan, None, all_moves=all_moves)

    def plan_brokers(self, digest: str) -> Sequence[BrokerStatus]:
        """The brokers as they are after the plan, by the newest snapshot; empty if that is not known."""
        record = self.plan(digest)
        target = self._target(record.cluster, record.balancer)
        plan = target.balancer.plan().from_bytes(Path("plan of the service"), self.plan_bytes(digest))
        return () if target.observation is None else broker_rows_after(target.observation, plan)

    def apply_plan(self, digest: str, by: str) -> PlanRecord:
        """Approve and execute a plan, within budgets and windows."""
        self._require_leader()
        record = self.plan(digest)
        if record.state in ("asking", "proposed"):
            return self.approve(record.digest, by)
        if record.state in ("approved", "executing", "executed"):
            return record
        target = self._target(record.cluster, record.balancer)
        settings = ((STORED_PLAN, record.digest), (APPROVED_BY, by))
        self._handle(target, ev.PlanRequested(by, settings), by)
        return self.plan(record.digest)

    def approve(self, digest: str, by: str) -> PlanRecord:
        """Approve the plan that is on offer."""
        self._require_leader()
        record = self._on_offer(digest)
        self._handle(self._target(record.cluster, record.balancer), ev.Approved(record.digest, by), by)
        return self.plan(record.digest)

    def reject(self, digest: str, by: str, note: str = "") -> PlanRecord:
        """Reject the plan that is on offer."""
        self._require_leader()
        record = self._on_offer(digest)
        self._handle(self._target(record.cluster, record.balancer), ev.Rejected(record.digest, by, note), by)
        return self.plan(record.digest)

    def _on_offer(self, digest: str) -> PlanRecord:
        record = self.plan(digest)
        if record.state not in ("asking", "proposed"):
            raise ConflictError(
                f"plan {record.digest[:12]} is not on offer, it is {record.state}: {record.state_reason}"
            )
        return record

    def pause(self, cluster: str, balancer: str, by: str, reason: str, until: float | None) -> TargetStatus:
        """Pause all executions of a target; a running one stops."""
        self._require_leader()
        now = self._runtime.clock()
        if until is not None and not now < until <= now + _MAX_PAUSE_SECONDS:
            raise InputError(
                f"until is {until:.0f}, expected seconds since 1970 within ten years from now: correct it, "
                "or give none for a pause without an end"
            )
        target = self._target(cluster, balancer)
        self._handle(target, ev.Paused(by, reason, until), by)
        return self._status(target)

    def resume(self, cluster: str, balancer: str, by: str) -> TargetStatus:
        """End the pause, and lift the limits that the service has put on its triggers."""
        self._require_leader()
        target = self._target(cluster, balancer)
        self._handle(target, ev.Resumed(by), by)
        return self._status(target)

    # ------------------------------------------------------------ executions

    def executions(self, cluster: str | None = None, limit: int = 50) -> Sequence[ExecutionRecord]:
        """Executions of the service, newest first."""
        with self._store() as store:
            return [self._record_of(store, one) for one in self._entries(store, cluster)[:limit]]

    def _entries(self, store: ExecutionStore, cluster: str | None) -> list[ExecutionSummary]:
        if cluster is not None and all(target.name != cluster for target in self._targets):
            raise UnknownError(f"there is no cluster {cluster}")
        return [one for one in store.journal.entries() if cluster in (None, self._cluster_of(one))]

    def _cluster_of(self, entry: ExecutionSummary) -> str:
        record = self.journal.plan(str(entry.facts.get("digest", "")))
        return entry.cluster if record is None else record.cluster

    def _execution_record(self, number: int) -> ExecutionRecord | None:
        with self._store() as store:
            for entry in store.journal.entries():
                if entry.id == number:
                    return self._record_of(store, entry)
        return None

    def _record_of(self, store: ExecutionStore, entry: ExecutionSummary) -> ExecutionRecord:
        cluster, effect = self._cluster_of(entry), self.journal.effect(entry.id)
        target = next(
            (t for t in self._targets if t.name == cluster and t.balancer.name == entry.balancer), None
        )
        # A follower cannot see whether the process of the deciding instance runs: it takes its word.
        is_followed = not self.is_leader and bool(self.leader[0])
        status = entry.status if is_followed else store.status(entry)
        progress = target.progress.get(entry.id, "") if target is not None else ""
        if status not in (*_FINAL_STATUSES, "running"):
            progress = f"{status}: {progress}" if progress else status
        return ExecutionRecord(
            cluster=cluster,
            balancer=entry.balancer,
            number=entry.id,
            digest=str(entry.facts.get("digest", "")),
            trigger=str(entry.facts.get("trigger", "")),
            approved_by=str(entry.facts.get("approved_by", "")),
            started_at=entry.created_at,
            ended_at=entry.ended_at,
            status=status if status in _FINAL_STATUSES else "running",
            progress=progress,
            effect="" if effect is None else effect.effect,
            effect_text="" if effect is None else effect.text,
            **self._figures_of(store, entry, target),
        )

    def _figures_of(
        self, store: ExecutionStore, entry: ExecutionSummary, target: Target | None
    ) -> dict[str, Any]:
        """Sums over the steps; they are decoded only where the journal has changed, and nobody runs them."""
        # The journal has no bytes of copies under way; the thread that runs the execution does.
        running = None if target is None else target.running.get(entry.id)
        if running is not None and entry.status not in _FINAL_STATUSES:
            return _figures(running)
        sequence = store.journal.newest_sequence(entry.id)
        known = self._figures.get(entry.id)
        if known is None or known[0] != sequence:
            executor = balancer_named(entry.balancer, "execution").executor()
            self._figures[entry.id] = known = (sequence, _figures(state_of(executor, store, entry.id)))
        return known[1]

    def execution(self, cluster: str, number: int) -> ExecutionDetail:
        """One execution, with all its steps."""
        with self._store() as store:
            entry = self._entry(store, cluster, number)
            balancer = balancer_named(entry.balancer, "execution")
            state, text = state_of(balancer.executor(), store, number), balancer.renderer().step_text
            steps = tuple(
                StepRecord(
                    number=one.step.number, text=text(one.step), state=str(one.state), reason=one.reason
                )
                for one in state.records
            )
            return ExecutionDetail(execution=self._record_of(store, entry), steps=steps)

    def _entry(self, store: ExecutionStore, cluster: str, number: int) -> ExecutionSummary:
        for entry in self._entries(store, cluster):
            if entry.id == number:
                return entry
        raise UnknownError(f"cluster {cluster} has no execution {number}: see the list of executions")

    def _target_of(self, cluster: str, number: int) -> Target:
        with self._store() as store:
            return self._target(cluster, self._entry(store, cluster, number).balancer)

    def end_execution(
        self, cluster: str, number: int, how: Literal["stop", "cancel"], by: str
    ) -> ExecutionRecord:
        """Stop an execution after the steps under way, or cancel it."""
        self._require_leader()
        self._target_of(cluster, number).end_execution(number, how, by)
        return self.execution(cluster, number).execution

    def resume_execution(self, cluster: str, number: int, by: str) -> ExecutionRecord:
        """Continue an execution that a person stopped."""
        self._require_leader()
        self._target_of(cluster, number).resume_execution(number, by)
        return self.execution(cluster, number).execution

    def set_throttle(self, cluster: str, number: int, bytes_per_second: float, by: str) -> ExecutionRecord:
        """Change the throttle of an execution that runs."""
        self._require_leader()
        self._target_of(cluster, number).change_throttle(number, bytes_per_second, by)
        return self.execution(cluster, number).execution

    # ------------------------------------------------------------ decisions and health

    def decisions(
        self,
        after: int | None = None,
        limit: int = 100,
        cluster: str | None = None,
        balancer: str | None = None,
    ) -> Sequence[DecisionRecord]:
        """Decisions with numbers above `after`, oldest first; without `after` the newest, newest first."""
        return self.journal.decisions(after, limit, cluster, balancer)

    def wait_for_decisions(self, after: int, seconds: float) -> Sequence[DecisionRecord]:
        """As `decisions(after)`; blocks up to `seconds` where there is none yet."""
        return self.journal.wait_for_decisions(after, seconds)

    def notifications(self) -> NotificationStatus:
        """How many notifications wait for delivery, and which were abandoned."""
        return self._outbox.status()

    def liveness(self) -> Sequence[Finding]:
        """What shows that the process no longer works; empty where it does."""
        silent = self._runtime.monotonic() - self._ticked_at
        if silent < _STUCK_SECONDS:
            return []
        text = f"the deciding loop has not run for {silent:.0f} s"
        return [Finding(subject="service", text=text, remedy="restart the service; see its log")]

    def readiness(self) -> Sequence[Finding]:
        """What keeps the service from its work."""
        found = [*self.liveness(), *self._children.findings(), *status_findings(self.notifications())]
        if self._problem:
            found.append(Finding(subject="lake", text=self._problem, remedy="check the lake and its rights"))
        if not self.leader[0]:
            text = "no instance decides yet"
            found.append(Finding(subject="lease", text=text, remedy="wait for the lease, or see the log"))
        for target in self._targets:
            subject = f"{target.name}/{target.balancer.name}"
            for text in self._status(target).problems:
                if text != self._problem:
                    remedy = "run `trimtab collect` and `trimtab pipeline stream`, or set serve.observe"
                    found.append(Finding(subject=subject, text=text, remedy=remedy))
        return found


def _figures(state: AnyExecution) -> dict[str, Any]:
    """The sums over the steps of an execution that its record has."""
    records, throttle = state.records, getattr(state.settings, "throttle", None)
    sizes = [int(getattr(one.step, "bytes", 0)) for one in records]
    copied = [
        size if one.state == "done" else min(size, int(getattr(one, "copied_bytes", 0) or 0))
        for one, size in zip(records, sizes, strict=True)
    ]
    return {
        "steps": len(records),
        "steps_done": sum(1 for one in records if one.state in ("done", "dropped")),
        "steps_failed": sum(1 for one in records if one.state in ("failed", "skipped")),
        "bytes_done": sum(copied),
        "bytes_total": sum(sizes),
        "throttle_bytes_per_second": throttle if isinstance(throttle, int | float) else None,
    }


def _worst_text(event: ev.Observed) -> str:
    if event.broken_limits:
        worst = event.broken_limits[0]
        return (
            f"broker {worst.broker} uses {worst.value:.1%} of its {resource_name(worst.resource)}, limit "
            f"{worst.limit:.0%}"
        )
    if not event.worst_broker:
        return ""
    return (
        f"broker {event.worst_broker} deviates {event.worst_deviation:.1%} from the mean of "
        f"{resource_name(event.worst_resource)}"
    )


def _budget_left(state: State, settings: ServeSettings, now: float) -> dict[str, int | None]:
    spent = counted_executions(state, now)
    budget = settings.budget
    used = {
        "bytes": (budget.max_bytes, sum(one.bytes for one in spent)),
        "leader_moves": (budget.max_leader_moves, sum(one.leader_moves for one in spent)),
        "executions": (budget.max_executions, len(spent)),
    }
    return {name: None if limit is None else max(0, limit - done) for name, (limit, done) in used.items()}
