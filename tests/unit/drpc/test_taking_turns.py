"""The intakes of a DRPCSpout, which take turns, as other threads see them."""

from __future__ import annotations

from typing import cast

from tupletree.drpc.intake import Intake
from tupletree.drpc.spout import DRPCSpout


class Idle:
    """An intake without requests."""

    def next(self) -> None:
        return None


class WatchedList(list[Intake]):
    """A list that no poll may change, since another thread may be reading it."""

    def pop(self, *_: object) -> Intake:
        raise AssertionError("an intake was missing for a moment")


def test_whoever_ends_all_requests_of_a_spout_misses_no_intake_whose_turn_it_is() -> None:
    spout = DRPCSpout("f", servers=["a", "b"])
    intakes = [cast(Intake, Idle()) for _ in range(3)]
    spout._intakes = WatchedList(intakes)
    spout.next_tuple()
    assert spout._intakes == intakes, "each had its turn"
