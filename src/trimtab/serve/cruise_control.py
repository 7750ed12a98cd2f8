"""Cruise Control's REST calls below `/kafkacruisecontrol`, as an adapter over `ServiceInterface`.

It decides nothing. A call without `dryrun=false` makes a plan. With `dryrun=false` and the options of an
earlier dry run, the plan of that dry run is executed, byte for byte, while it is younger than
`serve.plan_max_age_seconds`. User tasks are derived from the plans and executions that the service holds, so
they survive a restart.

Names of calls, parameters and fields: Cruise Control's wiki page "REST APIs" and its OpenAPI description.
Figures that the service does not have are -1.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import JSONResponse
from starlette.routing import Route

from trimtab.balancers import DEFAULT_BALANCER
from trimtab.serve.documents import BrokerStatus, ExecutionRecord, PlanRecord, TargetDetail
from trimtab.serve.http.problems import problem_of
from trimtab.serve.http.security import Role, require_role
from trimtab.serve.interface import ConflictError, ServiceInterface, UnknownError
from trimtab_common.errors import InputError, TrimtabError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

PREFIX: Final = "/kafkacruisecontrol"
VERSION: Final = "2.5.0-trimtab"
"""Header `Cruise-Control-Version`: clients expect status 202 of unfinished tasks from 2.0.61 on."""
TASK_HEADER: Final = "User-Task-ID"
BALANCER: Final = DEFAULT_BALANCER.name
MEGABYTE: Final = 2**20
KILOBYTE: Final = 2**10
UNKNOWN: Final = -1.0
"""A figure that the service does not have."""
MAX_TASKS: Final = 200
RESULT_SECONDS: Final = 60.0
"""Time for which a result waits for a client that sends its request again after status 202."""
_IDS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "https://trimtab/kafkacruisecontrol")

GOALS: Final = {
    "RackAwareGoal": "rack",
    "RackAwareDistributionGoal": "rack",
    "CpuCapacityGoal": "theta",
    "DiskCapacityGoal": "theta",
    "NetworkInboundCapacityGoal": "theta",
    "NetworkOutboundCapacityGoal": "theta",
    "CpuUsageDistributionGoal": "epsilon",
    "DiskUsageDistributionGoal": "epsilon",
    "NetworkInboundUsageDistributionGoal": "epsilon",
    "NetworkOutboundUsageDistributionGoal": "epsilon",
    "IntraBrokerDiskCapacityGoal": "log_dirs",
    "IntraBrokerDiskUsageDistributionGoal": "log_dirs",
    "ReplicaDistributionGoal": "replica_numbers",
    "LeaderReplicaDistributionGoal": "leader_numbers",
    "TopicReplicaDistributionGoal": "topic_replicas",
    "PotentialNwOutGoal": "potential_network_out",
    "MinTopicLeadersPerBrokerGoal": "min_leaders_per_topic",
    "PreferredLeaderElectionGoal": "preferred_order",
}
"""Goals of Cruise Control, and the goal of trimtab that each becomes."""
REFUSED_GOALS: Final = {
    "LeaderBytesInDistributionGoal": "use NetworkInboundUsageDistributionGoal and "
    "LeaderReplicaDistributionGoal",
    "BrokerSetAwareGoal": "name the brokers in the setting excluded_brokers_for_replicas",
    "ReplicaCapacityGoal": "leave it out: trimtab has no limit of replicas per broker; use "
    "ReplicaDistributionGoal",
    "KafkaAssignerEvenRackAwareGoal": "use RackAwareGoal",
    "KafkaAssignerDiskUsageDistributionGoal": "use DiskUsageDistributionGoal",
}
HARD_GOALS: Final = frozenset({"rack", "theta"})
WITHOUT_EFFECT: Final = frozenset(
    (
        *(
            "json",
            "verbose",
            "super_verbose",
            "get_response_schema",
            "reason",
            "doas",
            "cluster",
            "fast_mode",
        ),
        *("data_from", "time", "start", "end", "min_valid_partition_ratio", "allow_capacity_estimation"),
        *("ignore_proposal_cache", "use_ready_default_goals", "skip_hard_goal_check", "skip_urp_demotion"),
        *("exclude_follower_demotion", "throttle_added_broker", "throttle_removed_broker"),
        *("execution_progress_check_interval_ms",),
    )
)
"""Parameters that are accepted and change nothing: trimtab always does it, or they choose a display."""
REFUSED_PARAMETERS: Final = {
    "replication_throttle": "set execution.throttle in the settings",
    "concurrent_partition_movements_per_broker": "set execution.max_copies_per_broker in the settings",
    "concurrent_intra_broker_partition_movements": "set execution.max_copies_per_broker in the settings",
    "max_partition_movements_in_cluster": "set execution.max_copies_per_cluster in the settings",
    "concurrent_leader_movements": "set execution.max_leaders_per_batch in the settings",
    "replica_movement_strategies": "leave it out: trimtab orders the moves of a plan itself",
    "exclude_recently_demoted_brokers": "name the brokers in the setting excluded_brokers_for_leaders",
    "exclude_recently_removed_brokers": "name the brokers in the setting excluded_brokers_for_replicas",
    "drop_recently_demoted_brokers": "leave it out: trimtab remembers no demoted brokers",
    "drop_recently_removed_brokers": "leave it out: trimtab remembers no removed brokers",
    "stop_ongoing_execution": "call stop_proposal_execution first",
    "skip_rack_awareness_check": "leave the goal rack out of the setting goals",
    "kafka_assigner": "leave it out, and name goals",
    "review_id": "approve the plan on the page of the service, or by its API",
    "enable_self_healing_for": "set the mode of the trigger in [serve] to act",
    "disable_self_healing_for": "set the mode of the trigger in [serve] to propose",
}
REFUSED_CALLS: Final = {
    "bootstrap": "trimtab reads old samples out of its lake: run trimtab pipeline run",
    "train": "trimtab fits its CPU model in the pipeline, without a call",
    "rightsize": "trimtab adds no brokers and no partitions; a plan tells how many brokers are missing",
    "remove_disks": "trimtab empties brokers, not single log dirs: use remove_broker",
    "review": "approve or reject the plan on the page of the service, or by its API",
    "review_board": "plans that wait for an approval are on the page of the service and in its API",
    "pause_sampling": "stop trimtab collect; to pause executions use the pause of the service",
    "resume_sampling": "start trimtab collect; to end a pause use the service",
}
SELF_HEALING: Final = {"BROKER_FAILURE": ("broker_lost",), "GOAL_VIOLATION": ("hard_limit", "drift")}
"""Kinds of anomalies, and the triggers of the policy that answer them."""
SCORES: Final = {"balanced": 100.0, "unbalanced": 50.0, "improved": 50.0, "unknown": UNKNOWN}
"""Share of the goals θ and ε that hold, in percent, by verdict; 0 for all others."""
CHANGES: Final = {
    "add_broker": "add",
    "remove_broker": "drain",
    "demote_broker": "demote",
    "fix_offline_replicas": "fix_offline_replicas",
    "topic_configuration": "replication_factor",
    "rebalance": "",
}
"""Calls that make a plan, and the setting that each one is about."""


class CruiseControlError(TrimtabError):
    """An error that clients recognize by the name of Cruise Control's exception in it; status 500."""


