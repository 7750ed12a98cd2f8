"""The pages of the service in a real browser, over the real HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support import axe
from support.chromium import Page, chromium, page
from support.fake_service import FakeService
from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.documents import TargetDetail
from trimtab.serve.http.app import create_app
from trimtab.serve.http.server import HttpServer
from trimtab.serve.pages import error_page, page_routes

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium is in PATH; `.ci/run` installs one")

WIDTHS = (1280, 390)
RECORD_REQUESTS = """performance.getEntriesByType("resource").map((one) => one.name)"""


class ColourfulService(FakeService):
    """A service with a broker for each colour of the heat map, below and above the limit."""

    def target(self, cluster: str, balancer: str) -> TargetDetail:
        """See `ServiceInterface.target`."""
        detail = super().target(cluster, balancer)
        brokers = tuple(
            replace(detail.brokers[0], name=f"{place}", usage=(usage,) * 3, deviation=(place / 10,) * 3)
            for usage in (0.5, 0.9)
            for place in range(-7, 8)
        )
        return replace(detail, brokers=detail.brokers + brokers)


class Site:
    """A service in memory behind a real HTTP server, which a test may restart at its address."""

    def __init__(self) -> None:
        self.service: FakeService = ColourfulService()
        self._listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Serve; after the first time at the same port."""

        def clock() -> float:
            return self.service.now

        routes, errors = page_routes(self.service, clock), error_page(self.service, clock)
        app = create_app(self.service, routes, errors)
        self._server = HttpServer(app, ServeSettings(listen=self._listen))
        self._server.start()
        self.url, self._listen = self._server.url, "{}:{}".format(*self._server.address)

    def stop(self) -> None:
        """Close all connections."""
        self._server.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    """A running service."""
    running = Site()
    yield running
    running.stop()


@asynccontextmanager
async def browser(site: Site, folder: Path, path: str = "/") -> AsyncIterator[Page]:
    """A browser at a page of the site, which has loaded."""
    async with page(site.url + path, folder) as shown:
        await loaded(shown)
        yield shown


async def loaded(shown: Page) -> None:
    """Wait until the page and its scripts are there."""
    await shown.until("document.readyState == 'complete' && !!document.querySelector('h1')")


async def visit(shown: Page, url: str) -> None:
    """Open an address and wait for the page."""
    await shown.call("Page.navigate", url=url)
    await loaded(shown)


async def follow(shown: Page, click: str, until: str) -> None:
    """Click an element and wait for the page that answers."""
    await shown.value(f"document.querySelector({json.dumps(click)}).click()")
    await shown.until(f"document.readyState == 'complete' && ({until})")


async def width(shown: Page, pixels: int) -> None:
    """Set the width of the window."""
    await shown.call(
        "Emulation.setDeviceMetricsOverride",
        width=pixels,
        height=860,
        deviceScaleFactor=1,
        mobile=pixels < 500,
    )


async def promised(shown: Page, expression: str) -> Any:
    """The value of a promise."""
    told = await shown.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
    assert "exceptionDetails" not in told, told
    return told["result"].get("value")


def paths(service: FakeService) -> list[str]:
    """A path of each page."""
    target = "/clusters/payments/replicas"
    return [
        *("/", "/plans", "/history", "/policy", "/login", "/nothing", target, f"{target}/what-if"),
        *(f"/plans/{service.plans()[0].digest}", "/clusters/payments/executions/3"),
    ]


def test_every_page_fits_its_window_and_stays_in_its_origin(site: Site, tmp_path: Path) -> None:
    """No page scrolls sideways at 1280 or 390 pixels, fails in a script, or asks another origin."""

    async def story() -> None:
        async with browser(site, tmp_path) as shown:
            for pixels in WIDTHS:
                await width(shown, pixels)
                for path in paths(site.service):
                    await visit(shown, site.url + path)
                    assert await shown.value("document.documentElement.scrollWidth <= innerWidth"), path
                    for name in await shown.value(RECORD_REQUESTS):
                        assert name.startswith(f"{site.url}/"), name
            await visit(shown, f"{site.url}/clusters/payments/replicas")
            await shown.until("document.querySelectorAll('#charts canvas').length == 2")
            assert shown.errors == []

    asyncio.run(story())


