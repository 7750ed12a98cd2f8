"""Pages as HTML, without a browser: contents, escaping, roles, forms, errors."""

from __future__ import annotations

import re
import threading
from dataclasses import replace as with_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from msgspec.structs import replace

from support.fake_service import GIGABYTE, FakeService
from support.http_calls import HttpCalls
from trimtab.files.serve_settings import NotificationTarget, ServeSettings
from trimtab.model.errors import ObserveError
from trimtab.model.text import bytes_text
from trimtab.serve.documents import (
    BrokerStatus,
    Finding,
    LoadSeries,
    PlanRecord,
    ResourceStatus,
    TargetDetail,
)
from trimtab.serve.http.app import create_app
from trimtab.serve.http.security import SESSION_SECONDS, token_digest
from trimtab.serve.pages import error_page, page_routes
from trimtab.serve.pages.brokers import heat_map

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOSTILE = "<img src=x onerror=alert(1)>\"'"
HTML = "text/html,application/xhtml+xml"


def application(service: FakeService) -> Starlette:
    """The pages of a service, with the service's clock."""

    def clock() -> float:
        return service.now

    return create_app(service, page_routes(service, clock), error_page(service, clock))


class Browser(HttpCalls):
    """A browser without JavaScript, at the service's own address."""

    def __init__(self, service: FakeService, **headers: str) -> None:
        super().__init__(application(service), accept=HTML, **headers)

    def page(self, path: str, status: int = 200) -> str:
        """The HTML of a page."""
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    def send(self, path: str, **form: str) -> str:
        """Send a form; the address to which it redirects."""
        answer = self.post(path, data=form, headers={"origin": "http://localhost"})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]


@pytest.fixture
def service() -> FakeService:
    """Two clusters, of which one has a plan that waits for approval."""
    return FakeService()


@pytest.fixture
def browser(service: FakeService) -> Browser:
    """A browser at the service."""
    return Browser(service)


def text_of(html: str) -> str:
    """The text of a page, with single blanks."""
    cells = re.sub(r"</(?:td|th|dt|dd|li|p|h\d)>", " ", html)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", cells))


def decide(service: FakeService, kind: str, reason: str, **more: str) -> None:
    """One more decision about the cluster `orders`."""
    with service._changed:
        service._decide("orders", "replicas", kind, reason, **more)


def every_path(service: FakeService) -> list[str]:
    """A path of each page."""
    plan = service.plans()[0].digest
    target = "/clusters/payments/replicas"
    return [
        *("/", "/plans", "/history", "/policy", "/login", target, f"{target}/what-if"),
        *(f"/plans/{plan}", "/clusters/payments/executions/3", "/clusters/payments/executions/2"),
    ]


def test_the_overview_lists_why_each_target_waits_and_until_when(browser: Browser) -> None:
    """Verdict, reason, next instant, pause, plan on offer and running execution of each target."""
    text = text_of(browser.page("/"))
    assert "alice has paused executions: Migration of the storage." in text
    assert "A plan of 14 moves waits for an approval." in text
    assert "above a limit" in text
    assert "14 moves, 62.0 GB copied" in text
    assert "execution 3: 0 of 12 steps" in text
    assert "(in 1 h 0 min)" in text
    assert "Problem: Broker 6 has sent no sample for 4 min." in text


def test_findings_of_the_service_are_on_the_overview(service: FakeService, browser: Browser) -> None:
    """Each has its subject, its text and its remedy."""
    service.findings = [Finding(subject="lake", text="No snapshot for 1 h.", remedy="Start the pipeline.")]
    assert "lake: No snapshot for 1 h. Start the pipeline." in text_of(browser.page("/"))


