"""Notifications and metrics of real processes of `trimtab serve` on a simulated Kafka."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest

from simulate.served_cluster import ServedCluster
from support.http_receiver import receiver
from support.prometheus import get_json, prometheus, wait_for
from support.watching import RULES, panel_expressions
from trimtab.lab.sandbox.processes import free_ports
from trimtab.serve.documents import DecisionRecord
from trimtab.serve.notifications import notification_id

pytestmark = pytest.mark.slow

ACT = """
lease_seconds = 8
[serve]
interval_seconds = 2
settle_seconds = 3
measure_seconds = 10
restart_quiet_seconds = 5
lease_seconds = 3
poll_seconds = 0.3
[serve.broker_lost]
mode = "act"
after_seconds = 5
[serve.drift]
mode = "observe"
"""


def has_outage(world: ServedCluster, *is_over: bool) -> bool:
    """Whether the journal has the beginning of an outage, its end, or both."""
    found = {one["is_over"] for one in world.kinds("a", "notify") if one["key"] == "outage"}
    return found.issuperset(is_over)


def test_a_killed_service_loses_no_notification(tmp_path: Path) -> None:
    """SIGKILL at random moments after the decision, and a receiver that fails: each notification arrives."""
    drawn = random.Random(1)
    with receiver() as server:
        # The first attempts fail or are cut off by a kill while the receiver answers slowly.
        server.answer = lambda number: 500 if number == 1 else 200
        server.delay_seconds = 0.3
        table = f'[[serve.notifications]]\nkind = "webhook"\nurl = "{server.url}/hook"\n'
        with ServedCluster(tmp_path, ACT + table) as world:
            world.start("a")
            world.wait_for("a first decision", lambda: world.kinds("a", "wait"))
            time.sleep(3)
            for act, is_over in (world.kill_broker, False), (world.start_broker, True):
                for number in (1, 3, 5):
                    act(number)
                world.wait_for("a notification", partial(has_outage, world, is_over))
                for _ in range(3):
                    time.sleep(drawn.uniform(0.0, 0.6))
                    world.kill("a")
                    world.start("a")
                    time.sleep(drawn.uniform(1.0, 5.0))

            def missing() -> set[str]:
                decisions = [msgspec.convert(one, DecisionRecord) for one in world.kinds("a", "notify")]
                arrived = {headers["x-trimtab-id"] for _, headers, _ in server.requests[1:]}
                return {notification_id(one) for one in decisions} - arrived

            # An instance that starts makes its journal anew from the lake.
            world.wait_for("the journal", partial(has_outage, world, False, True))
            world.wait_for("all notifications", lambda: not missing())


CHILDREN: Final = re.compile("trimtab_(collect|stream)")
"""Metrics of the programs that fill a lake."""


def scraping(tmp_path: Path, *ports: int | str) -> AbstractContextManager[str]:
    """A real Prometheus with the alert rules that scrapes these ports each second; yields its address."""
    targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
    (tmp_path / "prometheus").mkdir()
    return prometheus(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}]\n"
        f"scrape_configs:\n  - job_name: trimtab\n    static_configs: [{{targets: [{targets}]}}]\n",
        tmp_path / "prometheus",
    )


def without_series(url: str, begin: float, *, of_children: bool) -> list[str]:
    """Panels' queries that return no series since then: those of collectors and streams, or the others."""
    at = {"start": str(begin), "end": str(time.time()), "step": "1"}
    return [
        f"{title}: {expression}"
        for title, expression in panel_expressions()
        if bool(CHILDREN.search(expression)) == of_children
        and not get_json(f"{url}/api/v1/query_range", query=expression, **at)["data"]["result"]
    ]


def test_panels_have_series_of_a_healing(tmp_path: Path) -> None:
    """A real Prometheus scrapes the service while it heals a lost broker and measures the effect."""
    with ServedCluster(tmp_path, ACT, measured=True) as world:
        world.start("a")
        world.wait_for("its address", lambda: re.search(r"serves http://\S+:(\d+)", world.log("a")))
        port = re.search(r"serves http://\S+:(\d+)", world.log("a"))
        assert port is not None
        with scraping(tmp_path, port[1]) as url:
            begin = time.time()
            world.wait_for("a first decision", lambda: world.kinds("a", "wait"))
            time.sleep(3)
            world.kill_broker(3)
            world.wait_for("the end of the healing", lambda: world.kinds("a", "ended"))
            world.wait_for("the measurement", lambda: world.kinds("a", "measured"))
            wait_for(lambda: not without_series(url, begin, of_children=False), "series")


@pytest.mark.spark
@pytest.mark.long
def test_panels_have_series_of_collector_and_stream(tmp_path: Path) -> None:
    """A real Prometheus scrapes a real collector and the Spark stream that reads its lake."""
    lake, (collector, stream) = str(tmp_path / "filled"), free_ports(2)
    with ServedCluster(tmp_path, ACT) as world, ExitStack() as stack:
        address = f"kafka://{','.join(world.server.bootstrap)}"
        where = ["--cluster", address, "--set", "collect.interval_seconds=2"]
        for port, words in ((collector, ["collect", *where]), (stream, ["pipeline", "stream"])):
            metrics = ["--lake", lake, "--metrics", f"127.0.0.1:{port}"]
            log = stack.enter_context((tmp_path / f"{words[0]}.log").open("wb"))
            command = [sys.executable, "-m", "trimtab", *words, *metrics]
            child = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(child.wait, 60)
            stack.callback(child.terminate)
        with scraping(tmp_path, collector, stream) as url:
            begin = time.time()
            wait_for(lambda: not without_series(url, begin, of_children=True), "series", seconds=180)
