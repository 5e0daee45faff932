"""The OpenAPI 3.1 description of the REST API, generated from the tables of paths and fields."""

from __future__ import annotations  # pure

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from .formatting import ALL_TIME, WINDOWS
from .schema_objects import Type
from .schemas import BYTES, FAILURE, REPLIES, TEXT

Parameter = tuple[dict[str, Any], str, bool]
"""Schema, description, and True if the parameter is required."""

_JSON: Final = "application/json"
_WINDOWED: Final = frozenset(
    {
        "/topology/{id}",
        "/topology/{id}/metrics",
        "/topology/{id}/visualization-init",
        "/topology/{id}/visualization",
        "/topology/{id}/component/{component}",
    }
)
_START: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_FILE: Final[dict[str, Parameter]] = {
    "file": ({"type": "string"}, "TOPOLOGY/PORT/NAME", True),
    "host": ({"type": "string"}, "which machine, where several have the port", False),
}
_PART: Final[dict[str, Parameter]] = {
    "start": (_START, "first byte; without it, the end of the file", False),
    "length": ({"type": "integer", "minimum": 1, "maximum": 10_485_760}, "bytes", False),
    "grep": ({"type": "string"}, "only lines that hold this", False),
    "format": ({"type": "string", "enum": ["json", "text"]}, "text unless JSON is accepted", False),
}
_SEARCH: Final[dict[str, Parameter]] = {
    "search-string": ({"type": "string", "minLength": 1, "maxLength": 1024}, "what is searched for", True),
    "num-matches": ({"type": "integer", "minimum": 1, "maximum": 1000}, "at most so many", False),
}
_PORT: Final[dict[str, Parameter]] = {
    "port": ({"type": "integer", "minimum": 0, "maximum": 65_535}, "only workers at this port", False)
}
_QUERY: Final[dict[str, dict[str, Parameter]]] = {
    "/supervisor": {
        "id": ({"type": "string"}, "the supervisor", False),
        "host": ({"type": "string"}, "all supervisors of a host, where no id is given", False),
    },
    "/topology/{id}/series": {"component": ({"type": "string"}, "only of this component", False)},
    "/log": {**_FILE, **_PART},
    "/daemonlog": {"file": ({"type": "string"}, "nimbus.log", False), **_PART},
    "/daemondownload": {"file": ({"type": "string"}, "nimbus.log", False)},
    "/download": _FILE,
    "/listLogs": {"topoId": ({"type": "string"}, "only of this topology", False), **_PORT},
    "/searchLogs": {"topoId": ({"type": "string"}, "only of this topology", False), **_PORT},
    "/search": {**_FILE, **_SEARCH, "start-byte-offset": (_START, "from this byte on", False)},
    "/deepSearch/{id}": {**_SEARCH, **_PORT, "file": ({"type": "string"}, "worker.log or another", False)},
}
_PATH: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "id": ({"type": "string"}, "a topology's, acker's or owner's id, as the summaries give it"),
    "component": ({"type": "string"}, "a component of the topology"),
    "wait": ({"type": "number", "minimum": 0, "maximum": 604_800}, "seconds that tuples in flight have"),
    "action": ({"type": "string", "enum": ["enable", "disable"]}, "on or off"),
    "samplingPct": ({"type": "number", "minimum": 0, "maximum": 100}, "percent of the tuples that are emitted"),
    "hostPort": ({"type": "string"}, "a worker, host:port"),
    "timeout": ({"type": "number", "exclusiveMinimum": 0, "maximum": 10}, "minutes"),
    "file": ({"type": "string"}, "the name of a profile"),
}
_COUNT: Final = {"type": ["integer", "string"]}
_BODIES: Final[dict[str, dict[str, Any]]] = {
    "/topology/{id}/rebalance/{wait}": {
        "type": "object",
        "properties": {
            "rebalanceOptions": {
                "type": "object",
                "properties": {
                    "numWorkers": _COUNT,
                    "executors": {"type": "object", "additionalProperties": _COUNT},
                },
                "additionalProperties": False,
            }
        },
    },
    "/topology/{id}/logconfig": {
        "type": "object",
        "required": ["namedLoggerLevels"],
        "properties": {
            "namedLoggerLevels": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "target_level": {"type": ["string", "null"]},
                        "reset_level": {"type": ["string", "null"]},
                        "timeout": _COUNT,
                    },
                },
            }
        },
    },
}
_FAILURES: Final = {
    "400": "The request makes no sense",
    "401": "A token is asked for, and there is none that counts",
    "403": "Not allowed, or a POST that a foreign page may have sent",
    "404": "There is no such thing",
    "409": "Something else is being done at the same time",
    "413": "The body is too large",
    "503": "No nimbus leads, or what is asked does not answer",
}


class Described(Protocol):
    """The attributes of an endpoint that the description needs."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def right(self) -> str: ...
    @property
    def summary(self) -> str: ...


def description(endpoints: Sequence[Described], prefix: str, version: str) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(prefix + one.path, {})[one.method.lower()] = _operation(one)
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


def query_of(path: str) -> dict[str, Parameter]:
    """Return the query parameters of a GET path by name, except ``callback``."""
    found = dict(_QUERY.get(path, {}))
    if path in _WINDOWED:
        found["window"] = ({"type": "string", "enum": list(WINDOWS), "default": ALL_TIME}, "the window", False)
        found["sys"] = ({"type": "boolean", "default": False}, "with the system's components and streams", False)
    return found


def _operation(one: Described) -> dict[str, Any]:
    reply = REPLIES[f"{one.method} {one.path}"]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PATH[name][0], "description": _PATH[name][1]}
        for name in re.findall(r"\{(\w+)\}", one.path)
    ]
    if one.method == "GET":
        parameters += [
            {"name": name, "in": "query", "required": must, "schema": kind, "description": meaning}
            for name, (kind, meaning, must) in query_of(one.path).items()
        ]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{one.method.lower()}{one.path}").strip("_"),
        "summary": one.summary,
        "description": f"Takes the right `{one.right}`.",
        "parameters": parameters,
        "responses": {
            "200": {"description": "What was asked for", "content": _content(reply)},
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
        body = _BODIES.get(one.path, {"type": "object"})
        required = "namedLoggerLevels" in str(body)
        operation["requestBody"] = {"required": required, "content": {_JSON: {"schema": body}}}
    return operation


def _content(reply: Type) -> dict[str, Any]:
    if reply == BYTES:
        return {"application/octet-stream": {}}
    if reply == TEXT:
        return {"text/plain": {"schema": {"type": "string"}}, _JSON: {"schema": {"type": "object"}}}
    return {_JSON: {"schema": schema(reply)}}
