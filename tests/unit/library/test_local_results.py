"""Results of ``tupletree local``: the states of users' bolts without the library's own entries."""

from __future__ import annotations

from typing import Any

from tupletree import Spout, StatefulBolt, TopologyBuilder
from tupletree.cli.local_results import unwritten_line, users_states
from tupletree.keyed import KeyedProcess
from tupletree.windows import StatefulWindowedBolt


class Sales(Spout):
    outputs = ("shop", "amount")


class Keyed(KeyedProcess):
    key = ("shop", "amount")

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None: ...


class Windowed(StatefulWindowedBolt):
    def execute_window(self, window: Any) -> None: ...


class Plain(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


def test_entries_of_the_library_are_left_out_where_the_library_has_them() -> None:
    builder = TopologyBuilder()
    builder.set_spout("sales", Sales())
    builder.set_bolt("keyed", Keyed()).fields_grouping("sales", ["shop", "amount"])
    windowed = Windowed().with_tumbling_window(10).with_message_id_field("amount")
    builder.set_bolt("windowed", windowed).shuffle_grouping("sales")
    builder.set_bolt("plain", Plain()).shuffle_grouping("sales")
    topology = builder.create_topology()
    keys = [("$progress",), ("$timers", "n"), ("$key", ("n", 1)), "$windows", "a"]
    shown = users_states(topology, {component: dict.fromkeys(keys, 1) for component in ("keyed", "windowed", "plain")})
    assert {component: list(state) for component, state in shown.items()} == {
        "keyed": [("$key", ("n", 1)), "$windows", "a"],
        "windowed": [("$progress",), ("$timers", "n"), ("$key", ("n", 1)), "a"],
        "plain": keys,
    }
    assert unwritten_line(topology, {"sales": 7}, {}) == "", "no sink waits for a checkpoint"
