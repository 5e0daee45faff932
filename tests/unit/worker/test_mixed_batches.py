"""Batches with rows for several tasks: on the wire, at closed gates, in turns of bolts, and when executors part."""

from __future__ import annotations

import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hand_driven import HandDriven, inits, xors
from hypothesis import given
from hypothesis import strategies as st
from local_components import Do, DoBasic, Log

from tupletree import FailedException, TopologyBuilder
from tupletree.errors import ProtocolError
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin
from tupletree.worker.core.batches import MIXED, Batch, EncodedBatch, Rows, bytes_of, check, decode, encode, tasks_of
from tupletree.worker.execution.bolt_executor import BoltExecutor
from tupletree.worker.execution.delivery import put_again, put_remote
from tupletree.worker.execution.inbox import RemoteBatch

ORIGIN = Origin("source", 9, "default", ["n"])
BOLTS = 5


def mixed(targets: list[int], numbers: list[int] | None = None, generation: int = 0) -> Rows:
    numbers = list(range(len(targets))) if numbers is None else numbers
    made = Rows.of([([number], 100 + number, 1000 + number) for number in numbers])
    return Rows(made.columns, made.roots, made.edges, made.pairs, generation, 64, array("I", targets))


def hand_of(bolt: Any, grouping: str = "fields") -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("source", FeederSpout(["n"]))
    declared = builder.set_bolt("bolt", bolt, parallelism=BOLTS)
    if grouping == "fields":
        declared.fields_grouping("source", ["n"])
    else:
        declared.shuffle_grouping("source")
    if bolt.outputs:
        builder.set_bolt("then", Do(), parallelism=3).fields_grouping("bolt", ["m"])
    return HandDriven(builder.create_topology())


def feed(hand: HandDriven, rows: Rows) -> None:
    [origin] = [Origin("source", hand.tasks["source"][0], "default", ["n"])]
    hand.executor("bolt").inbox.put(Batch(origin, MIXED, rows), len(rows), rows.size)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_rows_for_several_tasks_survive_the_wire_and_are_divided_by_task_in_order(targets: list[int]) -> None:
    message = EncodedBatch.from_bytes(encode(ORIGIN, MIXED, mixed(targets)).to_bytes())
    check(message)
    rows = decode(message, ORIGIN)
    assert (list(rows.targets or ()), tasks_of(message)) == (targets, set(targets))
    parts = rows.by_target()
    assert sum(part.size for _, part in parts) <= rows.size
    assert {target: [row[0][0] for row in part] for target, part in parts} == {
        target: [at for at, other in enumerate(targets) if other == target] for target in targets
    }
    assert all(root - 100 == edge - 1000 == values[0] for _, part in parts for values, root, edge in part)


@pytest.mark.parametrize(("targets", "target"), [(bytes(4), 0), (bytes(12), 0), (bytes(8), 3), (bytes(7), 0)])
def test_tasks_that_do_not_fit_the_rows_are_refused(targets: bytes, target: int) -> None:
    message = encode(ORIGIN, MIXED, mixed([1, 2]))
    message.targets, message.target_task = targets, target
    with pytest.raises(ProtocolError, match=rf"a batch of 2 rows carries {len(targets)} bytes of tasks"):
        check(message)


def test_the_tasks_of_rows_count_in_the_size_of_a_batch() -> None:
    assert (
        bytes_of(encode(ORIGIN, MIXED, mixed([1, 2, 1]))) == bytes_of(encode(ORIGIN, 1, Rows.of(mixed([1, 1, 1])))) + 12
    )


