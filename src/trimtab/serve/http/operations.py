"""All operations of the API, one row each: router, checks, OpenAPI document and reference come from them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.model.policy import DAY
from trimtab.serve.documents import (
    DecisionRecord,
    ExecutionDetail,
    ExecutionRecord,
    Finding,
    LargestPart,
    LoadSeries,
    PlanRecord,
    TargetDetail,
    TargetStatus,
)
from trimtab.serve.http.security import Role
from trimtab.serve.interface import ServiceInterface
from trimtab_common.documents import Name
from trimtab_common.errors import InputError

PREFIX = "/api/v1"
MAX_ROWS = 1000
MAX_POINTS = 1000
CALL_THREADS = 16
PLAN_THREADS = 2
"""Plans that are made at the same time; others wait, and hold no thread while they do."""

Limit = Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Largest number of rows.")]
ClusterFilter = Annotated[str, Meta(description="Name of a cluster; all by default.")]
Text = Annotated[str, Meta(max_length=1000)]
Number = Annotated[int, Meta(ge=0, le=2**53)]


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """An operation without query parameters."""


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of a list of plans or executions."""

    cluster: ClusterFilter = ""
    limit: Limit = 50


class LoadsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of loads over time."""

    since: (
        Annotated[float, Meta(description="Seconds since 1970; 24 h before now by default.")] | UnsetType
    ) = UNSET
    points: Annotated[int, Meta(ge=1, le=MAX_POINTS, description="Largest number of instants.")] = 288


class LargestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of the largest partitions or topics."""

    of: Annotated[Literal["partitions", "topics"], Meta(description="What is listed.")] = "partitions"
    sort: Annotated[Text, Meta(description="Resource; that of the balancer by default.")] = ""
    count: Limit = 20


class TextQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of the text of a plan."""

    moves: Annotated[Literal["some", "all"], Meta(description="Whether all moves are listed.")] = "some"


class DecisionsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of the list of decisions."""

    after: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=2**53,
                description="Those after this number, oldest first. Without it the newest, newest first.",
            ),
        ]
        | UnsetType
    ) = UNSET
    limit: Limit = 100
    cluster: ClusterFilter = ""
    balancer: Annotated[str, Meta(description="Name of a balancer; all by default.")] = ""


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of the stream of decisions."""

    after: (
        Annotated[
            int,
            Meta(ge=0, le=2**53, description="The first event is the decision after this number."),
        ]
        | UnsetType
    ) = UNSET


class PlanRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan to make; `settings` override those of the balancer, like `{"drain": ["5"]}`."""

    cluster: Name
    balancer: Name
    settings: dict[str, Any] = {}


class PauseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pause; `until` in seconds since 1970, or null until a person ends it."""

    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    until: float | None = None


class RejectRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rejection, with a note for others."""

    note: Text = ""


class ThrottleRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A throttle in bytes per second."""

    bytes_per_second: Annotated[float, Meta(gt=0, le=1e12)]


class Health(Struct, frozen=True, kw_only=True):
    """Whether the process works; findings say what is wrong."""

    is_ok: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Call:
    """One request: values of the path, of the query and of the body, and the name of the user."""

    cluster: str = ""
    balancer: str = ""
    digest: str = ""
    number: int = 0
    query: Any = None
    """An instance of `Operation.query`."""
    body: Any = None
    """An instance of `Operation.body`."""
    by: str = ""


ServiceCall = Callable[[ServiceInterface, Call], object]
"""Answers a request; it may block."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    Attributes
    ----------
    name
        Unique name; `operationId` in the OpenAPI document.
    method, path
        `GET` or `POST`, and the path with its parameters in braces.
    call
        Answers a request with a document; it may block.
    result
        Type of the JSON document; `bytes`, `str` for other contents.
    query, body
        Types of query and body; no body: None.
    status
        HTTP status of success.
    description
        One or two sentences for people.
    is_public
        Whether everybody may call it, also without a token.
    is_slow
        Whether it may take minutes.
    is_stream
        Whether it sends events until the connection ends; `call` is then not used.
    """

    name: str
    method: Literal["GET", "POST"]
    path: str
    call: ServiceCall
    result: Any
    description: str
    query: type[Struct] = NoQuery
    body: type[Struct] | None = None
    status: int = 200
    is_public: bool = False
    is_slow: bool = False
    is_stream: bool = False

    @property
    def role(self) -> Role | None:
        """The lowest role that may call it: viewers read, operators change; None: everybody."""
        if self.is_public:
            return None
        return Role.VIEWER if self.method == "GET" else Role.OPERATOR

    @property
    def media_type(self) -> str:
        """Content type of the answer."""
        if self.is_stream:
            return "text/event-stream"
        return "text/plain" if self.result is str else "application/json"


class Calls:
    """Runs blocking calls of the service in threads; slow ones cannot keep the others waiting."""

    def __init__(self) -> None:
        self._fast = anyio.CapacityLimiter(CALL_THREADS)
        self._slow = anyio.CapacityLimiter(PLAN_THREADS)

    async def run(self, call: Callable[[], object], is_slow: bool = False) -> object:
        """The result of a call. A stop of the server does not wait for it."""
        limiter = self._slow if is_slow else self._fast
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)


def _loads(service: ServiceInterface, call: Call) -> LoadSeries:
    since = call.query.since
    if since is UNSET:
        since = time.time() - DAY
    if not math.isfinite(since):
        raise InputError("since is not a finite number: give seconds since 1970")
    return service.loads(call.cluster, call.balancer, since, call.query.points)


def _decisions(service: ServiceInterface, call: Call) -> object:
    query = call.query
    after = None if query.after is UNSET else query.after
    return service.decisions(after, query.limit, query.cluster or None, query.balancer or None)


def _health(
    findings: Callable[[ServiceInterface], Sequence[Finding]],
) -> Callable[[ServiceInterface, Call], object]:
    def call(service: ServiceInterface, _: Call) -> Health:
        found = tuple(findings(service))
        return Health(is_ok=not any(one.is_error for one in found), findings=found)

    return call


def _end(how: Literal["stop", "cancel"]) -> ServiceCall:
    return lambda service, call: service.end_execution(call.cluster, call.number, how, call.by)


TARGET = f"{PREFIX}/clusters/{{cluster}}/{{balancer}}"
PLAN = f"{PREFIX}/plans/{{digest}}"
EXECUTION = f"{PREFIX}/clusters/{{cluster}}/executions/{{number}}"

OPERATIONS = (
    Operation(
        name="listTargets",
        method="GET",
        path=f"{PREFIX}/clusters",
        call=lambda service, call: service.targets(),
        result=list[TargetStatus],
        description="All balancers of all clusters: verdict, mode, and what each waits for.",
    ),
    Operation(
        name="getTarget",
        method="GET",
        path=TARGET,
        call=lambda service, call: service.target(call.cluster, call.balancer),
        result=TargetDetail,
        description="One balancer of one cluster, with its brokers and its largest movable parts.",
    ),
    Operation(
        name="getLargest",
        method="GET",
        path=f"{TARGET}/largest",
        call=lambda service, call: service.largest(
            call.cluster, call.balancer, call.query.of, call.query.sort, call.query.count
        ),
        result=list[LargestPart],
        query=LargestQuery,
        description="Largest partitions or topics by a resource, with the load of their leaders.",
    ),
    Operation(
        name="getLoads",
        method="GET",
        path=f"{TARGET}/loads",
        call=_loads,
        result=LoadSeries,
        query=LoadsQuery,
        description="Largest deviation and peak over time, with the forecast.",
    ),
    Operation(
        name="pause",
        method="POST",
        path=f"{TARGET}/pause",
        call=lambda service, call: service.pause(
            call.cluster, call.balancer, call.by, call.body.reason, call.body.until
        ),
        result=TargetStatus,
        body=PauseRequest,
        description="Pause all executions; a running one stops. The pause survives restarts.",
    ),
    Operation(
        name="resume",
        method="POST",
        path=f"{TARGET}/resume",
        call=lambda service, call: service.resume(call.cluster, call.balancer, call.by),
        result=TargetStatus,
        description="End the pause, and lift the limits that the service has put on its triggers.",
    ),
    Operation(
        name="listPlans",
        method="GET",
        path=f"{PREFIX}/plans",
        call=lambda service, call: service.plans(call.query.cluster or None, call.query.limit),
        result=list[PlanRecord],
        query=ListQuery,
        description="Plans that the service holds, newest first.",
    ),
    Operation(
        name="makePlan",
        method="POST",
        path=f"{PREFIX}/plans",
        call=lambda service, call: service.make_plan(
            call.body.cluster, call.body.balancer, call.body.settings, call.by
        ),
        result=PlanRecord,
        body=PlanRequest,
        status=201,
        is_slow=True,
        description="A what-if plan from the newest snapshot; nothing changes. It may take minutes.",
    ),
    Operation(
        name="listApprovals",
        method="GET",
        path=f"{PREFIX}/approvals",
        call=lambda service, call: [
            one.plan for one in service.targets() if one.plan is not None and one.plan.state == "asking"
        ],
        result=list[PlanRecord],
        description="Plans that wait for an approval.",
    ),
    Operation(
        name="getPlan",
        method="GET",
        path=PLAN,
        call=lambda service, call: service.plan(call.digest),
        result=PlanRecord,
        description="What the service knows of a plan. A unique prefix of 8 characters is enough.",
    ),
    Operation(
        name="getPlanFile",
        method="GET",
        path=f"{PLAN}/file",
        call=lambda service, call: service.plan_bytes(call.digest),
        result=bytes,
        description="The plan file, byte for byte: its SHA-256 is the digest.",
    ),
    Operation(
        name="getPlanText",
        method="GET",
        path=f"{PLAN}/text",
        call=lambda service, call: service.plan_text(call.digest, call.query.moves == "all"),
        result=str,
        query=TextQuery,
        description="The plan for people, as `trimtab plan` shows it.",
    ),
    Operation(
        name="applyPlan",
        method="POST",
        path=f"{PLAN}/apply",
        call=lambda service, call: service.apply_plan(call.digest, call.by),
        result=PlanRecord,
        status=202,
        description="Approve and execute a plan, within budgets and windows. The digest is the approval; "
        "the same request again changes nothing.",
    ),
    Operation(
        name="approvePlan",
        method="POST",
        path=f"{PLAN}/approve",
        call=lambda service, call: service.approve(call.digest, call.by),
        result=PlanRecord,
        status=202,
        description="Approve a plan that waits for it. Exactly this plan is executed.",
    ),
    Operation(
        name="rejectPlan",
        method="POST",
        path=f"{PLAN}/reject",
        call=lambda service, call: service.reject(call.digest, call.by, call.body.note),
        result=PlanRecord,
        body=RejectRequest,
        description="Reject a plan that waits for an approval.",
    ),
    Operation(
        name="listExecutions",
        method="GET",
        path=f"{PREFIX}/executions",
        call=lambda service, call: service.executions(call.query.cluster or None, call.query.limit),
        result=list[ExecutionRecord],
        query=ListQuery,
        description="Executions of the service, newest first, with their measured effects.",
    ),
    Operation(
        name="getExecution",
        method="GET",
        path=EXECUTION,
        call=lambda service, call: service.execution(call.cluster, call.number),
        result=ExecutionDetail,
        description="One execution with its steps.",
    ),
    Operation(
        name="stopExecution",
        method="POST",
        path=f"{EXECUTION}/stop",
        call=_end("stop"),
        result=ExecutionRecord,
        status=202,
        description="Stop an execution after the steps that are in progress.",
    ),
    Operation(
        name="cancelExecution",
        method="POST",
        path=f"{EXECUTION}/cancel",
        call=_end("cancel"),
        result=ExecutionRecord,
        status=202,
        description="Cancel an execution: steps in progress are undone.",
    ),
    Operation(
        name="resumeExecution",
        method="POST",
        path=f"{EXECUTION}/resume",
        call=lambda service, call: service.resume_execution(call.cluster, call.number, call.by),
        result=ExecutionRecord,
        status=202,
        description="Continue an execution that was stopped.",
    ),
    Operation(
        name="setThrottle",
        method="POST",
        path=f"{EXECUTION}/throttle",
        call=lambda service, call: service.set_throttle(
            call.cluster, call.number, call.body.bytes_per_second, call.by
        ),
        result=ExecutionRecord,
        body=ThrottleRequest,
        description="Change the throttle of a running execution: bytes per second and broker. Copies in "
        "flight go on at the new rate.",
    ),
    Operation(
        name="listDecisions",
        method="GET",
        path=f"{PREFIX}/decisions",
        call=_decisions,
        result=list[DecisionRecord],
        query=DecisionsQuery,
        description="Decisions and requests of people: the history and the audit log.",
    ),
    Operation(
        name="streamDecisions",
        method="GET",
        path=f"{PREFIX}/events",
        call=_decisions,
        result=DecisionRecord,
        query=EventsQuery,
        is_stream=True,
        description="Decisions as server-sent events. The id is the number of the decision; the header "
        "`Last-Event-ID` resumes. A comment comes every 15 s. A stream ends after 10 min: connect again.",
    ),
    Operation(
        name="getLiveness",
        method="GET",
        path="/livez",
        call=_health(lambda service: service.liveness()),
        is_public=True,
        result=Health,
        description="Whether the process works: 200, or 503 with findings.",
    ),
    Operation(
        name="getReadiness",
        method="GET",
        path="/readyz",
        call=_health(lambda service: service.readiness()),
        is_public=True,
        result=Health,
        description="Whether the service can do its work: 200, or 503 with findings.",
    ),
)
"""The table of operations."""
