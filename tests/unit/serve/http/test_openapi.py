"""The OpenAPI document: valid, whole, and the same as the table of operations."""

from __future__ import annotations

import json

import jsonschema
import pytest
import schemathesis.openapi

from support.fake_service import FakeService
from support.http_calls import HttpCalls
from trimtab.serve.http.app import create_app
from trimtab.serve.http.openapi import openapi_document
from trimtab.serve.http.operations import OPERATIONS

DOCUMENT = openapi_document(OPERATIONS, "0.1.0")


def test_the_document_is_valid() -> None:
    """Schemathesis judges the document by the metaschema of OpenAPI 3.1, jsonschema judges each schema."""
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_wrong_document_is_found() -> None:
    """The judgement above can fail."""
    wrong = {**DOCUMENT, "paths": {"/x": {"get": {"responses": {"200": {}}, "parameters": [{"name": "x"}]}}}}
    with pytest.raises(Exception, match=r"required|valid"):
        schemathesis.openapi.from_dict(wrong).validate()


def test_the_document_has_all_operations() -> None:
    """Each row is one operation, with its role, its parameters and its answers."""
    found = {
        one["operationId"]: (method.upper(), path, one)
        for path, methods in DOCUMENT["paths"].items()
        for method, one in methods.items()
    }
    assert found.keys() == {one.name for one in OPERATIONS}
    for one in OPERATIONS:
        method, path, operation = found[one.name]
        assert (method, path) == (one.method, one.path)
        assert bool(operation["security"]) == (one.role is not None)
        assert str(one.status) in operation["responses"]
        assert {"400", "500"} <= operation["responses"].keys()
        assert {p["name"] for p in operation["parameters"] if p["in"] == "query"} == set(
            one.query.__struct_fields__
        )


def test_all_references_have_a_target() -> None:
    """Schemas of queries are written out at their parameters, others are components."""
    schemas = DOCUMENT["components"]["schemas"]
    text = str(DOCUMENT)
    for name in schemas:
        assert f"#/components/schemas/{name}'" in text
    assert "NoQuery" not in schemas
    jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/TargetStatus", "components": DOCUMENT["components"]}
    ).validate(HttpCalls(create_app(FakeService())).get("/api/v1/clusters").json()[1])


def test_the_document_needs_no_token() -> None:
    """It is the same that the table makes."""
    answer = HttpCalls(create_app(FakeService())).get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json() == json.loads(json.dumps(DOCUMENT))