def test_basic_bolts_take_turns_and_each_counts_and_acks_its_own() -> None:
    def execute(tup: Any, collector: Any) -> None:
        collector.emit([tup["n"]])
        if tup["n"] % 7 == 3:
            raise FailedException("no")

    hand = hand_of(DoBasic(execute, ["m"]))
    tasks = hand.tasks["bolt"]
    rng = random.Random(4)
    targets = [rng.choice(tasks) for _ in range(200)]
    feed(hand, mixed(targets))
    while hand.step("bolt"):
        pass
    failed = {100 + number for number in range(200) if number % 7 == 3}
    updates = hand.take_updates()
    assert updates.fails == failed
    assert set(xors(updates)) == {100 + number for number in range(200)} - failed
    stats = {task.task_id: task.counters for task in hand.executor("bolt").tasks}
    assert {task: one.executed for task, one in stats.items()} == {task: targets.count(task) for task in tasks}
    assert sum(one.failed for one in stats.values()) == len(failed)
    children: dict[int, int] = defaultdict(int)
    for origin, _, rows in hand.delivered:
        for (number,), root, edge in rows:
            children[root] ^= edge
            assert origin.task == targets[number], "the emitting task is the one that the tuple was for"
    assert {root: value for root, value in xors(updates).items()} == {
        root: (root + 900) ^ children[root] for root in xors(updates)
    }
    assert not inits(updates)


@pytest.mark.parametrize("bolt", [Do, DoBasic])
def test_a_hurried_turn_ends_with_its_row_and_goes_on_later(bolt: Any) -> None:
    ran: list[int] = []
    hand = hand_of(bolt(lambda tup, collector: None))
    tasks = hand.tasks["bolt"]

    def execute(tup: Any, collector: Any = None) -> None:
        ran.append(tup["n"])
        if tup["n"] in (30, 31, 60):
            hand.executor("bolt").hurry()  # as the watchdog does from its thread

    for task in hand.executor("bolt").tasks:
        task.bolt.execute = execute  # type: ignore[attr-defined]
    feed(hand, mixed([tasks[at % BOLTS] for at in range(100)]))
    stops = []
    while hand.step("bolt"):
        stops.append(len(ran))
    assert sorted(ran) == list(range(100))
    if bolt is DoBasic:
        assert {31, 32, 61} <= set(stops)
    assert hand.executor("bolt").inbox.rows == 0


def steps(seed: int) -> Iterator[tuple[str, random.Random]]:
    rng = random.Random(seed)
    for _ in range(60):
        yield rng.choice(["emit", "emit", "flush", "full", "close", "open"]), rng


@pytest.mark.parametrize("seed", range(30))
def test_each_task_gets_its_rows_once_and_in_order_whatever_closes_when(seed: int) -> None:
    builder = TopologyBuilder()
    feeder = FeederSpout(["n"])
    builder.set_spout("source", feeder)
    builder.set_bolt("bolt", Do(), parallelism=BOLTS).fields_grouping("source", ["n"])
    hand = HandDriven(builder.create_topology(), {"topology.transfer.batch.size": 7})
    executor = hand.executor("source")
    number, closed = 0, set[int]()
    for step, rng in steps(seed):
        match step:
            case "emit":
                for _ in range(rng.randrange(20)):
                    feeder.feed([number], msg_id=number)
                    number += 1
                while executor.step():
                    pass
            case "flush" | "full":
                before = len(hand.delivered)
                executor.flush() if step == "flush" else executor.flush_full()
                assert closed.isdisjoint(task for _, task, _ in hand.delivered[before:])
            case "close":
                closed |= set(rng.sample(hand.tasks["bolt"], rng.randrange(1, BOLTS + 1)))
                hand.gate.set("test", closed)
            case "open":
                closed -= set(rng.sample(hand.tasks["bolt"], rng.randrange(1, BOLTS + 1)))
                hand.gate.set("test", closed)
    hand.gate.set("test", ())
    while executor.step():
        pass
    assert executor.can_flush or not executor.has_buffered or not executor._has_held
    executor.flush()
    assert not executor.has_buffered
    by_task: dict[int, list[int]] = defaultdict(list)
    for _, task, rows in hand.delivered:
        by_task[task] += [values[0] for values, _, _ in rows]
    assert sorted(number for numbers in by_task.values() for number in numbers) == list(range(number))
    assert all(numbers == sorted(numbers) for numbers in by_task.values())


