"""Requests and responses about the states of components. Keys and values are in plain form (_wire/plain_form.py)."""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree._limits import shown
from tupletree._wire.plain_form import key_of, shown_form
from tupletree._wire.plain_values import value_of
from tupletree.errors import UsageError
from tupletree.state.answers import DEFAULT_ENTRIES, MAX_ENTRIES, encode_key
from tupletree.state.sizes import ComponentStates, StateSize, TaskStateSize, share_of, states_of
from tupletree.state.writes import ANYTHING, DEFAULT_WAIT_S, MAX_WAIT_S, Change, checked_task, put_of
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from ..savepoint_rules import Attempt
from .requests import ApiCall

Asked = rpc.WriteStateRequest

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


# Sizes


def sizes_page(name: str, reply: rpc.MeasureStatesReply) -> dict[str, Any]:
    """``topology/{id}/states``."""
    components = [_component(one) for one in states_of(reply.tasks)]
    return {"topologyId": reply.topology_id, "topologyName": name, "components": components}


def _component(one: ComponentStates) -> dict[str, Any]:
    spread = one.spread
    return {
        "component": one.component,
        "provider": one.provider,
        **_size(spread.total),
        "keySkew": spread.key_skew,
        "byteSkew": spread.byte_skew,
        "writeRefusal": one.write_refusal,
        "largest": [{"task": task, "key": shown_form(entry.key), "bytes": entry.size} for task, entry in one.largest],
        "tasks": [_task(task, spread.total) for task in one.tasks],
    }


def _task(task: TaskStateSize, total: StateSize) -> dict[str, Any]:
    size = task.size
    return {
        "index": task.task,
        **_size(size),
        "keyShare": None if size is None else share_of(size.keys, total.keys),
        "byteShare": None if size is None else share_of(size.bytes, total.bytes),
        "committedTxid": task.committed,
        "ageSeconds": round(task.age_secs, 3),
        "failure": task.failure,
    }


def _size(size: StateSize | None) -> dict[str, Any]:
    if size is None:
        return {"keys": None, "bytes": None, "precision": None}
    return {"keys": size.keys, "bytes": size.bytes, "precision": size.precision.value}


# Changes


def puts(call: ApiCall) -> Asked:
    """Return the changes that a request asks for: ``{"entries": [{"key": ..., "value": ...}]}``. Raises UsageError."""
    body = _body(call, "entries")
    return _asked(call, body, [_put(one) for one in body["entries"]])


def deletions(call: ApiCall) -> Asked:
    """Return the changes that a request asks for: ``{"keys": [...]}``. Raises UsageError."""
    body = _body(call, "keys", "task")
    task = checked_task(body.get("task"))
    return _asked(call, body, [Change(encode_key(key_of(key)), None, task) for key in body["keys"]])


def written(component: str, reply: rpc.WriteStateReply) -> dict[str, Any]:
    """``topology/{id}/component/{component}/state/put`` and ``.../delete``."""
    return {
        "topologyId": reply.topology_id,
        "component": component,
        "put": sum(task.put for task in reply.tasks),
        "deleted": sum(task.deleted for task in reply.tasks),
        "tasks": [
            {"index": task.index, "committedTxid": task.committed} for task in reply.tasks if task.HasField("committed")
        ],
    }


def _body(call: ApiCall, required: str, *optional: str) -> Mapping[str, Any]:
    """Check the names in a body, whose ``required`` is a list with an item or more."""
    body = call.body
    names = (required, *optional, "waitSeconds")
    if type(body) is not dict or not body.keys() <= set(names) or type(body.get(required)) is not list:
        raise UsageError(f"the body is an object with a list {required}, and of {', '.join(names[1:])} what is needed")
    if not body[required]:
        raise UsageError(f"{required} has nothing to change")
    return body


def _put(one: Any) -> Change:
    if type(one) is not dict or not {"key", "value"} <= one.keys() <= {"key", "value", "task", "expected"}:
        raise UsageError(
            f'an entry is {{"key": ..., "value": ...}}, and has "task" and "expected" if needed, not {shown(one)}'
        )
    expected = value_of(one["expected"]) if "expected" in one else ANYTHING
    return put_of(key_of(one["key"]), value_of(one["value"]), one.get("task"), expected)


def _asked(call: ApiCall, body: Mapping[str, Any], changes: Sequence[Change]) -> Asked:
    return Asked(component=call.path["component"], changes=[one.message for one in changes], wait_s=_wait_of(body))


def _wait_of(body: Mapping[str, Any]) -> float:
    """Return the longest wait for a checkpoint in a body. Raises UsageError."""
    wait_s = body.get("waitSeconds", DEFAULT_WAIT_S)
    if type(wait_s) not in (int, float) or not 0 < wait_s <= MAX_WAIT_S:
        raise UsageError(f"waitSeconds is a number of more than 0 and up to {MAX_WAIT_S:g}, not {shown(wait_s)}")
    return float(wait_s)


# Savepoints


def savepoint_request(call: ApiCall) -> tuple[object, float]:
    """Return the name and the longest wait that a request asks for. Raises UsageError."""
    body = {} if call.body is None else call.body
    if type(body) is not dict or not body.keys() <= {"to", "waitSeconds"}:
        raise UsageError("the body is an object with what is needed of to and waitSeconds")
    return body.get("to"), _wait_of(body)


def savepoint_page(record: pb.TopologyRecord, are_configured: bool, attempt: Attempt | None) -> dict[str, Any]:
    """``topology/{id}/savepoint``."""
    return {
        "topologyId": record.id,
        "topologyName": record.name,
        "configured": are_configured,
        "state": "none" if attempt is None else attempt.state,
        "address": None if attempt is None else attempt.address,
        "beganUnixSeconds": None if attempt is None else attempt.began_unix_s,
        "endedUnixSeconds": None if attempt is None else attempt.ended_unix_s,
        "checkpoint": None if attempt is None else attempt.checkpoint,
        "entries": {} if attempt is None else dict(attempt.entries),
        "failure": "" if attempt is None else attempt.error,
    }
