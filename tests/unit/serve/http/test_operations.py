"""Operations of the API: documents, parameters, bodies, limits and threads."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from support.fake_service import START, FakeService
from support.http_calls import HttpCalls
from trimtab.serve.documents import ExecutionDetail, Finding, PlanRecord, TargetStatus
from trimtab.serve.http.app import create_app
from trimtab.serve.http.operations import OPERATIONS
from trimtab.serve.http.security import MAX_BODY_BYTES

API = "/api/v1"


@pytest.fixture
def service() -> FakeService:
    """The service that answers."""
    return FakeService()


@pytest.fixture
def calls(service: FakeService) -> HttpCalls:
    """A local operator."""
    return HttpCalls(create_app(service))


def _asking(calls: HttpCalls) -> str:
    digest: str = calls.get(f"{API}/approvals").json()[0]["digest"]
    return digest


def test_documents_are_those_of_the_service(calls: HttpCalls, service: FakeService) -> None:
    """Nothing is lost or renamed on the way."""
    assert msgspec.json.decode(calls.get(f"{API}/clusters").content, type=list[TargetStatus]) == list(
        service.targets()
    )
    content = calls.get(f"{API}/clusters/payments/executions/3").content
    assert msgspec.json.decode(content, type=ExecutionDetail) == service.execution("payments", 3)


def test_the_plan_file_is_sent_byte_for_byte(calls: HttpCalls) -> None:
    """Its SHA-256 is the digest, so that a client can check what it approves."""
    digest = _asking(calls)
    for name in (digest, digest[:8]):
        assert hashlib.sha256(calls.get(f"{API}/plans/{name}/file").content).hexdigest() == digest


def test_the_text_of_a_plan_is_plain(calls: HttpCalls) -> None:
    """`moves=all` lists all of them."""
    digest = _asking(calls)
    short, whole = (calls.get(f"{API}/plans/{digest}/text", params=q) for q in ({}, {"moves": "all"}))
    assert short.headers["content-type"].startswith("text/plain")
    assert len(short.text.splitlines()) == 6
    assert len(whole.text.splitlines()) == 15


def test_a_new_plan_is_created_and_applied(calls: HttpCalls) -> None:
    """Its address is in `Location`; the same order again is the same execution."""
    body = {"cluster": "payments", "balancer": "replicas", "settings": {"drain": ["5"]}}
    made = calls.post(f"{API}/plans", json=body)
    assert made.status_code == 201
    plan = msgspec.json.decode(calls.get(made.headers["location"]).content, type=PlanRecord)
    assert (plan.state, plan.settings, plan.requested_by) == ("what-if", {"drain": ["5"]}, "local")
    first, second = (calls.post(f"{API}/plans/{plan.digest}/apply") for _ in range(2))
    assert first.status_code == second.status_code == 202
    assert (first.json()["state"], first.json()["execution"]) == ("approved", None)
    assert (second.json()["state"], second.json()["execution"]) == ("executing", 4)


def test_an_approval_is_bound_to_its_plan(calls: HttpCalls) -> None:
    """An approved plan is no more on offer: a second approval is a conflict."""
    digest = _asking(calls)
    assert calls.post(f"{API}/plans/{digest}/approve").json()["state"] == "executing"
    assert calls.get(f"{API}/approvals").json() == []
    assert calls.post(f"{API}/plans/{digest}/approve").status_code == 409
    assert calls.post(f"{API}/plans/{'0' * 64}/approve").status_code == 404


def test_a_rejection_has_a_note(calls: HttpCalls) -> None:
    """The body is optional."""
    digest = _asking(calls)
    answer = calls.post(f"{API}/plans/{digest}/reject", json={"note": "Not before Monday."})
    assert "Not before Monday." in answer.json()["state_reason"]
    assert HttpCalls(create_app(FakeService())).post(f"{API}/plans/{digest}/reject").status_code == 200


def test_executions_are_controlled(calls: HttpCalls) -> None:
    """Throttle, stop, resume and cancel; each refuses a state that does not allow it."""
    path = f"{API}/clusters/payments/executions/3"
    answer = calls.post(f"{path}/throttle", json={"bytes_per_second": 1e6})
    assert answer.json()["throttle_bytes_per_second"] == 1e6
    states = [calls.post(f"{path}/{one}").json()["status"] for one in ("stop", "resume", "cancel")]
    assert states == ["stopped", "running", "cancelled"]
    for one in ("stop", "resume", "cancel"):
        assert calls.post(f"{path}/{one}").status_code == 409
    answer = calls.post(f"{path}/throttle", json={"bytes_per_second": 1e6})
    assert answer.status_code == 409
    assert "does not run" in answer.json()["detail"]


def test_a_pause_lasts_until_resume(calls: HttpCalls) -> None:
    """Time and reason are those of the request."""
    path = f"{API}/clusters/payments/replicas"
    pause = calls.post(f"{path}/pause", json={"reason": "audit", "until": START + 60}).json()["pause"]
    assert (pause["by"], pause["reason"], pause["until"]) == ("local", "audit", START + 60)
    assert calls.post(f"{path}/resume").json()["pause"] is None
    assert calls.post(f"{path}/resume").json()["pause"] is None


def test_decisions_are_read_with_a_cursor(calls: HttpCalls) -> None:
    """The number of the last one is the next cursor; none is missed or read twice."""
    everything = calls.get(f"{API}/decisions", params={"after": 0}).json()
    found: list[Any] = []
    while rows := calls.get(
        f"{API}/decisions", params={"after": found[-1]["number"] if found else 0, "limit": 2}
    ).json():
        found += rows
    assert found == everything
    newest = calls.get(f"{API}/decisions", params={"limit": 1}).json()
    assert newest == everything[-1:]


def test_loads_are_thinned(calls: HttpCalls) -> None:
    """At most `points` instants come."""
    path = f"{API}/clusters/payments/replicas/loads"
    series = calls.get(path, params={"since": START - 86400, "points": 10}).json()
    assert 5 <= len(series["at"]) <= 10
    assert len(series["peak"]["disk"]) == len(series["at"])


def test_instances_that_do_not_decide_name_the_leader() -> None:
    """Reading works; a change is redirected, or refused where the leader is not known."""
    follower = FakeService(is_leader=False)
    calls = HttpCalls(create_app(follower))
    assert calls.get(f"{API}/clusters").status_code == 200
    path = f"{API}/clusters/payments/replicas/resume"
    answer = calls.post(path)
    assert answer.status_code == 307
    assert answer.headers["location"] == f"http://leader.example:8230{path}"
    follower.leader_url = ""
    assert calls.post(path).status_code == 503


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health_has_findings(path: str, calls: HttpCalls, service: FakeService) -> None:
    """A finding that is an error makes it 503; a warning does not."""
    findings = service.faults if path == "/livez" else service.findings
    findings.append(Finding(subject="lake", text="It is slow.", remedy="Wait.", is_error=False))
    assert calls.get(path).status_code == 200
    findings.append(Finding(subject="lake", text="It cannot be reached.", remedy="Start it."))
    answer = calls.get(path)
    assert answer.status_code == 503
    assert [one["text"] for one in answer.json()["findings"]] == ["It is slow.", "It cannot be reached."]


# ---------------------------------------------------------------- wrong requests


@pytest.mark.parametrize(
    "query",
    ["unknown=1", "limit=0", "limit=1001", "limit=x", "limit=", "limit=1&limit=2", "after=-1", "after=null"],
)
def test_wrong_query_parameters_are_refused(query: str, calls: HttpCalls) -> None:
    """Unknown, repeated, malformed ones and those out of range."""
    answer = calls.get(f"{API}/decisions?{query}")
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("query")


@pytest.mark.parametrize("since", ["inf", "nan", "-inf", "soon"])
def test_instants_are_finite(since: str, calls: HttpCalls) -> None:
    """`nan` would be a number to the parser."""
    path = f"{API}/clusters/payments/replicas/loads"
    assert calls.get(path, params={"since": since}).status_code == 400


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"cluster": "payments"}',
        b'{"cluster": 1, "balancer": "replicas"}',
        b'{"cluster": "payments", "balancer": "replicas", "other": 1}',
        b'{"cluster": "payments", "balancer": "replicas", "settings": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"cluster": "payments", "balancer": "replicas", "settings": {"unknown": 1}}',
    ],
)
def test_wrong_bodies_are_refused(content: bytes, calls: HttpCalls) -> None:
    """Malformed, wrong types, unknown fields, deep nesting, unknown settings: all 400."""
    answer = calls.post(f"{API}/plans", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_bodies_of_other_types_are_refused(kind: str | None, calls: HttpCalls) -> None:
    """Forms of other sites could send these without a question before."""
    content = b'{"cluster": "payments", "balancer": "replicas"}'
    headers = {"Content-Type": kind} if kind else {}
    assert calls.post(f"{API}/plans", content=content, headers=headers).status_code == 415


def test_bodies_without_use_are_refused(calls: HttpCalls) -> None:
    """An operation without a body takes none."""
    path = f"{API}/clusters/payments/executions/3/stop"
    assert calls.post(path, json={"force": True}).status_code == 400


def test_large_bodies_are_refused(calls: HttpCalls) -> None:
    """The limit counts bytes that arrive, not the header alone."""

    async def parts() -> Any:
        for _ in range(MAX_BODY_BYTES // 100_000 + 1):
            yield b" " * 100_000

    headers = {"Content-Type": "application/json"}
    for content in (b" " * (MAX_BODY_BYTES + 1), parts()):
        assert calls.post(f"{API}/plans", content=content, headers=headers).status_code == 413


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30, "99", "٣"])
def test_unknown_executions_are_not_found(number: str, calls: HttpCalls) -> None:
    """A text that is no number is none either."""
    assert calls.get(f"{API}/clusters/payments/executions/{number}").status_code == 404


@pytest.mark.parametrize("path", sorted({one.path for one in OPERATIONS}))
def test_other_methods_name_the_permitted_ones(path: str, calls: HttpCalls) -> None:
    """`Allow` has all methods of the path, and HEAD where GET is."""
    methods = {one.method for one in OPERATIONS if one.path == path}
    answer = calls("DELETE", path)
    assert answer.status_code == 405
    expected = methods | {"HEAD"} if "GET" in methods else methods
    assert set(answer.headers["allow"].split(", ")) == expected


def test_head_has_the_headers_of_get(calls: HttpCalls) -> None:
    """Length and type are those of the document."""
    head, get = calls("HEAD", f"{API}/plans"), calls.get(f"{API}/plans")
    assert head.status_code == 200
    assert head.headers["content-type"] == get.headers["content-type"]


# ---------------------------------------------------------------- threads


def test_slow_plans_do_not_delay_other_calls() -> None:
    """Two plans are made at a time; a third waits, and reading is answered meanwhile."""
    release, lock = threading.Event(), threading.Lock()
    running: list[int] = [0, 0]

    class SlowService(FakeService):
        def make_plan(self, *arguments: Any) -> PlanRecord:
            with lock:
                running[0] += 1
                running[1] = max(running)
            try:
                assert release.wait(30)
                return super().make_plan(*arguments)
            finally:
                with lock:
                    running[0] -= 1

    app = create_app(SlowService())
    body = {"cluster": "payments", "balancer": "replicas"}

    async def tell() -> tuple[int, list[int]]:
        transport = httpx.ASGITransport(app)
        answers: list[int] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def plan() -> None:
                answers.append((await client.post(f"{API}/plans", json=body)).status_code)

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(plan)
                while running[0] < 2:
                    await anyio.sleep(0.01)
                status = (await client.get(f"{API}/clusters")).status_code
                release.set()
        return status, answers

    status, answers = anyio.run(tell)
    assert status == 200
    assert answers == [201] * 5
    assert running[1] == 2
