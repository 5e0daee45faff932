"""Positions of a log whose spout has another number of tasks: each partition goes on where its task stood."""

from __future__ import annotations

from tupletree.connectors.files import FileSpout


def test_the_furthest_position_is_taken_and_is_that_of_no_task_yet() -> None:
    spout = FileSpout("/logs/*.txt")
    assert spout.merge_states([{"a": 3, "b": 0}, {"a": 5}, {"c": 7}]) == {"a": -6, "b": -1, "c": -8}


def test_the_task_that_reads_a_partition_has_the_say() -> None:
    spout = FileSpout("/logs/*.txt")
    merged = spout.merge_states([{"a": 5000, "b": 10}, {"c": 7}])
    begun_again, other = {**merged, "a": 300}, {**merged, "b": 20}
    for states in ([begun_again, other], [other, begun_again]):
        assert spout.merge_states(states) == {"a": -301, "b": -21, "c": -8}


def test_positions_that_nobody_read_since_stay() -> None:
    spout = FileSpout("/logs/*.txt")
    merged = spout.merge_states([{"a": 5}, {"b": 6}])
    assert spout.merge_states([merged, merged, merged]) == merged
