"""A spout that does not hear of failures is told of when it is submitted."""

from __future__ import annotations

from typing import Any

from tupletree import Bolt, Spout
from tupletree._silent_spouts import warnings_of
from tupletree.testing import FeederSpout


class Deaf(Spout):
    outputs = ["n"]

    def next_tuple(self) -> None:
        self.collector.emit([1], msg_id=1)


class DeafInside(Spout):
    def next_tuple(self) -> None:
        for _ in [self.collector.emit_many([[one]], msg_ids=[one]) for one in (1, 2)]:
            pass


class Hears(Deaf):
    def fail(self, msg_id: Any) -> None:
        pass


class Untracked(Spout):
    def next_tuple(self) -> None:
        self.collector.emit([1])


class Positioned(Deaf):
    def checkpoint_state(self) -> Any:
        return 0

    def restore_state(self, state: Any) -> None:
        pass


def test_a_spout_with_message_ids_and_without_fail_is_named_with_what_to_do() -> None:
    assert warnings_of({"numbers": Deaf()}) == [
        "spout 'numbers' emits with msg_id and does not override fail: a tuple that fails is given up, not replayed; "
        "define Deaf.fail(msg_id) to emit it again"
    ]
    assert len(warnings_of({"inside": DeafInside()})) == 1


def test_others_are_not() -> None:
    well = {"a": Hears(), "b": Untracked(), "c": Positioned(), "d": FeederSpout(["n"]), "e": Bolt()}
    assert warnings_of(well) == []


def test_a_fail_that_is_set_on_the_object_counts() -> None:
    spout = Deaf()
    spout.fail = lambda msg_id: None  # type: ignore[method-assign]
    assert warnings_of({"numbers": spout}) == []
