"""Metrics of the service in the text format of Prometheus, read from the documents at each scrape.

No label names a topic or a partition: 1,000 brokers with four resources are 4,000 series.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.routing import Route

from trimtab.serve.http.security import Role, require_role
from trimtab.serve.interface import UnknownError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from starlette.requests import Request

    from trimtab.serve.documents import (
        ExecutionRecord,
        PlanRecord,
        TargetDetail,
        TargetStatus,
    )
    from trimtab.serve.interface import ServiceInterface

Labels = tuple[str, ...]
Add = Callable[[str, Labels, float | None], None]
TARGET: Final = ("cluster", "balancer")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric of the service; each has the labels `cluster` and `balancer` before its own, unless global."""

    name: str
    text: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False
    is_global: bool = False

    @property
    def all_labels(self) -> tuple[str, ...]:
        """All labels, in the order in which values are added."""
        return () if self.is_global else (*TARGET, *self.labels)


METRICS: Final = (
    MetricSpec("trimtab_leader", "Whether this instance decides for the balancer."),
    MetricSpec("trimtab_mode", "1 for the mode in force of each trigger.", ("trigger", "mode")),
    MetricSpec("trimtab_usage_ratio", "Share of a broker's capacity in use.", ("broker", "resource")),
    MetricSpec("trimtab_mean_ratio", "Mean utilization of all brokers.", ("resource",)),
    MetricSpec("trimtab_peak_ratio", "Utilization of the busiest broker.", ("resource",)),
    MetricSpec("trimtab_limit_ratio", "The limit θ of the utilization.", ("resource",)),
    MetricSpec("trimtab_worst_deviation_ratio", "The largest deviation γ from the mean.", ("resource",)),
    MetricSpec("trimtab_goal_held", "Whether the load is below all limits, and even.", ("goal",)),
    MetricSpec("trimtab_brokers", "Number of brokers, online and offline.", ("state",)),
    MetricSpec("trimtab_brokers_lost", "Brokers that the service counts as lost."),
    MetricSpec("trimtab_snapshot_age_seconds", "Age of the newest snapshot."),
    MetricSpec("trimtab_snapshot_coverage_ratio", "Share of the loads that the newest snapshot knows."),
    MetricSpec("trimtab_paused", "Whether executions are paused."),
    MetricSpec("trimtab_pause_seconds", "Time since the pause began; absent without a pause."),
    MetricSpec("trimtab_stage", "1 for the stage of the answer to a trigger.", ("trigger", "stage")),
    MetricSpec("trimtab_alert", "1 for a condition that people were notified of and that lasts.", ("key",)),
    MetricSpec("trimtab_problems", "Problems that keep the service from its work."),
    MetricSpec("trimtab_approval_waiting", "Whether a plan waits for an approval."),
    MetricSpec("trimtab_approval_waiting_seconds", "Time since that plan was made; absent without one."),
    MetricSpec("trimtab_plan_seconds", "Time that the planner took for the plan on offer."),
    MetricSpec("trimtab_plan_bytes", "Bytes that the plan on offer copies."),
    MetricSpec("trimtab_plan_moves", "Moves of the plan on offer: all, and those of leaders.", ("kind",)),
    MetricSpec("trimtab_plan_bound_ratio", "Bytes of the plan on offer by their lower bound."),
    MetricSpec("trimtab_execution_state", "1 for the state of the newest execution.", ("state",)),
    MetricSpec("trimtab_execution_bytes", "Bytes of the newest execution: done, and in all.", ("part",)),
    MetricSpec(
        "trimtab_execution_steps", "Steps of the newest execution: done, failed, and in all.", ("part",)
    ),
    MetricSpec("trimtab_execution_throttle_bytes_per_second", "Throttle of the newest execution."),
    MetricSpec("trimtab_effect", "1 for the effect of the newest execution that was measured.", ("effect",)),
    MetricSpec(
        "trimtab_budget_left_ratio", "Share of the budget of 24 h that is left; absent without a limit.",
        ("budget",),
    ),
    MetricSpec(
        "trimtab_decisions_total", "Decisions and requests since the start of this instance.",
        ("kind", "trigger"), is_counter=True,
    ),
    MetricSpec("trimtab_outbox_waiting", "Notifications that are not delivered yet.", is_global=True),
    MetricSpec(
        "trimtab_outbox_abandoned", "Notifications that were given up after ten attempts.", is_global=True
    ),
    MetricSpec("trimtab_scrape_seconds", "Time that reading these metrics took.", is_global=True),
)  # fmt: skip
"""All metrics of the service; `process_*` of prometheus_client come with them."""

