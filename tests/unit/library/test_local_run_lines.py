"""The lines of ``tupletree local`` while a topology runs."""

from __future__ import annotations

from collections import Counter

from tupletree.cli.local_progress import MAX_NEW_ERRORS, LocalProgress
from tupletree.errors import GivenUpError


def test_a_source_is_shown_when_it_is_connected_and_when_it_is_not_any_more() -> None:
    progress = LocalProgress()
    away = {("orders", 3): {"kind": "queue", "queue": "beanstalkd", "connected": False}}
    there = {("orders", 3): {"kind": "queue", "queue": "beanstalkd", "connected": True}, ("out", 4): {"rows": 1}}
    assert progress.sources(0.0, away) == []
    assert progress.sources(1.25, there) == ["   1.2 s  orders[3]: beanstalkd: connected"]
    assert progress.sources(2.0, there) == []
    assert progress.sources(3.0, away) == ["   3.0 s  orders[3]: beanstalkd: not connected any more"]
    assert progress.sources(4.0, there) == ["   4.0 s  orders[3]: beanstalkd: connected"]


def test_a_new_error_is_shown_at_once_and_its_repeats_together() -> None:
    progress = LocalProgress()
    errors: list[tuple[str, BaseException]] = [("in", OSError("away")), ("in", OSError("away"))]
    assert progress.errors(0.5, errors) == ["   0.5 s  component 'in' reported OSError: away"]
    assert progress.errors(1.0, errors) == []
    errors += [("out", OSError("away")), ("in", OSError("away"))]
    assert progress.errors(1.5, errors) == ["   1.5 s  component 'out' reported OSError: away"]
    assert progress.summary(9.9, None) == []
    assert progress.summary(10.0, None) == [
        "  10.0 s  component 'in' reported 2 more errors, the newest: OSError: away"
    ]
    assert progress.summary(20.0, None) == []
    errors.append(("in", OSError("away")))
    assert progress.errors(21.0, errors) == []
    assert progress.summary(30.0, None) == ["  30.0 s  component 'in' reported 1 more error: OSError: away"]


def test_messages_given_up_for_the_same_reason_are_equal() -> None:
    progress = LocalProgress()
    errors: list[tuple[str, BaseException]] = [
        ("in", GivenUpError(f"message {number} is given up: no JSON", "no JSON")) for number in range(3)
    ]
    errors.append(("in", GivenUpError("message 3 is given up: no field", "no field")))
    assert progress.errors(0.5, errors) == [
        "   0.5 s  component 'in' reported GivenUpError: message 0 is given up: no JSON",
        "   0.5 s  component 'in' reported GivenUpError: message 3 is given up: no field",
    ]
    assert progress.summary(10.0, None) == [
        "  10.0 s  component 'in' reported 2 more errors, the newest: GivenUpError: message 2 is given up: no JSON"
    ]


def test_errors_that_all_differ_do_not_flood_the_terminal() -> None:
    progress = LocalProgress()
    errors: list[tuple[str, BaseException]] = [("in", ValueError(number)) for number in range(1000)]
    assert len(progress.errors(1.0, errors)) == MAX_NEW_ERRORS
    [line] = progress.summary(10.0, None)
    assert line == "  10.0 s  component 'in' reported 995 more errors, the newest: ValueError: 999"
    errors.append(("in", ValueError("one\nmore")))
    assert progress.errors(11.0, errors) == [r"  11.0 s  component 'in' reported ValueError: one\nmore"]


def test_tuples_are_counted_from_time_to_time() -> None:
    progress = LocalProgress()
    assert progress.summary(10.0, Counter()) == ["  10.0 s  emitted: nothing"]
    assert progress.summary(15.0, Counter(lines=500)) == []
    assert progress.summary(20.0, Counter(lines=1000, words=5000)) == [
        "  20.0 s  emitted: lines 1,000 (100/s), words 5,000 (500/s)"
    ]
    assert progress.summary(30.0, Counter(lines=1000, words=6000)) == [
        "  30.0 s  emitted: lines 1,000 (0/s), words 6,000 (100/s)"
    ]