class _Work(NamedTuple):
    """A plan that is being made, or was made a moment ago, for a request."""

    call: _Call
    started_at: float
    plan: Future[PlanRecord]
    ended_at: list[float]
    """Empty while it is being made."""


class _Call(NamedTuple):
    """One request: its parameters in lower case, the cluster, and who sends it."""

    name: str
    parameters: Mapping[str, str]
    detail: TargetDetail
    by: str

    @property
    def cluster(self) -> str:
        return self.detail.status.cluster

    def flag(self, name: str, default: bool = False) -> bool:
        text = self.parameters.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise InputError(f"{name} is {text[:40]!r}: write true or false")
        return text == "true"

    def listed(self, name: str) -> list[str]:
        return [one.strip() for one in self.parameters.get(name, "").split(",") if one.strip()]

    def number(self, name: str, default: int | None = None) -> int:
        text = self.parameters.get(name, "" if default is None else str(default))
        if not text.isdecimal() or int(text) < 1:
            raise InputError(f"{name} is {text[:40]!r}: write a whole number of at least 1")
        return int(text)


def cruise_control_routes(
    service: ServiceInterface, clock: Callable[[], float] = time.time, wait_seconds: float = 10.0
) -> list[BaseRoute]:
    """The routes of the adapter.

    Parameters
    ----------
    service
        What the calls are served by.
    clock
        Seconds since 1970.
    wait_seconds
        Time that a request waits for its plan before it is answered with status 202.
    """
    adapter = _Adapter(service, clock, wait_seconds)

    def read(request: Request) -> Response:
        return adapter.answer(request, adapter.READ)

    def change(request: Request) -> Response:
        return adapter.answer(request, adapter.CHANGE)

    return [
        Route(f"{PREFIX}/{{call}}", read, methods=["GET"]),
        Route(f"{PREFIX}/{{call}}", change, methods=["POST"]),
    ]


