"""Forms of the pages: each changes something by a call of the service and redirects to a page."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from trimtab.model.policy import HOUR
from trimtab.serve.documents import TargetDetail
from trimtab.serve.http.routing import read_form
from trimtab.serve.http.security import Role, require_role
from trimtab.serve.interface import NotLeaderError, UnknownError
from trimtab.serve.pages.rendering import Pages, page_path
from trimtab_common.errors import InputError, TrimtabError

WHAT_IF_FIELDS: Final = ("drain", "demote", "add", "rack", "epsilon", "theta", "max_gigabytes")
MAX_NAMES: Final = 60
"""Brokers that the form of a what-if plan names."""

Form = Mapping[str, str]
Change = Callable[[Request, Form, str], Response]
"""Makes a change, by the request, its form and the name of the user."""


def form_endpoint(change: Change, is_slow: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for operators that reads the form and makes the change in a thread.

    A change that `is_slow` waits for one of the threads that make plans, as the API does.
    """

    async def endpoint(request: Request) -> Response:
        user = require_role(request, Role.OPERATOR)
        form = {name: value.strip() for name, value in (await read_form(request)).items()}
        answer = await request.app.state.calls.run(lambda: change(request, form, user.name), is_slow)
        assert isinstance(answer, Response)
        return answer

    return endpoint


def redirect(*parts: object, done: str = "") -> Response:
    """To a page by GET; `done` names the notice that it shows."""
    return RedirectResponse(page_path(*parts) + (f"?done={done}" if done else ""), 303)


class Forms(Pages):
    """Changes that the pages request."""

    def decide_plan(self, request: Request, form: Form, user: str) -> Response:
        """Approve, reject or apply a plan."""
        digest, action = request.path_params["digest"], _action(request)
        if action == "reject":
            plan = self.service.reject(digest, user, form.get("note", ""))
        else:
            plan = (self.service.approve if action == "approve" else self.service.apply_plan)(digest, user)
        done = {"approve": "approved", "reject": "rejected", "apply": "applied"}[action]
        return redirect("plans", plan.digest, done=done)

    def pause(self, request: Request, form: Form, user: str) -> Response:
        """Pause all executions of a target."""
        cluster, balancer = _target(request)
        reason = form.get("reason", "")
        if not reason:
            raise InputError("the pause has no reason; write why executions are paused")
        hours = form.get("hours", "")
        until = self.clock() + _number("hours", hours) * HOUR if hours else None
        self.service.pause(cluster, balancer, user, reason, until)
        return redirect("clusters", cluster, balancer, done="paused")

    def end_pause(self, request: Request, form: Form, user: str) -> Response:
        """End the pause of a target."""
        cluster, balancer = _target(request)
        self.service.resume(cluster, balancer, user)
        return redirect("clusters", cluster, balancer, done="resumed")

    def control_execution(self, request: Request, form: Form, user: str) -> Response:
        """Stop, cancel or continue an execution, or change its throttle."""
        cluster, number = request.path_params["cluster"], request.path_params["number"]
        action = _action(request)
        if action == "resume":
            self.service.resume_execution(cluster, number, user)
        elif action == "throttle":
            rate = 1e6 * _number("the throttle", form.get("megabytes_per_second", ""))
            if not rate:
                raise InputError("the throttle is 0 MB/s; stop the execution instead")
            self.service.set_throttle(cluster, number, rate, user)
        else:
            self.service.end_execution(cluster, number, "stop" if action == "stop" else "cancel", user)
        return redirect("clusters", cluster, "executions", number, done=action)

    def what_if(self, request: Request) -> Response:
        """The form of a what-if plan."""
        require_role(request, Role.VIEWER)
        return self._what_if_page(request, self.service.target(*_target(request)), request.query_params)

    def make_plan(self, request: Request, form: Form, user: str) -> Response:
        """A what-if plan from the form; the form with an error if it cannot be made."""
        detail = self.service.target(*_target(request))
        try:
            settings = plan_settings(form, detail)
            plan = self.service.make_plan(detail.status.cluster, detail.status.balancer, settings, user)
        except TrimtabError as error:
            if isinstance(error, NotLeaderError | UnknownError):
                raise
            # Also a missing snapshot, or a planner that fails: the reason belongs to the form.
            return self._what_if_page(request, detail, form, error)
        return redirect("plans", plan.digest)

    def _what_if_page(
        self, request: Request, detail: TargetDetail, form: Form, error: TrimtabError | None = None
    ) -> Response:
        names = [one.name for one in detail.brokers]
        return self.response(
            request,
            "what_if",
            status=200 if error is None else 400,
            target=detail.status,
            racks=sorted({one.rack for one in detail.brokers} - {""}),
            names=names[:MAX_NAMES],
            hidden=len(names[MAX_NAMES:]),
            form={name: form.get(name, "") for name in WHAT_IF_FIELDS},
            error="" if error is None else str(error),
        )


def plan_settings(form: Form, detail: TargetDetail) -> dict[str, object]:
    """Settings of a plan from the fields of the form; empty fields set nothing.

    Raises
    ------
    InputError
        If a broker is not known, or a figure is not a number in its range.
    """
    names = {one.name: one for one in detail.brokers}
    settings: dict[str, object] = {}
    for field in ("drain", "demote", "add"):
        chosen = [one for one in re.split(r"[,\s]+", form.get(field, "")) if one]
        if field == "drain" and form.get("rack"):
            chosen += [one.name for one in detail.brokers if one.rack == form["rack"]]
        unknown = [one for one in chosen if one not in names]
        if unknown:
            raise InputError(f"{field} names {', '.join(unknown)[:80]}, which is no broker of the cluster")
        if chosen:
            settings[field] = [int(one) if one.isdecimal() else one for one in dict.fromkeys(chosen)]
    for field in ("epsilon", "theta"):
        if form.get(field):
            share = _number(field, form[field]) / 100
            if not 0 < share <= 1:
                raise InputError(f"{field} is {form[field]} %; give a share above 0 % and up to 100 %")
            settings[field] = share
    if form.get("max_gigabytes"):
        settings["max_bytes"] = round(_number("max_gigabytes", form["max_gigabytes"]) * 1e9)
    return settings


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{name} is {text[:80]!r}; give a number") from None
    if not 0 <= value < 1e15:
        raise InputError(f"{name} is {text[:80]}; give a number from 0 to 1e15")
    return value


def _target(request: Request) -> tuple[str, str]:
    return request.path_params["cluster"], request.path_params["balancer"]


def _action(request: Request) -> str:
    """The last part of the path, which names the action."""
    return request.url.path.rpartition("/")[2]
