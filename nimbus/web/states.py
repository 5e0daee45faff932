"""Requests and responses about the states of components. Keys and values are in plain form (_wire/plain_form.py)."""

from __future__ import annotations  # pure

import json
from collections.abc import Sequence
from typing import Any, Final

from tupletree._wire.plain_form import key_of, shown_form
from tupletree.errors import UsageError
from tupletree.state.answers import DEFAULT_ENTRIES, MAX_ENTRIES, encode_key
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .requests import ApiCall

_YES: Final = frozenset({"1", "true", "yes"})


def question(call: ApiCall) -> rpc.ReadStateRequest:
    """Return the question of a request. Raises UsageError for malformed keys."""
    return rpc.ReadStateRequest(
        component=call.path["component"],
        is_live=call.query.get("live", "").lower() in _YES,
        keys=_keys(call),
        after=call.query.get("after", ""),
        limit=call.whole("limit", DEFAULT_ENTRIES, 1, MAX_ENTRIES),
    )


def page(component: str, is_live: bool, reply: rpc.ReadStateReply) -> dict[str, Any]:
    """``topology/{id}/component/{component}/state``."""
    return {
        "topologyId": reply.topology_id,
        "component": component,
        "live": is_live,
        "tasks": [
            {"index": task.index, "committedTxid": task.committed if task.HasField("committed") else None}
            for task in reply.tasks
        ],
        "entries": [_entry(task.index, one) for task in reply.tasks for one in task.entries],
        "next": reply.next or None,
    }


def _keys(call: ApiCall) -> Sequence[bytes]:
    text, whole = call.query.get("key"), call.query.get("keys", "")
    if text is not None and whole:
        raise UsageError("give key, a text, or keys, a JSON array; not both")
    if text is not None:
        return [encode_key(text)]
    if not whole:
        return []
    try:
        keys = json.loads(whole)
    except (ValueError, RecursionError):
        keys = None
    if type(keys) is not list or not keys:
        raise UsageError('keys is a JSON array with a key or more, such as ["apple", 5, ["a", 1]]')
    return [encode_key(key_of(key)) for key in keys]


def _entry(index: int, one: pb.StateEntry) -> dict[str, Any]:
    return {
        "task": index,
        "key": shown_form(one.key),
        "value": shown_form(one.value) if one.value else None,
        "bytes": one.size,
        "leftOut": not one.value,
    }
