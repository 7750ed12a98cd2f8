"""The pages of a real `trimtab serve`, on a simulated Kafka, in a real browser.

Each figure is compared with the documents of the commands with `--via`, or of the API. The second test kills
the service under an open page. Pictures of every page are in the folder of the test.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.test_serve import PROPOSE, QUIET, asked_plan, executed_plan, held_by
from simulate.served_cluster import ServedCluster
from support import axe
from support.chromium import Page, chromium, page
from support.http_calls import write_tokens
from support.small_lake import imbalance_rows, publish
from trimtab.model.text import bytes_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium is in PATH; `.ci/run` installs one"),
]

WIDTHS = (1280, 390)
TARGET = "/clusters/sim/replicas"
EXECUTION = "/clusters/sim/executions/1"
LIVE = "document.querySelector('#live').textContent"
STREAM = "document.querySelector('#stream').textContent"
RECORD_EVENTS = """
const Source = EventSource; window.numbers = [];
window.EventSource = class extends Source { constructor(url) { super(url);
  this.addEventListener("decision", (event) => window.numbers.push(Number(event.lastEventId))); } };
"""
"""Notes the number of each decision that reaches the page, before its own scripts run."""
TABLES = """[...document.querySelectorAll("table:not(.u-legend)")].map((one) =>
  [...one.querySelectorAll("tbody tr")].map((row) =>
    [...row.children].map((cell) => cell.textContent.replace(/\\s+/g, " ").trim())))"""
"""Texts of the cells of all tables."""


def with_tokens(folder: Path, settings: str) -> str:
    """The settings of a service that asks for a token."""
    tokens = write_tokens(folder / "tokens")
    return settings.replace("[serve]\n", f'[serve]\ntoken_file = "{tokens}"\n', 1)


def command(world: ServedCluster, *words: str) -> Any:
    """The JSON that a command prints about the service."""
    done = subprocess.run(
        [sys.executable, "-m", "trimtab", *words, "--via", world.url("a"), "--json"],
        env={**os.environ, "TRIMTAB_TOKEN": world.token},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


async def soon(what: str, holds: Callable[[], object], world: ServedCluster, seconds: float = 60.0) -> None:
    """As `ServedCluster.wait_for`, in a thread."""
    await asyncio.to_thread(world.wait_for, what, holds, seconds)


async def log_in(shown: Page, token: str) -> None:
    """Send the form of the login, to which a page without a session leads."""
    assert await shown.value("location.pathname") == "/login"
    await shown.value(f"document.querySelector('[name=token]').value = {json.dumps(token)}")
    await shown.follow("form.login button", "location.pathname == '/'")


async def facts(shown: Page) -> dict[str, str]:
    """Terms and values of the lists on a page."""
    found: dict[str, str] = json.loads(
        await shown.value(
            "JSON.stringify(Object.fromEntries([...document.querySelectorAll('dl > div')].map((one) => "
            "[...one.children].map((part) => part.textContent.replace(/\\s+/g, ' ').trim()))))"
        )
    )
    return found


def share(value: float | None, form: str = ".0%") -> str:
    """A share as pages have it."""
    return "–" if value is None else format(value, form)


def load_cells(load: dict[str, float]) -> list[str]:
    """The cells of a row of partitions."""
    rates = [f"{bytes_text(load[name])}/s" for name in ("network_in", "network_out")]
    return [f"{load['cpu']:.2f} cores", bytes_text(load["disk"]), *rates]


async def check_overview(world: ServedCluster, shown: Page) -> None:
    """The card of the target has the figures of `trimtab status --json`."""
    await shown.visit(f"{world.url('a')}/")
    (status,) = command(world, "status")
    found, text = await facts(shown), await shown.value("document.querySelector('.card').textContent")
    assert status["worst"] in text
    assert status["waiting"]["reason"] in found["Waiting"]
    assert f"{status['snapshot_coverage']:.0%} of" in found["Snapshot"]
    assert f"execution 1, {status['execution']['status']}" in found["Last run"]
    assert {one.strip(" ;") for one in found["Mode"].replace("; ", ";").split(";")} == {
        f"{mode} " + ", ".join(
            trigger.replace("_", " ") for trigger, its in status["modes"].items() if its == mode
        )
        for mode in set(status["modes"].values())
    }  # fmt: skip


async def check_cluster(world: ServedCluster, shown: Page) -> None:
    """Resources are those of `trimtab status --json`, brokers those of the API, partitions those of `top`."""
    await shown.visit(world.url("a") + TARGET)
    (status,) = command(world, "status")
    detail = world.call("a", "GET", f"/api/v1{TARGET}")
    resources, brokers, hours, largest, by_broker, topics = await shown.value(TABLES)
    assert [row[1:] for row in resources] == [
        [
            share(one["mean"]), share(one["peak"]), share(one["limit"]), one["peak_broker"],
            share(one["deviation"], ".1%"), one["deviation_broker"],
        ]
        for one in status["resources"]
    ]  # fmt: skip
    means = {
        name: sum(one[name] for one in detail["brokers"]) / len(detail["brokers"])
        for name in ("replicas", "leaders", "bytes_stored")
    }

    def even(value: float) -> str:
        return "±0%" if round(abs(value), 2) < 0.005 else f"{value:+.0%}"

    for row, broker in zip(brokers, detail["brokers"], strict=True):
        cells = [
            f"{usage:.0%} {'' if abs(gamma) <= 0.1 else '▲' if gamma > 0 else '▼'}{even(gamma)}"
            for usage, gamma in zip(broker["usage"], broker["deviation"], strict=True)
        ]
        counts = [
            f"{shown_as(broker[name])} {even(broker[name] / means[name] - 1)}"
            for name, shown_as in (("replicas", str), ("leaders", str), ("bytes_stored", bytes_text))
        ]
        assert row == [broker["name"], *cells, *counts, broker["rack"]]
    assert any(gamma < 0 for broker in detail["brokers"] for gamma in broker["deviation"])
    assert len(hours) == 25
    assert largest == [
        [one["name"], *load_cells(one["load"]), one["leader"], ", ".join(one["brokers"])]
        for one in command(world, "top", "--count", "20")
    ]
    assert [row[1] for row in by_broker] == [
        str(sum(broker["name"] in one["brokers"] for one in detail["largest"]))
        for broker in detail["brokers"]
    ]
    assert [row[:2] for row in topics[:2]] == [["t00", "1"], ["t01", "1"]]


async def check_plan(world: ServedCluster, shown: Page, digest: str) -> None:
    """Figures of the file of the plan, and its text; the digest is that of the file."""
    await shown.visit(f"{world.url('a')}/plans/{digest}")
    content = executed_plan(world, "a")
    file, record = json.loads(content), world.call("a", "GET", f"/api/v1/plans/{digest}")
    found = await facts(shown)
    assert found["SHA-256"] == digest == hashlib.sha256(content).hexdigest()
    assert found["Moves"] == str(len(file["moves"]))
    assert found["Copies"] == bytes_text(file["cost"]["bytes"])
    assert found["Lower bound of copies"].startswith(bytes_text(record["bound_bytes"]))
    assert found["Leader moves"] == str(file["cost"]["leader_moves"])
    text = world.call("a", "GET", f"/api/v1/plans/{digest}/text").decode()
    assert await shown.value("document.querySelector('pre').textContent") == text
    await shown.visit(f"{world.url('a')}/plans")
    ((row,),) = await shown.value(TABLES)
    assert row[:5] == [digest[:12], "sim / replicas", "drift", "executed", "balanced"]
    assert row[5:8] == [found["Moves"], found["Copies"], found["Leader moves"]]


async def check_execution(world: ServedCluster, shown: Page) -> None:
    """Steps and bytes of `trimtab execution show --json`; the history has those of `execution list`."""
    await shown.visit(world.url("a") + EXECUTION)
    detail = command(world, "execution", "show", "1")
    one, (steps,) = detail["execution"], await shown.value(TABLES)
    text = await shown.value(LIVE)
    done = f"{bytes_text(one['bytes_done'])} of {bytes_text(one['bytes_total'])}"
    assert f"{done} ({one['bytes_done'] / one['bytes_total']:.0%})" in text
    assert f"{one['steps_done']} of {one['steps']}" in text
    rows = [[str(step["number"]), step["state"], step["text"], step["reason"]] for step in detail["steps"]]
    assert steps == [[" ".join(cell.split()) for cell in row] for row in rows]
    await shown.visit(f"{world.url('a')}/history")
    executions, decisions = await shown.value(TABLES)
    (listed,) = command(world, "execution", "list")
    assert executions[0][:2] == [f"execution {listed['number']}", listed["status"]]
    assert executions[0][4] == bytes_text(listed["bytes_done"])
    newest = world.call("a", "GET", "/api/v1/decisions?limit=50")
    assert [row[0] for row in decisions] == [str(one["number"]) for one in newest]
    assert all(one["reason"] in row[2] for one, row in zip(newest, decisions, strict=True))


async def check_appearance(world: ServedCluster, shown: Page, paths: list[str], folder: Path) -> None:
    """No page scrolls sideways, has a serious fault for axe, or asks another origin."""
    try:
        script = axe.axe_core()
    except axe.MissingError:
        script = ""
    for pixels, scheme in zip(WIDTHS, ("light", "dark"), strict=True):
        await shown.size(pixels)
        await shown.scheme(scheme)
        for number, path in enumerate(paths):
            await shown.visit(world.url("a") + path)
            height = await shown.value("document.documentElement.scrollHeight")
            await shown.size(pixels, min(height, 4000))
            await shown.picture(folder / f"{number}-{pixels}.png")
            assert await shown.value("document.documentElement.scrollWidth <= innerWidth"), path
            if script:
                await shown.value(
                    "document.querySelectorAll('details').forEach((one) => { one.open = true })"
                )
                await shown.value(f"{script}; true")
                assert json.loads(await shown.promised(axe.SERIOUS)) == [], f"{path} {pixels} {scheme}"
            await shown.size(pixels)
    assert all(one.startswith(f"{world.url('a')}/") for one in shown.requests)
    assert any("/api/v1/events" in one for one in shown.requests)
    assert shown.errors == []


def test_a_plan_is_approved_and_each_page_has_the_figures_of_the_commands(tmp_path: Path) -> None:
    """An operator logs in, approves the plan of a drift and sees it done; then every page is compared."""
    with ServedCluster(tmp_path, with_tokens(tmp_path, PROPOSE), speed=12.0, balanced=False) as world:
        world.token = "operator-token"
        now = datetime.datetime.now(datetime.UTC)
        ticks = [now - datetime.timedelta(minutes=10 * one) for one in range(140, 0, -1)]
        usage = {1: (0.3, 0.2, 0.4, 0.3), 2: (0.2, 0.2, 0.3, 0.1)}
        cluster = world.cluster.cluster_id
        publish(
            world.lake, {"imbalance": [[row for at in ticks for row in imbalance_rows(at, usage, cluster)]]}
        )
        world.start("a")
        digest = asked_plan(world)["digest"]

        async def story() -> None:
            async with page(f"{world.url('a')}/plans/{digest}", tmp_path) as shown:
                await shown.until("location.pathname == '/login'")
                await shown.loaded()
                await log_in(shown, "operator-token")
                await shown.visit(f"{world.url('a')}/plans/{digest}")
                assert "Nothing is changed by this plan" in await shown.value(LIVE)
                assert world.moves() == 0
                await shown.value("document.querySelector('#approve summary').click()")
                await shown.follow("#approve button", "location.search == '?done=approved'")
                await shown.until(f"{LIVE}.includes('No decision is open: the plan is executed')")
                assert hashlib.sha256(executed_plan(world, "a")).hexdigest() == digest
                await soon(
                    "a snapshot of the end",
                    lambda: command(world, "status")[0]["verdict"] == "balanced",
                    world,
                )
                await check_overview(world, shown)
                await check_cluster(world, shown)
                await shown.until("document.querySelectorAll('#charts canvas').length == 2")
                await check_plan(world, shown, digest)
                await check_execution(world, shown)
                paths = ["/", "/plans", "/history", "/policy", "/login", "/nothing", TARGET]
                paths += [f"{TARGET}/what-if", f"/plans/{digest}", EXECUTION]
                await check_appearance(world, shown, paths, tmp_path)

        asyncio.run(story())


def test_an_open_page_outlives_its_service(tmp_path: Path) -> None:
    """What-if, apply, progress, reload, kill -9 and restart, stop, cancel; at last the sessions are lost."""
    with ServedCluster(tmp_path, with_tokens(tmp_path, QUIET), speed=2.0) as world:
        world.token = "operator-token"
        world.start("a")

        async def story() -> None:
            async with page("about:blank", tmp_path) as shown:
                await shown.call("Page.enable")
                await shown.call("Page.addScriptToEvaluateOnNewDocument", source=RECORD_EVENTS)
                await shown.visit(f"{world.url('a')}{TARGET}/what-if")
                await log_in(shown, "operator-token")
                await soon("a snapshot", lambda: command(world, "status")[0]["snapshot_taken_at"], world)
                await shown.visit(f"{world.url('a')}{TARGET}/what-if")
                await shown.value("document.querySelector('[name=drain]').value = '5'")
                await shown.follow("form.what-if button", "location.pathname.startsWith('/plans/')")
                digest = (await shown.value("location.pathname")).rpartition("/")[2]
                assert world.call("a", "GET", f"/api/v1/plans/{digest}")["settings"] == {"drain": [5]}
                assert world.moves() == 0
                await shown.value("document.querySelector('#apply summary').click()")
                await shown.follow("#apply button", "location.search == '?done=applied'")
                await shown.until(f"{LIVE}.includes('execution 1')")
                await watched(world, shown)
                await killed_and_resumed(world, shown)
                await stopped_and_cancelled(world, shown)
                await logged_out(world, shown)
                assert shown.errors == []
                assert hashlib.sha256(executed_plan(world, "a")).hexdigest() == digest

        asyncio.run(story())
        assert world.left_over() == []
        assert 0 < held_by(world, 5) <= 12


async def watched(world: ServedCluster, shown: Page) -> None:
    """Progress moves by itself, with a rate, also within copies; a reload shows no less."""
    await shown.visit(world.url("a") + EXECUTION)
    value = "document.querySelector('progress').value"
    await shown.until(f"{value} > 0")
    first = await shown.value(value)
    await shown.until(f"{value} > {first}")
    one = world.call("a", "GET", f"/api/v1{EXECUTION}")["execution"]
    assert 0 < first <= one["bytes_done"] < one["bytes_total"]
    await shown.until(f"/[1-9][0-9.]* MB\\/s/.test({LIVE})")
    await shown.call("Page.reload")
    await shown.until(f"!!document.querySelector('progress') && {value} >= {one['bytes_done']}")


async def killed_and_resumed(world: ServedCluster, shown: Page) -> None:
    """The page says that the connection is lost, comes back by itself, and misses no decision."""
    await shown.until(f"{STREAM} == 'live'")
    begin = int(await shown.value("document.body.dataset.newest"))
    world.kill("a")
    await shown.until(f"{STREAM}.includes('lost')")
    world.start("a")
    await shown.until(f"{STREAM} == 'live'")
    await soon("the resumption", lambda: world.kinds("a", "resume"), world)
    newest = world.decisions("a")[-1]["number"]
    await shown.until(f"window.numbers.includes({newest})")
    numbers = await shown.value("window.numbers")
    assert numbers == list(range(begin + 1, begin + 1 + len(numbers)))
    await shown.until("document.querySelector('.badge.state').textContent == 'running'")
    assert await shown.promised("fetch('/api/v1/clusters').then((one) => one.status)") == 200


async def stopped_and_cancelled(world: ServedCluster, shown: Page) -> None:
    """An open confirmation survives updates of the page; the buttons do what they say."""
    await shown.value("document.querySelector('#stop summary').click()")
    steps = "document.querySelectorAll('progress')[0].value"
    now = await shown.value(steps)
    await shown.until(f"{steps} > {now}")
    assert await shown.value("document.querySelector('#stop').open"), "the update closed the form"
    await shown.follow("#stop button", "location.search == '?done=stop'")
    await shown.until("document.querySelector('.badge.state').textContent == 'stopped'")
    assert world.call("a", "GET", f"/api/v1{EXECUTION}")["execution"]["status"] == "stopped"
    await shown.value("document.querySelector('#cancel summary').click()")
    await shown.follow("#cancel button", "location.search == '?done=cancel'")
    await shown.until("document.querySelector('.badge.state').textContent == 'cancelled'")
    assert world.call("a", "GET", f"/api/v1{EXECUTION}")["execution"]["status"] == "cancelled"


async def logged_out(world: ServedCluster, shown: Page) -> None:
    """Without its file of sessions, a restarted service asks for the token again, and says so."""
    world.kill("a")
    (world.folder / "a" / "serve" / "sessions.json").unlink()
    world.start("a")
    await shown.until(f"{STREAM}.includes('log in again')")
    text = await shown.value(LIVE)
    assert "cancelled" in text
    await shown.call("Page.reload")
    await shown.until("location.pathname == '/login'")
    await shown.loaded()
    await log_in(shown, "operator-token")
