"""The pages in a real browser, over the real HTTP server, in states that a service in memory sets up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from support import axe
from support.chromium import Page, chromium, page
from support.fake_service import FakeService
from support.http_calls import served
from trimtab.serve.documents import TargetDetail
from trimtab.serve.http.app import create_app
from trimtab.serve.pages import error_page, page_routes

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium is in PATH; `.ci/run` installs one")


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


class Site(NamedTuple):
    """A service in memory behind a real HTTP server."""

    service: FakeService
    url: str


@pytest.fixture
def site() -> Iterator[Site]:
    """A running service."""
    service = ColourfulService()

    def clock() -> float:
        return service.now

    app = create_app(service, page_routes(service, clock), error_page(service, clock))
    with served(app) as server:
        yield Site(service, server.url)


@asynccontextmanager
async def browser(site: Site, folder: Path, path: str = "/") -> AsyncIterator[Page]:
    """A browser at a page of the site, which has loaded."""
    async with page(site.url + path, folder) as shown:
        await shown.loaded()
        yield shown


def test_axe_reads_every_colour_of_the_heat_map(site: Site, tmp_path: Path) -> None:
    """In light and dark; no real cluster shows them all at once."""
    try:
        script = axe.axe_core()
    except axe.MissingError as error:
        pytest.skip(str(error))

    async def story() -> None:
        async with browser(site, tmp_path, "/clusters/payments/replicas") as shown:
            for scheme in ("light", "dark"):
                await shown.scheme(scheme)
                await shown.visit(f"{site.url}/clusters/payments/replicas")
                await shown.value(f"{script}; true")
                assert json.loads(await shown.promised(axe.SERIOUS)) == [], scheme
            await shown.until("document.querySelectorAll('#charts canvas').length == 2")
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
