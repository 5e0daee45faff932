"""A bolt executor, step by step: batches, ticks, the gate, and what it tells the ackers."""

from __future__ import annotations

from typing import Any

import pytest
from hand_driven import HandDriven, xors
from local_components import Do, DoBasic, Log

from tupletree import FailedException, ReportedFailedException, Topology, TopologyBuilder
from tupletree.errors import TaskFailedError, UnregisteredTypeError
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin
from tupletree.worker.core.batches import MULTI, Batch, Row, Rows, encode
from tupletree.worker.execution.inbox import RemoteBatch, not_reached

SOURCE = Origin("spout", 2, "default", ["n"])


def chain(bolt: Any, conf: dict[str, Any] | None = None) -> HandDriven:
    """spout (task 2) -> bolt (task 1) -> sink (task 3), the sink only if the bolt emits."""
    return HandDriven(chain_topology(bolt), conf)


def chain_topology(bolt: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    if bolt.outputs:
        builder.set_bolt("thesink", Do()).shuffle_grouping("bolt")
    return builder.create_topology()


def feed(hand: HandDriven, rows: list[Row], task: int = 1) -> None:
    hand.executor("bolt").inbox.put(Batch(SOURCE, task, Rows.of(rows)), len(rows))


def plain(*values: Any) -> list[Row]:
    return [([value], 0, 0) for value in values]


def drain(hand: HandDriven, component: str = "bolt") -> int:
    steps = 0
    while hand.step(component):
        steps += 1
    return steps


def test_rows_are_executed_once_and_in_order_though_the_step_size_grows_within_a_batch() -> None:
    log = Log()
    hand = chain(Do(lambda tup, collector: log.append(tup[0])))
    feed(hand, plain(*range(100)))
    feed(hand, plain(*range(100, 107)))
    steps = drain(hand)
    assert list(log) == list(range(107))
    assert 1 < steps < 15, "steps are short at first and grow while they are quick"
    assert hand.executor("bolt").inbox.rows == 0


def test_a_step_that_is_hurried_ends_with_its_row_and_goes_on_later() -> None:
    log = Log()
    hand = chain(Do(lambda tup, collector: log.append(tup[0])))
    feed(hand, plain(*range(7)))
    drain(hand)
    feed(hand, plain(*range(7, 100)))
    executor = hand.executor("bolt")

    def hurry_at_10(tup: Any) -> None:
        log.append(tup[0])
        if tup[0] == 10:
            executor.hurry()  # as the watchdog does from its thread

    executor.tasks[0].bolt.execute = hurry_at_10  # type: ignore[attr-defined]
    while log[-1] < 10:
        assert hand.step("bolt")
    assert log[-1] == 10
    assert executor.inbox.rows == 89
    drain(hand)
    assert list(log) == list(range(100))
    assert executor.inbox.rows == 0


def test_rows_of_a_step_that_takes_long_are_taken_one_by_one() -> None:
    log = Log()
    hand = chain(Do(lambda tup, collector: log.append(tup[0])))
    feed(hand, plain(*range(64)))
    while hand.executor("bolt").inbox.rows > 1:
        hand.step("bolt")
    executor = hand.executor("bolt")

    def slow(tup: Any) -> None:
        hand.now_s += 0.1
        log.append(tup[0])

    executor.tasks[0].bolt.execute = slow  # type: ignore[attr-defined]
    feed(hand, plain(*range(64, 200)))
    drain(hand)
    before = len(log)
    feed(hand, plain(*range(20)))
    hand.step("bolt")
    assert len(log) == before + 1


def test_a_basic_bolt_acks_with_its_children_and_fails_on_failed_exception() -> None:
    def execute(tup: Any, collector: Any) -> None:
        collector.emit([tup[0]])
        if tup[0] == "bad":
            raise FailedException("no")
        if tup[0] == "worse":
            raise ReportedFailedException("see here")

    hand = chain(DoBasic(execute, ["m"]))
    rows: list[Row] = [
        (["good"], 11, 0b1000),
        (["bad"], 12, 0b1001),
        (["worse"], 13, 1),
        (["both"], MULTI, ((14, 0b1), (15, 0b10))),
        (["bad"], MULTI, ((16, 1), (17, 2))),
        (["free"], 0, 0),
    ]
    feed(hand, rows)
    drain(hand)
    updates = hand.take_updates()
    sent = {row[0][0]: row for _, _, rows in hand.delivered for row in rows if row[1] in (11, 0) or row[0] == ["both"]}
    assert xors(updates) == {
        11: 0b1000 ^ sent["good"][2],
        14: 0b1 ^ dict(sent["both"][2])[14],
        15: 0b10 ^ dict(sent["both"][2])[15],
    }
    assert sent["free"][1:] == (0, 0)
    assert updates.fails == {12, 13, 16, 17}
    assert [(component, task, str(error)) for component, task, error in hand.errors] == [("bolt", 1, "see here")]
    counters = hand.executor("bolt").tasks[0].counters
    assert (counters.executed, counters.acked, counters.failed) == (6, 3, 3)


def test_an_exception_names_component_and_task_and_keeps_its_cause() -> None:
    def execute(tup: Any, collector: Any) -> None:
        raise ValueError("broken")

    for bolt, conf, remedy in (
        (DoBasic(execute), {}, "raise tupletree.FailedException to fail only the tuple"),
        (Do(execute), {}, r"call collector\.fail\(tup, error\) to fail only the tuple"),
        (
            DoBasic(execute),
            {"topology.state.checkpoint.aligned": True},
            "catch it; a tuple that fails takes a .* back to",
        ),
    ):
        hand = chain(bolt, conf)
        feed(hand, plain(1))
        words = f"task 1 of component 'bolt' failed: ValueError: broken; .*: {remedy}"
        with pytest.raises(TaskFailedError, match=words) as caught:
            hand.step("bolt")
        assert isinstance(caught.value.__cause__, ValueError)


def test_a_bolt_does_not_start_a_batch_while_its_receiver_is_closed() -> None:
    log = Log()
    hand = chain(DoBasic(lambda tup, collector: log.append(tup[0]), ["m"]))
    feed(hand, plain(1, 2, 3))
    executor = hand.executor("bolt")
    assert hand.step("bolt")
    assert list(log) == [1]
    hand.gate.set("test", [3])
    assert (executor.is_held, executor.has_work, hand.step("bolt")) == (True, False, False)
    hand.gate.set("test", ())
    assert executor.has_work, "of a batch begun before, nothing is in the inbox any more"
    drain(hand)
    assert list(log) == [1, 2, 3]
    assert not executor.has_work


def test_rows_for_a_closed_task_wait_in_their_buffer() -> None:
    hand = chain(DoBasic(outputs=["m"]))
    bolt = hand.executor("bolt").tasks[0].bolt  # type: ignore[attr-defined]
    bolt.do = lambda tup, collector: (hand.gate.set("test", [3]), collector.emit(["x"]))
    feed(hand, plain(1))
    assert hand.step("bolt")
    executor = hand.executor("bolt")
    assert (executor.has_buffered, executor.can_flush, hand.delivered) == (True, False, [])
    hand.gate.set("test", ())
    assert executor.can_flush
    executor.flush()
    assert [(target, rows) for _, target, rows in hand.delivered] == [(3, [(["x"], 0, 0)])]
    assert (executor.has_buffered, executor.can_flush) == (False, False)


def test_batches_are_not_larger_than_configured() -> None:
    hand = chain(
        DoBasic(lambda tup, collector: collector.emit_many([n] for n in range(25)), ["m"]),
        {"topology.transfer.batch.size": 10},
    )
    feed(hand, plain(1))
    hand.step("bolt")
    assert [len(rows) for _, _, rows in hand.delivered] == [10, 10, 5]
    assert [row[0][0] for _, _, rows in hand.delivered for row in rows] == list(range(25))


def cycle_topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    a = builder.set_bolt("a", Do(outputs=["n"]))
    a.shuffle_grouping("spout").shuffle_grouping("b")
    builder.set_bolt("b", Do(outputs=["n"])).shuffle_grouping("a")
    builder.set_bolt("c", Do()).shuffle_grouping("b")
    return builder.create_topology()


def test_on_a_cycle_only_the_way_back_ignores_congestion() -> None:
    hand = HandDriven(cycle_topology())
    a, b, c = (hand.tasks[name][0] for name in "abc")

    def held() -> set[str]:
        return {name for name in ("spout", "a", "b", "c") if hand.executor(name).is_held}

    assert held() == set()
    hand.gate.set("test", [a])
    assert held() == {"spout"}
    hand.gate.set("test", [b])
    assert held() == {"a"}
    hand.gate.set("test", [c])
    assert held() == {"b"}
    hand.gate.set("test", not_reached([a]))
    assert held() == {"spout", "b"}, "what cannot be sent is not emitted, on the way back neither"


def test_ticks_come_each_period_to_every_task_with_the_interval_as_value() -> None:
    seen = Log()

    def note(tup: Any, collector: Any) -> None:
        seen.append((tup.is_tick, tup.source_component, tup.source_stream, tup.values, collector._task.task_id))

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Do(note), 1).shuffle_grouping("spout").set_num_tasks(2).add_configuration(
        "topology.tick.tuple.freq.secs", 5
    )
    hand = HandDriven(builder.create_topology())
    assert not hand.step("bolt")
    assert hand.executor("bolt").due_s() == 5
    hand.now_s = 4.9
    assert not hand.step("bolt")
    hand.now_s = 5.0
    assert drain(hand) == 2
    assert list(seen) == [(True, "__system", "__tick", [5], task) for task in hand.tasks["bolt"]]
    assert hand.executor("bolt").due_s() == 10
    hand.now_s = 10
    drain(hand)
    assert len(seen) == 4