def test_axe_finds_nothing_serious(site: Site, tmp_path: Path) -> None:
    """Every page in light and dark, narrow and wide."""
    try:
        script = axe.axe_core()
    except axe.MissingError as error:
        pytest.skip(str(error))

    async def story() -> None:
        async with browser(site, tmp_path) as shown:
            for pixels, scheme in ((1280, "light"), (390, "dark")):
                await width(shown, pixels)
                await shown.scheme(scheme)
                for path in paths(site.service):
                    await visit(shown, site.url + path)
                    await shown.value(
                        "document.querySelectorAll('details').forEach((one) => { one.open = true })"
                    )
                    await shown.value(f"{script}; true")
                    found = json.loads(await promised(shown, axe.SERIOUS))
                    assert found == [], f"{path} {pixels} {scheme}"

    asyncio.run(story())


def test_a_plan_is_requested_applied_watched_and_cancelled(site: Site, tmp_path: Path) -> None:
    """What-if, apply, progress that moves by itself, a reload in the middle, cancel."""

    async def story() -> None:
        service = site.service
        async with browser(site, tmp_path, "/clusters/payments/replicas/what-if") as shown:
            await shown.value("document.querySelector('[name=drain]').value = '5'")
            await follow(shown, "form.what-if button", "location.pathname.startsWith('/plans/')")
            assert "Nothing is changed by this plan" in await shown.value("document.body.textContent")
            digest = (await shown.value("location.pathname")).rpartition("/")[2]
            assert service.plan(digest).settings == {"drain": [5]}
            await shown.value("document.querySelector('#apply summary').click()")
            await follow(shown, "#apply button", "location.search == '?done=applied'")
            number = service.plan(digest).execution
            assert number is not None
            await visit(shown, f"{site.url}/clusters/payments/executions/{number}")
            text = "document.querySelector('#live').textContent"
            assert "0 of 12" in await shown.value(text)
            service.advance(30)
            await shown.until(f"{text}.includes('3 of 12')")
            await shown.call("Page.reload")
            await loaded(shown)
            assert "10.0 GB of 40.0 GB (25%)" in await shown.value(text)
            await shown.value("document.querySelector('#cancel summary').click()")
            service.advance(10)
            await shown.until(f"{text}.includes('4 of 12')")
            assert await shown.value("document.querySelector('#cancel').open"), "the update closed the form"
            await follow(shown, "#cancel button", "location.search == '?done=cancel'")
            assert service.execution("payments", number).execution.status == "cancelled"
            assert shown.errors == []

    asyncio.run(story())


def test_decisions_of_others_change_an_open_page(site: Site, tmp_path: Path) -> None:
    """A plan that somebody else rejects is no longer on offer, without a reload; also after a restart."""

    async def story() -> None:
        service = site.service
        digest = service.plans()[0].digest
        async with browser(site, tmp_path, f"/plans/{digest}") as shown:
            await shown.until("document.querySelector('#stream').textContent == 'live'")
            site.stop()
            await shown.until("document.querySelector('#stream').textContent.includes('lost')")
            site.start()
            await shown.until("document.querySelector('#stream').textContent == 'live'")
            service.reject(digest, "bob", "Too large.")
            await shown.until("document.querySelector('#live').textContent.includes('Too large.')")
            assert not await shown.value("!!document.querySelector('#approve')")
            assert shown.errors == []

    asyncio.run(story())