EXECUTION_STATES: Final = ("running", "interrupted", "stopped", "finished", "incomplete", "cancelled")
EFFECTS: Final = ("helped", "nothing", "worse")
_KINDS: Final = (
    "wait", "refuse", "notify", "measured", "approved", "rejected", "paused", "resumed", "started", "ended",
    "requested", "resumed_execution", "stopped_execution", "cancelled_execution",
)  # fmt: skip
_KINDS_OF_TRIGGERS: Final = ("make_plan", "propose", "withdraw", "execute")


class ServiceCollector(Collector):
    """Reads the documents of a service at each scrape, and counts its decisions from now on.

    Parameters
    ----------
    clock
        Seconds since 1970, for ages.
    """

    def __init__(self, service: ServiceInterface, clock: Callable[[], float] = time.time) -> None:
        self._service, self._clock = service, clock
        self._lock = threading.Lock()
        newest = service.decisions(limit=1)
        self._counted = newest[0].number if newest else 0
        self._decisions: Counter[Labels] = Counter()

    def describe(self) -> list[Metric]:
        """No metrics, so that a registration does not read the service."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics, as the documents have them now."""
        begun = time.perf_counter()
        families = {
            one.name: (CounterMetricFamily if one.is_counter else GaugeMetricFamily)(
                one.name, one.text, labels=one.all_labels
            )
            for one in METRICS
        }

        def add(name: str, labels: Labels, value: float | None) -> None:
            if value is not None:
                families[name].add_metric(labels, value)

        now = self._clock()
        for status in self._service.targets():
            at = (status.cluster, status.balancer)
            try:
                detail = self._service.target(*at)
                executions = self._service.executions(status.cluster)
            except UnknownError:
                continue  # the settings changed in between
            self._add_target(detail, now, add)
            own = [one for one in executions if one.balancer == status.balancer]
            _add_execution(at, detail.status.execution or next(iter(own), None), add)
            effect = next((one.effect for one in own if one.effect), None)
            for name in EFFECTS if effect else ():
                add("trimtab_effect", (*at, name), float(effect == name))
        for labels, count in self._count(self._service.targets()).items():
            add("trimtab_decisions_total", labels, count)
        deliveries = self._service.notifications()
        add("trimtab_outbox_waiting", (), deliveries.waiting)
        add("trimtab_outbox_abandoned", (), deliveries.abandoned)
        add("trimtab_scrape_seconds", (), time.perf_counter() - begun)
        yield from families.values()

    def _add_target(self, detail: TargetDetail, now: float, add: Add) -> None:
        status = detail.status
        at = (status.cluster, status.balancer)
        add("trimtab_leader", at, float(status.is_leader))
        for trigger, mode in status.modes.items():
            add("trimtab_mode", (*at, trigger, mode), 1.0)
        for place, resource in enumerate(status.resources):
            labels = (*at, resource.resource)
            add("trimtab_mean_ratio", labels, resource.mean)
            add("trimtab_peak_ratio", labels, resource.peak)
            add("trimtab_limit_ratio", labels, resource.limit)
            add("trimtab_worst_deviation_ratio", labels, resource.deviation)
            for broker in detail.brokers:
                if place < len(broker.usage):
                    add("trimtab_usage_ratio", (*at, broker.name, resource.resource), broker.usage[place])
        if status.verdict != "unknown":
            add("trimtab_goal_held", (*at, "limit"), float(status.verdict != "above_limit"))
            add("trimtab_goal_held", (*at, "balance"), float(status.verdict == "balanced"))
        online = sum(broker.is_online for broker in detail.brokers)
        add("trimtab_brokers", (*at, "online"), online)
        add("trimtab_brokers", (*at, "offline"), len(detail.brokers) - online)
        add("trimtab_brokers_lost", at, len(status.lost_brokers))
        if status.snapshot_taken_at is not None:
            add("trimtab_snapshot_age_seconds", at, max(0.0, now - status.snapshot_taken_at))
        add("trimtab_snapshot_coverage_ratio", at, status.snapshot_coverage)
        add("trimtab_paused", at, float(status.pause is not None))
        if status.pause is not None:
            add("trimtab_pause_seconds", at, now - status.pause.since)
        if status.stage:
            add("trimtab_stage", (*at, status.trigger, status.stage), 1.0)
        for key in status.alerts:
            add("trimtab_alert", (*at, key), 1.0)
        add("trimtab_problems", at, len(status.problems))
        _add_plan(at, status.plan, now, add)
        budget = self._service.settings.budget
        for name, limit in (
            ("bytes", budget.max_bytes), ("leader_moves", budget.max_leader_moves),
            ("executions", budget.max_executions),
        ):  # fmt: skip
            left = status.budget_left.get(name)
            if left is not None and limit:
                add("trimtab_budget_left_ratio", (*at, name), left / limit)

    def _count(self, targets: Sequence[TargetStatus]) -> Counter[Labels]:
        """Decisions since the start by target, kind and trigger; 0 for all that can be expected."""
        with self._lock:
            for status in targets:
                at = (status.cluster, status.balancer)
                expected: list[Labels] = [(*at, kind, "") for kind in _KINDS]
                expected += [(*at, kind, trigger) for kind in _KINDS_OF_TRIGGERS for trigger in status.modes]
                for labels in expected:
                    # An increase from nothing to 1 is none for Prometheus.
                    self._decisions[labels] += 0
            while new := self._service.decisions(after=self._counted, limit=1000):
                self._decisions.update((one.cluster, one.balancer, one.kind, one.trigger) for one in new)
                self._counted = new[-1].number
            return Counter(self._decisions)