def test_ticks_wait_behind_tuples_and_do_not_pile_up() -> None:
    seen = Log()
    hand = chain(
        DoBasic(lambda tup, collector: seen.append("tick" if tup.is_tick else tup[0]), ["m"]),
        {"topology.tick.tuple.freq.secs": 1},
    )
    hand.gate.set("test", [3])
    feed(hand, plain(1, 2, 3))
    for second in range(1, 20):
        hand.now_s = second
        assert not hand.step("bolt")
    hand.gate.set("test", ())
    feed(hand, plain(4))
    drain(hand)
    assert list(seen) == [1, 2, 3, "tick", 4]
    assert hand.executor("bolt").inbox.rows == 0, "ticks do not count as rows"
    hand.now_s += 1
    drain(hand)
    assert seen[-1] == "tick"


def test_a_tick_that_is_never_acked_does_not_stop_the_latency_samples() -> None:
    hand = chain(
        Do(lambda tup, collector: None if tup.is_tick else collector.ack(tup)), {"topology.tick.tuple.freq.secs": 1}
    )
    for second in range(1, 50):
        hand.now_s = second
        drain(hand)  # a tick
        feed(hand, plain(*range(19)))
        drain(hand)
    assert hand.executor("bolt").tasks[0].counters.process_samples > 10


