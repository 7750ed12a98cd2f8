"""Metrics of the service: figures, labels, counters, size and access."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.fake_service import START, FakeService, with_settings
from support.http_calls import HttpCalls
from trimtab.files.serve_settings import ServeSettings
from trimtab.model.policy import Budget
from trimtab.serve.documents import BrokerStatus, NotificationStatus, ResourceStatus, TargetDetail
from trimtab.serve.http.app import create_app
from trimtab.serve.metrics import METRICS, metrics_route

if TYPE_CHECKING:
    from trimtab.serve.interface import ServiceInterface

Labels = tuple[str, ...]
ORDER = {one.name: one.all_labels for one in METRICS}
"""Labels of each metric, in the order in which tests name their values."""


def client_of(service: ServiceInterface, now: float = START) -> HttpCalls:
    """A client of the application with the route of metrics."""
    app = create_app(service, routes=[metrics_route(service, clock=lambda: now)])
    return HttpCalls(app)


def read(client: HttpCalls, headers: dict[str, str] | None = None) -> dict[str, dict[Labels, float]]:
    """Values by metric and values of its labels."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for one in family.samples:
            labels = tuple(one.labels[name] for name in ORDER.get(one.name, ()) if name in one.labels)
            found.setdefault(one.name, {})[labels] = one.value
    return found


@pytest.fixture
def service() -> FakeService:
    """The fake service, with a limit on executions."""
    settings = ServeSettings(clusters=("orders", "payments"), budget=Budget(max_executions=12))
    return FakeService(settings)


def test_metrics_show_the_documents(service: FakeService) -> None:
    """Load, goals, plan, execution, pause and budget are those of the documents."""
    found = read(client_of(service, START + 60))
    orders, payments, keys = ("orders", "replicas"), ("payments", "replicas"), ("payments", "keys")
    assert found["trimtab_leader"] == {orders: 1, payments: 1, keys: 1}
    assert found["trimtab_mode"][(*orders, "drift", "propose")] == 1
    assert found["trimtab_usage_ratio"][(*payments, "2", "network_out")] == 0.91
    assert (*payments, "6", "network_out") not in found["trimtab_usage_ratio"]  # offline
    assert found["trimtab_limit_ratio"][(*payments, "disk")] == 0.8
    assert found["trimtab_worst_deviation_ratio"][(*payments, "network_out")] == 0.31
    assert found["trimtab_goal_held"][(*orders, "limit")] == 1
    assert found["trimtab_goal_held"][(*payments, "limit")] == 0
    assert found["trimtab_brokers"][(*payments, "offline")] == 1
    assert found["trimtab_brokers_lost"][payments] == 1
    assert found["trimtab_snapshot_age_seconds"][orders] == 90
    assert found["trimtab_paused"] == {orders: 1, payments: 0, keys: 0}
    assert found["trimtab_pause_seconds"] == {orders: 3660}
    assert found["trimtab_approval_waiting"] == {orders: 0, payments: 1, keys: 0}
    assert found["trimtab_approval_waiting_seconds"] == {payments: 60}
    assert found["trimtab_plan_bound_ratio"][payments] == pytest.approx(62 / 58.5)
    assert found["trimtab_plan_moves"][(*payments, "leader")] == 3
    assert found["trimtab_execution_state"][(*keys, "running")] == 1
    assert found["trimtab_execution_state"][(*keys, "interrupted")] == 0
    assert found["trimtab_execution_state"][(*payments, "finished")] == 1
    assert found["trimtab_execution_bytes"][(*keys, "total")] == 40e9
    assert found["trimtab_effect"][(*payments, "worse")] == 1
    assert found["trimtab_effect"][(*payments, "helped")] == 0
    budgets = [(*one, "executions") for one in (orders, payments, keys)]
    assert found["trimtab_budget_left_ratio"] == dict.fromkeys(budgets, 0.75)
    assert found["trimtab_alert"] == {(*payments, "hard_limit"): 1}
    assert found["trimtab_outbox_waiting"] == {(): 1}
    assert found["process_start_time_seconds"]


def test_a_proposed_plan_waits_for_nothing(service: FakeService) -> None:
    """A plan in the mode `propose` is on offer, and nobody is asked to approve it."""
    service._plans = {
        digest: msgspec.structs.replace(plan, state="proposed") for digest, plan in service._plans.items()
    }
    found = read(client_of(service))
    assert set(found["trimtab_approval_waiting"].values()) == {0}
    assert "trimtab_approval_waiting_seconds" not in found
    assert found["trimtab_plan_bytes"] == {("payments", "replicas"): 62e9}


