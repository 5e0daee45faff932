"""The OpenAPI 3.1 description of the REST API, generated from the table of endpoints."""

from __future__ import annotations  # pure

import re
from collections.abc import Sequence
from typing import Any, Final

from .endpoint import PREFIX, Endpoint
from .schema_objects import Type
from .schemas import BYTES, FAILURE, TEXT

_JSON: Final = "application/json"
_PATH: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "id": ({"type": "string"}, "a topology's, acker's or owner's id, as the summaries give it"),
    "component": ({"type": "string"}, "a component of the topology"),
    "wait": ({"type": "number", "minimum": 0, "maximum": 604_800}, "seconds to wait for tuples in flight"),
    "action": ({"type": "string", "enum": ["enable", "disable"]}, "on or off"),
    "samplingPct": ({"type": "number", "minimum": 0, "maximum": 100}, "percentage of emitted tuples to sample"),
    "hostPort": ({"type": "string"}, "a worker, host:port"),
    "timeout": ({"type": "number", "exclusiveMinimum": 0, "maximum": 10}, "minutes"),
    "file": ({"type": "string"}, "the name of a profile, or of a dump of memory"),
    "store": ({"type": "string"}, "a store of nimbus.dead.letters.stores"),
    "letter": ({"type": "string"}, "the id of a letter"),
}
_FAILURES: Final = {
    "400": "The request is invalid",
    "401": "A token is required, and the request has no valid token",
    "403": "Not allowed, or a POST that a foreign page may have sent",
    "404": "The object in the path or the query does not exist",
    "409": "A conflicting operation is in progress",
    "413": "The body is too large",
    "502": "A store of dead letters, or the worker of a state, cannot be used",
    "503": "No nimbus leads, or a daemon does not answer",
}


def description(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(PREFIX + one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tupletree",
            "version": version,
            "description": "Storm's REST interface, served by nimbus. See docs/rest.md.",
        },
        "paths": paths,
        "components": {"schemas": {"Failure": schema(FAILURE)}},
    }


def schema(kind: Type) -> dict[str, Any]:
    """Return the JSON schema of a type of schema_objects.py."""
    if isinstance(kind, list):
        return {"type": "array", "items": schema(kind[0])}
    if isinstance(kind, str):
        name = kind.removesuffix("?")
        if name == "any":
            return {}
        return {"type": [name, "null"] if kind.endswith("?") else name}
    if set(kind) == {"oneOf"}:
        return {"anyOf": [schema(one) for one in kind["oneOf"]]}
    if set(kind) == {"*"}:
        return {"type": "object", "additionalProperties": schema(kind["*"])}
    return {
        "type": "object",
        "required": sorted(kind),
        "properties": {name: schema(inner) for name, inner in kind.items()},
        "additionalProperties": False,
    }


def _operation(one: Endpoint) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PATH[name][0], "description": _PATH[name][1]}
        for name in re.findall(r"\{(\w+)\}", one.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": must, "schema": kind, "description": meaning}
        for name, (kind, meaning, must) in one.query.items()
    ]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{one.method.lower()}{one.path}").strip("_"),
        "summary": one.summary,
        "description": f"Requires the right {one.right}: {one.row.right.value}.",
        "parameters": parameters,
        "responses": {
            "200": {"description": "The response", "content": _content(one.reply)},
            **{
                status: {
                    "description": text,
                    "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Failure"}}},
                }
                for status, text in _FAILURES.items()
            },
        },
    }
    if one.method == "POST":
        operation["requestBody"] = {"required": "required" in one.body, "content": {_JSON: {"schema": one.body}}}
    return operation


def _content(reply: Type) -> dict[str, Any]:
    if reply == BYTES:
        return {"application/octet-stream": {}}
    if reply == TEXT:
        return {"text/plain": {"schema": {"type": "string"}}, _JSON: {"schema": {"type": "object"}}}
    return {_JSON: {"schema": schema(reply)}}
