"""Routes from the table of operations: rights, parameters, body, call in a thread, answer."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from trimtab.serve.documents import PlanRecord
from trimtab.serve.http.operations import PREFIX, Call, Calls, Health, Operation
from trimtab.serve.http.security import require_role
from trimtab.serve.interface import UnknownError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from trimtab.serve.http.events import EventStreams
    from trimtab.serve.interface import ServiceInterface


def api_routes(
    service: ServiceInterface, operations: Iterable[Operation], calls: Calls, streams: EventStreams
) -> list[Route]:
    """One route for each path, with all its methods, so that 405 names all of them."""
    paths: dict[str, dict[str, Operation]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method] = one
    return [_route(path, methods, service, calls, streams) for path, methods in paths.items()]


def _route(
    path: str, methods: dict[str, Operation], service: ServiceInterface, calls: Calls, streams: EventStreams
) -> Route:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        user = require_role(request, operation.role) if operation.role is not None else None
        call = Call(
            **_path_values(request),
            query=_query(operation, request),
            body=await _body(operation, request),
            by=user.name if user else "",
        )
        if operation.is_stream:
            return await streams.answer(request, call.query.after)
        result = await calls.run(lambda: operation.call(service, call), operation.is_slow)
        return _answer(operation, result)

    return Route(path, endpoint, methods=list(methods), name=next(iter(methods.values())).name)


def _path_values(request: Request) -> dict[str, Any]:
    values = dict(request.path_params)
    number = values.get("number")
    if number is not None:
        if not re.fullmatch(r"[0-9]{1,15}", number):
            raise UnknownError(f"{number[:40]} is not the number of an execution; list the executions")
        values["number"] = int(number)
    return values


def _query(operation: Operation, request: Request) -> object:
    """The query parameters; unknown, repeated and wrong ones are refused."""
    pairs = request.query_params.multi_items()
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if repeated:
        raise HTTPException(400, f"query parameter {repeated[0][:40]} is given more than once")
    try:
        return msgspec.convert(dict(pairs), operation.query, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"query: {error}") from None


async def _body(operation: Operation, request: Request) -> object:
    content = await request.body()
    if operation.body is None:
        if content:
            raise HTTPException(400, "this operation takes no body")
        return None
    if not content and not msgspec.json.schema(operation.body)["$defs"][operation.body.__name__]["required"]:
        return operation.body()
    # Pages of other sites cannot send this type without a question to this server before.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body is not application/json")
    try:
        return msgspec.json.decode(content, type=operation.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise HTTPException(400, f"body: {error}") from None


def _answer(operation: Operation, result: object) -> Response:
    if isinstance(result, bytes):
        return Response(result, media_type=operation.media_type)
    if isinstance(result, str):
        return Response(result, media_type=operation.media_type)
    status = 503 if isinstance(result, Health) and not result.is_ok else operation.status
    headers = {}
    if status == 201 and isinstance(result, PlanRecord):
        headers["Location"] = f"{PREFIX}/plans/{result.digest}"
    return Response(msgspec.json.encode(result), status, headers, operation.media_type)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that a page sends (`application/x-www-form-urlencoded`); the last of each name."""
    content = (await request.body()).decode("utf-8", "replace")
    try:
        found = parse_qs(content, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise HTTPException(400, "the form has more than 100 fields") from None
    return {name: values[-1] for name, values in found.items()}