class _Adapter:
    """The calls, and the plans that are being made."""

    def __init__(self, service: ServiceInterface, clock: Callable[[], float], wait_seconds: float) -> None:
        self._service, self._clock, self._wait_seconds = service, clock, wait_seconds
        self._pool = ThreadPoolExecutor(2, "cruise-control")
        self._works: dict[str, _Work] = {}
        self._lock = threading.Lock()
        self.READ: dict[str, Callable[[_Call], dict[str, object]]] = {
            "state": self._state,
            "load": lambda call: {**_loads(call.detail.brokers, call.detail), "version": 1},
            "kafka_cluster_state": _cluster_state,
            "partition_load": _partition_load,
            "user_tasks": self._user_tasks,
        }
        self.CHANGE: dict[str, Callable[[_Call], dict[str, object]]] = {
            "stop_proposal_execution": self._stop,
            "admin": self._admin,
        }

    def answer(self, request: Request, calls: Mapping[str, Callable[[_Call], dict[str, object]]]) -> Response:
        """The answer to a request, also where it fails."""
        headers = {"Cruise-Control-Version": VERSION}
        try:
            name = str(request.path_params["call"]).lower()
            is_plan = name == "proposals" if calls is self.READ else name in CHANGES
            if is_plan:
                # GET proposals makes a plan, and a link of another site could request it.
                request.app.state.access.require_own_site(request)
            user = require_role(request, Role.OPERATOR if is_plan or calls is self.CHANGE else Role.VIEWER)
            if name in REFUSED_CALLS:
                raise InputError(f"trimtab has no call {name}: {REFUSED_CALLS[name]}")
            parameters = {key.lower(): value for key, value in request.query_params.items()}
            if name == "permissions" and calls is self.READ:
                role = {Role.VIEWER: "VIEWER", Role.OPERATOR: "USER", Role.ADMIN: "ADMIN"}[user.role]
                return JSONResponse({"roles": [role], "version": 1}, headers=headers)
            call = _Call(name, parameters, self._detail(parameters), user.name)
            if is_plan:
                return self._plan(call, request.headers.get(TASK_HEADER, ""))
            if name not in calls:
                raise UnknownError(f"there is no call {request.method} {name[:40]}: use {', '.join(calls)}")
            return JSONResponse(calls[name](call), headers=headers)
        except Exception as error:
            if isinstance(error, CruiseControlError):
                return _error(500, str(error), headers)
            document, more = problem_of(error, request)
            return _error(document.status, document.detail, {**headers, **more})

    def _detail(self, parameters: Mapping[str, str]) -> TargetDetail:
        named = [one.cluster for one in self._service.targets() if one.balancer == BALANCER]
        cluster = parameters.get("cluster", named[0] if len(named) == 1 else "")
        if cluster not in named:
            raise InputError(
                f"cluster is {cluster[:80]!r}: add the parameter cluster with one of {', '.join(named)}"
            )
        return self._service.target(cluster, BALANCER)

    # ------------------------------------------------------------ plans

    def _plan(self, call: _Call, task: str) -> Response:
        settings = plan_settings(call)
        is_dry = call.name == "proposals" or call.flag("dryrun", default=True)
        pending_id = _task_id("request", call.cluster, str(is_dry), json.dumps(settings, sort_keys=True))
        if task:
            return self._answer_of_task(call, task)
        if call.detail.status.snapshot_taken_at is None:
            raise CruiseControlError(
                "NotEnoughValidWindowsException: the lake has no snapshot yet. Run trimtab collect and "
                "trimtab pipeline stream; two samples are enough"
            )
        if call.name == "proposals" and (found := self._dry_run_of(call, settings)):
            return self._result(call, found, is_dry)
        work = self._begin(call, pending_id, settings, is_dry)
        wait([work.plan], self._wait_seconds)
        if not work.plan.done():
            return _in_progress(pending_id)
        with self._lock:
            self._works.pop(pending_id, None)
        return self._result(call, work.plan.result(), is_dry)

    def _begin(self, call: _Call, task: str, settings: Mapping[str, object], is_dry: bool) -> _Work:
        with self._lock:
            now = self._clock()
            for old, work in list(self._works.items()):
                if work.ended_at and now - work.ended_at[0] > RESULT_SECONDS:
                    del self._works[old]
            if task not in self._works:
                plan, ended_at = self._pool.submit(self._make, call, settings, is_dry), list[float]()
                plan.add_done_callback(lambda _: ended_at.append(self._clock()))
                self._works[task] = _Work(call, now, plan, ended_at)
            return self._works[task]

    def _make(self, call: _Call, settings: Mapping[str, object], is_dry: bool) -> PlanRecord:
        found = None if is_dry else self._dry_run_of(call, settings)
        plan = found or self._service.make_plan(call.cluster, BALANCER, settings, call.by)
        return plan if is_dry else self._service.apply_plan(plan.digest, call.by)

    def _dry_run_of(self, call: _Call, settings: Mapping[str, object]) -> PlanRecord | None:
        """The newest plan with these options, if nothing has become of it and it is young enough."""
        for plan in self._plans(call.cluster):
            if plan.trigger in ("what-if", "request") and _same(plan.settings, settings):
                age = self._clock() - plan.made_at
                is_open = plan.state in ("what-if", "proposed", "asking", "approved", "executing")
                return plan if is_open and age <= self._service.settings.plan_max_age_seconds else None
        return None

    def _plans(self, cluster: str) -> Iterator[PlanRecord]:
        return (one for one in self._service.plans(cluster, MAX_TASKS) if one.balancer == BALANCER)

    def _answer_of_task(self, call: _Call, task: str) -> Response:
        work = self._works.get(task)
        if work is not None and not work.plan.done():
            return _in_progress(task)
        for plan in self._plans(call.cluster):
            for is_dry in (True, False):
                if task in _ids_of(plan, is_dry):
                    return self._result(call, plan, is_dry)
        raise UnknownError(f"there is no user task {task[:40]}: leave the header {TASK_HEADER} out")

    def _result(self, call: _Call, plan: PlanRecord, is_dry: bool) -> Response:
        headers = {"Cruise-Control-Version": VERSION, TASK_HEADER: _ids_of(plan, is_dry)[0]}
        return JSONResponse(self._optimization(call, plan), headers=headers)

    def _optimization(self, call: _Call, plan: PlanRecord) -> dict[str, object]:
        """A plan in the form of Cruise Control (`OptimizationResult`)."""
        content = self._service.plan_bytes(plan.digest)
        document: Any = DEFAULT_BALANCER.plan().from_bytes(Path("plan of the service"), content)
        brokers, cost = call.detail.brokers, document.cost
        is_met = plan.verdict == "balanced"
        goals = plan.settings.get("goals")
        after = "NO-ACTION" if is_met and not plan.moves else "FIXED"
        result: dict[str, object] = {
            "summary": {
                "numReplicaMovements": cost.replica_moves + cost.added_replicas + cost.dropped_replicas,
                "dataToMoveMB": plan.bytes // MEGABYTE,
                "numIntraBrokerReplicaMovements": cost.log_dir_moves,
                "intraBrokerDataToMoveMB": cost.log_dir_bytes // MEGABYTE,
                "numLeaderMovements": plan.leader_moves,
                "recentWindows": 1,
                "monitoredPartitionsPercentage": 100.0 * (call.detail.status.snapshot_coverage or 0.0),
                "excludedTopics": plan.settings.get("excluded_topics", []),
                "excludedBrokersForReplicaMove": plan.settings.get("excluded_brokers_for_replicas", []),
                "excludedBrokersForLeadership": [],
                "onDemandBalancednessScoreBefore": SCORES.get(call.detail.status.verdict, 0.0),
                "onDemandBalancednessScoreAfter": SCORES.get(plan.verdict, 0.0),
                "provisionStatus": "UNDER_PROVISIONED" if plan.verdict == "infeasible" else "RIGHT_SIZED",
                "provisionRecommendation": "; ".join(plan.problems),
            },
            "goalSummary": [
                {
                    "goal": goal,
                    "status": after
                    if is_met or (plan.verdict == "improved" and goal in HARD_GOALS)
                    else "VIOLATED",
                    "clusterModelStats": {},
                }
                for goal in (goals if isinstance(goals, list | tuple) else ("rack", "theta", "epsilon"))
            ],
            "loadBeforeOptimization": _loads(brokers, call.detail),
            "loadAfterOptimization": {"hosts": [], "brokers": self._after(call, plan)},
            "version": 1,
            "trimtab": {"plan": plan.digest, "verdict": plan.verdict, "state": plan.state},
        }
        if call.flag("verbose"):
            result["proposals"] = [
                {
                    "topicPartition": {"topic": one.topic, "partition": one.partition},
                    "oldLeader": one.before[0],
                    "oldReplicas": list(one.before),
                    "newReplicas": list(one.after),
                }
                for one in document.assignments
            ]
        return result

    def _after(self, call: _Call, plan: PlanRecord) -> list[dict[str, object]]:
        names = [one.resource for one in call.detail.status.resources]
        return [_broker_load(one, names) for one in self._service.plan_brokers(plan.digest)]

    # ------------------------------------------------------------ other calls

    def _state(self, call: _Call) -> dict[str, object]:
        status = call.detail.status
        has_snapshot = status.snapshot_taken_at is not None
        partitions = sum(one.leaders for one in call.detail.brokers)
        healed = {
            name: all(status.modes.get(one) == "act" for one in of) for name, of in SELF_HEALING.items()
        }
        states: dict[str, object] = {
            "MonitorState": {
                "state": "RUNNING",
                "trained": True,
                "trainingPct": 100.0,
                "numMonitoredWindows": int(has_snapshot),
                "numValidPartitions": partitions,
                "numTotalPartitions": partitions,
                "monitoringCoveragePct": 100.0 * (status.snapshot_coverage or 0.0),
                "numFlawedPartitions": 0,
            },
            "ExecutorState": self._executor_state(call),
            "AnalyzerState": {
                "isProposalReady": has_snapshot,
                "readyGoals": sorted(GOALS) if has_snapshot else [],
            },
            "AnomalyDetectorState": {
                "selfHealingEnabled": [name for name, is_on in healed.items() if is_on],
                "selfHealingDisabled": [name for name, is_on in healed.items() if not is_on],
                "ongoingSelfHealingAnomaly": status.trigger or "None",
                "balancednessScore": SCORES.get(status.verdict, 0.0),
            },
        }
        wanted = {one.replace("_", "") + "state" for one in call.listed("substates")}
        return {
            **{name: one for name, one in states.items() if not wanted or name.lower() in wanted},
            "version": 1,
        }

    def _executor_state(self, call: _Call) -> dict[str, object]:
        running = self._running(call.cluster)
        if running is None:
            plan = call.detail.status.plan
            is_next = plan is not None and plan.state == "approved"
            return {"state": "STARTING_EXECUTION" if is_next else "NO_TASK_IN_PROGRESS"}
        return {
            "state": "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS",
            "triggeredUserTaskId": _task_id("execution", running.digest),
            "triggeredTaskReason": f"{running.trigger}, approved by {running.approved_by}",
            "numTotalPartitionMovements": running.steps,
            "numFinishedPartitionMovements": running.steps_done,
            "numPendingPartitionMovements": running.steps - running.steps_done - running.steps_failed,
            "totalDataToMove": running.bytes_total // MEGABYTE,
            "finishedDataMovement": running.bytes_done // MEGABYTE,
        }

    def _running(self, cluster: str) -> ExecutionRecord | None:
        for one in self._service.executions(cluster, MAX_TASKS):
            if one.balancer == BALANCER and one.status in ("running", "interrupted"):
                return one
        return None

    def _user_tasks(self, call: _Call) -> dict[str, object]:
        endpoints = {one.lower() for one in call.listed("endpoints")}
        statuses = {one.lower() for one in call.listed("types")}
        clients, asked = set(call.listed("client_ids")), call.listed("user_task_ids")
        rows = [*self._tasks_of_works(call), *self._tasks_of_plans(call)]
        if asked:
            matching = {one: next((row for row, ids in rows if one in ids), None) for one in asked}
            found = [{**row, "UserTaskId": one} for one, row in matching.items() if row is not None]
        else:
            found = [row for row, _ in rows]
        found = [
            row
            for row in found
            if (not endpoints or str(row["RequestURL"]).split("?")[0].rpartition("/")[2] in endpoints)
            and (not statuses or str(row["Status"]).lower() in statuses)
            and (not clients or row["ClientIdentity"] in clients)
        ]
        return {"userTasks": found[: call.number("entries", MAX_TASKS)], "version": 1}

    def _tasks_of_works(self, call: _Call) -> list[tuple[dict[str, object], Sequence[str]]]:
        """Plans that are being made, and those that could not be made a moment ago."""
        rows: list[tuple[dict[str, object], Sequence[str]]] = []
        for task, work in list(self._works.items()):
            is_active = not work.plan.done()
            error = None if is_active else work.plan.exception()
            if work.call.cluster == call.cluster and (is_active or error is not None):
                url = f"POST {PREFIX}/{work.call.name}?{urlencode(work.call.parameters)}"
                status = "Active" if is_active else "CompletedWithError"
                response = "" if error is None else json.dumps({"errorMessage": str(error), "version": 1})
                row = _task_row(task, url, work.call.by, work.started_at, status, response)
                rows.append((row, (task,)))
        return rows

    def _tasks_of_plans(self, call: _Call) -> list[tuple[dict[str, object], Sequence[str]]]:
        executions = {one.digest: one for one in self._service.executions(call.cluster, MAX_TASKS)}
        rows: list[tuple[dict[str, object], Sequence[str]]] = []
        for plan in self._plans(call.cluster):
            response = ""
            if call.flag("fetch_completed_task"):
                response = json.dumps(self._optimization(call, plan))
            execution = executions.get(plan.digest)
            if execution is not None or plan.state in ("approved", "executing"):
                ids = _ids_of(plan, is_dry=False)
                by = plan.requested_by if execution is None else execution.approved_by
                begin = plan.made_at if execution is None else execution.started_at
                row = _task_row(ids[0], _url(plan, is_dry=False), by, begin, _status(execution), response)
                rows.append((row, ids))
            ids = _ids_of(plan, is_dry=True)
            url = _url(plan, is_dry=True)
            rows.append((_task_row(ids[0], url, plan.requested_by, plan.made_at, "Completed", response), ids))
        return rows

    def _stop(self, call: _Call) -> dict[str, object]:
        running = self._running(call.cluster)
        if running is None:
            return {"message": f"No execution is running in cluster {call.cluster}.", "version": 1}
        how: Any = "cancel" if call.flag("force_stop") else "stop"
        ended = self._service.end_execution(call.cluster, running.number, how, call.by)
        return {"message": f"Execution {ended.number} is {ended.status}.", "version": 1}

    def _admin(self, call: _Call) -> dict[str, object]:
        _check_names(call, {"replication_throttle"})
        throttle = call.number("replication_throttle")
        running = self._running(call.cluster)
        if running is None:
            raise ConflictError(f"no execution is running in cluster {call.cluster}: there is no throttle")
        self._service.set_throttle(call.cluster, running.number, throttle, call.by)
        text = f"The throttle of execution {running.number} is {throttle} B/s."
        return {"ongoingConcurrencyChangeRequest": text, "version": 1}


