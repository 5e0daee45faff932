"""The gate and the inbox: where threads meet."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from tupletree.testing.wait import wait_until
from tupletree.worker.execution.inbox import Gate, Inbox


def test_a_task_is_open_when_no_source_closes_it() -> None:
    changes: list[frozenset[int]] = []
    gate = Gate(lambda: changes.append(gate.closed))
    gate.set("a", [1, 2])
    gate.set("b", [2, 3])
    assert gate.closed == {1, 2, 3}
    gate.set("a", [])
    assert gate.closed == {2, 3}
    assert (gate.closed_by("a"), gate.closed_by("b")) == (frozenset(), {2, 3})
    gate.set("b", [3])
    gate.set("b", ())
    assert gate.closed == frozenset()
    assert changes == [{1, 2}, {1, 2, 3}, {2, 3}, {3}, frozenset()]


def test_closing_what_is_closed_tells_nobody() -> None:
    changes: list[int] = []
    gate = Gate(lambda: changes.append(1))
    gate.set("a", [1])
    gate.set("a", [1])
    gate.set("b", ())
    assert len(changes) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.frozensets(st.integers(1, 5))), max_size=30))
def test_closed_is_always_the_union_of_what_the_sources_close(steps: list[tuple[str, frozenset[int]]]) -> None:
    gate = Gate(lambda: None)
    model: dict[str, frozenset[int]] = {}
    for source, tasks in steps:
        gate.set(source, tasks)
        model[source] = tasks
        assert gate.closed == frozenset().union(*model.values())


def test_an_inbox_closes_its_tasks_above_its_limit_and_opens_them_at_half() -> None:
    gate = Gate(lambda: None)
    inbox = Inbox([7, 8], 10, gate)
    inbox.put("a", 10)
    assert not inbox.is_congested
    inbox.put("b", 1)
    assert inbox.is_congested
    assert gate.closed == {7, 8}
    assert inbox.pop() == "a"
    assert inbox.is_congested, "a row counts until it is processed"
    inbox.done(5)
    assert (inbox.rows, inbox.is_congested) == (6, True)
    inbox.done(1)
    assert (inbox.rows, inbox.is_congested) == (5, False)
    assert gate.closed == frozenset()


def test_items_come_in_order_and_none_is_refused() -> None:
    inbox = Inbox([1], 1, Gate(lambda: None))
    for number in range(100):
        inbox.put(number, 1)
    assert [inbox.pop() for _ in range(100)] == list(range(100))
    assert inbox.pop() is None
    assert not inbox


def test_a_limit_of_one_row_opens_again() -> None:
    inbox = Inbox([1], 1, Gate(lambda: None))
    for _ in range(2):
        inbox.put("x", 1)
        inbox.put("y", 1)
        assert inbox.is_congested
        inbox.pop()
        inbox.pop()
        inbox.done(2)
        assert not inbox.is_congested


def test_every_put_wakes_the_owner_after_the_item_is_there() -> None:
    inbox = Inbox([1], 10, Gate(lambda: None))
    seen: list[bool] = []
    inbox.wake = lambda: seen.append(bool(inbox))
    inbox.put("control", 0)
    inbox.put("rows", 3)
    assert seen == [True, True]


def test_many_senders_and_one_receiver_leave_nothing_behind() -> None:
    """Each sender's items stay in order; when all is processed, no row counts and no task is closed."""
    gate = Gate(lambda: None)
    inbox = Inbox([1], 50, gate)
    senders, items = 4, 2000
    received: list[tuple[int, int]] = []
    was_closed = []

    def send(sender: int) -> None:
        for number in range(items):
            inbox.put((sender, number), number % 3)

    threads = [threading.Thread(target=send, args=(sender,), daemon=True) for sender in range(senders)]
    for thread in threads:
        thread.start()

    def drain() -> bool:
        while (item := inbox.pop()) is not None:
            received.append(item)
            was_closed.append(gate.closed == {1})
            inbox.done(item[1] % 3)
        return len(received) == senders * items

    wait_until(drain, 30)
    for sender in range(senders):
        assert [number for who, number in received if who == sender] == list(range(items))
    for thread in threads:
        thread.join()
    assert (inbox.rows, inbox.is_congested, gate.closed) == (0, False, frozenset())
    assert any(was_closed)


def test_news_does_not_wait_behind_items_and_counts_for_nothing() -> None:
    inbox = Inbox([1], 1, Gate(lambda: None))
    inbox.put("rows", 5)
    inbox.put_news("news")
    assert (inbox.rows, list(inbox.news), bool(inbox)) == (5, ["news"], True)
    assert (inbox.pop_news(), inbox.pop_news(), list(inbox.news)) == ("news", None, [])
    assert inbox.pop() == "rows"
    assert not inbox


def test_an_inbox_closes_its_tasks_above_its_bytes_and_opens_them_when_the_large_items_are_done() -> None:
    gate = Gate(lambda: None)
    inbox = Inbox([1], 1000, gate, max_bytes=100)
    inbox.put("a", 1, 60)
    assert not gate.closed
    inbox.put("b", 1, 60)
    assert gate.closed == {1}
    assert inbox.pop() == "a"
    inbox.done(1)
    assert (inbox.bytes, gate.closed) == (120, {1})  # its values are there until the next item is asked for
    assert inbox.pop() == "b"
    inbox.done(1)
    assert (inbox.bytes, gate.closed) == (60, {1})
    assert inbox.pop() is None
    assert (inbox.rows, inbox.bytes, gate.closed) == (0, 0, frozenset())


def test_an_item_larger_than_an_inbox_may_hold_goes_through() -> None:
    gate = Gate(lambda: None)
    inbox = Inbox([1], 1000, gate, max_bytes=100)
    inbox.put("large", 1, 1000)
    assert inbox.pop() == "large"
    inbox.done(1)
    assert gate.closed == {1}
    assert inbox.pop() is None
    assert gate.closed == frozenset()
