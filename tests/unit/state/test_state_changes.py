"""Changes of states from outside: their requests, their checks, and the errors of several tasks."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.codec import decode_value
from tupletree.client import StateWrite
from tupletree.errors import ConflictError, UnavailableError, UsageError
from tupletree.nimbus.state_writes import WriteRequests, indexes_of
from tupletree.state import writes
from tupletree.state.writes import ANYTHING, Change, check_changes, decisive, in_requests, put_of, with_committed
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1.nimbus_pb2 import WriteStateRequest
from tupletree.v1.topology_pb2 import StateChange, StateWritten
from tupletree.v1.worker_pb2 import WriteTaskStatesReply, WriteTaskStatesRequest


@given(st.lists(st.binary(max_size=30), max_size=40), st.integers(1, 5), st.integers(1, 60))
def test_requests_hold_all_changes_in_their_order_and_each_at_least_one(
    keys: list[bytes], most: int, most_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "MAX_CHANGES", most)
        patch.setattr(writes, "REQUEST_BYTES", most_bytes)
        parts = list(in_requests([Change(key, b"v") for key in keys]))
    assert [one.key for part in parts for one in part] == keys
    for part in parts:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(len(one.key) + 1 for one in part) <= most_bytes


def test_a_change_as_it_is_sent() -> None:
    change = put_of(("a", 1), None, task=2, expected=[5])
    sent = change.message
    assert (decode_value(sent.key), decode_value(sent.value), sent.index) == (("a", 1), None, 2)
    assert decode_value(sent.expected) == [5]
    free = put_of("a", 0).message
    assert not free.HasField("index") and free.expected == b"" and free.value != b""
    assert repr(ANYTHING) == "ANYTHING"


def test_too_many_changes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^a request makes 1 to 50,000 changes of a state, not 50,001$"):
        check_changes([StateChange()] * 50_001)
    conditional = StateChange(expected=b"1")
    check_changes([conditional] * 100)
    check_changes([StateChange()] * 101)
    with pytest.raises(UsageError, match=r"^a request with an expected value makes at most 100 changes, not 101$"):
        check_changes([StateChange()] * 100 + [conditional])


def test_the_tasks_that_are_asked() -> None:
    named, free = StateChange(index=2), StateChange()
    assert indexes_of([named, StateChange(index=0), named], 3, "count") == [0, 2]
    assert indexes_of([named, free], 3, "count") == [0, 1, 2]
    with pytest.raises(UsageError, match=r"^component 'count' has tasks 0 to 1, and no task 2$"):
        indexes_of([named, free], 2, "count")


def test_an_error_says_what_other_tasks_have_committed() -> None:
    written = [StateWritten(put=1_000, deleted=150), StateWritten(put=50)]
    error = with_committed(ConflictError("it went back"), written, "tasks of other workers")
    assert isinstance(error, ConflictError)
    assert str(error) == "it went back; of the changes, 1,200 are committed by tasks of other workers"
    plain = ConflictError("it went back")
    assert with_committed(plain, [StateWritten()], "tasks of other workers") is plain


def test_of_several_errors_the_one_counts_that_leaves_most_open() -> None:
    unknown, lost = UnavailableError("no answer"), ConflictError("it went back")
    assert decisive([lost, unknown]) is unknown
    assert decisive([lost, UsageError("wrong")]) is lost


def test_writes_add_up() -> None:
    first = StateWrite(2, 0, {0: 7, 1: 7}, frozenset({0, 1}))
    assert first + StateWrite(1, 3, {1: 8}, frozenset({1})) == StateWrite(3, 3, {0: 7, 1: 8}, frozenset({0, 1}))


def test_workers_are_told_how_many_tasks_the_component_has() -> None:
    """Those that still run with more tasks would leave the changes of some keys to tasks that nobody asks."""
    record = pb.TopologyRecord(id="words-1-1", name="words", tasks={"count": 2}, first_task=7)
    executor = pb.ExecutorRange(first_task=7, last_task=8)
    worker = pb.WorkerAssignment(host="localhost", port=6700, executors=[executor])
    view = Mock(assignment=lambda topology_id: pb.Assignment(workers=[worker]))
    asked: list[WriteTaskStatesRequest] = []

    async def answer(request: WriteTaskStatesRequest, timeout: float) -> WriteTaskStatesReply:
        asked.append(request)
        return WriteTaskStatesReply(tasks=[StateWritten(index=index) for index in request.indexes])

    queries = Mock(stub=lambda *of: Mock(WriteState=answer))
    request = WriteStateRequest(component="count", changes=[put_of("a", 1).message], wait_s=1)
    asyncio.run(WriteRequests(queries).write(view, record, request))
    assert [(list(one.indexes), one.tasks) for one in asked] == [([0, 1], 2)]
