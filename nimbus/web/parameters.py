"""Query parameters and bodies that the endpoints take, as JSON schemas."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any, Final

from tupletree.state.answers import DEFAULT_ENTRIES, MAX_ENTRIES
from tupletree.state.writes import DEFAULT_WAIT_S, MAX_WAIT_S

from .formatting import ALL_TIME, WINDOWS
from .letters import DEFAULT_LETTERS, MAX_LETTERS

Parameter = tuple[dict[str, Any], str, bool]
"""Schema, description, and True if the parameter is required."""
Query = Mapping[str, Parameter]

_START: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_COUNT: Final = {"type": ["integer", "string"]}
_PORT: Final[Query] = {
    "port": ({"type": "integer", "minimum": 0, "maximum": 65_535}, "only workers at this port", False)
}
_SEARCH: Final[Query] = {
    "search-string": ({"type": "string", "minLength": 1, "maxLength": 1024}, "the text to search for", True),
    "num-matches": ({"type": "integer", "minimum": 1, "maximum": 1000}, "the maximum number of matches", False),
}

WINDOWED: Final[Query] = {
    "window": ({"type": "string", "enum": list(WINDOWS), "default": ALL_TIME}, "the time window of the metrics", False),
    "sys": ({"type": "boolean", "default": False}, "include system components and streams", False),
}
SUPERVISOR: Final[Query] = {
    "id": ({"type": "string"}, "the supervisor", False),
    "host": ({"type": "string"}, "without id: all supervisors of this host", False),
}
COMPONENT: Final[Query] = {"component": ({"type": "string"}, "only of this component", False)}
FILE: Final[Query] = {
    "file": ({"type": "string"}, "TOPOLOGY/PORT/NAME", True),
    "host": ({"type": "string"}, "the machine, if several have a slot at the port", False),
}
DAEMON_FILE: Final[Query] = {"file": ({"type": "string"}, "nimbus.log", False)}
PART: Final[Query] = {
    "start": (_START, "first byte; without it, the end of the file", False),
    "length": ({"type": "integer", "minimum": 1, "maximum": 10_485_760}, "bytes", False),
    "grep": ({"type": "string"}, "only lines that contain this text", False),
    "format": ({"type": "string", "enum": ["json", "text"]}, "the default follows the Accept header", False),
}
LOGS: Final[Query] = {"topoId": ({"type": "string"}, "only of this topology", False), **_PORT}
SEARCH_FILE: Final[Query] = {**FILE, **_SEARCH, "start-byte-offset": (_START, "from this byte on", False)}
SEARCH_ALL: Final[Query] = {**_SEARCH, **_PORT, "file": ({"type": "string"}, "the log, by default worker.log", False)}
_OF_TOPOLOGY: Final[Query] = {"topology": ({"type": "string"}, "only letters of the topology with this name", False)}
LETTERS: Final[Query] = {
    **_OF_TOPOLOGY,
    "limit": (
        {"type": "integer", "minimum": 1, "maximum": MAX_LETTERS, "default": DEFAULT_LETTERS},
        "at most so many",
        False,
    ),
    "after": ({"type": "string"}, "the letters that follow: `next` of the response before", False),
}
STATE: Final[Query] = {
    "key": ({"type": "string"}, "the value of this key, a text", False),
    "keys": ({"type": "string"}, 'the values of these keys, as a JSON array: `["apple", 5, ["a", 1]]`', False),
    "live": ({"type": "boolean", "default": False}, "uncommitted values; only with `key` or `keys`", False),
    "limit": (
        {"type": "integer", "minimum": 1, "maximum": MAX_ENTRIES, "default": DEFAULT_ENTRIES},
        "without keys: at most so many entries",
        False,
    ),
    "after": ({"type": "string"}, "the entries that follow: `next` of the response before", False),
}
ALL_LETTERS: Final[Query] = {
    **_OF_TOPOLOGY,
    "until": ({"type": "number"}, "only letters that were stored until then, in Unix seconds", False),
}

OBJECT: Final[dict[str, Any]] = {"type": "object"}
REBALANCE: Final[dict[str, Any]] = {
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
}
CONFIGURATION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "set": {"type": "object"},
        "unset": {"type": "array", "items": {"type": "string"}},
        "waitSeconds": {"type": ["number", "null"], "minimum": 0},
    },
    "additionalProperties": False,
}
_WAIT: Final[dict[str, Any]] = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MAX_WAIT_S,
    "default": DEFAULT_WAIT_S,
}
PUT_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["entries"],
    "properties": {
        "entries": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["key", "value"],
                "properties": {"key": {}, "value": {}, "expected": {}, "task": {"type": ["integer", "null"]}},
                "additionalProperties": False,
            },
        },
        "waitSeconds": _WAIT,
    },
    "additionalProperties": False,
}
DELETE_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["keys"],
    "properties": {
        "keys": {"type": "array", "minItems": 1, "items": {}},
        "task": {"type": ["integer", "null"]},
        "waitSeconds": _WAIT,
    },
    "additionalProperties": False,
}
SAVEPOINT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"to": {"type": ["string", "null"]}, "waitSeconds": _WAIT},
    "additionalProperties": False,
}
LOG_LEVELS: Final[dict[str, Any]] = {
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
}