def plan_settings(call: _Call) -> dict[str, object]:
    """Settings of a plan for a call and its parameters.

    Raises
    ------
    InputError
        If a parameter or a goal has no counterpart.
    CruiseControlError
        If there is no such broker.
    """
    own = {"topic", "replication_factor"} if call.name == "topic_configuration" else set()
    own |= {"brokerid"} if CHANGES.get(call.name) in ("add", "drain", "demote") else set()
    _check_names(
        call, own | {"dryrun", "goals", "excluded_topics", "destination_broker_ids", "rebalance_disk"}
    )
    settings: dict[str, object] = {}
    setting = CHANGES.get(call.name, "")
    if "brokerid" in own:
        settings[setting] = _brokers(call, "brokerid")
    elif setting == "fix_offline_replicas":
        settings[setting] = True
    elif setting == "replication_factor":
        settings[setting] = dict.fromkeys(
            _globs("topic", call.parameters.get("topic", "")), call.number("replication_factor")
        )
    if goals := call.listed("goals"):
        settings["goals"] = list(dict.fromkeys(map(_goal, goals)))
    if topics := call.parameters.get("excluded_topics"):
        settings["excluded_topics"] = _globs("excluded_topics", topics)
    if "destination_broker_ids" in call.parameters:
        wanted = _brokers(call, "destination_broker_ids")
        others = [int(one.name) for one in call.detail.brokers if int(one.name) not in wanted]
        settings["excluded_brokers_for_replicas"] = others
    if call.flag("rebalance_disk"):
        settings["intra_broker_only"] = True
    return settings


