"""The application of the service: middleware, routes of the API, and those of pages, metrics and adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import trimtab
from trimtab.serve.http.events import HEARTBEAT_SECONDS, EventStreams
from trimtab.serve.http.openapi import openapi_document
from trimtab.serve.http.operations import OPERATIONS, Calls, Operation
from trimtab.serve.http.problems import AccessError, Problem, answer, problem_of
from trimtab.serve.http.routing import api_routes, read_form
from trimtab.serve.http.security import COOKIE, Access, SecurityMiddleware
from trimtab_common.errors import TrimtabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from trimtab.serve.interface import ServiceInterface

MIN_GZIP_BYTES: Final = 2_000
"""Smaller answers are sent as they are; streams of events always are."""


def create_app(
    service: ServiceInterface,
    routes: Sequence[BaseRoute] = (),
    error_page: Callable[[Request, Problem], Response | None] | None = None,
    operations: Sequence[Operation] = OPERATIONS,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    session_file: Path | None = None,
) -> Starlette:
    """The application.

    Parameters
    ----------
    service
        What the routes call.
    routes
        Further routes, of pages, metrics and adapters. Each endpoint calls `require_role`. An endpoint that
        is a plain function runs in a thread, so it may call the service.
    error_page
        Makes the answer to an error outside of `/api/`; a problem document where it makes none.
    operations
        The table of the API.
    heartbeat_seconds
        Time between two comments in a stream of events.
    session_file
        Keeps the logins of browsers over a restart; None: they end with the process.

    Returns
    -------
    The application. `app.state.calls` runs blocking calls in threads, for endpoints that are coroutines;
    `app.state.streams.close()` ends the streams of events.

    Raises
    ------
    SettingsError
        If the token file cannot be read or has a wrong line.
    """
    access = Access(service.settings, session_file)

    def report(request: Request, error: Exception) -> Response:
        document, headers = problem_of(error, request)
        if error_page is not None and not request.url.path.startswith("/api/"):
            page = error_page(request, document)
            if page is not None:
                return page
        return answer(document, headers)

    calls = Calls()
    streams = EventStreams(service, calls, heartbeat_seconds)
    app = Starlette(
        routes=[
            *api_routes(service, operations, calls, streams),
            Route("/openapi.json", _document(operations)),
            *session_routes(access),
            *routes,
        ],
        # No answer holds a secret beside what a request wrote, so its compressed length tells nothing.
        middleware=[
            Middleware(GZipMiddleware, minimum_size=MIN_GZIP_BYTES, compresslevel=6),
            Middleware(SecurityMiddleware, access=access, report=report),
        ],
        exception_handlers={HTTPException: report, TrimtabError: report},
    )
    app.state.access = access
    app.state.calls = calls
    app.state.streams = streams
    return app


def _document(operations: Sequence[Operation]) -> Callable[[Request], Response]:
    content = msgspec.json.encode(openapi_document(operations, trimtab.__version__))
    return lambda request: Response(content, media_type="application/json")


def session_routes(access: Access) -> list[Route]:
    """`POST /login` with the form field `token` begins the session of a browser, `POST /logout` ends it."""

    async def login(request: Request) -> Response:
        session = access.begin_session((await read_form(request)).get("token", "").strip())
        if session is None:
            raise AccessError(401, "unauthenticated", "the token is not known")
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https" or access.is_public_secure
        answer.set_cookie(COOKIE, session, path="/", secure=is_secure, httponly=True, samesite="strict")
        return answer

    async def logout(request: Request) -> Response:
        access.end_session(request)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    return [Route("/login", login, methods=["POST"]), Route("/logout", logout, methods=["POST"])]