def test_the_cluster_page_has_the_figures_of_the_documents(service: FakeService, browser: Browser) -> None:
    """Each broker has utilization, deviation and bytes, rounded as in `trimtab status`."""
    text, detail = (
        text_of(browser.page("/clusters/payments/replicas")),
        service.target("payments", "replicas"),
    )
    for broker in detail.brokers:
        if broker.bytes_stored is not None:
            assert bytes_text(broker.bytes_stored) in text
        for usage in broker.usage:
            assert usage is None or f"{usage:.0%}" in text
    assert "θ 91% ▲+31%" in text
    assert "Worst deviation" in text
    assert detail.largest[0].name in text


def test_a_plan_has_its_cost_its_bound_and_its_digest(service: FakeService, browser: Browser) -> None:
    """A plan that nothing waits for has a band that it changes nothing."""
    plan = service.plans()[0]
    text = text_of(browser.page(f"/plans/{plan.digest}"))
    assert "Nothing is changed by this plan until it is applied." in text
    assert "58.5 GB" in text
    assert "1.06 × the bound" in text
    assert plan.digest in text
    assert "move live-00-0 from broker 2 to broker 3" in text
    assert "move live-07-0" not in text
    assert "move live-07-0" in text_of(browser.page(f"/plans/{plan.digest}?all=1"))


def test_an_execution_has_progress_in_bytes_and_steps(service: FakeService, browser: Browser) -> None:
    """Bytes, steps, mean rate and the remaining time."""
    service.advance(30)
    text = text_of(browser.page("/clusters/payments/executions/3"))
    assert "10.0 GB of 40.0 GB (25%)" in text
    assert "3 of 12" in text
    assert "333 MB/s; about 1 min 30 s left" in text


def test_the_history_marks_executions_that_made_it_worse(browser: Browser) -> None:
    """The row has a class of its own, and the effect as text."""
    page = browser.page("/history")
    (row,) = re.findall(r'<tr class="worse">.*?</tr>', page, re.DOTALL)
    assert "The largest deviation rose from 0.12 to 0.26." in text_of(row)


def test_the_history_is_read_in_pages_without_gaps(service: FakeService, browser: Browser) -> None:
    """Following `Older` gives every decision once, newest first, also with a filter."""
    for number in range(120):
        decide(service, "wait" if number % 3 else "refuse", f"Reason {number}.")
    for query in ("", "?target=orders/replicas", "?kind=refuse", "?target=orders/replicas&kind=actions"):
        found: list[int] = []
        path = f"/history{query}"
        while path:
            page = browser.page(path)
            table = page[page.index('id="decisions"') :]
            found += [int(one) for one in re.findall(r'<th scope="row" class="n">(\d+)</th>', table)]
            match = re.search(r'rel="next" href="([^"]+)"', page)
            path = match[1].replace("&amp;", "&") if match else ""
        expected = [
            one.number
            for one in service.decisions(limit=1000)
            if ("target" not in query or one.cluster == "orders")
            and ("refuse" not in query or one.kind == "refuse")
            and ("actions" not in query or one.kind != "wait")
        ]
        assert found == expected, query


def test_the_policy_has_units_and_no_secret(tmp_path: Path) -> None:
    """Neither the address of a receiver nor a file of keys is on the page."""
    receiver = NotificationTarget(
        kind="slack", url="https://hooks.example/T1/SECRETPATH?key=SECRETKEY", secret_file="/etc/SECRETFILE"
    )
    tokens = tmp_path / "SECRETTOKENS"
    tokens.write_text(f"alice admin {token_digest('token')}\n", encoding="utf-8")
    settings = ServeSettings(notifications=(receiver,), token_file=str(tokens))
    page = Browser(FakeService(settings), authorization="Bearer token").page("/policy")
    assert "SECRET" not in page
    text = text_of(page)
    assert "slack to hooks.example" in text
    assert "hold_seconds 4 h 0 min" in text
    assert "max_executions 12" in text
    assert "max_bytes no limit" in text