def _check_names(call: _Call, own: set[str]) -> None:
    for name in call.parameters:
        if name in own or name in WITHOUT_EFFECT:
            continue
        if name not in REFUSED_PARAMETERS:
            raise InputError(f"{call.name} has no parameter {name[:40]}: leave it out")
        if call.parameters[name].lower() != "false":
            raise InputError(f"{name} has no counterpart in a call of trimtab: {REFUSED_PARAMETERS[name]}")


def _goal(name: str) -> str:
    short = name.rpartition(".")[2]
    if short not in GOALS:
        remedy = REFUSED_GOALS.get(short, f"use goals of {', '.join(GOALS)}")
        raise InputError(f"goal {short[:80]} has no counterpart: {remedy}")
    return GOALS[short]


def _brokers(call: _Call, name: str) -> list[int]:
    known = {one.name for one in call.detail.brokers}
    wanted = call.listed(name)
    if not wanted:
        raise InputError(f"{call.name} needs {name}: give ids of brokers, separated by commas")
    for one in wanted:
        if one not in known:
            raise CruiseControlError(
                f"IllegalArgumentException: broker {one[:40]} does not exist. The newest snapshot has "
                f"{', '.join(sorted(known))}"
            )
    return [int(one) for one in wanted]


def _globs(name: str, pattern: str) -> list[str]:
    """Glob patterns for a regular expression that is names, alternatives, and `.*` alone."""
    globs = []
    for part in pattern.removeprefix("^").removesuffix("$").split("|"):
        glob = part.replace("\\.", "\0").replace(".*", "*").replace("\0", ".")
        if not re.fullmatch(r"[\w.*-]+", glob) or re.search(r"(?<!\\)\.(?!\*)", part):
            raise InputError(
                f"{name} is {pattern[:80]!r}: trimtab takes names, alternatives with | and .* of a regular "
                "expression, with \\. for a dot"
            )
        globs.append(glob)
    return globs


