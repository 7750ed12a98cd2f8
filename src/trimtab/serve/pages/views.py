"""The pages that show something: overview, cluster, plans, executions, history, policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trimtab.model.policy import HOUR, Trigger
from trimtab.model.text import bytes_text, duration_text
from trimtab.serve.documents import DecisionRecord, ExecutionRecord, LoadSeries, StepRecord
from trimtab.serve.pages import brokers
from trimtab.serve.pages.rendering import Pages, share_text

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

CHART_SECONDS: Final = 24 * HOUR
CHART_POINTS: Final = 144
MAX_STEPS: Final = 200
"""Steps of an execution that are listed, unless all are requested."""
DECISIONS_PER_PAGE: Final = 50
MAX_WINDOWS: Final = 40
"""Ranges of numbers in which one page of the history searches."""
MAX_NUMBER: Final = 2**53


class Views(Pages):
    """Views of a service; each takes a request and returns a page."""

    def overview(self, request: Request) -> Response:
        """All balancers of all clusters, with the reason of each for not acting."""
        findings = [*self.service.liveness(), *self.service.readiness()]
        return self.response(request, "overview", targets=self.service.targets(), findings=findings)

    def cluster(self, request: Request) -> Response:
        """One balancer of one cluster: reason, heat map, charts, largest partitions."""
        cluster, balancer = request.path_params["cluster"], request.path_params["balancer"]
        detail = self.service.target(cluster, balancer)
        # Charts are outside of the part that a script fetches anew.
        series = (
            LoadSeries(cluster=cluster, balancer=balancer, at=(), deviation={}, peak={})
            if "hx-request" in request.headers
            else self.service.loads(cluster, balancer, self.clock() - CHART_SECONDS, CHART_POINTS)
        )
        drift = self.service.settings.drift
        return self.response(
            request,
            "cluster",
            marks=[brokers.bar_marks(one) for one in detail.status.resources],
            target=detail.status,
            heat=brokers.heat_map(detail, drift.end),
            epsilon=drift.end,
            chart=brokers.chart_document(series, detail.status.resources, drift.begin),
            chart_rows=brokers.chart_rows(series),
            series=series,
            largest=detail.largest[: brokers.MAX_PARTS],
            by_broker=brokers.parts_by_broker(detail.largest),
            topics=self.service.largest(cluster, balancer, "topics", count=brokers.MAX_PARTS),
        )

    def login(self, request: Request) -> Response:
        """The form for a token; anybody may read it."""
        return self.response(request, "login", error="")

    def plans(self, request: Request) -> Response:
        """The plans that the service holds."""
        return self.response(request, "plans", plans=self.service.plans())

    def plan(self, request: Request) -> Response:
        """One plan with its text, and what may be done with it."""
        digest, has_all = request.path_params["digest"], "all" in request.query_params
        plan = self.service.plan(digest)
        is_open = plan.state in OPEN_STATES
        is_served = (plan.cluster, plan.balancer) in {
            (one.cluster, one.balancer) for one in self.service.targets()
        }
        detail = self.service.target(plan.cluster, plan.balancer) if is_open and is_served else None
        return self.response(
            request,
            "plan",
            plan=plan,
            is_open=is_open,
            text=self.service.plan_text(plan.digest, has_all),
            has_all=has_all,
            resources=() if detail is None else detail.status.resources,
            changes=()
            if detail is None
            else brokers.changed_rows(detail.brokers, self.service.plan_brokers(plan.digest)),
            max_changes=brokers.MAX_WORST,
        )

    def execution(self, request: Request) -> Response:
        """One execution: progress, steps, control."""
        detail = self.service.execution(request.path_params["cluster"], request.path_params["number"])
        steps, has_all = detail.steps, "all" in request.query_params
        return self.response(
            request,
            "execution",
            execution=detail.execution,
            rate=_bytes_per_second(detail.execution, self.clock()),
            steps=steps if has_all else _unfinished_first(steps)[:MAX_STEPS],
            hidden=0 if has_all else max(0, len(steps) - MAX_STEPS),
        )

    def history(self, request: Request) -> Response:
        """Executions with their measured effects, and decisions, newest first."""
        query = request.query_params
        cluster, _, balancer = query.get("target", "").partition("/")
        kind, before = query.get("kind", ""), query.get("before", "")
        decisions, cursor = self._decisions(cluster or None, balancer or None, kind, _cursor(before))
        executions = [
            one
            for one in self.service.executions(cluster or None)
            if not balancer or one.balancer == balancer
        ]
        return self.response(
            request,
            "history",
            targets=[f"{one.cluster}/{one.balancer}" for one in self.service.targets()],
            target=query.get("target", ""),
            kind=kind,
            kinds=KINDS,
            executions=[] if before else executions,
            decisions=decisions,
            cursor=cursor,
            is_first=not before,
        )

    def _decisions(
        self, cluster: str | None, balancer: str | None, kind: str, before: int | None
    ) -> tuple[list[DecisionRecord], int | None]:
        """Decisions with numbers below `before`, newest first, and the cursor of the next page."""
        size = DECISIONS_PER_PAGE
        newest = 1 + max((one.number for one in self.service.decisions(limit=1)), default=0)
        before = newest if before is None else min(before, newest)
        found: list[DecisionRecord] = []
        # A range of `size` numbers has at most `size` decisions, so that no limit cuts the newest.
        for _ in range(MAX_WINDOWS):
            if before <= 1 or len(found) >= size:
                break
            after = max(0, before - 1 - size)
            batch = self.service.decisions(after, size, cluster, balancer)
            its = [one for one in batch if one.number < before and _is_of_kind(one, kind)]
            found += sorted(its, key=lambda one: -one.number)
            before = after + 1
        if len(found) > size:
            before = found[size - 1].number
        return found[:size], before if before > 1 else None

    def policy(self, request: Request) -> Response:
        """The settings in force, without secrets."""
        settings = self.service.settings
        triggers = {
            Trigger.BROKER_LOST: settings.broker_lost,
            Trigger.HARD_LIMIT: settings.hard_limit,
            Trigger.BROKER_ADDED: settings.broker_added,
            Trigger.DRIFT: settings.drift,
            Trigger.REQUEST: settings.request,
        }
        return self.response(
            request,
            "policy",
            targets=self.service.targets(),
            triggers=[(str(name), list(setting_rows(one))) for name, one in triggers.items()],
            budget=list(setting_rows(settings.budget)),
            windows=settings.windows,
            freezes=settings.freezes,
            timing=[row for row in setting_rows(settings) if row[0] in TIMES],
            process=[row for row in setting_rows(settings) if row[0] in PROCESS],
            receivers=[(one.kind, urlsplit(one.url).hostname or "") for one in settings.notifications],
            findings=[*self.service.liveness(), *self.service.readiness()],
        )


OPEN_STATES: Final = ("what-if", "proposed", "asking")
"""States of plans that people decide upon."""

KINDS: Final = {
    "": "all",
    "actions": "without waiting",
    "refuse": "refused",
    "notify": "notifications",
    "people": "by people",
}
"""Filters of the history by kind of decision."""

TIMES: Final = (
    "interval_seconds", "max_snapshot_intervals", "min_coverage", "restart_quiet_seconds", "plan_seconds",
    "plan_max_age_seconds", "settle_seconds", "measure_seconds", "retry_seconds", "max_retry_seconds", "undo",
    "max_worse",
)  # fmt: skip
PROCESS: Final = ("observe", "listen", "lease_seconds", "poll_seconds", "cruise_control")
"""Settings on the page of the policy; addresses and files of secrets are not among them."""

SHARES: Final = ("share", "error", "begin", "end", "coverage", "aim")


def setting_rows(settings: object) -> Iterator[tuple[str, str]]:
    """Names and values of a dataclass of settings, with units; tables are left out."""
    assert dataclasses.is_dataclass(settings)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if not dataclasses.is_dataclass(value):
            yield field.name, _setting_text(field.name, value)


def _setting_text(name: str, value: object) -> str:
    if value is None:
        return "no limit"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("_seconds"):
            return duration_text(value)
        if name.endswith("bytes"):
            return bytes_text(value)
        return share_text(value) if name.endswith(SHARES) else f"{value:,g}"
    return str(value)


def _cursor(text: str) -> int | None:
    """The number of a decision in an address, at most what SQLite and JSON hold; None for other texts."""
    if not text.isdecimal():
        return None
    return min(int(text), MAX_NUMBER) if len(text) <= 16 else MAX_NUMBER


def _is_of_kind(decision: DecisionRecord, kind: str) -> bool:
    if kind == "actions":
        return decision.kind != "wait"
    return bool(decision.by) if kind == "people" else not kind or decision.kind == kind


def _bytes_per_second(execution: ExecutionRecord, now: float) -> float | None:
    """The mean rate of an execution; None before its first byte."""
    seconds = (execution.ended_at or now) - execution.started_at
    return execution.bytes_done / seconds if execution.bytes_done and seconds > 0 else None


def _unfinished_first(steps: Sequence[StepRecord]) -> list[StepRecord]:
    """Steps that are not done, then the others; each in the order of the plan."""
    return sorted(steps, key=lambda one: one.state == "done")