def hostile_service() -> FakeService:
    """A service in which every text of others is HTML."""
    service = FakeService()
    key = ("payments", "replicas")
    status = service._targets[key]
    plan = service.plans()[0]
    service._plans[plan.digest] = replace(
        plan, problems=(HOSTILE,), state_reason=HOSTILE, requested_by=HOSTILE, settings={"drain": [HOSTILE]}
    )
    service._targets[key] = replace(
        status,
        worst=HOSTILE,
        alerts=(HOSTILE,),
        problems=(HOSTILE,),
        lost_brokers=(HOSTILE,),
        waiting=replace(status.waiting, reason=HOSTILE),
        resources=tuple(replace(one, resource=f"{HOSTILE}{i}") for i, one in enumerate(status.resources)),
    )
    execution = service._executions["payments", 3]
    service._executions["payments", 3] = replace(execution, progress=HOSTILE, approved_by=HOSTILE)
    decide(service, HOSTILE, HOSTILE, by=HOSTILE, remedy=HOSTILE, trigger=HOSTILE)
    service.findings = [Finding(subject=HOSTILE, text=HOSTILE, remedy=HOSTILE)]
    return service


def test_texts_of_others_are_escaped_on_every_page() -> None:
    """No name, reason or note becomes an element or ends an attribute."""
    service = hostile_service()
    browser = Browser(service)
    for path in every_path(service):
        page = browser.page(path)
        assert "<img" not in page, path
        assert 'onerror=alert(1)>"' not in page, path


def test_links_lead_to_clusters_with_any_name(service: FakeService, browser: Browser) -> None:
    """Blanks, quotes, marks of queries and elements in a name are quoted in paths and attributes."""
    name = 'a b?c=d&e#f%2e"<img src=x>'
    service._targets[name, "replicas"] = replace(service._targets["orders", "replicas"], cluster=name)
    (link,) = re.findall(r'href="(/clusters/a[^"]+)"', browser.page("/"))
    page = browser.page(link)
    assert "<img" not in page
    for path in (link + "/what-if", *re.findall(r'href="(/history\?[^"]+)"', page)):
        assert "<img" not in browser.page(path.replace("&amp;", "&"))
    assert browser.send(link + "/resume") == f"{link}?done=resumed"


def test_no_page_has_inline_script_or_style(service: FakeService, browser: Browser) -> None:
    """The policy of contents forbids them; data for charts is no script. No page names another origin."""
    for path in every_path(service):
        page = browser.page(path)
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=", page), path
        for tag in re.findall(r"<script[^>]*>", page):
            assert "src=" in tag or 'type="application/json"' in tag, path
        assert not re.search(r'(?:src|href|action)="(?:[a-z]+:|//)', page), path


