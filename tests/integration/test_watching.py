"""Alert rules, dashboard and notifications on a real Prometheus and a real Alertmanager."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from support.fake_service import FakeService
from support.prometheus import alertmanager, get_json, program, prometheus, wait_for
from support.watching import RULE_CASES, RULES, code_block, metric_names, panel_expressions, rule_expressions
from trimtab.cli.metrics import collect_metrics, stream_metrics
from trimtab.files.serve_settings import NotificationTarget, ServeSettings
from trimtab.lab.sandbox.processes import free_ports
from trimtab.observe.collect.sampler import TickResult
from trimtab.observe.steps.stream import BatchResult
from trimtab.serve.documents import DecisionRecord
from trimtab.serve.http.app import create_app
from trimtab.serve.http.server import HttpServer
from trimtab.serve.metrics import metrics_route
from trimtab.serve.notifications import outbox_rows, post

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "serve-watch.md"


def run_cases(folder: Path) -> subprocess.CompletedProcess[str]:
    """The cases of the rules of a folder, by promtool."""
    command = [program("promtool"), "test", "rules", RULE_CASES.name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_each_alert_has_a_case_that_fires_and_one_without(tmp_path: Path) -> None:
    """Each of the ten alerts fires in its case, with summary and remedy, and stays silent in another.

    Promtool reads the configuration of the page as well.
    """
    checked = subprocess.run(
        [program("promtool"), "check", "rules", RULES], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert "10 rules found" in checked.stdout
    (tmp_path / "prometheus.yml").write_text(code_block(GUIDE.read_text(encoding="utf-8"), "yaml"))
    command = [program("promtool"), "check", "config", "--syntax-only", "prometheus.yml"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    done = run_cases(RULES.parent)
    assert done.returncode == 0, done.stderr + done.stdout


def test_cases_find_alerts_that_always_or_never_fire(tmp_path: Path) -> None:
    """The cases fail for each rule whose expression always or never holds."""
    shutil.copy(RULE_CASES, tmp_path)
    text = RULES.read_text(encoding="utf-8")
    for name, expression in rule_expressions().items():
        for fault in ("vector(1)", "vector(1) > 1"):
            changed = text.replace(f"expr: {expression}\n", f"expr: {fault}\n", 1)
            assert changed != text
            (tmp_path / RULES.name).write_text(changed, encoding="utf-8")
            assert run_cases(tmp_path).returncode != 0, f"{name} with {fault}"


@contextmanager
def served(service: FakeService) -> Iterator[int]:
    """The application of a service behind a real HTTP server; yields its port."""
    app = create_app(service, routes=[metrics_route(service, clock=lambda: service.now)])
    server = HttpServer(app, ServeSettings(listen="127.0.0.1:0"))
    server.start()
    try:
        yield server.address[1]
    finally:
        server.stop()


def test_panels_and_rules_have_series_in_prometheus(tmp_path: Path) -> None:
    """A real Prometheus scrapes the service and both commands: no panel is empty, and alerts fire."""
    service = FakeService()
    collect_port, stream_port = free_ports(2)
    with (
        served(service) as port,
        collect_metrics(f"127.0.0.1:{collect_port}") as tick,
        stream_metrics(f"127.0.0.1:{stream_port}") as batch,
    ):
        now = datetime.datetime.now(datetime.UTC)
        tick(TickResult(now, 0, None, "no broker answers"))
        batch(BatchResult("replicas", 10, 0, round(now.timestamp() * 1e6), 0.5))
        jobs = {"trimtab": port, "collect": collect_port, "stream": stream_port}
        scrapes = "".join(
            f"  - job_name: {name}\n    static_configs: [{{targets: ['127.0.0.1:{one}']}}]\n"
            for name, one in jobs.items()
        )
        configuration = (
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{RULES}]\nscrape_configs:\n{scrapes}"
        )
        with prometheus(configuration, tmp_path) as url:

            def series(expression: str) -> list[object]:
                answer = get_json(f"{url}/api/v1/query", query=expression)
                assert answer["status"] == "success", expression
                return list(answer["data"]["result"])

            wait_for(lambda: len(series("up == 1")) == len(jobs), "scrapes of all jobs")
            for title, expression in panel_expressions():
                wait_for(partial(series, expression), f"series of {title}: {expression}")
            for name, expression in rule_expressions().items():
                series(" ".join(expression.removeprefix(">-").split()))
                for metric in metric_names(expression):
                    wait_for(partial(series, metric), f"series of {metric} in {name}")

            def states() -> dict[str, str]:
                (group,) = get_json(f"{url}/api/v1/rules")["data"]["groups"]
                assert all(rule["health"] in ("ok", "unknown") for rule in group["rules"]), group
                return {rule["name"]: rule["state"] for rule in group["rules"] if rule["health"] == "ok"}

            found = wait_for(lambda: len(states()) == 10 and states(), "evaluation of all rules")
            assert found["TrimtabMadeWorse"] == "firing"
            assert found["TrimtabBrokerAboveLimit"] == "pending"
            assert found["TrimtabDown"] == found["TrimtabPaused"] == found["TrimtabTwoLeaders"] == "inactive"


def test_alerts_begin_and_end_in_alertmanager(tmp_path: Path) -> None:
    """An outage is active in a real Alertmanager until its end is notified; duplicates change nothing."""
    at = time.time()
    begin = DecisionRecord(
        number=1, cluster="payments", balancer="replicas", at=at - 3600, kind="notify",
        reason="3 of 6 brokers are lost", key="outage",
    )  # fmt: skip
    event = msgspec.structs.replace(begin, number=2, key="worse-3", reason="execution 3 made it worse")
    end = msgspec.structs.replace(begin, number=3, at=at, is_over=True, reason="no outage any longer")
    with alertmanager(tmp_path) as url:
        target = NotificationTarget("alertmanager", url)
        settings = ServeSettings(notifications=(target,))

        def send(decision: DecisionRecord) -> None:
            (row,) = outbox_rows(decision, settings)
            post(target, row)

        def active() -> dict[str, str]:
            found = get_json(f"{url}/api/v2/alerts", active="true")
            return {one["labels"]["key"]: one["annotations"]["summary"] for one in found}

        send(begin)
        send(begin)
        send(event)
        both = {"outage": "3 of 6 brokers are lost", "worse-3": "execution 3 made it worse"}
        wait_for(lambda: active() == both, "two active alerts")
        (outage,) = [one for one in get_json(f"{url}/api/v2/alerts") if one["labels"]["key"] == "outage"]
        ends = datetime.datetime.fromisoformat(outage["endsAt"]).timestamp()
        assert ends > at + 86_400
        send(end)
        wait_for(lambda: list(active()) == ["worse-3"], "the end of the outage")