def test_progress_and_deliveries_are_read_at_each_scrape(service: FakeService) -> None:
    """Nothing is stored between two scrapes but the counts of decisions."""
    client = client_of(service)
    before = read(client)
    service.advance(35)
    service.deliveries = NotificationStatus(waiting=0, abandoned=2)
    after = read(client)
    steps = ("payments", "keys", "done")
    assert before["trimtab_execution_steps"][steps] == 0
    assert after["trimtab_execution_steps"][steps] == 3
    assert after["trimtab_outbox_abandoned"] == {(): 2}


def test_decisions_are_counted_from_the_start(service: FakeService) -> None:
    """Expected decisions are 0 at first, so that the first one is an increase; each counts once."""
    client = client_of(service)
    first = read(client)["trimtab_decisions_total"]
    assert first[("payments", "replicas", "execute", "hard_limit")] == 0
    assert set(first.values()) == {0}
    for reason in ("first", "second"):
        service.pause("payments", "replicas", "alice", reason, None)
    for _ in range(2):
        assert read(client)["trimtab_decisions_total"][("payments", "replicas", "paused", "")] == 2


def test_requests_about_executions_are_counted(service: FakeService) -> None:
    """Each kind is 0 before its first request, so that the first one is an increase."""
    client = client_of(service)
    keys = ("payments", "keys")
    kinds = ("requested", "stopped_execution", "resumed_execution", "cancelled_execution")
    first = read(client)["trimtab_decisions_total"]
    assert [first[(*keys, kind, "")] for kind in kinds] == [0, 0, 0, 0]
    service.end_execution(keys[0], 3, "stop", "alice")
    service.resume_execution(keys[0], 3, "alice")
    service.end_execution(keys[0], 3, "cancel", "alice")
    counted = read(client)["trimtab_decisions_total"]
    assert [counted[(*keys, kind, "")] for kind in kinds] == [0, 1, 1, 1]


def test_a_cluster_that_disappears_during_a_scrape_is_left_out(service: FakeService) -> None:
    """A change of the settings between two reads does not fail the scrape."""
    gone = service.targets()[0]
    service.targets = lambda: [msgspec.structs.replace(gone, cluster="removed"), gone]  # type: ignore[method-assign]
    assert set(read(client_of(service))["trimtab_leader"]) == {("orders", "replicas")}


def test_all_metrics_are_declared_and_have_series(service: FakeService) -> None:
    """Each metric of the table has its labels in the text, and none is outside of the table."""
    service._plans = {
        digest: msgspec.structs.replace(plan, seconds=2.5) for digest, plan in service._plans.items()
    }
    answer = client_of(service).get("/metrics").text
    shown: dict[str, set[str]] = {}
    for line in answer.splitlines():
        if line.startswith("trimtab_"):
            name = re.split(r"[{ ]", line)[0]
            shown.setdefault(name, set()).update(re.findall(r'(\w+)="', line))
    declared = {one.name: set(one.all_labels) for one in METRICS}
    assert shown == declared


def test_metrics_need_the_role_viewer(tmp_path: Path, service: FakeService) -> None:
    """With tokens, a scrape without one is refused; the token of a viewer suffices."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"prometheus viewer {sha256(b'secret-of-the-scrape').hexdigest()}\n")
    with_settings(service, token_file=str(tokens))
    client = client_of(service)
    assert client.get("/metrics").status_code == 401
    assert read(client, {"Authorization": "Bearer secret-of-the-scrape"})["trimtab_leader"]


def test_openmetrics_is_negotiated(service: FakeService) -> None:
    """Newer versions of Prometheus ask for OpenMetrics, older ones get the plain format."""
    client = client_of(service)
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


class LargeService(FakeService):
    """1,000 brokers with four resources."""

    def target(self, cluster: str, balancer: str) -> TargetDetail:
        """The target, with many brokers."""
        status = super().target(cluster, balancer).status
        (one, *_) = status.resources
        resources = tuple(
            ResourceStatus(**{**msgspec.structs.asdict(one), "resource": name})
            for name in ("cpu", "network_in", "network_out", "disk")
        )
        brokers = tuple(
            BrokerStatus(
                name=str(number),
                rack="r",
                is_online=True,
                replicas=3000,
                leaders=1000,
                bytes_stored=1e12,
                usage=(0.5, 0.25, 0.125, 0.75),
                deviation=(0.0, 0.0, 0.0, 0.0),
            )
            for number in range(1000)
        )
        return TargetDetail(status=msgspec.structs.replace(status, resources=resources), brokers=brokers)


def test_a_thousand_brokers_have_four_thousand_series() -> None:
    """Series of usage are brokers by resources: no label names a topic or a partition."""
    client = client_of(LargeService())
    found = read(client)
    assert len(found["trimtab_usage_ratio"]) == 3 * 4000
    assert all(len(values) < 200 for name, values in found.items() if name != "trimtab_usage_ratio")
