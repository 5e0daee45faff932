"""Sizes of states that workers report, which may run any code: what nimbus passes on, and what it says instead."""

from __future__ import annotations

import pytest

from tupletree.errors import NotFoundError, ProtocolError, UnavailableError
from tupletree.nimbus.state_sizes import checked, places_of, places_of_workers, with_state
from tupletree.state.sizes import SizePrecision, StateSize, states_of
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1.worker_pb2 import MeasureTaskStatesReply

PLACES = {5: ("count", 0), 6: ("count", 1)}
RECORD = pb.TopologyRecord(name="words", tasks={"count": 2, "words": 1}, first_task=1)


LARGE = pb.LargeEntry(key=b"k", bytes=7)


def size(index: int, component: str = "count", **fields: object) -> pb.TaskStateSize:
    return pb.TaskStateSize(component=component, index=index, keys=3, bytes=30, **fields)  # type: ignore[arg-type]


def reply(*tasks: pb.TaskStateSize) -> MeasureTaskStatesReply:
    return MeasureTaskStatesReply(tasks=tasks)


@pytest.mark.parametrize(
    "tasks",
    [
        [size(0), size(0)],
        [size(2)],
        [size(0, "other")],
        [size(0, largest=[LARGE] * 6)],
        [size(0, largest=[pb.LargeEntry(key=b"k" * 4_097)])],
    ],
    ids=["twice", "no such task", "of others", "many large entries", "a long key"],
)
def test_an_answer_of_other_tasks_is_refused(tasks: list[pb.TaskStateSize]) -> None:
    with pytest.raises(ProtocolError, match=r"^worker at w:1 gave an answer that is not of its tasks with a state$"):
        checked(reply(*tasks), PLACES, "w:1")


def test_odd_fields_are_brought_into_bounds() -> None:
    odd = size(0, age_s=float("nan"), provider="p" * 5_000, failure="f" * 5_000)
    odd.precision = 77  # type: ignore[assignment]
    found = checked(reply(odd, size(1, age_s=float("inf"))), PLACES, "w:1")
    assert (found["count", 0].age_s, found["count", 1].age_s) == (0, 1e9)
    assert len(found["count", 0].provider) == len(found["count", 0].failure) == 1_000
    assert found["count", 0].precision == pb.SIZE_PRECISION_AT_LEAST


def test_a_task_that_its_worker_leaves_out_has_the_reason() -> None:
    found = checked(reply(size(1, precision=pb.SIZE_PRECISION_EXACT)), PLACES, "w:1")
    [states] = states_of(found[place] for place in sorted(found))
    assert [(one.size, one.failure) for one in states.tasks] == [
        (None, "its worker reports no state of it"),
        (StateSize(3, 30), ""),
    ]
    assert states.spread.total == StateSize(3, 30, SizePrecision.AT_LEAST)


def test_tasks_with_a_state_are_those_of_the_spec() -> None:
    spec = pb.TopologySpec(
        components=[
            pb.ComponentSpec(id="words", kind=pb.COMPONENT_KIND_SPOUT),
            pb.ComponentSpec(id="count", kind=pb.COMPONENT_KIND_BOLT, keeps_state=True),
        ]
    )
    found = places_of(RECORD, spec)
    assert sorted(found.values()) == [("count", 0), ("count", 1)]
    assert places_of(RECORD, spec, "count") == found
    with pytest.raises(NotFoundError, match=r"^component 'words' has no state; states are kept by count$"):
        places_of(RECORD, spec, "words")
    with pytest.raises(UnavailableError, match=r"^the code of topology 'words' is being copied to this nimbus; try ag"):
        places_of(RECORD, pb.TopologySpec())


def test_a_spout_that_saves_no_position_has_no_state() -> None:
    spec = pb.TopologySpec(
        components=[
            pb.ComponentSpec(id="words", kind=pb.COMPONENT_KIND_SPOUT, keeps_state=True),
            pb.ComponentSpec(id="count", kind=pb.COMPONENT_KIND_BOLT, keeps_state=True),
        ]
    )
    count, words = size(0, provider="memory"), size(0, "words")
    assert with_state({("words", 0): words, ("count", 0): count}, spec) == [count]
    with pytest.raises(NotFoundError, match=r"^component 'words' has no state; states are kept by count$"):
        with_state({("words", 0): words}, spec, "words")


def test_tasks_are_asked_for_at_their_worker() -> None:
    executors = [pb.ExecutorRange(first_task=4, last_task=5)]
    assignment = pb.Assignment(workers=[pb.WorkerAssignment(host="w", port=1, executors=executors)])
    assert places_of_workers(assignment, PLACES) == {"w:1": {5: ("count", 0)}, "": {6: ("count", 1)}}
