"""The application of the service: middleware, routes of the API, and those of pages, metrics and adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from trimtab.serve.http.problems import Problem, answer, problem_of
from trimtab.serve.http.security import Access, SecurityMiddleware
from trimtab_common.errors import TrimtabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from trimtab.serve.interface import ServiceInterface


def create_app(
    service: ServiceInterface,
    routes: Sequence[BaseRoute] = (),
    error_page: Callable[[Request, Problem], Response | None] | None = None,
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

    Raises
    ------
    SettingsError
        If the token file cannot be read or has a wrong line.
    """
    access = Access(service.settings)

    def report(request: Request, error: Exception) -> Response:
        document, headers = problem_of(error, request)
        if error_page is not None and not request.url.path.startswith("/api/"):
            page = error_page(request, document)
            if page is not None:
                return page
        return answer(document, headers)

    def livez(request: Request) -> Response:
        return Response(status_code=503 if service.liveness() else 200)

    app = Starlette(
        routes=[Route("/livez", livez), *routes],
        middleware=[Middleware(SecurityMiddleware, access=access, report=report)],
        exception_handlers={HTTPException: report, TrimtabError: report},
    )
    app.state.access = access
    return app
