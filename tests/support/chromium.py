"""A page in a real browser: Chromium without a window, over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from trimtab.lab.sandbox.processes import kill, spawn

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-port=0", "--window-size=1280,860",
)  # fmt: skip
PATIENCE_SECONDS = 60.0


def chromium() -> str | None:
    """The program, where this machine has one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page; what went wrong on it is in `errors`, the address of each request in `requests`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            told = await self._socket.receive_json(timeout=PATIENCE_SECONDS)
            if told.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(told["params"]["exceptionDetails"]))
            if told.get("method") == "Network.requestWillBeSent":
                self.requests.append(str(told["params"]["request"]["url"]))
            if told.get("id") == number:
                assert "error" not in told, told
                found: dict[str, Any] = told["result"]
                return found

    async def value(self, expression: str) -> Any:
        """What a line of JavaScript gives."""
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until a line of JavaScript is true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self.value(expression):
                await asyncio.sleep(0.05)

    async def promised(self, expression: str) -> Any:
        """The value of a promise."""
        told = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def loaded(self) -> None:
        """Wait until the page and its scripts are there."""
        await self.until("document.readyState == 'complete' && !!document.querySelector('h1')")

    async def visit(self, url: str) -> None:
        """Open an address and wait for the page."""
        await self.call("Page.navigate", url=url)
        await self.loaded()

    async def follow(self, click: str, until: str) -> None:
        """Click an element and wait for the page that answers."""
        await self.value(f"document.querySelector({json.dumps(click)}).click()")
        await self.until(f"document.readyState == 'complete' && ({until})")

    async def size(self, width: int, height: int = 860) -> None:
        """Set the size of the window in pixels."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    async def scheme(self, name: str) -> None:
        """Ask for light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def picture(self, path: Path) -> None:
        """What can be seen, as PNG."""
        told = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(told["data"]))


@asynccontextmanager
async def page(url: str, folder: Path) -> AsyncIterator[Page]:
    """A browser at an address; gone afterwards."""
    program = chromium()
    assert program is not None
    profile = folder / "chromium"
    profile.mkdir()
    browser = spawn(
        [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
        folder, folder / "chromium.log", outlive=False,
    )  # fmt: skip
    try:
        told = profile / "DevToolsActivePort"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (told.exists() and told.read_text().count("\n")):
                await asyncio.sleep(0.05)
        port = told.read_text().splitlines()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (tab,) = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                found = Page(socket)
                await found.call("Runtime.enable")
                await found.call("Network.enable")
                await found.call("Page.navigate", url=url)
                yield found
    finally:
        # Debian's program is a script: its browser, of the same group, would outlive it.
        with suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        kill([browser])