def _same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether settings are equal; a tuple equals a list."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def _task_id(*parts: str) -> str:
    return str(uuid.uuid5(_IDS, "|".join(parts)))


def _ids_of(plan: PlanRecord, is_dry: bool) -> tuple[str, str]:
    """The id of a task, and the id that its request had while the plan was being made."""
    settings = json.dumps(plan.settings, sort_keys=True, default=str)
    return (
        _task_id("plan" if is_dry else "execution", plan.digest),
        _task_id("request", plan.cluster, str(is_dry), settings),
    )


def _url(plan: PlanRecord, is_dry: bool) -> str:
    name = next((call for call, setting in CHANGES.items() if setting in plan.settings), "rebalance")
    shown = {key: json.dumps(value) for key, value in plan.settings.items()}
    return f"POST {PREFIX}/{name}?{urlencode({**shown, 'dryrun': str(is_dry).lower()})}"


def _status(execution: ExecutionRecord | None) -> str:
    if execution is None or execution.status in ("running", "interrupted"):
        return "InExecution"
    return "Completed" if execution.status == "finished" else "CompletedWithError"


def _task_row(
    task: str, url: str, by: str, begin: float, status: str, response: str = ""
) -> dict[str, object]:
    row: dict[str, object] = {
        "UserTaskId": task,
        "RequestURL": url,
        "ClientIdentity": by,
        "StartMs": str(int(begin * 1000)),
        "Status": status,
    }
    return {**row, "originalResponse": response} if response else row


