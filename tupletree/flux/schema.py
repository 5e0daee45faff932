"""The format of topologies in YAML as a JSON schema, for editors."""

from __future__ import annotations

import json
from typing import Any, Final

from tupletree.config import json_schema
from tupletree.flux.build import BY_FIELDS, GROUPINGS
from tupletree.flux.objects import OBJECT_KEYS

_Schema = dict[str, Any]

_PLACEHOLDER: Final = {"type": "string", "pattern": r"\$\{[^{}]+\}"}
_TEXT: Final = {"type": "string", "minLength": 1}
_ANY: Final[_Schema] = {}
_ID: Final = {**_TEXT, "description": "The name that streams and references use."}


def flux_schema() -> dict[str, Any]:
    """Return the schema of a topology file, of draft 7, which most editors know.

    A file that the schema refuses is refused by ``load_flux`` too, or by the check of its configuration, but for two
    things: a placeholder such as ``${name}`` may stand for more than a value or a list, and a merged mapping (``<<``)
    may have keys that are left out. What refers to what, and whether classes exist, the schema does not know.
    """
    part = {
        "parallelism": _or_placeholder({"type": "integer", "minimum": 1, "description": "Executors, 1 if not given."}),
        "numTasks": _or_placeholder({"type": "integer", "minimum": 1, "description": "Tasks, one for each executor."}),
    }
    sections = {
        "name": {**_TEXT, "description": "The topology's name. An included file needs none."},
        "config": _config(),
        "includes": _list(_include(), "Files whose definitions are added."),
        "components": _list(_object("id", id=_ID), "Objects that others refer to, each made once."),
        "spouts": _list(_object("id", id=_ID, **part), "Where tuples come from."),
        "bolts": _list(_object("id", id=_ID, **part), "What processes tuples."),
        "streams": _list(_stream(), "Which bolt gets whose tuples."),
        "topologySource": _object(
            methodName={**_TEXT, "description": "The method that gets the configuration and returns the topology."}
        ),
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A topology of Tupletree in YAML, in the format of Storm's Flux",
        **_mapping(sections),
        "definitions": {"arguments": _arguments()},
    }


def render_flux_schema() -> str:
    """Return the schema as indented JSON. The source of ``deploy/conf/topology.schema.json``."""
    return json.dumps(flux_schema(), indent=2) + "\n"


def _or_placeholder(schema: _Schema) -> _Schema:
    """Return the schema of a value in whose place a placeholder may stand."""
    shown = {"description": schema["description"]} if "description" in schema else {}
    return {**shown, "anyOf": [schema, _PLACEHOLDER]}


def _mapping(properties: _Schema, *required: str) -> _Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: _Schema, description: str = "") -> _Schema:
    shown = {"description": description} if description else {}
    return _or_placeholder({**shown, "type": ["array", "null"], "items": items})


def _config() -> _Schema:
    keys = json_schema()
    properties = {name: _or_placeholder(key) for name, key in keys["properties"].items()}
    return {
        "description": "Configuration of the topology.",
        "type": keys["type"],
        "propertyNames": keys["propertyNames"],
        "properties": properties,
    }


def _include() -> _Schema:
    override = {"type": "boolean", "description": "Its definitions take the place of those of the same id here."}
    entry = {"file": {**_TEXT, "description": "Relative to this file."}, "resource": _ANY}
    return _mapping({**entry, "override": _or_placeholder(override)}, "file")


def _object(*required: str, **more: Any) -> _Schema:
    """Return the schema of an object that a class makes, with ``more`` keys, of which some are ``required``."""
    method = _mapping({"name": _TEXT, "args": {"$ref": "#/definitions/arguments"}}, "name")
    described = {
        "className": {**_TEXT, "description": "module.Class, a function that makes the object, or the object itself."},
        "constructorArgs": {"$ref": "#/definitions/arguments"},
        "factory": {**_TEXT, "description": "The method of the class that makes the object."},
        "factoryArgs": {"$ref": "#/definitions/arguments"},
        "properties": _list(_property(), "Attributes that are set."),
        "configMethods": _list(method, "Methods that are called afterwards."),
    }
    assert set(described) == set(OBJECT_KEYS)
    return _mapping({**more, **described}, *required, "className")


def _property() -> _Schema:
    given = {"value": _ANY, "ref": _TEXT, "reflist": _list(_TEXT)}
    one = [{"required": [name]} for name in given]
    return {**_mapping({"name": _TEXT, **given}, "name"), "oneOf": one}


def _arguments() -> _Schema:
    references = [{"required": [name], "maxProperties": 1} for name in ("ref", "reflist")]
    return {
        "description": "A list of arguments, or keyword arguments. {ref: id} stands for a component.",
        "anyOf": [
            {"type": ["array", "null"]},
            {"type": "object", "not": {"anyOf": references}},
            _PLACEHOLDER,
        ],
    }


def _stream() -> _Schema:
    ends = {
        "from": {**_TEXT, "description": "The id of a spout or bolt."},
        "to": {**_TEXT, "description": "The id of a bolt."},
    }
    return _mapping({**ends, "grouping": _grouping(), "name": _ANY, "id": _ANY}, "from", "to", "grouping")


def _grouping() -> _Schema:
    anyhow = "|".join("".join(f"[{c}{c.lower()}]" if c.isalpha() else c for c in name) for name in sorted(GROUPINGS))
    kind = {"type": "string", "anyOf": [{"enum": sorted(GROUPINGS)}, {"pattern": f"^({anyhow})$"}, _PLACEHOLDER]}
    fields = _list(_TEXT, "The fields of a grouping of type FIELDS or PARTIAL_KEY.")
    entry = {"type": kind, "args": fields, "streamId": _TEXT, "customClass": {"type": ["object", "array", "null"]}}
    needs = [
        {"if": _of_types(BY_FIELDS), "then": {"required": ["args"]}},
        {"if": _of_types(["CUSTOM"]), "then": {"required": ["customClass"], "properties": {"customClass": _object()}}},
    ]
    return {**_mapping(entry, "type"), "allOf": needs}


def _of_types(names: Any) -> _Schema:
    return {"properties": {"type": {"enum": list(names)}}, "required": ["type"]}
