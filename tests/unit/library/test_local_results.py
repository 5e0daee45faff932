"""Results of ``tupletree local``: the states of users' bolts without the library's own entries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tupletree import IntervalJoin, Spout, StatefulBolt, TopologyBuilder
from tupletree.cli.local_results import last_line, users_states
from tupletree.errors import GivenUpError, UnavailableError
from tupletree.keyed import KeyedProcess
from tupletree.testing import ComponentCounts
from tupletree.windows import StatefulWindowedBolt


class Sales(Spout):
    outputs = ("shop", "amount")


class Keyed(KeyedProcess):
    key = ("shop", "amount")

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None: ...


class Joined(IntervalJoin):
    key, event_time, max_lag = "shop", "amount", timedelta(0)
    left, right = "sales", "plain"
    before = after = timedelta(0)

    def join(self, left: Any, right: Any) -> None: ...


class Windowed(StatefulWindowedBolt):
    def execute_window(self, window: Any) -> None: ...


class Plain(StatefulBolt):
    outputs = ("shop", "amount")

    def execute(self, tup: Any) -> None: ...


def test_entries_of_the_library_are_left_out_where_the_library_has_them() -> None:
    builder = TopologyBuilder()
    builder.set_spout("sales", Sales())
    builder.set_bolt("keyed", Keyed()).fields_grouping("sales", ["shop", "amount"])
    windowed = Windowed().with_tumbling_window(10).with_message_id_field("amount")
    builder.set_bolt("windowed", windowed).shuffle_grouping("sales")
    builder.set_bolt("plain", Plain()).shuffle_grouping("sales")
    builder.set_bolt("joined", Joined()).fields_grouping("sales", "shop").fields_grouping("plain", "shop")
    topology = builder.create_topology()
    keys = [("$progress",), ("$timers", "n"), ("$windows",), ("$key", ("n", 1)), "$windows", "a"]
    shown = users_states(
        topology, {component: dict.fromkeys(keys, 1) for component in ("keyed", "windowed", "plain", "joined")}
    )
    assert {component: list(state) for component, state in shown.items()} == {
        "keyed": [("$key", ("n", 1)), "$windows", "a"],
        "windowed": [("$progress",), ("$timers", "n"), ("$windows",), ("$key", ("n", 1)), "a"],
        "plain": keys,
    }
    assert last_line(topology, {"sales": 7}, {}, {}, []).text == "", "no sink waits for a checkpoint"


def test_a_run_in_which_every_attempt_has_failed_is_a_failure() -> None:
    builder = TopologyBuilder()
    builder.set_spout("sales", Sales())
    topology, error = builder.create_topology(), ("count", ValueError("key_by returned None"))
    found = last_line(topology, {"sales": 7}, {"sales": ComponentCounts(failed=7)}, {}, [error])
    assert found.is_failure and found.text == (
        "no message was processed, and 7 attempts have failed; the newest error: component 'count' reported "
        "ValueError: key_by returned None"
    )
    some = last_line(topology, {"sales": 7}, {"sales": ComponentCounts(acked=1, failed=6)}, {}, [error])
    assert (some.text, some.is_failure) == ("", False)


def test_the_last_line_says_why_no_tuple_was_emitted() -> None:
    builder = TopologyBuilder()
    builder.set_spout("sales", Sales())
    topology = builder.create_topology()
    away: Any = {("sales", 1): {"kind": "log", "log": "Kafka", "connected": False}}
    lost, given_up = ("sales", UnavailableError("the broker is away")), ("sales", GivenUpError("no JSON"))

    def line(statuses: Any, errors: Any, acked: int = 0) -> tuple[str, bool]:
        found = last_line(topology, {}, {"sales": ComponentCounts(acked=acked)}, statuses, errors)
        start, _, reason = found.text.partition(": ")
        assert start == "no tuple was emitted"
        return reason, found.is_failure

    assert line({}, []) == ("the sources had nothing to read", False)
    assert line({}, [("plain", ValueError("x"))]) == ("the sources had nothing to read", False)
    assert line({}, [given_up], 3) == ("the operators passed on none of 3 messages read", False)
    assert line(away, []) == ("source 'sales' was not connected to Kafka", True)
    assert line(away, [("sales", OSError("x")), lost]) == (
        "source 'sales' reported UnavailableError: the broker is away", True,
    )  # fmt: skip
    assert line({}, [given_up] * 4087 + [lost]) == ("4,087 messages were given up", True)
    assert line({}, [given_up])[0] == "1 message was given up"
