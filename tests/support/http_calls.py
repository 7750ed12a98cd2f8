"""Requests to an application in this process, without sockets, and servers of an application."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.http.security import token_digest
from trimtab.serve.http.server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def write_tokens(path: Path) -> Path:
    """A token file of three users, each with the name of its role; its token is the name and `-token`."""
    roles = ("viewer", "operator", "admin")
    path.write_text("".join(f"{one} {one} {token_digest(f'{one}-token')}\n" for one in roles))
    return path


@contextmanager
def served(app: Starlette, settings: ServeSettings | None = None) -> Iterator[HttpServer]:
    """A real server of the application, at a free port."""
    server = HttpServer(app, settings or ServeSettings(listen="127.0.0.1:0"))
    server.start()
    try:
        yield server
    finally:
        server.stop()