def test_a_tuple_that_is_never_acked_does_not_stop_the_latency_samples_for_good() -> None:
    hand = chain(Do(lambda tup, collector: None if tup[0] == 0 else collector.ack(tup)))
    for start in range(0, 30_000, 1000):
        feed(hand, plain(*range(start, start + 1000)))
        drain(hand)
    assert hand.executor("bolt").tasks[0].counters.process_samples > 10


def remote(rows: list[Row], **changes: Any) -> RemoteBatch:
    message = encode(SOURCE, 1, Rows.of(rows))
    for field, value in changes.items():
        setattr(message, field, value)
    return RemoteBatch(message, SOURCE)


def test_a_batch_from_another_worker_is_decoded_when_its_turn_comes() -> None:
    log = Log()
    hand = chain(Do(lambda tup, collector: log.append((tup.values, tup.message_id.anchors))))
    hand.executor("bolt").inbox.put(remote([([1], 5, 6), ([2], MULTI, ((7, 8), (9, 10)))]), 2)
    drain(hand)
    assert list(log) == [([1], {5: 6}), ([2], {7: 8, 9: 10})]


def test_a_batch_that_makes_no_sense_fails_its_trees_and_nothing_else() -> None:
    log = Log()
    hand = chain(Do(lambda tup, collector: log.append(tup[0])))
    inbox = hand.executor("bolt").inbox
    inbox.put(remote([([1], 5, 6), ([2], MULTI, ((7, 8), (9, 10)))], values=b"\xc1"), 2)
    feed(hand, plain("next"))
    drain(hand)
    assert hand.take_updates().fails == {5, 7, 9}
    assert [component for component, _, _ in hand.errors] == ["bolt"]
    assert list(log) == ["next"]
    assert inbox.rows == 0


def test_a_value_that_cannot_leave_its_worker_fails_the_task_that_emitted_it() -> None:
    hand = chain(DoBasic(lambda tup, collector: collector.emit([object()]), ["m"]))
    executor = hand.executor("bolt")
    executor._deliver = lambda origin, task, rows, tasks: encode(origin, task, rows)  # as for another worker
    feed(hand, plain(1))
    with pytest.raises(TaskFailedError, match=r"task 1 of component 'bolt'.*object.*'m'") as caught:
        hand.step("bolt")
    assert isinstance(caught.value.__cause__, UnregisteredTypeError)


def test_a_component_that_raises_when_closing_is_reported_and_the_others_are_closed() -> None:
    closed = Log()

    class Closing(Do):
        def cleanup(self) -> None:
            closed.append(self.context.task_id)
            raise OSError("disk")

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Closing()).shuffle_grouping("spout").set_num_tasks(2)
    hand = HandDriven(builder.create_topology())
    hand.executor("bolt").close()
    assert list(closed) == hand.tasks["bolt"]
    assert [str(error) for _, _, error in hand.errors] == ["disk", "disk"]
