"""Errors become problem documents, and unexpected ones keep their text to the log."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

import msgspec
import pytest
from starlette.responses import Response
from starlette.routing import Route

from support.fake_service import FakeService
from support.http_calls import HttpCalls
from trimtab.serve.http.app import create_app
from trimtab.serve.http.problems import Problem
from trimtab.serve.interface import ConflictError, NotLeaderError, UnknownError
from trimtab_common.errors import ConnectError, InputError

if TYPE_CHECKING:
    from starlette.requests import Request


def _calls(error: Exception) -> HttpCalls:
    def fail(request: Request) -> Response:
        raise error

    return HttpCalls(create_app(FakeService(), [Route("/fail", fail, methods=["GET", "POST"])]))


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (UnknownError("no plan 1234"), 404, "unknown"),
        (ConflictError("it is executing"), 409, "conflict"),
        (InputError("theta is 7"), 400, "input"),
        (ConnectError("no broker answers"), 503, "unreachable"),
        (NotLeaderError("another decides"), 503, "not-leader"),
    ],
)
def test_errors_of_the_service_have_a_status_and_a_remedy(error: Exception, status: int, name: str) -> None:
    """The detail is the message of the error."""
    answer = _calls(error).get("/fail")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == f"urn:trimtab:problem:{name}"
    assert document["status"] == status
    assert document["detail"] == str(error)
    assert document["remedy"]


def test_a_change_is_redirected_to_the_leader() -> None:
    """Path and query stay."""
    answer = _calls(NotLeaderError("another decides", "http://b.example:8230/")).post("/fail?x=1")
    assert answer.status_code == 307
    assert answer.headers["location"] == "http://b.example:8230/fail?x=1"


def test_the_address_at_the_leader_is_quoted() -> None:
    """A question mark or a line break in a name ends neither the path nor the header."""
    follower = FakeService(is_leader=False)
    key = ("a?b\r\nSet-Cookie: x", "replicas")
    follower._targets[key] = msgspec.structs.replace(follower._targets["orders", "replicas"], cluster=key[0])
    path = "/api/v1/clusters/a%3Fb%0D%0ASet-Cookie%3A%20x/replicas/resume"
    answer = HttpCalls(create_app(follower)).post(path)
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{follower.leader_url}{path}"


@pytest.mark.parametrize("error", [OSError("/secret/lake"), sqlite3.OperationalError("disk is full")])
def test_a_lake_that_does_not_answer_is_no_fault_of_the_service(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Status 503 with a remedy; the reason is in the log alone."""
    with caplog.at_level(logging.ERROR, "trimtab.serve.http"):
        answer = _calls(error).get("/fail")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["remedy"].startswith("Check the lake")
    assert str(error) not in answer.text
    assert str(error) in caplog.text


def test_an_unexpected_error_is_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The answer has an id that finds the traceback in the log."""
    with caplog.at_level(logging.ERROR, "trimtab.serve.http"):
        answer = _calls(RuntimeError("password=planted")).get("/fail")
    assert answer.status_code == 500
    assert "planted" not in answer.text
    assert "Traceback" not in answer.text
    record = next(one for one in caplog.records if one.exc_info)
    assert answer.json()["detail"].split()[-1].rstrip(".") in record.getMessage()
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_unknown_paths_and_methods_are_problems_too() -> None:
    """A wrong method names the permitted ones."""
    calls = _calls(RuntimeError())
    assert calls.get("/nothing").json()["status"] == 404
    answer = calls("DELETE", "/fail")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert answer.json()["type"] == "urn:trimtab:problem:method-not-allowed"


def test_pages_have_their_own_errors() -> None:
    """An error page is made outside of the API alone."""

    def page(request: Request, document: Problem) -> Response:
        return Response(f"<p>{document.title}", document.status, media_type="text/html")

    calls = HttpCalls(create_app(FakeService(), (), page))
    assert calls.get("/nothing").text == "<p>Not Found"
    assert calls.get("/api/nothing").headers["content-type"] == "application/problem+json"
