"""Errors as answers: problem documents of RFC 9457 with a remedy."""

from __future__ import annotations

import http
import logging
import secrets
import sqlite3
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response

from trimtab.serve.interface import ConflictError, NotLeaderError, UnknownError
from trimtab_common.errors import ConnectError, InputError, TrimtabError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

LOG = logging.getLogger("trimtab.serve.http")
TYPE = "urn:trimtab:problem:"

REMEDIES = {
    400: "Correct the request; /openapi.json describes its parameters and its body.",
    401: "Send a token of the token file as `Authorization: Bearer TOKEN`.",
    403: "Use a token with a higher role.",
    404: "List what exists: /api/v1/clusters, /api/v1/plans, /api/v1/executions.",
    405: "Use a method of the header Allow.",
    409: "Read the state again, then decide.",
    413: "Send a smaller body.",
    415: "Send the body as application/json.",
    503: "Try again later; /readyz names what is wrong.",
    500: "Look for the id in the log of the service.",
}
"""What helps, by status, where the error itself names nothing better."""


class Problem(Struct, frozen=True, kw_only=True):
    """An error. `detail` is about this request, `remedy` says what helps."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str


class AccessError(HTTPException):
    """A request without the rights that it needs; `name` is the last part of the problem's type."""

    def __init__(self, status: int, name: str, detail: str, remedy: str = "") -> None:
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        super().__init__(status, detail, headers)
        self.name = name
        self.remedy = remedy


def problem_of(error: Exception, request: Request) -> tuple[Problem, Mapping[str, str]]:
    """The document and the headers for an error of the service or of the request.

    An error of the lake, of the journal, or an unexpected one gets an id, which is in the log with the
    traceback. The document has the id alone.
    """
    match error:
        case UnknownError():
            return _problem(404, "unknown", str(error)), {}
        case ConflictError():
            return _problem(409, "conflict", str(error)), {}
        case NotLeaderError(leader_url=url) if url:
            # The path is decoded: a `?` or a line break in a name must not end it.
            location = url.rstrip("/") + quote(request.scope["path"])
            if query := request.scope.get("query_string", b"").decode("latin-1"):
                location += f"?{query}"
            remedy = f"Send the request to {url}."
            return _problem(307, "not-leader", str(error), remedy), {"Location": location}
        case NotLeaderError():
            return _problem(503, "not-leader", str(error)), {"Retry-After": "5"}
        case InputError():
            return _problem(400, "input", str(error)), {}
        case ConnectError():
            return _problem(503, "unreachable", str(error)), {"Retry-After": "5"}
        case TrimtabError():
            # No snapshot yet, a plan that cannot be made, a lake that does not answer: the text has a remedy.
            return _problem(409, "unable", str(error)), {}
        case HTTPException(status_code=status, detail=detail, headers=headers):
            name = getattr(error, "name", http.HTTPStatus(status).phrase.lower().replace(" ", "-"))
            return _problem(status, name, detail, getattr(error, "remedy", "")), headers or {}
    number = secrets.token_hex(8)
    LOG.error("%s %s failed, id %s", request.method, request.url.path, number, exc_info=error)
    if isinstance(error, OSError | sqlite3.OperationalError):
        text = f"The lake or the journal does not answer; the log has the reason with the id {number}."
        remedy = "Check the lake, its rights and its free space; /readyz names what is wrong."
        return _problem(503, "storage", text, remedy), {"Retry-After": "5"}
    return _problem(500, "unexpected", f"An unexpected error has the id {number}."), {}


def _problem(status: int, name: str, detail: str, remedy: str = "") -> Problem:
    return Problem(
        type=TYPE + name,
        title=http.HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        remedy=remedy or REMEDIES.get(status, ""),
    )


def answer(document: Problem, headers: Mapping[str, str]) -> Response:
    """The answer that has a problem document as its body."""
    content = msgspec.json.encode(document)
    return Response(content, document.status, headers=headers, media_type="application/problem+json")
