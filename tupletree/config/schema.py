"""The table of keys as a JSON schema of tupletree.yaml, for editors and other programs that read schemas."""

from __future__ import annotations  # pure

import json
from typing import Any, Final

from tupletree import _blobs, _constraints, _limits
from tupletree.config.key import CLASS_PATTERN, Key, Kind
from tupletree.config.keys import FAMILIES, FREE_FAMILIES, KEYS

_TEXT: Final = {"type": "string", "minLength": 1}
_PATH: Final = {**_TEXT, "pattern": r"^/$|^(/(?!\.{1,2}(/|$))[^/]+)+$"}
_SHAPES: Final[dict[Kind, dict[str, Any]]] = {
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": _TEXT,
    "node": _PATH,
    "strings": {"type": "array", "minItems": 1, "items": _TEXT},
    "classes": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": f"^{CLASS_PATTERN}$"}},
    "ports": {"type": "array"},
    "map": {"type": "object"},
    "texts": {"type": "object", "additionalProperties": _TEXT},
    "amounts": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
    "any": {},
}
_OF_KEYS: Final[dict[str, dict[str, Any]]] = {
    _blobs.BLOB_MAP: {
        "maxProperties": _blobs.MAX_BLOBS,
        "propertyNames": {"pattern": _blobs.NAME_PATTERN},
        "additionalProperties": {
            "type": ["object", "null"],
            "properties": {
                "localname": {"type": "string", "pattern": _blobs.NAME_PATTERN},
                "uncompress": {"type": "boolean"},
                "workerRestart": {"type": "boolean"},
            },
            "additionalProperties": False,
        },
    },
    _constraints.CONSTRAINTS: {
        "additionalProperties": {
            "type": "object",
            "properties": {
                _constraints.MAX_ON_MACHINE: {"type": "integer", "minimum": 1},
                _constraints.APART: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
            },
            "additionalProperties": False,
        }
    },
    "supervisor.cgroup.root": _PATH,
    _constraints.ISOLATION: {"additionalProperties": {"type": "integer", "minimum": 1}},
    _constraints.POOLS: {"additionalProperties": {"type": "integer", "minimum": 1}},
    "topology.autoscale": {
        "additionalProperties": {
            "type": "object",
            "properties": {bound: {"type": "integer", "minimum": 1} for bound in ("min", "max")},
            "required": ["min", "max"],
            "additionalProperties": False,
        }
    },
}
"""What is more to say of single keys."""


def json_schema() -> dict[str, Any]:
    """Return the schema of tupletree.yaml, of draft 7, which most editors know.

    A file that the schema refuses is refused by ``validate`` too. The schema knows no limits of size, nesting and
    characters, takes 2.0 for a whole number, and accepts a key whose family is misspelt.
    """
    families = "|".join(sorted(FAMILIES - FREE_FAMILIES))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "tupletree.yaml",
        "description": "Every key of Tupletree with its default. Keys of other families are your own.",
        "type": ["object", "null"],
        "propertyNames": {"anyOf": [{"enum": list(KEYS)}, {"not": {"pattern": rf"^({families})(\.|$)"}}]},
        "properties": {name: _property(key) for name, key in KEYS.items()},
    }


def render_schema() -> str:
    """Return the schema as indented JSON. The source of ``deploy/conf/tupletree.schema.json``."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _property(key: Key) -> dict[str, Any]:
    unit = f" [{key.unit}]" if key.unit else ""
    level = " (also for one component)" if key.component_level else ""
    shown = {"description": f"{key.doc}{unit}{level}", "default": key.default}
    values = {"enum": list(key.choices)} if key.choices else _values(key)
    if not key.optional or key.kind == "any":
        return {**shown, **values}
    return {**shown, "anyOf": [values, {"type": "null"}]}


def _values(key: Key) -> dict[str, Any]:
    """Return the schema of the values of a key other than null."""
    shape = {**_SHAPES[key.kind], **_OF_KEYS.get(key.name, {})}
    if key.kind == "ports":
        return {**shape, "items": {"type": "integer", **_range(key)}}
    return {**shape, **_range(key)} if key.kind in ("int", "number") else shape


def _range(key: Key) -> dict[str, Any]:
    return {
        "minimum": -_limits.MAX_INT if key.minimum is None else key.minimum,
        "maximum": _limits.MAX_INT if key.maximum is None else key.maximum,
    }
