"""emit_tree: a message of any number of tuples is one tree, and its spout hears of it once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import xor
from typing import Any

import pytest
from hand_driven import HandDriven, inits
from local_components import Do, Log

from tupletree import Backoff, Spout, TopologyBuilder
from tupletree._wire.fail_reasons import FailReason, encode
from tupletree.errors import EmitError, FailedException, TaskFailedError
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.spout_task import SpoutTask
from tupletree.worker.core.trace_filter import Followed, FollowedSpout

Row = tuple[str, Sequence[Any]]


class Messages(Spout):
    """Emits messages, each with its number as id unless it is not tracked, and logs what happens."""

    outputs = {"words": ["word", "n"], "lines": ["line"], "unheard": ["n"]}

    def __init__(self, *messages: Any, is_tracked: bool = True) -> None:
        self.messages = messages
        self.is_tracked = is_tracked
        self.next = 0
        self.log = Log()

    def next_tuple(self) -> None:
        if self.next < len(self.messages):
            number = self.next
            self.next += 1
            count = self.collector.emit_tree(self.messages[number], number if self.is_tracked else None)
            self.log.append(("emitted", number, count))

    def ack(self, msg_id: Any) -> None:
        self.log.append(("ack", msg_id))

    def fail(self, msg_id: Any) -> None:
        self.log.append(("fail", msg_id))


def driven(spout: Spout, *, retry: Backoff | None = None, **settings: Any) -> HandDriven:
    builder = TopologyBuilder()
    declared = builder.set_spout("spout", spout)
    if retry is not None:
        declared.set_retry(retry).set_dead_letters("rejected")
    builder.set_bolt("all", Do(), 3).all_grouping("spout", "words")
    one = builder.set_bolt("one", Do(), 2).fields_grouping("spout", "word", "words").shuffle_grouping("spout", "lines")
    if retry is not None:
        one.shuffle_grouping("spout", "rejected")
    return HandDriven(builder.create_topology(), **settings)


def task_of(hand: HandDriven) -> SpoutTask:
    [task] = hand.executor("spout").tasks
    assert isinstance(task, SpoutTask)
    return task


def poll(hand: HandDriven) -> None:
    """Open the spout, and call it until it emits nothing, in one turn."""
    hand.gate.set("test", frozenset(hand.tasks["one"]))
    hand.step("spout")
    assert task_of(hand).poll(100)
    assert task_of(hand).is_dry
    hand.executor("spout").flush()
    hand.gate.set("test", ())
    hand.executor("spout").flush()


def end(hand: HandDriven, root: int, kind: VerdictKind) -> None:
    hand.tell("spout", TreeVerdict(task_of(hand).task_id, kind, [root]))
    hand.step("spout")


WORDS: list[Row] = [("words", ["to", 1]), ("lines", ("to be",)), ("words", ["be", 2])]


@pytest.mark.parametrize("kind", [VerdictKind.ACKED, VerdictKind.FAILED])
def test_all_tuples_of_a_message_are_one_tree_of_which_the_spout_hears_once(kind: VerdictKind) -> None:
    spout = Messages(WORDS)
    hand = driven(spout)
    hand.step("spout")
    assert list(spout.log) == [("emitted", 0, 3)]
    rows = [
        (origin.stream, list(values), root, edge) for origin, _, given in hand.delivered for values, root, edge in given
    ]
    assert len(rows) == 2 * 4 + 1, "a word goes to each task of one bolt and one of the other"
    [(root, value, task)] = inits(hand.take_updates())
    assert {row[2] for row in rows} == {root}
    assert value == reduce(xor, [row[3] for row in rows])
    assert task == task_of(hand).task_id
    assert {(stream, tuple(values)) for stream, values, _, _ in rows} == {(name, tuple(row)) for name, row in WORDS}
    end(hand, root, kind)
    end(hand, root, kind)
    assert list(spout.log) == [("emitted", 0, 3), ("ack" if kind is VerdictKind.ACKED else "fail", 0)]
    counted = {name: (counts.acked, counts.failed) for name, counts in task_of(hand).trees.items()}
    assert counted == {
        "words": (int(kind is VerdictKind.ACKED), int(kind is VerdictKind.FAILED)),
        "lines": (0, 0),
        "unheard": (0, 0),
    }


@pytest.mark.parametrize(("sampled", "measured"), [(0, (0, 0)), (0.5, (2, 0)), (1, (2, 1))])
def test_each_tree_counts_for_its_stream_however_it_ends(sampled: float, measured: tuple[int, int]) -> None:
    words, lines = [("words", ["be", 1])], [("lines", ["to be"])]
    hand = driven(Messages(*[words, lines] * 5), conf={"topology.stats.sample.rate": sampled})
    hand.gate.set("test", ())
    for _ in range(20):
        hand.step("spout")
    roots = [root for root, _, _ in inits(hand.take_updates())]
    task = task_of(hand)
    assert len(roots) == len(task.pending) == 10
    for kind, some in zip([VerdictKind.ACKED, VerdictKind.FAILED, VerdictKind.EXPIRED], [3, 2, 1], strict=True):
        hand.tell("spout", TreeVerdict(task.task_id, kind, [roots.pop(0) for _ in range(some)]))
        hand.step("spout")
    task.rotate()
    assert len(task.pending) == 4
    first, *_ = task.pending
    task.on_reset([first])
    task.rotate()
    assert len(task.pending) == 1 and task.pop_as_acked() == [6]
    counted = {name: (counts.acked, counts.failed) for name, counts in task.trees.items()}
    assert counted == {"words": (2 + 1, 1 + 1), "lines": (1, 1 + 1 + 2), "unheard": (0, 0)}
    assert (task.counters.acked, task.counters.failed, task.counters.timeouts) == (4, 6, 4)
    assert tuple(task.trees[name].complete_samples for name in ("words", "lines")) == measured


@pytest.mark.parametrize("retry", [None, Backoff(first_s=1)])
def test_the_list_of_a_row_may_be_used_for_the_next_one(retry: Backoff | None) -> None:
    class Lines:
        def __iter__(self) -> Iterator[Row]:
            row = [""]
            for row[0] in ("to", "be"):
                yield "lines", row

    hand = driven(Messages(Lines()), retry=retry)
    hand.step("spout")
    assert [values for _, _, given in hand.delivered for values, _, _ in given] == [["to"], ["be"]]


def test_an_untracked_message_is_tuples_without_a_tree() -> None:
    spout = Messages(WORDS, [], is_tracked=False)
    hand = driven(spout)
    poll(hand)
    assert {root for _, _, given in hand.delivered for _, root, _ in given} == {0}
    assert inits(hand.take_updates()) == []
    assert [entry[0] for entry in spout.log] == ["emitted", "emitted"], "the spout is not dry when it emits no tuple"


@pytest.mark.parametrize(
    "message", [[], iter(()), [("unheard", [1]), ("unheard", [2])]], ids=["none", "iterator", "unheard"]
)
def test_a_message_of_no_tuples_or_of_tuples_for_nobody_is_acked_when_the_spout_has_returned(message: Any) -> None:
    spout = Messages(list(message), WORDS, [])
    hand = driven(spout)
    poll(hand)
    emitted = [entry for entry in spout.log if entry[0] == "emitted"]
    assert [entry[1] for entry in emitted] == [0, 1, 2], "an empty message does not end the turn"
    assert list(spout.log) == emitted
    assert len(inits(hand.take_updates())) == 1
    assert hand.executor("spout").has_work
    hand.step("spout")
    assert [entry for entry in spout.log if entry not in emitted] == [("ack", 0), ("ack", 2)]
    assert task_of(hand).counters.acked == 2
    assert len(task_of(hand).pending) == 1


def test_without_tracking_a_message_is_acked_before_emit_tree_returns() -> None:
    spout = Messages(WORDS, [])
    hand = driven(spout, is_tracked=False)
    poll(hand)
    assert list(spout.log) == [("ack", 0), ("emitted", 0, 3), ("ack", 1), ("emitted", 1, 0)]
    assert task_of(hand).trees["words"].acked == 2


def raising() -> Any:
    yield from WORDS
    raise ZeroDivisionError


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: [*WORDS, ("words", ["not"])], "emitted 1 value on stream 'words', which declares 2"),
    (lambda: [*WORDS, ("letters", ["a"])], "emitted on stream 'letters', which it does not declare"),
    (lambda: [["to", 1]], "component 'spout' emitted on stream 'to', which it does not declare"),
    (
        lambda: [*WORDS, ["be"]],
        re.escape("called emit_tree with ['be']: each row is a pair of a stream and its values"),
    ),
    (lambda: ["be"], "called emit_tree with 'be': each row is a pair"),
    (lambda: [*WORDS, 7], "called emit_tree with 7: each row is a pair"),
    (raising, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("rows", "why"), REFUSED)
def test_nothing_is_emitted_when_a_row_is_refused(rows: Callable[[], Any], why: str) -> None:
    class Stubborn(Messages):
        def next_tuple(self) -> None:
            if not self.log:
                with pytest.raises((EmitError, ZeroDivisionError)) as caught:
                    self.collector.emit_tree(rows(), 1)
                self.log.append(f"{type(caught.value).__name__}: {caught.value}")

    spout = Stubborn()
    hand = driven(spout)
    hand.step("spout")
    assert re.search(why, spout.log[0])
    assert hand.delivered == []
    assert inits(hand.take_updates()) == []
    assert len(task_of(hand).pending) == 0


def test_pairs_may_be_lists() -> None:
    spout = Messages([["words", ["to", 1]], ["lines", ["to be"]]])
    hand = driven(spout)
    hand.step("spout")
    assert list(spout.log) == [("emitted", 0, 2)]


def test_a_message_that_is_failed_without_a_tree_fails_when_the_spout_has_returned() -> None:
    """The engine's side of a chain that raises (tupletree.streams)."""

    collectors = Log()

    class Refusing(Messages):
        def next_tuple(self) -> None:
            if self.next < 2:
                self.next += 1
                collectors[0].fail_message(self.next, FailedException("no"))
                self.log.append(("refused", self.next))

    spout = Refusing()
    hand = driven(spout)
    collectors.append(task_of(hand).collector)
    poll(hand)
    hand.step("spout")
    assert list(spout.log) == [("refused", 1), ("refused", 2), ("fail", 1), ("fail", 2)]
    assert task_of(hand).counters.failed == 2
    assert task_of(hand).has_failed_tuples
    task_of(hand).has_failed_tuples = False
    task_of(hand).collector.fail_message(None, ZeroDivisionError("oh"))
    assert task_of(hand).has_failed_tuples, "a PREPARE can come before the worker ends"
    assert task_of(hand).must_yield
    with pytest.raises(
        TaskFailedError, match=r"of component 'spout' failed: ZeroDivisionError: oh; .*raise tupletree.FailedException"
    ):
        hand.step("spout")