def _error(status: int, text: str, headers: Mapping[str, str]) -> Response:
    """The document of an error, in the form of Cruise Control (`ErrorResponse`)."""
    return JSONResponse({"version": 1, "stackTrace": "", "errorMessage": text}, status, headers=headers)


def _in_progress(task: str) -> Response:
    step = {"step": "Making a plan", "description": "The planner runs.", "timeInMs": 0}
    steps = [{"operation": "Make a plan", "operationProgress": [{**step, "completionPercentage": 0.0}]}]
    headers = {"Cruise-Control-Version": VERSION, TASK_HEADER: task}
    return JSONResponse({"progress": steps, "version": 1}, 202, headers=headers)


def _loads(brokers: Sequence[BrokerStatus], detail: TargetDetail) -> dict[str, object]:
    """The loads of brokers, in the form of Cruise Control (`BrokerStats`)."""
    names = [one.resource for one in detail.status.resources]
    return {"hosts": [], "brokers": [_broker_load(one, names) for one in brokers]}


def _broker_load(broker: BrokerStatus, resources: Sequence[str]) -> dict[str, object]:
    """A broker in the form of Cruise Control (`BrokerStats`): MB, KB per second, percent, cores."""

    def column(values: Sequence[float | None], name: str, unit: float) -> float:
        value = dict(zip(resources, values, strict=False)).get(name)
        return UNKNOWN if value is None else value / unit

    def role(name: str) -> float:
        return broker.figures[name] / KILOBYTE if name in broker.figures else UNKNOWN

    capacity, stored = broker.capacity, broker.bytes_stored
    return {
        "Broker": int(broker.name),
        "Host": broker.host,
        "Rack": broker.rack,
        "BrokerState": "ALIVE" if broker.is_online else "DEAD",
        "DiskMB": UNKNOWN if stored is None else stored / MEGABYTE,
        "DiskPct": column(broker.usage, "disk", 0.01),
        "CpuPct": column(broker.usage, "cpu", 0.01),
        "NwInPct": column(broker.usage, "network_in", 0.01),
        "NwOutPct": column(broker.usage, "network_out", 0.01),
        "Replicas": broker.replicas,
        "Leaders": broker.leaders,
        "LeaderNwInRate": role("leader_network_in"),
        "FollowerNwInRate": role("follower_network_in"),
        "NwOutRate": column(broker.load, "network_out", KILOBYTE),
        "PnwOutRate": role("potential_network_out"),
        "DiskCapacityMB": column(capacity, "disk", MEGABYTE),
        "NetworkInCapacity": column(capacity, "network_in", KILOBYTE),
        "NetworkOutCapacity": column(capacity, "network_out", KILOBYTE),
        "NumCore": column(capacity, "cpu", 1),
    }


