"""The pages of the service: HTML that works without JavaScript, and scripts that keep it up to date."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from trimtab.serve.http.problems import Problem
from trimtab.serve.http.security import Role, require_role
from trimtab.serve.interface import ServiceInterface
from trimtab.serve.pages.forms import Forms, form_endpoint
from trimtab.serve.pages.rendering import STATIC, Pages
from trimtab.serve.pages.views import Views

if TYPE_CHECKING:
    from starlette.requests import Request

Clock = Callable[[], float]

TARGET: Final = "/clusters/{cluster}/{balancer}"
EXECUTION: Final = "/clusters/{cluster}/executions/{number:int}"


def page_routes(service: ServiceInterface, clock: Clock = time.time) -> list[BaseRoute]:
    """Routes of all pages, of their forms and of static files; `create_app` has the login itself.

    Parameters
    ----------
    service
        What the pages show and change.
    clock
        Gives seconds since 1970.
    """
    views, forms = Views(service, clock), Forms(service, clock)
    routes: list[BaseRoute] = [
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/login", views.login),
        Route(f"{TARGET}/what-if", forms.what_if),
    ]
    readable = {
        "/": views.overview,
        "/plans": views.plans,
        "/plans/{digest}": views.plan,
        "/history": views.history,
        "/policy": views.policy,
        EXECUTION: views.execution,
        TARGET: views.cluster,
    }
    changes = {
        **{f"/plans/{{digest}}/{action}": forms.decide_plan for action in ("approve", "reject", "apply")},
        **{
            f"{EXECUTION}/{action}": forms.control_execution
            for action in ("stop", "cancel", "resume", "throttle")
        },
        f"{TARGET}/pause": forms.pause,
        f"{TARGET}/resume": forms.end_pause,
    }
    routes += [Route(path, _for_viewers(view)) for path, view in readable.items()]
    routes += [Route(path, form_endpoint(change), methods=["POST"]) for path, change in changes.items()]
    make_plan = form_endpoint(forms.make_plan, is_slow=True)
    routes.append(Route(f"{TARGET}/what-if", make_plan, methods=["POST"]))
    return routes


def _for_viewers(view: Callable[[Request], Response]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        require_role(request, Role.VIEWER)
        return view(request)

    return endpoint


def error_page(
    service: ServiceInterface, clock: Clock = time.time
) -> Callable[[Request, Problem], Response | None]:
    """The function that shows an error as a page to browsers; a browser without a user goes to the login."""
    pages = Pages(service, clock)

    def page(request: Request, problem: Problem) -> Response | None:
        # A script that fetches a part of a page does not swap errors, and follows no redirect to the login.
        if "text/html" not in request.headers.get("accept", "") or "hx-request" in request.headers:
            return None
        if problem.status == 401 and request.method == "GET":
            return RedirectResponse("/login", 303)
        if problem.status == 401:
            return pages.response(request, "login", status=401, error=problem.detail)
        if problem.status in (404, 405):
            # Remedies of the API name its paths.
            problem = replace(problem, remedy="")
        if problem.detail == problem.title:
            problem = replace(problem, detail="There is no page at this address.")
        # A browser would repeat a form at the address of a redirect, where it has no session.
        status = 503 if problem.status == 307 else problem.status
        return pages.response(
            request, "error", status=status, title=problem.title, text=problem.detail, remedy=problem.remedy
        )

    return page