def test_a_hidden_page_closes_its_stream_and_misses_no_decision(site: Site, tmp_path: Path) -> None:
    """Many open tabs would otherwise use up the connections of the browser to this origin."""

    async def story() -> None:
        digest = site.service.plans()[0].digest
        async with browser(site, tmp_path, f"/plans/{digest}") as shown:

            async def hide(is_hidden: bool) -> None:
                await shown.value(
                    f"Object.defineProperty(document, 'hidden', {{value: {json.dumps(is_hidden)}, "
                    "configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
                )

            await shown.until("document.querySelector('#stream').textContent == 'live'")
            await hide(True)
            assert await shown.value("document.querySelector('#stream').textContent") == "not connected"
            site.service.reject(digest, "bob", "Too large.")
            await asyncio.sleep(1.0)
            assert "Too large." not in await shown.value("document.querySelector('#live').textContent")
            await hide(False)
            await shown.until("document.querySelector('#live').textContent.includes('Too large.')")

    asyncio.run(story())


def test_an_error_leaves_the_page_as_it_was(site: Site, tmp_path: Path) -> None:
    """A page that is gone, or a session that has ended, does not empty an open page."""

    async def story() -> None:
        digest = site.service.plans()[0].digest
        async with browser(site, tmp_path, f"/plans/{digest}") as shown:
            await shown.until("document.querySelector('#stream').textContent == 'live'")
            before = await shown.value("document.querySelector('#live').textContent")
            del site.service._plans[digest]
            fetched = "performance.getEntriesByType('resource').filter((one) => one.name == location.href)"
            await shown.value("document.body.dispatchEvent(new CustomEvent('changed'))")
            await shown.until(f"{fetched}.length == 1")
            await asyncio.sleep(0.3)
            assert await shown.value("document.querySelector('#live').textContent") == before
            assert shown.errors == []

    asyncio.run(story())


def test_a_plan_is_approved_by_keyboard(site: Site, tmp_path: Path) -> None:
    """Tab reaches Approve with a visible focus, Enter opens the confirmation, Enter approves."""

    async def story() -> None:
        digest = site.service.plans()[0].digest

        async with browser(site, tmp_path, f"/plans/{digest}") as shown:

            async def press(key: str, code: int) -> None:
                text = {"text": "\r"} if key == "Enter" else {}
                await shown.call(
                    "Input.dispatchKeyEvent",
                    type="keyDown",
                    key=key,
                    code=key,
                    windowsVirtualKeyCode=code,
                    **text,
                )
                await shown.call(
                    "Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code
                )

            order: list[str] = []
            for _ in range(30):
                await press("Tab", 9)
                order.append(await shown.value("document.activeElement.textContent.trim()"))
                assert await shown.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                if order[-1] == "Approve…":
                    break
            assert order[0] == "Skip to content"
            assert order[-1] == "Approve…"
            await press("Enter", 13)
            assert await shown.value("document.querySelector('#approve').open")
            await press("Tab", 9)
            await press("Enter", 13)
            await shown.until("location.search == '?done=approved'")
            assert site.service.plan(digest).state == "executing"

    asyncio.run(story())


def test_figures_are_those_of_the_documents(site: Site, tmp_path: Path) -> None:
    """Each cell of the heat map is the API's figure, rounded to whole percent."""

    async def story() -> None:
        async with browser(site, tmp_path, "/clusters/payments/replicas") as shown:
            fetched = "fetch('/api/v1/clusters/payments/replicas').then((answer) => answer.text())"
            document = json.loads(await promised(shown, fetched))
            cells = await shown.value(
                "[...document.querySelectorAll('.heat tbody tr')].map((row) => "
                "[...row.querySelectorAll('td')].slice(0, 3)"
                ".map((cell) => cell.firstChild.textContent.trim()))"
            )
        for row, broker in zip(cells, document["brokers"], strict=True):
            expected = ["–" if one is None else f"{one:.0%}" for one in broker["usage"]]
            assert [text.removeprefix("θ ") for text in row] == expected

    asyncio.run(story())