def _add_plan(at: tuple[str, str], plan: PlanRecord | None, now: float, add: Add) -> None:
    is_waiting = plan is not None and plan.state == "asking"
    add("trimtab_approval_waiting", at, float(is_waiting))
    if plan is None:
        return
    if is_waiting:
        add("trimtab_approval_waiting_seconds", at, now - plan.made_at)
    add("trimtab_plan_seconds", at, plan.seconds)
    add("trimtab_plan_bytes", at, plan.bytes)
    add("trimtab_plan_moves", (*at, "all"), plan.moves)
    add("trimtab_plan_moves", (*at, "leader"), plan.leader_moves)
    if plan.bound_bytes:
        add("trimtab_plan_bound_ratio", at, plan.bytes / plan.bound_bytes)


def _add_execution(at: tuple[str, str], execution: ExecutionRecord | None, add: Add) -> None:
    for state in EXECUTION_STATES:
        add(
            "trimtab_execution_state",
            (*at, state),
            float(execution is not None and execution.status == state),
        )
    if execution is None:
        return
    add("trimtab_execution_bytes", (*at, "done"), execution.bytes_done)
    add("trimtab_execution_bytes", (*at, "total"), execution.bytes_total)
    add("trimtab_execution_steps", (*at, "done"), execution.steps_done)
    add("trimtab_execution_steps", (*at, "failed"), execution.steps_failed)
    add("trimtab_execution_steps", (*at, "total"), execution.steps)
    add("trimtab_execution_throttle_bytes_per_second", at, execution.throttle_bytes_per_second)


def metrics_route(service: ServiceInterface, clock: Callable[[], float] = time.time) -> Route:
    """The route `GET /metrics`, in a registry of its own; a viewer may read it.

    Parameters
    ----------
    clock
        Seconds since 1970, for ages.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(service, clock))
    ProcessCollector(registry=registry)

    def metrics(request: Request) -> Response:
        require_role(request, Role.VIEWER)
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": media_type})

    return Route("/metrics", metrics)
