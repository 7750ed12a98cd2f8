"""Random requests to a real server find no failure, and they do find planted faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.fake_service import FakeService
from support.http_calls import served, write_tokens
from support.random_api import RandomRequests, send
from tiers import by_tier
from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.http.app import create_app
from trimtab.serve.http.operations import OPERATIONS, Call, Operation

ROLES = ("viewer", "operator", "admin")


def _run(
    folder: Path,
    role: str,
    max_examples: int,
    operations: tuple[Operation, ...] = OPERATIONS,
    *,
    knows_names: bool = False,
) -> RandomRequests:
    settings = ServeSettings(
        listen="127.0.0.1:0",
        clusters=("orders", "payments"),
        token_file=str(write_tokens(folder / "tokens")),
    )
    service = FakeService(settings)
    known = {
        "path.cluster": "payments",
        "path.balancer": "replicas",
        "path.number": 3,
        "path.digest": service.plans()[0].digest,
    }
    app = create_app(service, operations=operations)
    with served(app, settings) as server:
        return send(server.url, f"{role}-token", max_examples, known if knows_names else None)


@pytest.mark.parametrize("knows_names", [False, True], ids=["random names", "known names"])
@pytest.mark.parametrize("role", ROLES)
def test_random_requests_find_no_failure(role: str, knows_names: bool, tmp_path: Path) -> None:
    """Each answer has a documented status and a body of its schema; none is an error of the service."""
    found = _run(tmp_path, role, by_tier(1, 6, 40), knows_names=knows_names)
    assert found.failures == []
    assert found.cases >= by_tier(400, 500, 1000)
    for status in (200, 400, 401):
        assert found.statuses[status] >= 20
    assert (found.statuses[202] > 0) == (role != "viewer")
    if knows_names:
        assert (found.statuses[409] > 20) == (role != "viewer")


def _wrong_type(operation: Operation) -> Operation:
    def call(service: Any, values: Call) -> object:
        return [{"cluster": 1, "balancer": one.balancer} for one in service.targets()]

    return replace(operation, call=call)


def _raising(operation: Operation) -> Operation:
    def call(service: Any, values: Call) -> object:
        raise RuntimeError("planted")

    return replace(operation, call=call)


@pytest.mark.parametrize(
    ("plant", "finding"),
    [(_wrong_type, "Response violates schema"), (_raising, "500: GET")],
    ids=["wrong type", "raises"],
)
def test_planted_faults_are_found(
    plant: Callable[[Operation], Operation], finding: str, tmp_path: Path
) -> None:
    """A field of the wrong type, and an operation that raises."""
    operations = tuple(plant(one) if one.name == "listTargets" else one for one in OPERATIONS)
    found = _run(tmp_path, "operator", 1, operations)
    assert any(finding in one for one in found.failures), found.failures


def test_a_missing_check_of_the_role_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that the document protects, and that answers without a token."""
    from trimtab.serve.http import routing
    from trimtab.serve.http.security import LOCAL, require_role

    def careless(request: Any, role: Any) -> Any:
        return LOCAL if request.url.path == "/api/v1/clusters" else require_role(request, role)

    monkeypatch.setattr(routing, "require_role", careless)
    found = _run(tmp_path, "operator", 1)
    assert any("listTargets" in one or "/api/v1/clusters" in one for one in found.failures)
    assert any("uthentication" in one for one in found.failures), found.failures
