"""The fields of responses about states, in the notation of schema_objects.py."""

from __future__ import annotations  # pure

from typing import Final

from .schema_objects import Type

_SIZE: Final = {"keys": "integer?", "bytes": "integer?", "precision": "string?"}

STATE: Final[Type] = {
    "topologyId": "string",
    "component": "string",
    "live": "boolean",
    "tasks": [{"index": "integer", "committedTxid": "integer?"}],
    "entries": [{"task": "integer", "key": "any", "value": "any", "bytes": "integer", "leftOut": "boolean"}],
    "next": "string?",
}
STATES: Final[Type] = {
    "topologyId": "string",
    "topologyName": "string",
    "components": [
        {
            "component": "string",
            "provider": "string",
            **_SIZE,
            "keySkew": "number?",
            "byteSkew": "number?",
            "writeRefusal": "string",
            "largest": [{"task": "integer", "key": "any", "bytes": "integer"}],
            "tasks": [
                {
                    "index": "integer",
                    **_SIZE,
                    "keyShare": "number?",
                    "byteShare": "number?",
                    "committedTxid": "integer?",
                    "ageSeconds": "number",
                    "failure": "string",
                }
            ],
        }
    ],
}
STATE_WRITTEN: Final[Type] = {
    "topologyId": "string",
    "component": "string",
    "put": "integer",
    "deleted": "integer",
    "tasks": [{"index": "integer", "committedTxid": "integer"}],
}
SAVEPOINT: Final[Type] = {
    "topologyId": "string",
    "topologyName": "string",
    "configured": "boolean",
    "state": "string",
    "address": "string?",
    "beganUnixSeconds": "number?",
    "endedUnixSeconds": "number?",
    "checkpoint": "integer?",
    "entries": {"*": "integer"},
    "failure": "string",
}
