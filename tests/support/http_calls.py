"""Requests to an application in this process, without a server and without sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx

if TYPE_CHECKING:
    from starlette.applications import Starlette


class HttpCalls:
    """Calls of one client; each is a connection of its own, from `address`."""

    def __init__(
        self, app: Starlette, address: str = "127.0.0.1", base_url: str = "http://localhost", **headers: str
    ) -> None:
        self.app = app
        self.address = address
        self.base_url = base_url
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def __call__(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request; `more` is for httpx."""

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, False, client=(self.address, 50_000))
            async with httpx.AsyncClient(
                transport=transport, base_url=self.base_url, headers=self.headers
            ) as client:
                return await client.request(method, path, **more)

        return anyio.run(call)

    def get(self, path: str, **more: Any) -> httpx.Response:
        """A request to read."""
        return self("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        """A request to change something."""
        return self("POST", path, **more)
