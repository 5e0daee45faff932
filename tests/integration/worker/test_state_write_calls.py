"""Requests to a worker that change the states of its tasks, over real gRPC: what is refused, and what is given up."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from test_state_reads import answered

from tupletree._wire.codec import encode_value
from tupletree.v1 import worker_pb2
from tupletree.v1.topology_pb2 import StateChange
from tupletree.worker.checkpoint import state_writes

PUT = StateChange(key=encode_value("a"), value=encode_value(1), index=0)


def written(**fields: Any) -> Any:
    request = worker_pb2.WriteTaskStatesRequest(
        **{
            "topology_id": "words-1-1",
            "component": "count",
            "indexes": [0],
            "changes": [PUT],
            "wait_s": 0.05,
            **fields,
        }
    )
    return answered(lambda stub: stub.WriteState(request, timeout=30))


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"topology_id": "other-1-1"}, "NOT_FOUND", "this is a worker of topology words-1-1, not of"),
        ({"indexes": [2]}, "UNAVAILABLE", "task 2 of component 'count' does not run in this worker"),
        ({"indexes": []}, "INVALID_ARGUMENT", "a request that changes states names their tasks"),
        (  # the workers have not been replaced after a change of tasks: nimbus does not ask the tasks that end
            {"tasks": 1, "changes": [StateChange(key=PUT.key, value=PUT.value, index=1)]},
            "UNAVAILABLE",
            "component 'count' is being given 1 tasks instead of 2: nothing was changed; try again when its new",
        ),
        ({"component": "words"}, "NOT_FOUND", "component 'words' has no state"),
        ({"changes": []}, "INVALID_ARGUMENT", "a request makes 1 to 50,000 changes of a state, not 0"),
        (
            {"changes": [StateChange(key=b"x", value=bytes(8_000_000))]},
            "INVALID_ARGUMENT",
            "the keys and values of a request may take 8,000,000 bytes, not 8,000,001",
        ),
        ({"wait_s": float("nan")}, "INVALID_ARGUMENT", "a write waits for its checkpoint for more than 0 and up to"),
        ({"changes": [StateChange(key=b"\xc1")]}, "INVALID_ARGUMENT", "a key of a state cannot be read"),
        ({"changes": [StateChange(key=encode_value(1.5))]}, "INVALID_ARGUMENT", "a key in JSON is a string, a whole"),
        (
            {"changes": [StateChange(key=PUT.key, value=msgpack.packb(msgpack.ExtType(77, b"")))]},
            "INVALID_ARGUMENT",
            "key 'a' of component 'count' belongs to no fields grouping, and the component has 2 tasks: name the task",
        ),
        (
            {"changes": [StateChange(key=PUT.key, value=msgpack.packb(msgpack.ExtType(77, b"")), index=1)]},
            "INVALID_ARGUMENT",
            "the value of key 'a' cannot be read by the worker",
        ),
        (
            {"changes": [StateChange(key=PUT.key, value=PUT.value, index=2)]},
            "INVALID_ARGUMENT",
            "component 'count' has tasks 0 to 1, and no task 2",
        ),
    ],
)
def test_what_cannot_be_written_is_one_sentence(fields: dict[str, Any], code: str, sentence: str) -> None:
    found = written(**fields)
    assert found[0] == code
    assert found[1].startswith(sentence)


def test_a_task_without_a_change_of_its_own_is_not_waited_for() -> None:
    reply = written(indexes=[1])
    assert [(task.index, task.HasField("committed"), task.put) for task in reply.tasks] == [(1, False, 0)]


def test_a_task_that_is_in_a_call_of_its_own_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_writes, "CALL_S", 0.05)  # no thread of this engine runs at all
    code, sentence = written()
    assert code == "UNAVAILABLE"
    assert sentence == "task 0 of component 'count' is in a call of its own for more than 0.05 s; try again"
