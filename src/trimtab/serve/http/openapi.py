"""The OpenAPI 3.1 document of the operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from trimtab.serve.documents import ExecutionRecord, PlanRecord
from trimtab.serve.http.operations import Health, Operation
from trimtab.serve.http.problems import Problem
from trimtab.serve.http.security import COOKIE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REFERENCE = "#/components/schemas/{name}"
PATH_PARAMETERS = {
    "cluster": ({"type": "string"}, "Name of the cluster in the settings."),
    "balancer": ({"type": "string"}, "Name of the balancer, like `replicas`."),
    "digest": ({"type": "string"}, "SHA-256 of the plan file, in hex."),
    "number": ({"type": "integer", "minimum": 1}, "Number of the execution in the journal of the cluster."),
}
LINKS: dict[Any, dict[str, str]] = {
    PlanRecord: {"digest": "$response.body#/digest"},
    ExecutionRecord: {"cluster": "$response.body#/cluster", "number": "$response.body#/number"},
}
"""Where an answer has the path parameters of other operations."""
ERRORS = {
    307: "Another instance decides; the header `Location` names it.",
    400: "A parameter or the body is wrong.",
    401: "The request has no valid token.",
    403: "The role of the user is too low, or another site sent the request.",
    404: "There is no such cluster, plan or execution.",
    409: "The state does not allow the request now.",
    413: "The body is larger than 1 MB.",
    415: "The body is not `application/json`.",
    421: "The header `Host` has an unknown name.",
    500: "An unexpected error; the log has its id.",
    503: "No instance decides now, or the cluster cannot be reached.",
}


def openapi_document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """The document.

    Parameters
    ----------
    operations
        Rows of the table.
    version
        Version of trimtab.
    """
    types = [Problem, Health, *_types(operations)]
    schemas, components = msgspec.json.schema_components(
        types, schema_hook=_open_schema, ref_template=REFERENCE
    )
    schema_of = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    queries = {one.query for one in operations}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, operations, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "trimtab serve",
            "version": version,
            "description": "Clusters, plans, approvals, executions and decisions of a service that balances "
            "clusters. Times are seconds since 1970. Errors are problem documents (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {
                name: schema
                for name, schema in components.items()
                if name not in {query.__name__ for query in queries}
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token of the token file."},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "After /login."},
            },
        },
    }


def _open_schema(kind: type) -> dict[str, Any]:
    """The schema of a value of any type: settings of a plan."""
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(kind)


def _key(kind: Any) -> str:
    return str(kind)


def _types(operations: Iterable[Operation]) -> list[Any]:
    found: dict[str, Any] = {}
    for one in operations:
        for kind in (one.result, one.body, one.query):
            if kind not in (None, bytes, str):
                found[_key(kind)] = kind
    return list(found.values())


def _operation(
    one: Operation, operations: Sequence[Operation], schema_of: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    role = "No token is needed." if one.role is None else f"Role: {one.role.name.lower()}."
    answer: dict[str, Any] = {"description": "Success.", "content": _content(one, schema_of)}
    if one.status == 201:
        answer["headers"] = {"Location": {"schema": {"type": "string"}, "description": "URL of the result."}}
    if one.result in LINKS:
        answer["links"] = {
            other.name: {"operationId": other.name, "parameters": LINKS[one.result]}
            for other in operations
            if set(_path_names(other)) == set(LINKS[one.result])
        }
    responses: dict[str, Any] = {str(one.status): answer}
    for status in _errors(one):
        responses[str(status)] = {
            "description": ERRORS[status],
            "content": {"application/problem+json": {"schema": schema_of[_key(Problem)]}},
        }
    if one.result is Health:
        responses["503"] = {**answer, "description": "It does not; the findings say why."}
    document: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.description.partition(". ")[0].rstrip("."),
        "description": f"{one.description} {role}",
        "parameters": [*_path_parameters(one), *_query_parameters(one), *_header_parameters(one)],
        "responses": dict(sorted(responses.items())),
        "security": [] if one.role is None else [{"token": []}, {"session": []}],
    }
    if one.body is not None:
        document["requestBody"] = {
            "required": bool(_fields(one.body)["required"]),
            "content": {"application/json": {"schema": schema_of[_key(one.body)]}},
        }
    return document


def _content(one: Operation, schema_of: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if one.is_stream or one.result is str:
        return {one.media_type: {"schema": {"type": "string"}}}
    return {one.media_type: {"schema": {} if one.result is bytes else schema_of[_key(one.result)]}}


def _errors(one: Operation) -> list[int]:
    found = [400, 421, 500, 503]
    if one.role is not None:
        found += [401, 403]
    if "{" in one.path or one.method == "POST":
        found.append(404)
    if one.method == "POST":
        found += [307, 403, 409, 413]
    if one.body is not None:
        found.append(415)
    return sorted(set(found))


def _path_names(one: Operation) -> list[str]:
    return re.findall(r"{(\w+)}", one.path)


def _path_parameters(one: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": PATH_PARAMETERS[name][0],
            "description": PATH_PARAMETERS[name][1],
        }
        for name in _path_names(one)
    ]


def _fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.schema(kind)["$defs"][kind.__name__]
    return found


def _query_parameters(one: Operation) -> list[dict[str, Any]]:
    found = []
    for name, schema in _fields(one.query)["properties"].items():
        description = schema.pop("description", "")
        found.append(
            {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
        )
    return found


def _header_parameters(one: Operation) -> list[dict[str, Any]]:
    if not one.is_stream:
        return []
    return [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "schema": {"type": "integer", "minimum": 0},
            "description": "The first event is the decision after this number; set by browsers.",
        }
    ]