def test_a_participant_in_aligned_checkpoints_hears_of_such_messages_at_once() -> None:
    """A PREPARE that comes next finds them acked, or refuses to cover them."""
    spout, heard = Messages([], WORDS), Log()
    hand = driven(spout)
    task = task_of(hand)
    task.tell_acked = lambda msg_id: heard.append(("ack", msg_id))
    task.tell_failed = lambda msg_id, _reason: heard.append(("fail", msg_id))
    poll(hand)
    task.collector.fail_message(2, FailedException("no"))
    assert list(heard) == [("ack", 0), ("fail", 2)]
    hand.step("spout")
    assert len(heard) == 2
    assert [entry[0] for entry in spout.log] == ["emitted", "emitted"]


def test_set_retry_emits_all_tuples_of_a_message_again_and_puts_them_into_its_letter() -> None:
    spout = Messages(WORDS, [])
    hand = driven(spout, retry=Backoff(first_s=1, factor=1, max_attempts=2))
    poll(hand)
    hand.step("spout")
    assert [entry for entry in spout.log if entry[0] != "emitted"] == [("ack", 1)]
    for attempt in (1, 2, 3):
        [(root, _, _)] = inits(hand.take_updates())
        rows = [(origin.stream, list(values)) for origin, _, given in hand.delivered for values, _, _ in given]
        if attempt == 3:
            break
        assert {(name, tuple(row)) for name, row in rows} == {(name, tuple(row)) for name, row in WORDS}
        hand.delivered.clear()
        reasons = {root: encode(FailReason("one", 7, "no"))}
        hand.tell("spout", TreeVerdict(task_of(hand).task_id, VerdictKind.FAILED, [root], reasons))
        hand.step("spout")
        hand.now_s += 1
        hand.step("spout")
    [(stream, letter)] = rows
    assert stream == "rejected"
    assert letter[:4] == [0, WORDS, "", 2]


def test_a_tracer_is_shown_a_message_without_a_tree() -> None:
    shown: list[tuple[int, Any]] = []

    class Tracer:
        def began(self, task: Any, root: int, message: Any) -> None:
            shown.append((root, message))

    hand = driven(Messages([], WORDS))
    task = task_of(hand)
    task.collector._task = FollowedSpout(task, Followed(1), Tracer())  # type: ignore[arg-type, assignment]
    poll(hand)
    [(root, _, _)] = inits(hand.take_updates())
    assert shown == [(0, 0), (root, 1)]
