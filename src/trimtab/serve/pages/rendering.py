"""Templates of the pages, the text of figures in them, and what a user may do."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from trimtab.model.load import resource_name
from trimtab.model.text import bytes_text, clock_text, counted, duration_text
from trimtab.report.formats import figure_text, load_text, signed_text
from trimtab.serve.http.security import COOKIE, Role, User
from trimtab.serve.interface import ServiceInterface

if TYPE_CHECKING:
    from starlette.requests import Request

STATIC: Final = Path(__file__).parent / "static"
DASH: Final = "–"

VERDICTS: Final = {
    "balanced": "balanced",
    "unbalanced": "not balanced",
    "above_limit": "above a limit",
    "unknown": "unknown: no snapshot",
    "improved": "improved, not balanced",
    "incomplete": "incomplete",
    "infeasible": "infeasible",
}
"""Verdicts of targets and of plans, as text."""

CONFIRMATIONS: Final = {
    "approved": "The plan is approved. The service executes it within budgets and maintenance windows.",
    "rejected": "The plan is rejected.",
    "applied": "The plan is approved for execution.",
    "paused": "Executions are paused.",
    "resumed": "The pause has ended.",
    "stop": "The execution stops after the steps under way.",
    "cancel": "The execution is being cancelled.",
    "resume": "The execution continues.",
    "throttle": "The throttle changes with the next look at the cluster.",
}
"""What a request has done, by the word in the address to which it redirects."""


def page_path(*parts: object) -> str:
    """The path of a page; each part is quoted."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def optional_bytes(value: float | None) -> str:
    """Bytes in decimal units; a dash for None."""
    return DASH if value is None else bytes_text(value)


def share_text(value: float | None, digits: int = 0) -> str:
    """A fraction in percent; a dash for None."""
    return figure_text(value, f".{digits}%")


def deviation_text(value: float | None) -> str:
    """A deviation in whole percent with its sign; a dash for None."""
    return DASH if value is None or not math.isfinite(value) else signed_text(value)


def until_text(at: float | None, now: float) -> str:
    """An instant in the future as date, time and distance."""
    if at is None:
        return "at the next event"
    distance = at - now
    return f"{clock_text(at)} (in {duration_text(distance)})" if distance > 0 else f"{clock_text(at)} (now)"


def since_text(at: float | None, now: float) -> str:
    """An instant in the past as date, time and age."""
    return DASH if at is None else f"{clock_text(at)} ({duration_text(max(0.0, now - at))} ago)"


def modes_text(modes: Mapping[str, str]) -> list[tuple[str, str]]:
    """Modes with their triggers, the most active mode first: `("act", "broker lost, drift")`."""
    found = [
        (mode, [one for one, its in modes.items() if its == mode])
        for mode in ("act", "ask", "propose", "observe")
    ]
    return [(mode, ", ".join(one.replace("_", " ") for one in names)) for mode, names in found if names]


def sentence(text: str) -> str:
    """A clause as a sentence: a capital first, a full stop last."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def setting_text(name: str, value: object) -> str:
    """The value of a setting of a plan; bytes and shares with their units."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("bytes"):
            return bytes_text(value)
        return share_text(value, 1).replace(".0%", "%") if name in ("epsilon", "theta") else f"{value:,g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def budget_text(left: Mapping[str, int | None]) -> str:
    """What is left of the budgets of the day, in one line."""
    parts = []
    for name, value in left.items():
        noun = name.removeprefix("max_").replace("_", " ")
        if value is None:
            parts.append(f"{noun}: no limit")
        else:
            parts.append(f"{noun}: {bytes_text(value) if 'bytes' in name else f'{value:,}'}")
    return "; ".join(parts)


def _static_version() -> str:
    """A short digest of all static files, so that browsers fetch them again after an upgrade."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("trimtab.serve.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Charts draw resources in the order of the document.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    environment.filters |= {
        "bytes": optional_bytes,
        "share": share_text,
        "deviation": deviation_text,
        "duration": duration_text,
        "clock": lambda at: DASH if at is None else clock_text(at),
        "rfc3339": lambda at: clock_text(at).replace(" ", "T"),
        "setting": setting_text,
        "load": load_text,
        "resource": resource_name,
        "verdict": lambda name: VERDICTS.get(name, name),
        "spaced": lambda name: name.replace("_", " ").replace("-", " "),
        "counted": counted,
        "sentence": sentence,
        "modes": modes_text,
        "budget": budget_text,
    }
    environment.globals |= {"path": page_path, "static_version": _static_version()}
    return environment


ENVIRONMENT: Final = _environment()


class Pages:
    """Renders templates for one service.

    Parameters
    ----------
    service
        What the pages show and change.
    clock
        Gives seconds since 1970.
    """

    def __init__(self, service: ServiceInterface, clock: Callable[[], float]) -> None:
        self.service = service
        self.clock = clock

    def response(self, request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """A page as a response.

        Parameters
        ----------
        template
            Name of the template without `.html`.
        values
            Variables of the template, besides those of every page.
        """
        now, user = self.clock(), user_of(request)
        newest = max((one.number for one in self.service.decisions(limit=1)), default=0) if user else 0
        text = ENVIRONMENT.get_template(f"{template}.html").render(
            now=now,
            until=lambda at: until_text(at, now),
            since=lambda at: since_text(at, now),
            instance=self.service.instance,
            user=user,
            may_operate=user is not None and user.role >= Role.OPERATOR,
            may_log_out=COOKIE in request.cookies,
            notice=CONFIRMATIONS.get(request.query_params.get("done", "")),
            here=request.url.path,
            newest=newest,
            **values,
        )
        return HTMLResponse(text, status)


def user_of(request: Request) -> User | None:
    """The user whom the security middleware has found; None before the login."""
    user: User | None = getattr(request.state, "user", None)
    return user
