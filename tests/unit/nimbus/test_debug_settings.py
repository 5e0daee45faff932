"""What operators switch on at a topology: log levels, sampled tuples, traced trees."""

from __future__ import annotations

import pytest

from tupletree._wire.levels import level_name, levels_at, next_end
from tupletree.errors import UsageError
from tupletree.nimbus.debug_settings import MAX_LOGGERS, SetLogLevels, SetSampling, SetTracing, in_force
from tupletree.nimbus.leader import lifecycle
from tupletree.v1 import topology_pb2 as pb

NOW = 1_700_000_000.0


def record(**fields: object) -> pb.TopologyRecord:
    given = {"id": "words-1-1", "name": "words", "status": lifecycle.ACTIVE, "tasks": {"lines": 1, "split": 4}}
    return pb.TopologyRecord(**{**given, **fields})  # type: ignore[arg-type]


def ask(before: pb.TopologyRecord, request: lifecycle.Request, now_s: float = NOW) -> pb.TopologyRecord:
    after = lifecycle.ask(before, request, now_s)
    assert lifecycle.ask(after, request, now_s) == after, "asking twice changes nothing the second time"
    return after


def level(name: str, **fields: object) -> pb.LogLevel:
    return pb.LogLevel(level=name, **fields)  # type: ignore[arg-type]


def test_levels_are_set_and_removed() -> None:
    after = ask(record(), SetLogLevels({"kazoo": level("debug"), "": level("warn")}, []))
    assert levels_at(after.log_levels, NOW) == {"kazoo": "DEBUG", "": "WARNING"}
    assert levels_at(ask(after, SetLogLevels({}, ["kazoo", "never.set"])).log_levels, NOW) == {"": "WARNING"}
    assert levels_at(ask(after, SetLogLevels({}, ["root"])).log_levels, NOW) == {"kazoo": "DEBUG"}


def test_a_level_that_has_ended_leaves_the_record_with_the_next_change() -> None:
    asked = {
        "a": level("DEBUG", until_unix_s=NOW + 30),
        "b": level("DEBUG", until_unix_s=NOW + 30, reset_level="ERROR"),
    }
    after = ask(record(), SetLogLevels(asked, []))
    assert levels_at(after.log_levels, NOW + 29) == {"a": "DEBUG", "b": "DEBUG"}
    assert levels_at(after.log_levels, NOW + 30) == {"b": "ERROR"}
    later = ask(after, SetTracing(7), NOW + 31)
    assert dict(later.log_levels) == {"b": level("ERROR")}
    assert levels_at(later.log_levels, NOW + 31) == levels_at(after.log_levels, NOW + 31)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (SetLogLevels({"a": level("LOUD")}, []), "'LOUD' is not a log level; choose one of ALL, DEBUG, INFO"),
        (SetLogLevels({"a": level("INFO", until_unix_s=NOW - 1)}, []), "must end in the future"),
        (SetLogLevels({"a": level("INFO", until_unix_s=float("nan"))}, []), "at most 7 days"),
        (SetLogLevels({"a b": level("INFO")}, []), "'a b' is not a logger name"),
        (SetLogLevels({"a\x1b": level("INFO")}, []), "is not a logger name"),
        (SetLogLevels({str(n): level("INFO") for n in range(MAX_LOGGERS + 1)}, []), "at most 100 loggers"),
        (SetSampling("spilt", 10), "topology 'words' has no component 'spilt'; it has lines, split"),
        (SetSampling("split", 101), "from 0 to 100, not 101"),
        (SetSampling("split", float("nan")), "from 0 to 100, not nan"),
        (SetSampling("split", 1, NOW + 8 * 86400), "at most 7 days"),
        (SetTracing(-1), "not -1"),
        (SetTracing(2, NOW), "must end in the future"),
    ],
)
def test_what_makes_no_sense_is_refused(request_: lifecycle.Request, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        lifecycle.ask(record(), request_, NOW)


def test_nothing_is_switched_on_at_a_topology_that_is_being_killed() -> None:
    with pytest.raises(UsageError, match="being killed"):
        lifecycle.ask(record(status=lifecycle.KILLED), SetTracing(2), NOW)


def test_sampling_of_one_component_of_all_and_of_all_but_one() -> None:
    one = ask(record(), SetSampling("split", 5))
    assert dict(one.sampled_percent) == {"split": 5}
    all_of = ask(one, SetSampling("", 1))
    assert dict(all_of.sampled_percent) == {"split": 5, "": 1}
    assert dict(ask(all_of, SetSampling("split", 0)).sampled_percent) == {"split": 0, "": 1}
    assert dict(ask(one, SetSampling("split", 0)).sampled_percent) == {}
    assert dict(ask(all_of, SetSampling("", 0)).sampled_percent) == {}


def test_sampling_and_tracing_end_when_they_say() -> None:
    after = ask(ask(record(), SetSampling("split", 5, NOW + 10)), SetTracing(9, NOW + 20))
    assert dict(after.sampled_until_unix_s) == {"split": NOW + 10}
    later = ask(after, SetSampling("lines", 1), NOW + 15)
    assert (dict(later.sampled_percent), dict(later.sampled_until_unix_s)) == ({"lines": 1}, {})
    assert (later.traced_one_in, later.traced_until_unix_s) == (9, NOW + 20)
    assert ask(later, SetSampling("lines", 2), NOW + 20).traced_one_in == 0
    again = ask(after, SetSampling("split", 6))
    assert dict(again.sampled_until_unix_s) == {}, "for good, as was asked last"


def test_what_is_over_is_not_in_force_before_the_next_change() -> None:
    after = ask(ask(record(), SetSampling("split", 5, NOW + 10)), SetTracing(9, NOW + 20))
    after = ask(after, SetLogLevels({"a": level("DEBUG", until_unix_s=NOW + 30)}, []))
    assert in_force(after, NOW + 9) == after
    assert dict(in_force(after, NOW + 10).sampled_percent) == {}
    assert [in_force(after, NOW + at).traced_one_in for at in (19, 20)] == [9, 0]
    assert in_force(after, NOW + 30) == record()


def test_storms_names_of_levels_are_understood() -> None:
    assert [level_name(text) for text in ("trace", "Warn", "FATAL", " off ", "ALL")] == [
        "ALL",
        "WARNING",
        "CRITICAL",
        "OFF",
        "ALL",
    ]


def test_the_next_end() -> None:
    assert next_end({}, NOW) is None
    assert next_end({"a": 0, "b": NOW - 1, "c": NOW + 5, "d": NOW + 3}, NOW) == NOW + 3
