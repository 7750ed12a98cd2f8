"""The example of an interactive message system as a whole: its parts killed, and its page in a browser."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from interactive.chaos import chaos
from interactive.gateway import Gateway, make_app
from interactive.store import Store
from interactive.system import FOLDER, System
from support.chromium import chromium, page
from support.redis_server import Server, binaries
from trimtab_queues import BalancedBroker

KILLS = 10


def test_every_part_is_killed_in_mid_burst_and_every_vote_counts_once(tmp_path: Path) -> None:
    """Server, gateway, workers and the scheduling worker, each twice; `run.py chaos` does it two hundred
    times.
    """
    system = System(tmp_path, FOLDER / "rules.toml")
    try:
        found = asyncio.run(
            chaos(system, KILLS, votes_per_second=60.0, pause_seconds=(0.0, 0.3), seed=20261123)
        )
    finally:
        system.stop()
    assert found["kills"] == {"server": 2, "gateway": 2, "worker": 4, "scheduler": 2}
    assert found["lost"] == found["doubled"] == found["overtaken"] == 0
    assert system.started["gateway"] == 3
    assert system.started["worker 1"] + system.started["worker 2"] == 2 + 4 + 2


@pytest.mark.skipif(chromium() is None, reason="no Chromium is in PATH; `.ci/run` installs one")
def test_the_page_displays_counts_in_light_and_dark(tmp_path: Path) -> None:
    """A click on the page is a vote, and is displayed; a pause is displayed; the text of a question is
    escaped.
    """
    server = Server(binaries()["valkey"], tmp_path / "server")

    async def story() -> None:
        gateway = Gateway(BalancedBroker(queues=2), Store(server.url), FOLDER / "rules.toml")
        await gateway.read_rules()
        async with TestServer(make_app(gateway)) as site, page(str(site.make_url("/")), tmp_path) as shown:
            await shown.until("document.querySelectorAll('#song-night .row').length == 4")
            await shown.value("document.querySelectorAll('#song-night .choice')[1].click()")
            await shown.until("document.querySelectorAll('#song-night .row b')[1].textContent == '1'")
            words = "<img src=x onerror=document.title='broken'>"
            form = {"user": "ann", "id": "1", "business": "ask-the-guest", "answer": words}
            assert type((await gateway.accept("web", [form]))[0]).__name__ == "Message"
            await shown.until("document.querySelectorAll('#ask-the-guest li').length == 1")
            assert await shown.value("document.querySelector('#ask-the-guest li').textContent") == words
            await shown.value("document.querySelectorAll('#song-night .tools button')[1].click()")
            await shown.until("document.querySelector('#song-night .state').textContent == 'paused'")
            await shown.value("document.querySelectorAll('#song-night .choice')[0].click()")
            await shown.until("document.getElementById('said').textContent.includes('is paused')")
            colours = []
            for scheme in ("light", "dark"):
                await shown.scheme(scheme)
                colours.append(await shown.value("getComputedStyle(document.body).backgroundColor"))
            assert colours == ["rgb(246, 247, 249)", "rgb(18, 22, 28)"]
            assert await shown.value("document.title") == "Interactive messages, live"
            assert await shown.value("document.documentElement.scrollWidth <= innerWidth")
            assert shown.errors == []

    try:
        asyncio.run(story())
    finally:
        server.stop()
