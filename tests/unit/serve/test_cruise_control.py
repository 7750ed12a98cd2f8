"""Cruise Control's calls, served by a service in memory."""

import json
import re
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.fake_service import FakeService, with_settings
from support.http_calls import HttpCalls
from trimtab.files.replicas.plan import plan_from
from trimtab.files.serve_settings import ServeSettings
from trimtab.model.replicas.settings import GOALS as OWN_GOALS
from trimtab.serve.cruise_control import (
    CHANGES,
    GOALS,
    PREFIX,
    REFUSED_CALLS,
    REFUSED_GOALS,
    REFUSED_PARAMETERS,
    cruise_control_routes,
)
from trimtab.serve.documents import PlanRecord
from trimtab.serve.http.app import create_app
from trimtab.serve.http.security import token_digest


def client_of(service: FakeService, wait_seconds: float = 10.0, **headers: str) -> HttpCalls:
    """A client of an adapter of its own."""
    return HttpCalls(
        create_app(service, cruise_control_routes(service, lambda: service.now, wait_seconds)), **headers
    )


@pytest.fixture
def service() -> FakeService:
    """A service with two clusters of Kafka."""
    return FakeService()


class HeldPlans:
    """Counts the plans that a service makes, and holds them until `go` is set."""

    def __init__(self, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.number, self.more = threading.Event(), 0, dict[str, object]()
        self.go.set()
        self._make_plan = service.make_plan
        monkeypatch.setattr(service, "make_plan", self)

    def __call__(self, cluster: str, balancer: str, settings: Mapping[str, object], by: str) -> PlanRecord:
        self.number += 1
        assert self.go.wait(30)
        return self._make_plan(cluster, balancer, {**settings, **self.more}, by)


@pytest.fixture
def held(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> HeldPlans:
    """The plans that the service makes."""
    return HeldPlans(service, monkeypatch)


@pytest.fixture
def client(service: FakeService) -> HttpCalls:
    """A client of that service."""
    return client_of(service)


def send(client: HttpCalls, method: str, call: str, **parameters: Any) -> Any:
    """The document of a call on the cluster `payments`, which must succeed."""
    found = client(method, f"{PREFIX}/{call}", params={"cluster": "payments", **parameters})
    assert found.status_code == 200, found.text
    return found.json()


def fault(client: HttpCalls, method: str, call: str, status: int, **parameters: Any) -> str:
    """The error message of a call on the cluster `payments`."""
    found = client(method, f"{PREFIX}/{call}", params={"cluster": "payments", **parameters})
    assert found.status_code == status, found.text
    assert set(found.json()) == {"version", "stackTrace", "errorMessage"}
    return str(found.json()["errorMessage"])


def end_execution(service: FakeService) -> None:
    """Let time pass until the execution has ended."""
    service.advance(3600)


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("call", "parameters", "settings"),
    [
        ("rebalance", {}, {}),
        ("add_broker", {"brokerid": "5,6"}, {"add": [5, 6]}),
        ("remove_broker", {"brokerid": "2"}, {"drain": [2]}),
        ("demote_broker", {"brokerid": "2"}, {"demote": [2]}),
        ("fix_offline_replicas", {}, {"fix_offline_replicas": True}),
        (
            "topic_configuration",
            {"topic": "live-.*|a\\.b", "replication_factor": 3},
            {"replication_factor": {"live-*": 3, "a.b": 3}},
        ),
        ("rebalance", {"rebalance_disk": "true"}, {"intra_broker_only": True}),
        ("rebalance", {"excluded_topics": "tmp-.*"}, {"excluded_topics": ["tmp-*"]}),
        ("rebalance", {"destination_broker_ids": "1,2,3,4"}, {"excluded_brokers_for_replicas": [5, 6]}),
        (
            "rebalance",
            {"goals": "com.linkedin.kafka.cruisecontrol.analyzer.goals.RackAwareGoal,DiskCapacityGoal"},
            {"goals": ["rack", "theta"]},
        ),
    ],
)
def test_dry_run_then_execution_of_the_same_plan(
    service: FakeService, call: str, parameters: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Each call makes a plan with its settings; `dryrun=false` executes that plan and makes no other."""
    client = client_of(service)
    shown = send(client, "POST", call, **parameters)
    digest = shown["trimtab"]["plan"]
    plan = service.plan(digest)
    assert (plan.settings, plan.requested_by, plan.state) == (settings, "local", "what-if")
    content, plans = service.plan_bytes(digest), len(service.plans())
    service.advance(60)  # from here on, a plan with these options is another one
    service.end_execution("payments", 3, "cancel", "test")

    executed = send(client, "POST", call, dryrun="False", **parameters)

    assert executed["trimtab"] == {**shown["trimtab"], "state": "approved"}
    assert service.plan(digest).state == "executing"
    assert len(service.plans()) == plans
    assert service.plan_bytes(digest) == content
    assert service.executions("payments")[0].digest == digest


def test_execution_without_dry_run_makes_a_plan_and_applies_it(
    service: FakeService, client: HttpCalls
) -> None:
    """No dry run has these options, so the plan is made with the call."""
    plans = len(service.plans())
    executed = send(client, "POST", "remove_broker", brokerid="2", dryrun="false")
    assert len(service.plans()) == plans + 1
    assert service.plan(executed["trimtab"]["plan"]).state == "executing"


def test_an_old_dry_run_is_not_executed(service: FakeService, client: HttpCalls, held: HeldPlans) -> None:
    """A dry run that is older than the age of the policy does not bind."""
    send(client, "POST", "remove_broker", brokerid="2")
    service.advance(service.settings.plan_max_age_seconds + 1)
    send(client, "POST", "remove_broker", brokerid="2", dryrun="false")
    assert held.number == 2


def test_options_of_another_dry_run_make_another_plan(service: FakeService, client: HttpCalls) -> None:
    """A dry run for broker 2 says nothing about broker 3."""
    shown = send(client, "POST", "remove_broker", brokerid="2")
    executed = send(client, "POST", "remove_broker", brokerid="3", dryrun="false")
    assert executed["trimtab"]["plan"] != shown["trimtab"]["plan"]


def test_an_executed_plan_is_not_executed_again(
    service: FakeService, client: HttpCalls, held: HeldPlans
) -> None:
    """After its end, the same options need a new plan."""
    for _ in range(2):
        send(client, "POST", "remove_broker", brokerid="2", dryrun="false")
        end_execution(service)
    assert held.number == 2


def test_proposals_show_the_newest_plan(service: FakeService, client: HttpCalls) -> None:
    """A second look at the proposals makes no second plan."""
    first = send(client, "GET", "proposals")
    plans = len(service.plans())
    assert send(client, "GET", "proposals")["trimtab"] == first["trimtab"]
    assert len(service.plans()) == plans


def test_a_plan_has_the_loads_of_brokers_before_and_after(service: FakeService, client: HttpCalls) -> None:
    """In the units of Cruise Control; the load after is that of the service for this plan."""
    found = send(client, "POST", "rebalance", verbose="true")
    before = {one["Broker"]: one for one in found["loadBeforeOptimization"]["brokers"]}
    after = {one["Broker"]: one for one in found["loadAfterOptimization"]["brokers"]}
    assert [after[int(one.name)]["DiskPct"] for one in service.plan_brokers(found["trimtab"]["plan"])] == [
        *[pytest.approx(0.8 * 71)] * 5,
        -1,
    ]
    assert before[2]["DiskPct"] == pytest.approx(71)
    plan = plan_from(Path("plan"), service.plan_bytes(found["trimtab"]["plan"]))
    assert found["summary"]["dataToMoveMB"] == 62 * 10**9 // 2**20
    assert found["summary"]["numReplicaMovements"] == 11
    assert found["summary"]["numLeaderMovements"] == 3
    assert found["proposals"][0]["newReplicas"] == list(plan.assignments[0].after)


def test_a_plan_that_takes_long_is_answered_in_progress(service: FakeService, held: HeldPlans) -> None:
    """Status 202 with `progress` and a task; the same request gets the result, without a second plan."""
    held.go.clear()
    client = client_of(service, wait_seconds=0.05)
    parameters = {"cluster": "payments", "brokerid": "2"}
    waiting = client.post(f"{PREFIX}/remove_broker", params=parameters)
    assert waiting.status_code == 202
    assert "progress" in waiting.json()
    task = waiting.headers["User-Task-ID"]
    (row,) = send(client, "GET", "user_tasks", user_task_ids=task)["userTasks"]
    assert (row["Status"], row["RequestURL"].startswith(f"POST {PREFIX}/remove_broker?")) == (
        "Active",
        True,
    )
    held.go.set()
    found = waiting
    while found.status_code == 202:
        found = client.post(f"{PREFIX}/remove_broker", params=parameters)
    assert found.json()["trimtab"]["plan"]
    assert held.number == 1
    (row,) = send(client, "GET", "user_tasks", user_task_ids=task)["userTasks"]
    assert (row["Status"], row["UserTaskId"]) == ("Completed", task)


def test_a_result_without_reader_does_not_answer_a_later_request(
    service: FakeService, held: HeldPlans
) -> None:
    """A plan that ended in the background is used for a minute; then the request makes a new one."""
    held.go.clear()
    client = client_of(service, wait_seconds=0.05)
    task = client.post(f"{PREFIX}/rebalance", params={"cluster": "payments"}).headers["User-Task-ID"]
    held.go.set()
    while send(client, "GET", "user_tasks", user_task_ids=task)["userTasks"][0]["Status"] == "Active":
        pass
    service.advance(61)
    send(client, "POST", "rebalance")
    assert held.number == 2


# ---------------------------------------------------------------- user tasks


def test_user_tasks_survive_a_restart(service: FakeService) -> None:
    """The ids of tasks follow from plans and executions: an adapter that is new knows them."""
    client = client_of(service)
    url, parameters = f"{PREFIX}/remove_broker", {"cluster": "payments", "brokerid": "2"}
    dry = client.post(url, params=parameters).headers["User-Task-ID"]
    service.end_execution("payments", 3, "cancel", "test")
    run = client.post(url, params={**parameters, "dryrun": "false"}).headers["User-Task-ID"]
    assert uuid.UUID(dry) != uuid.UUID(run)
    client = client_of(service)
    both = send(client, "GET", "user_tasks", user_task_ids=f"{dry},{run}", fetch_completed_task="true")
    assert [(one["UserTaskId"], one["Status"]) for one in both["userTasks"]] == [
        (dry, "Completed"),
        (run, "InExecution"),
    ]
    response = json.loads(both["userTasks"][1]["originalResponse"])
    assert response["summary"]["numReplicaMovements"] == 11
    assert "dryrun=false" in both["userTasks"][1]["RequestURL"]
    again = client.post(url, params=parameters, headers={"User-Task-ID": run})
    assert again.headers["User-Task-ID"] == run
    end_execution(service)
    (row,) = send(client, "GET", "user_tasks", user_task_ids=run)["userTasks"]
    assert row["Status"] == "Completed"


def test_a_cancelled_execution_is_a_task_with_error(service: FakeService, client: HttpCalls) -> None:
    """Clients must not take it for success."""
    executed = send(client, "POST", "rebalance", dryrun="false")
    assert "cancelled" in send(client, "POST", "stop_proposal_execution", force_stop="true")["message"]
    rows = send(client, "GET", "user_tasks", endpoints="rebalance", types="CompletedWithError")["userTasks"]
    assert len(rows) == 1
    assert service.plan(executed["trimtab"]["plan"]).state == "executed"


def test_a_plan_that_cannot_be_made_is_a_task_with_error(service: FakeService, held: HeldPlans) -> None:
    """The error of a plan that was made in the background is in the list of tasks."""
    held.go.clear()
    held.more["no_such_setting"] = 1
    client = client_of(service, wait_seconds=0.05)
    task = client.post(f"{PREFIX}/rebalance", params={"cluster": "payments"}).headers["User-Task-ID"]
    held.go.set()
    row = {"Status": "Active"}
    while row["Status"] == "Active":
        (row,) = send(client, "GET", "user_tasks", user_task_ids=task)["userTasks"]
    assert row["Status"] == "CompletedWithError"
    assert "no_such_setting" in row["originalResponse"]


def test_an_unknown_task_is_refused(client: HttpCalls) -> None:
    """A task of another service has no result here."""
    found = client.post(
        f"{PREFIX}/rebalance", params={"cluster": "payments"}, headers={"User-Task-ID": str(uuid.uuid4())}
    )
    assert (found.status_code, "no user task" in found.json()["errorMessage"]) == (404, True)


# ---------------------------------------------------------------- what is refused


def test_every_goal_is_one_of_trimtab() -> None:
    """The table of goals names goals that a plan can be asked for."""
    assert set(GOALS.values()) <= set(OWN_GOALS)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"goals": "LeaderBytesInDistributionGoal"},
            "goal LeaderBytesInDistributionGoal has no counterpart: use",
        ),
        ({"goals": "MyGoal"}, "goal MyGoal has no counterpart: use goals of RackAwareGoal"),
        ({"kafka_assigner": "true"}, "kafka_assigner has no counterpart"),
        ({"replication_throttle": "5"}, "set execution.throttle"),
        ({"no_such": "5"}, "rebalance has no parameter no_such"),
        ({"dryrun": "perhaps"}, "write true or false"),
        ({"excluded_topics": "(a|b)+"}, "excluded_topics is '(a|b)+'"),
        ({"excluded_topics": "a.b"}, "with \\. for a dot"),
        ({"cluster": "nowhere"}, "one of orders, payments"),
    ],
)
def test_an_input_error_contains_a_remedy(client: HttpCalls, parameters: Any, text: str) -> None:
    """Nothing is ignored that would change the plan."""
    assert text in fault(client, "POST", "rebalance", 400, **parameters)


def test_false_refuses_nothing(client: HttpCalls) -> None:
    """Clients send the defaults of Cruise Control too."""
    send(
        client,
        "POST",
        "rebalance",
        kafka_assigner="false",
        exclude_recently_removed_brokers="false",
        json="true",
    )


@pytest.mark.parametrize("call", sorted(REFUSED_CALLS))
def test_calls_without_counterpart_are_refused(client: HttpCalls, call: str) -> None:
    """The sentence says what to use."""
    assert REFUSED_CALLS[call] in fault(client, "POST", call, 400)


def test_an_unknown_broker_has_the_exception_that_clients_read(client: HttpCalls) -> None:
    """Strimzi reads these words."""
    text = fault(client, "POST", "remove_broker", 500, brokerid="99")
    assert "IllegalArgumentException" in text
    assert "does not exist." in text


def test_a_service_without_snapshot_is_not_ready(service: FakeService, client: HttpCalls) -> None:
    """Clients wait when they read the name of the exception."""
    status = service._targets["payments", "replicas"]
    service._targets["payments", "replicas"] = replace(status, snapshot_taken_at=None)
    assert "NotEnoughValidWindowsException" in fault(client, "POST", "rebalance", 500)
    assert send(client, "GET", "state")["AnalyzerState"]["isProposalReady"] is False


def test_the_only_cluster_needs_no_name(service: FakeService) -> None:
    """Cruise Control's calls name no cluster; with two, one must be named."""
    client = client_of(service)
    assert client.get(f"{PREFIX}/load").status_code == 400
    for key in [key for key in service._targets if key[0] == "orders"]:
        del service._targets[key]
    assert client.get(f"{PREFIX}/load").status_code == 200


def test_roles_are_those_of_the_service(service: FakeService, tmp_path: Path) -> None:
    """A viewer reads; plans and executions need an operator."""
    lines = [f"{name} {name} {token_digest(name)}" for name in ("viewer", "operator")]
    (tmp_path / "tokens").write_text("\n".join(lines))
    with_settings(service, token_file=str(tmp_path / "tokens"))
    statuses = {}
    for name in ("viewer", "operator"):
        client = client_of(service, authorization=f"Bearer {name}")
        for method, call in (("GET", "state"), ("GET", "proposals"), ("POST", "rebalance")):
            found = client(method, f"{PREFIX}/{call}", params={"cluster": "payments"})
            statuses[name, call] = found.status_code
        assert send(client, "GET", "permissions")["roles"] == [{"viewer": "VIEWER", "operator": "USER"}[name]]
    assert statuses == {
        ("viewer", "state"): 200,
        ("viewer", "proposals"): 403,
        ("viewer", "rebalance"): 403,
        **{("operator", call): 200 for call in ("state", "proposals", "rebalance")},
    }
    client = client_of(service)
    assert client.get(f"{PREFIX}/state", params={"cluster": "payments"}).status_code == 401


def test_a_standby_names_the_deciding_instance() -> None:
    """A change that only the deciding instance can make is redirected."""
    service = FakeService(ServeSettings(clusters=("orders", "payments")), is_leader=False)
    client = client_of(service)
    found = client.post(f"{PREFIX}/rebalance", params={"cluster": "payments", "dryrun": "false"})
    assert found.status_code == 307
    assert found.headers["Location"].startswith("http://leader.example:8230/kafkacruisecontrol/rebalance?")


# ---------------------------------------------------------------- reading


def test_state_has_the_execution(service: FakeService, client: HttpCalls) -> None:
    """The executor's state has the bytes of the execution that runs, and the task that began it."""
    assert send(client, "GET", "state", substates="executor") == {
        "ExecutorState": {"state": "NO_TASK_IN_PROGRESS"},
        "version": 1,
    }
    url, parameters = f"{PREFIX}/rebalance", {"cluster": "payments", "dryrun": "false"}
    task = client.post(url, params=parameters).headers["User-Task-ID"]
    service.advance(60)
    state = send(client, "GET", "state")["ExecutorState"]
    assert state["state"] == "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS"
    assert state["triggeredUserTaskId"] == task
    assert (state["totalDataToMove"], state["finishedDataMovement"]) == (38146, 19073)
    assert (state["numTotalPartitionMovements"], state["numFinishedPartitionMovements"]) == (12, 6)


def test_state_has_the_kinds_that_are_healed(client: HttpCalls) -> None:
    """A kind of anomaly heals itself where the mode of its triggers is `act`."""
    state = send(client, "GET", "state", substates="anomaly_detector")["AnomalyDetectorState"]
    assert state["selfHealingEnabled"] == []
    assert state["selfHealingDisabled"] == ["BROKER_FAILURE", "GOAL_VIOLATION"]


def test_load_and_cluster_state(client: HttpCalls) -> None:
    """Brokers with their figures; what the service does not know is -1."""
    brokers = send(client, "GET", "load")["brokers"]
    assert [one["BrokerState"] for one in brokers] == ["ALIVE"] * 5 + ["DEAD"]
    assert brokers[1]["NwOutPct"] == pytest.approx(91)
    figures = {"NumCore": -1, "DiskCapacityMB": 1024, "NetworkInCapacity": 2**20, "LeaderNwInRate": 3}
    assert {name: brokers[1][name] for name in figures} == figures
    assert brokers[1]["FollowerNwInRate"] + brokers[1]["LeaderNwInRate"] == 9
    assert brokers[1]["NwOutRate"] == pytest.approx(0.91 * 2**20)
    assert brokers[5]["PnwOutRate"] == brokers[5]["NwOutRate"] == -1
    summary = send(client, "GET", "kafka_cluster_state")["KafkaBrokerState"]
    assert summary["ReplicaCountByBrokerId"]["2"] == 122
    assert summary["OfflineReplicaCountByBrokerId"] == {"6": 126}


def test_partition_load_is_sorted_and_filtered(client: HttpCalls) -> None:
    """The largest partitions by a resource."""
    records = send(client, "GET", "partition_load", resource="nw_in", entries=2)["records"]
    assert [(one["topic"], one["partition"]) for one in records] == [("live-00", 0), ("live-01", 0)]
    assert records[0]["networkInbound"] == pytest.approx(9e6 / 1024)
    assert send(client, "GET", "partition_load", topic="live-0[3]")["records"][0]["topic"] == "live-03"
    assert "no regular expression" in fault(client, "GET", "partition_load", 400, topic="(")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://attacker.example"}, 403),
    ],
)
def test_other_sites_request_no_proposals(service: FakeService, headers: dict[str, str], status: int) -> None:
    """`GET proposals` makes a plan, so a link or an image of another site must not; reading is permitted."""
    plans = len(service.plans())
    client, parameters = client_of(service), {"cluster": "payments"}
    assert client.get(f"{PREFIX}/proposals", params=parameters, headers=headers).status_code == status
    assert len(service.plans()) == plans + (status == 200)
    assert client.get(f"{PREFIX}/state", params=parameters, headers=headers).status_code == 200


def test_admin_changes_the_throttle_alone(client: HttpCalls) -> None:
    """The throttle of the running execution changes; for other settings the answer says what helps."""
    send(client, "POST", "rebalance", dryrun="false")
    answer = send(client, "POST", "admin", replication_throttle=10_000_000)
    assert "10000000" in answer["ongoingConcurrencyChangeRequest"]
    text = fault(client, "POST", "admin", 400, disable_self_healing_for="goal_violation")
    assert "set the mode of the trigger" in text


def test_an_unknown_call_names_the_known_ones(client: HttpCalls) -> None:
    """The list helps."""
    assert "use stop_proposal_execution, admin" in fault(client, "POST", "fly", 404)
    assert set(CHANGES) >= {"rebalance", "add_broker", "remove_broker"}


def test_the_page_has_every_name() -> None:
    """The page for users of Cruise Control has each goal and call, and each parameter without counterpart."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "coming-from-cruise-control.md").read_text()
    names = {*GOALS, *REFUSED_GOALS, *REFUSED_CALLS, *REFUSED_PARAMETERS, *CHANGES}
    assert not [name for name in names if not re.search(rf"`(GET |POST )?{name}(=\w+)?`", page)]