def _cluster_state(call: _Call) -> dict[str, object]:
    brokers = call.detail.brokers
    replicas = {one.name: one.replicas for one in brokers}
    leaders = {one.name: one.leaders for one in brokers}
    number = max(1, len(brokers))
    return {
        "KafkaBrokerState": {
            "LeaderCountByBrokerId": leaders,
            "ReplicaCountByBrokerId": replicas,
            "OfflineReplicaCountByBrokerId": {one.name: one.replicas for one in brokers if not one.is_online},
            "Summary": {
                "Brokers": len(brokers),
                "Replicas": sum(replicas.values()),
                "Leaders": sum(leaders.values()),
                "AvgReplicasPerBroker": sum(replicas.values()) / number,
                "AvgLeadersPerBroker": sum(leaders.values()) / number,
                "MaxReplicasPerBroker": max(replicas.values(), default=0),
                "MaxLeadersPerBroker": max(leaders.values(), default=0),
            },
        },
        "KafkaPartitionState": {},
        "version": 1,
    }


def _partition_load(call: _Call) -> dict[str, object]:
    rows = []
    pattern = call.parameters.get("topic", ".*")
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise InputError(f"topic is {pattern[:80]!r}, no regular expression: {error}") from None
    for one in call.detail.largest:
        topic, _, partition = one.name.rpartition("-")
        if not wanted.fullmatch(topic):
            continue
        rows.append(
            {
                "topic": topic,
                "partition": int(partition),
                "leader": int(one.leader or -1),
                "followers": [int(broker) for broker in one.brokers if broker != one.leader],
                "cpu": 100.0 * one.load["cpu"] if "cpu" in one.load else UNKNOWN,
                "disk": one.load.get("disk", UNKNOWN * MEGABYTE) / MEGABYTE,
                "networkInbound": one.load.get("network_in", UNKNOWN * KILOBYTE) / KILOBYTE,
                "networkOutbound": one.load.get("network_out", UNKNOWN * KILOBYTE) / KILOBYTE,
                "msg_in": UNKNOWN,
            }
        )
    resource = call.parameters.get("resource", "disk").lower()
    key = {"cpu": "cpu", "disk": "disk", "nw_in": "networkInbound", "nw_out": "networkOutbound"}.get(resource)
    if key is None:
        raise InputError(f"resource is {resource[:40]!r}: write cpu, disk, nw_in or nw_out")
    rows.sort(key=lambda row: -float(str(row[key])))
    return {"records": rows[: call.number("entries", MAX_TASKS)], "version": 1}