@pytest.mark.parametrize("kind", [Do, DoBasic])
@pytest.mark.parametrize("seed", range(10))
def test_an_executor_that_is_divided_midway_leaves_out_nothing_and_repeats_nothing(kind: Any, seed: int) -> None:
    rng = random.Random(seed)
    ran = Log()
    hand = hand_of(kind(lambda tup, collector: ran.append(tup["n"])))
    tasks = hand.tasks["bolt"]
    targets = [rng.choice(tasks) for _ in range(300)]
    origin = Origin("source", hand.tasks["source"][0], "default", ["n"])
    whole = hand.executor("bolt")
    assert isinstance(whole, BoltExecutor)
    for start in range(0, 200, 50):
        rows = mixed(targets[start : start + 50], list(range(start, start + 50)))
        if start % 100:
            feed(hand, rows)
        else:
            put_remote(
                {task: whole.inbox for task in tasks}, RemoteBatch(encode(origin, MIXED, rows), origin), tasks, 64
            )
    for _ in range(rng.randrange(8)):
        whole.step()
    whole.hurry()  # the watchdog has found it blocking
    parts = whole.divided(0.0)
    inboxes = {task.task_id: part.inbox for part in parts for task in part.tasks}
    whole.inbox.forward(lambda item, size: put_again(inboxes, item, size), parts[0].inbox.put_news)
    for start in range(200, 300, 50):  # by a sender that has not noticed
        feed(hand, mixed(targets[start : start + 50], list(range(start, start + 50))))
    for part in parts:
        for task in part.tasks:
            task.use(hand.updates)
        while part.step():
            pass
    assert len(parts) == BOLTS
    assert Counter(ran) == Counter(range(300))
    for task in tasks:
        mine = [number for number in ran if targets[number] == task]
        assert mine == sorted(mine)
    assert whole.inbox.rows == 0
    assert all(part.inbox.rows == 0 for part in parts)


def test_rows_for_bolts_with_executors_of_their_own_are_decoded_once_and_each_takes_its_own() -> None:
    hand = hand_of(Do(), "shuffle")
    parts = hand.executor("bolt").divided(0.0)  # type: ignore[attr-defined]
    inboxes = {task.task_id: part.inbox for part in parts for task in part.tasks}
    origin = Origin("source", hand.tasks["source"][0], "default", ["n"])
    targets = [hand.tasks["bolt"][at % 3] for at in range(9)]
    message = encode(origin, MIXED, mixed(targets))
    put_remote(inboxes, RemoteBatch(message, origin), tasks_of(message), bytes_of(message))
    assert [part.inbox.rows for part in parts] == [3, 3, 3, 0, 0]
    items = [inbox.pop() for inbox in list(inboxes.values())[:3]]
    found = [item.rows_of({task}) for item, task in zip(items, hand.tasks["bolt"], strict=False)]
    assert [[row[0][0] for row in rows] for [(_, rows)] in found] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert len({id(item.divided) for item in items}) == 1


def test_rows_that_cannot_be_decoded_fail_their_trees_once_for_each_executor_and_leave_no_row_waiting() -> None:
    hand = hand_of(Do(), "shuffle")
    parts = hand.executor("bolt").divided(0.0)  # type: ignore[attr-defined]
    inboxes = {task.task_id: part.inbox for part in parts for task in part.tasks}
    origin = Origin("source", hand.tasks["source"][0], "default", ["n"])
    message = encode(origin, MIXED, mixed([hand.tasks["bolt"][at % 2] for at in range(4)]))
    message.values = b"\xc1"
    put_remote(inboxes, RemoteBatch(message, origin), tasks_of(message), bytes_of(message))
    for part in parts:
        for task in part.tasks:
            task.use(hand.updates)
        part.step()
    assert hand.take_updates().fails == {100, 101, 102, 103}
    assert all(part.inbox.rows == 0 for part in parts)