def test_ids_are_unique_and_tables_have_captions_and_scopes(service: FakeService, browser: Browser) -> None:
    """Headings begin with one h1; each label and each description refers to an element."""
    for path in every_path(service):
        page = browser.page(path)
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), path
        assert page.count("<h1>") == 1
        assert page.count("<table") == page.count("<caption>"), path
        assert not re.search(r"<th(?![^>]*scope=)(?:\s[^>]*)?>", page), path
        assert set(re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', page)) <= set(ids), path


# ---------------------------------------------------------------- roles


def with_role(role: str, tmp_path: Path) -> tuple[FakeService, Browser]:
    """A service with tokens, and a browser whose user has a role."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"vera {role} {token_digest('secret')}\n", encoding="utf-8")
    service = FakeService(ServeSettings(token_file=str(tokens)))
    return service, Browser(service, authorization="Bearer secret")


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_forms_are_on_pages_of_operators_only(role: str, tmp_path: Path) -> None:
    """A viewer reads who may do it; a form that a viewer sends is refused."""
    service, browser = with_role(role, tmp_path)
    plan = service.plans()[0].digest
    for path in every_path(service):
        page = browser.page(path)
        if role == "viewer":
            assert not re.search(r'<form method="post"(?! action="/log)', page), path
    page = browser.page(f"/plans/{plan}")
    assert ("Approve this plan" in page) == (role != "viewer")
    assert ("Only operators may approve" in page) == (role == "viewer")
    answer = browser.post(f"/plans/{plan}/approve", data={}, headers={"origin": "http://localhost"})
    assert answer.status_code == (403 if role == "viewer" else 303)
    assert service.plan(plan).state == ("asking" if role == "viewer" else "executing")


def test_without_a_user_pages_lead_to_the_login(tmp_path: Path) -> None:
    """The login exchanges the token for a cookie; a wrong token returns to the form."""
    service, _ = with_role("operator", tmp_path)
    browser = Browser(service)
    answer = browser.get("/history")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert 'name="token"' in browser.page("/login")
    assert "History" not in browser.page("/login")
    assert f"keeps a session for {SESSION_SECONDS / 3600:.0f} hours, not the token" in browser.page("/login")
    origin = {"origin": "http://localhost"}
    answer = browser.post("/login", data={"token": "wrong"}, headers=origin)
    assert answer.status_code == 401
    assert "the token is not known" in answer.text
    assert 'name="token"' in answer.text
    answer = browser.post("/login", data={"token": "secret"}, headers=origin)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    inside = Browser(service, cookie=answer.headers["set-cookie"].partition(";")[0])
    inside.app = browser.app
    assert "vera (operator)" in inside.page("/")
    assert 'action="/logout"' in inside.page("/")
    inside.send("/logout")
    assert inside.get("/").status_code == 303


# ---------------------------------------------------------------- forms


def test_a_plan_is_approved_rejected_and_applied_by_forms(service: FakeService, browser: Browser) -> None:
    """Each form redirects to the plan, which has a notice of what was done."""
    asking = service.plans()[0].digest
    assert browser.send(f"/plans/{asking}/reject", note="Not today.") == f"/plans/{asking}?done=rejected"
    page = text_of(browser.page(f"/plans/{asking}?done=rejected"))
    assert "The plan is rejected." in page
    assert "Not today." in page
    path = browser.send("/clusters/payments/replicas/what-if", drain="5, 6", epsilon="8", max_gigabytes="1.5")
    plan = service.plan(path.rpartition("/")[2])
    assert plan.settings == {"drain": [5, 6], "epsilon": 0.08, "max_bytes": 1_500_000_000}
    assert "epsilon = 8%" in text_of(browser.page(path))
    assert "max_bytes = 1.5 GB" in text_of(browser.page(path))
    assert browser.send(f"{path}/apply") == f"{path}?done=applied"
    assert service.plan(plan.digest).state == "executing"


def test_losing_a_rack_drains_its_brokers(service: FakeService, browser: Browser) -> None:
    """Brokers that are drained anyway are named once."""
    path = browser.send("/clusters/payments/replicas/what-if", rack="r2", drain="1")
    assert service.plan(path.rpartition("/")[2]).settings == {"drain": [1, 4]}


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("drain", "77", "drain names 77, which is no broker of the cluster"),
        ("epsilon", "much", "epsilon is &#39;much&#39;; give a number"),
        ("theta", "120", "theta is 120 %; give a share above 0 % and up to 100 %"),
        ("epsilon", "nan", "epsilon is nan; give a number from 0 to 1e15"),
        ("max_gigabytes", "-1", "max_gigabytes is -1; give a number from 0 to 1e15"),
    ],
)
def test_a_wrong_form_of_a_plan_returns_with_its_values(
    service: FakeService, browser: Browser, field: str, value: str, error: str
) -> None:
    """The error is an alert, and no plan is made."""
    number = len(service.plans())
    origin = {"origin": "http://localhost"}
    answer = browser.post("/clusters/payments/replicas/what-if", data={field: value}, headers=origin)
    assert answer.status_code == 400
    assert error in answer.text
    assert f'value="{value}"' in answer.text
    assert len(service.plans()) == number


def test_a_plan_that_cannot_be_made_has_its_reason_in_the_form(
    service: FakeService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing snapshot is no fault of the service, so it is no error of the server."""

    def refuse(*_: object) -> None:
        raise ObserveError("there is no snapshot: start trimtab pipeline stream")

    monkeypatch.setattr(service, "make_plan", refuse)
    origin = {"origin": "http://localhost"}
    answer = browser.post("/clusters/payments/replicas/what-if", data={"drain": "5"}, headers=origin)
    assert answer.status_code == 400
    assert "there is no snapshot: start trimtab pipeline stream" in answer.text


def test_a_pause_begins_and_ends_by_forms(service: FakeService, browser: Browser) -> None:
    """A pause has a reason, and ends by itself where a number of hours is chosen."""
    target = "/clusters/payments/keys"
    assert browser.send(f"{target}/pause", reason="Upgrade.", hours="4") == f"{target}?done=paused"
    pause = service.target("payments", "keys").status.pause
    assert pause is not None
    assert (pause.reason, pause.until) == ("Upgrade.", service.now + 4 * 3600)
    assert "by local since" in text_of(browser.page(target))
    assert browser.send(f"{target}/resume") == f"{target}?done=resumed"
    assert service.target("payments", "keys").status.pause is None
    origin = {"origin": "http://localhost"}
    assert browser.post(f"{target}/pause", data={"reason": " "}, headers=origin).status_code == 400


def test_an_execution_is_controlled_by_forms(service: FakeService, browser: Browser) -> None:
    """Stop, resume and cancel; what the state does not allow is an error page."""
    path = "/clusters/payments/executions/3"
    for action, status in (("stop", "stopped"), ("resume", "running"), ("cancel", "cancelled")):
        assert browser.send(f"{path}/{action}") == f"{path}?done={action}"
        assert service.execution("payments", 3).execution.status == status
    answer = browser.post(f"{path}/stop", data={}, headers={"origin": "http://localhost"})
    assert answer.status_code == 409
    assert "is cancelled: nothing to stop" in answer.text


@pytest.mark.parametrize(
    ("status", "actions"),
    [
        ("running", {"throttle", "stop", "cancel"}),
        ("stopped", {"resume", "cancel"}),
        ("interrupted", {"cancel"}),
        ("incomplete", set()),
    ],
)
def test_an_execution_has_the_forms_that_its_status_permits(
    service: FakeService, browser: Browser, status: str, actions: set[str]
) -> None:
    """The service resumes an interrupted execution itself."""
    path = "/clusters/payments/executions/3"
    execution = service._executions["payments", 3]
    service._executions["payments", 3] = replace(execution, status=status, throttle_bytes_per_second=None)
    page = browser.page(path)
    assert set(re.findall(rf'action="{path}/(\w+)"', page)) == actions
    assert "Throttle auto" in text_of(page)
    service._executions["payments", 3] = execution
    assert "Throttle 50.0 MB/s per broker" in text_of(browser.page(path))


def test_a_throttle_is_a_number_of_megabytes(service: FakeService, browser: Browser) -> None:
    """A number above 0; the page of the execution shows the new one."""
    path = "/clusters/payments/executions/3"
    answer = browser.post(f"{path}/throttle", data={"megabytes_per_second": "12.5"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?done=throttle")
    assert "Throttle 12.5 MB/s per broker" in text_of(browser.page(path))
    for wrong in ("", "0", "fast"):
        assert browser.post(f"{path}/throttle", data={"megabytes_per_second": wrong}).status_code == 400


def test_plans_of_forms_do_not_delay_pages(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plans are made at a time, those of the API included; a page is answered meanwhile."""
    release, lock, make_plan = threading.Event(), threading.Lock(), service.make_plan
    running: list[int] = [0, 0]

    def make_slowly(*arguments: Any) -> PlanRecord:
        with lock:
            running[0] += 1
            running[1] = max(running)
        try:
            assert release.wait(30)
            return make_plan(*arguments)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(service, "make_plan", make_slowly)
    headers = {"accept": HTML, "origin": "http://localhost"}

    async def request() -> tuple[int, list[int]]:
        transport = httpx.ASGITransport(application(service))
        answers: list[int] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def plan() -> None:
                answer = await client.post("/clusters/payments/replicas/what-if", data={}, headers=headers)
                answers.append(answer.status_code)

            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(plan)
                while running[0] < 2:
                    await anyio.sleep(0.01)
                await anyio.sleep(0.1)
                status = (await client.get("/", headers=headers)).status_code
                release.set()
        return status, answers

    status, answers = anyio.run(request)
    assert (status, answers) == (200, [303] * 4)
    assert running[1] == 2


@pytest.mark.parametrize("before", ["9" * 30, "9" * 5000, str(2**63), "0", "٣"])
def test_the_history_begins_at_any_number(browser: Browser, before: str) -> None:
    """A number beyond the newest decision, or beyond 64 bits, is the newest one."""
    page = browser.page(f"/history?before={before}")
    assert ("No decision matches." in page) == (before == "0")


def test_a_script_that_fetches_a_cluster_needs_no_loads(
    service: FakeService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charts are outside of the part that it replaces."""
    path, requests = "/clusters/payments/replicas", list[object]()
    loads = service.loads

    def counted(*arguments: Any) -> LoadSeries:
        requests.append(arguments)
        return loads(*arguments)

    monkeypatch.setattr(service, "loads", counted)
    whole, part = browser.page(path), browser.get(path, headers={"hx-request": "true"}).text
    assert len(requests) == 1
    live = [
        one[one.index('id="live"') : one.index('<section aria-labelledby="day">')] for one in (whole, part)
    ]
    assert live[0] == live[1]


def test_a_plan_links_to_its_file(service: FakeService, browser: Browser) -> None:
    """The link gives the plan byte for byte."""
    digest = service.plans()[0].digest
    (link,) = re.findall(r'href="([^"]+)">Plan file', browser.page(f"/plans/{digest}"))
    assert browser.get(link).content == service.plan_bytes(digest)


def test_forms_of_other_sites_are_refused(service: FakeService, browser: Browser) -> None:
    """A form with a foreign origin changes nothing."""
    plan = service.plans()[0].digest
    answer = browser.post(f"/plans/{plan}/approve", data={}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    assert service.plan(plan).state == "asking"


def test_another_instance_decides() -> None:
    """The page of a standby says who decides; a form there fails with the address of the leader."""
    service = FakeService(is_leader=False)
    browser = Browser(service)
    assert "fake-2; this instance only reads" in text_of(browser.page("/"))
    plan = service.plans()[0].digest
    answer = browser.post(f"/plans/{plan}/approve", data={}, headers={"origin": "http://localhost"})
    assert answer.status_code == 503
    assert "http://leader.example:8230" in answer.text


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/plans/0123456789", "/clusters/x/replicas", "/clusters/payments/executions/99",
     "/clusters/payments/executions/one", "/clusters/x/replicas/what-if"],
)  # fmt: skip
def test_unknown_pages_are_errors_in_html(browser: Browser, path: str) -> None:
    """A browser gets a page with the way back."""
    assert 'href="/">Overview' in browser.page(path, 404)


# ---------------------------------------------------------------- size


def test_a_target_without_a_snapshot_has_a_page(service: FakeService, browser: Browser) -> None:
    """Unknown figures are dashes, and no chart is drawn."""
    key = ("orders", "replicas")
    status = service._targets[key]
    unknown = tuple(
        replace(one, mean=None, peak=None, deviation=None, limit=None) for one in status.resources
    )
    service._targets[key] = replace(
        status, verdict="unknown", snapshot_taken_at=None, snapshot_coverage=None, resources=unknown
    )
    text = text_of(browser.page("/clusters/orders/replicas"))
    assert "unknown: no snapshot" in text
    assert "none yet" in text


class LargeService(FakeService):
    """A service whose clusters have 1,000 brokers with different figures."""

    def target(self, cluster: str, balancer: str) -> TargetDetail:
        """See `ServiceInterface.target`."""
        status = super().target(cluster, balancer).status
        resources = tuple(
            ResourceStatus(
                resource=name,
                mean=0.5,
                peak=0.8,
                peak_broker="7",
                deviation=0.6,
                deviation_broker="7",
                limit=0.8,
            )
            for name in ("cpu", "disk", "network_in", "network_out")
        )
        brokers = tuple(
            BrokerStatus(
                name=str(number),
                rack=f"r{number % 5}",
                is_online=number != 5,
                replicas=3000 + number * 7919 % 997,
                leaders=1000 + number * 6007 % 331,
                bytes_stored=(800 + number * 7907 % 611) * GIGABYTE,
                usage=tuple((200 + number * one % 701) / 1000 for one in (7919, 6011, 5003, 4007)),
                deviation=tuple((number * one % 1201 - 600) / 1000 for one in (7919, 6011, 5003, 4007)),
            )
            for number in range(1, 1001)
        )
        largest = super().target(cluster, balancer).largest
        return TargetDetail(status=replace(status, resources=resources), brokers=brokers, largest=largest)


def test_the_page_of_a_thousand_brokers_is_below_150_kb() -> None:
    """Brokers are grouped by rack; the 20 that deviate most come first."""
    browser = Browser(LargeService())
    page = browser.page("/clusters/payments/replicas")
    answer = browser.get("/clusters/payments/replicas", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) <= 150_000
    plain = browser.get("/clusters/payments/replicas", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == page
    assert page.count('<th scope="row">') >= 1000
    assert page.count('<details class="rack"') == 5
    assert "The 20 of 1,000 brokers that deviate most" in page


def test_colours_and_marks_follow_the_deviation() -> None:
    """Five strengths on each side; marks beyond ε; a figure above θ has its own mark."""
    detail = FakeService().target("payments", "replicas")
    broker = detail.brokers[0]
    figures = ((0.5, 0.0), (0.5, 0.13), (0.81, -0.7))
    row = replace(
        broker,
        usage=tuple(usage for usage, _ in figures),
        deviation=tuple(deviation for _, deviation in figures),
    )
    cells = heat_map(replace(detail, brokers=(row,)), epsilon=0.1).rows[0].cells
    assert [(one.style, one.mark, one.is_over) for one in cells] == [
        ("even", "", False),
        ("above1", "▲", False),
        ("below5 over", "▼", True),
    ]


def test_settings_of_the_fake_are_those_in_force(service: FakeService) -> None:
    """The threshold of the drift trigger is a figure of the chart."""
    service._settings = with_fields(service.settings, drift=with_fields(service.settings.drift, begin=0.37))
    assert "drift begins at 37%" in text_of(Browser(service).page("/clusters/payments/replicas"))


def test_an_open_plan_shows_brokers_before_and_after(service: FakeService) -> None:
    """Utilization before and after, and the deviation that is left; not for a plan that is withdrawn."""
    digest, browser = service.plans()[0].digest, Browser(service)
    text = browser.page(f"/plans/{digest}")
    assert "Brokers before and after" in text
    assert "91% → 73% <i>±0%</i>" in text
    service.reject(digest, "ann")
    assert "Brokers before and after" not in browser.page(f"/plans/{digest}")


def test_plans_of_removed_clusters_have_pages(service: FakeService) -> None:
    """The journal keeps plans longer than the settings keep clusters."""
    digest = service.plans()[0].digest
    del service._targets["payments", "replicas"]
    assert digest in Browser(service).page(f"/plans/{digest}")


def test_only_open_plans_expire(service: FakeService) -> None:
    """The overview and the page of a plan that was approved name no time for it."""
    digest, browser = service.plans()[0].digest, Browser(service)
    for path, text in (("/", "; expires 20"), (f"/plans/{digest}", "<dt>Expires</dt>")):
        assert text in browser.page(path)
    service.approve(digest, "ann")
    for path, text in (("/", "; expires 20"), (f"/plans/{digest}", "<dt>Expires</dt>")):
        assert text not in browser.page(path)
