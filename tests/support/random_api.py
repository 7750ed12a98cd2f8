"""Random requests to a server of the API, made from its OpenAPI document by schemathesis."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import schemathesis.openapi
from schemathesis.engine import Status, events, from_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemathesis.engine.recorder import ScenarioRecorder

STREAM = "/api/v1/events"
"""Its answer has no end; it has tests of its own."""


@dataclass
class RandomRequests:
    """What a run has found.

    Attributes
    ----------
    statuses
        Number of answers by HTTP status.
    failures
        Failed checks, each with the request that shows it.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """Number of requests that were answered."""
        return self.statuses.total()


def send(
    url: str, token: str, max_examples: int, known: Mapping[str, object] | None = None, seed: int = 1
) -> RandomRequests:
    """Send random requests and sequences of requests: valid, invalid, without a token.

    Parameters
    ----------
    url
        Address of the server.
    token
        Token of the user who sends them.
    max_examples
        Random requests per operation, and sequences.
    known
        Parameters that exist, as `path.cluster`, so that requests get past 404; else random ones.
    seed
        The same seed makes the same requests.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json").exclude(path=STREAM)
    # Requests carry a made-up cookie too, with which changes need the origin.
    schema.config.update(headers={"Authorization": f"Bearer {token}", "Origin": url}, request_timeout=30)
    schema.config.update(parameters=dict(known or {}))
    schema.config.seed = seed
    schema.config.generation.update(max_examples=max_examples, database="none")
    found = RandomRequests()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            found.failures.append(f"{event.label}: {event.info.format()}")
        if isinstance(event, events.FatalError):
            found.failures.append(str(event.exception))
        if isinstance(event, events.ScenarioFinished):
            _record(event.recorder, found)
    return found


def _record(recorder: ScenarioRecorder, found: RandomRequests) -> None:
    for one in recorder.interactions.values():
        if one.response is None:
            found.failures.append(f"{recorder.label}: no answer to {one.request.method} {one.request.uri}")
            continue
        status = one.response.status_code
        found.statuses[status] += 1
        if status >= 500:
            found.failures.append(f"{status}: {one.request.method} {one.request.uri}")
    for case, checks in recorder.checks.items():
        for check in checks:
            if check.status is Status.FAILURE and check.failure_info is not None:
                if check.name == "positive_data_acceptance" and _is_of_the_service(recorder, case):
                    continue
                failure = check.failure_info
                found.failures.append(
                    f"{recorder.label}: {failure.failure.title}: "
                    f"{failure.failure.message}\n{failure.code_sample}"
                )


def _is_of_the_service(recorder: ScenarioRecorder, case: str) -> bool:
    """Whether the service refused a value that the document cannot describe: names of settings of a plan."""
    response = recorder.interactions[case].response
    return response is not None and response.json().get("type") == "urn:trimtab:problem:input"
