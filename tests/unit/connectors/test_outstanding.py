"""Messages that are delivered and not acknowledged."""

from __future__ import annotations

from tupletree.connectors.outstanding import Outstanding


def test_room_is_what_is_neither_acknowledged_nor_released() -> None:
    outstanding = Outstanding(3, None, 0.0)
    for handle in "abc":
        outstanding.add(handle)
    assert (len(outstanding), outstanding.room) == (3, 0)
    assert outstanding.remove("b")
    assert not outstanding.remove("b")
    assert outstanding.room == 1


def test_a_release_is_due_after_its_delay_unless_the_message_is_gone() -> None:
    outstanding = Outstanding(3, None, 0.0)
    for handle in "abc":
        outstanding.add(handle)
    outstanding.release_at(2.0, "a")
    outstanding.release_at(1.0, "b")
    outstanding.release_at(1.0, "c")
    outstanding.remove("c")
    assert outstanding.due_releases(0.9) == []
    assert outstanding.room == 1
    assert outstanding.due_releases(1.0) == ["b"]
    assert outstanding.due_releases(5.0) == ["a"]
    assert outstanding.room == 3


def test_all_outstanding_messages_are_kept_once_per_period() -> None:
    outstanding = Outstanding(3, 10.0, 100.0)
    outstanding.add("a")
    assert outstanding.due_keeps(109.0) == []
    assert outstanding.due_keeps(110.0) == ["a"]
    assert outstanding.due_keeps(119.0) == []
    assert outstanding.due_keeps(121.0) == ["a"]
    assert Outstanding(3, None, 0.0).due_keeps(1e9) == []
