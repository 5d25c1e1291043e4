"""The routes as data: the router and the OpenAPI document are both made from the same list."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from bot.intake.wire import Failure

JSON = "application/json"
_REF = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `takes` and `gives` are a model, a media type, or None for no body."""

    method: str
    path: str
    summary: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    gives: type[BaseModel] | str | None
    status: int = 200
    takes: type[BaseModel] | str | None = None
    failures: dict[int, str] = field(default_factory=dict)
    token: bool = False


def add_routes(app: web.Application, operations: Iterable[Operation]) -> None:
    """Route `operations`. A parameter `{name:…}` keeps its pattern here and loses it in the document."""
    for operation in operations:
        app.router.add_route(operation.method, operation.path, operation.handler, name=None)


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of `operations`."""
    operations = list(operations)
    models = {model for each in operations for model in (each.takes, each.gives) if isinstance(model, type)}
    wanted = sorted(models | {Failure}, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in wanted], ref_template=_REF, by_alias=True)
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(plain_path(each.path), {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Firstfault",
            "version": version("firstfault"),
            "description": "Reports of failed training jobs in, diagnoses out. 202 means: committed to disk.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "clusterToken": {"type": "http", "scheme": "bearer", "description": "`firstfault cluster add NAME`"}
            },
        },
    }


def plain_path(path: str) -> str:
    """Return a router's path as OpenAPI writes it: `/logs/{name:.+}` is `/logs/{name}`."""
    return re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)


def _operation(operation: Operation) -> dict[str, Any]:
    path = plain_path(operation.path)
    described: dict[str, Any] = {
        "operationId": "_".join([operation.method.lower(), *re.findall(r"\w+", path)]),
        "summary": operation.summary,
        "responses": {
            str(operation.status): {"description": "Done", **_content(operation.gives)},
            **{str(code): {"description": why, **_content(Failure)} for code, why in operation.failures.items()},
        },
    }
    names = re.findall(r"\{(\w+)\}", path)
    if names:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if operation.takes:
        described["requestBody"] = {"required": True, **_content(operation.takes)}
    if operation.token:
        described["security"] = [{"clusterToken": []}]
    return described


def _content(body: type[BaseModel] | str | None) -> dict[str, Any]:
    if body is None:
        return {}
    if isinstance(body, str):
        return {"content": {body: {}}}
    return {"content": {JSON: {"schema": {"$ref": _REF.format(model=body.__name__)}}}}
