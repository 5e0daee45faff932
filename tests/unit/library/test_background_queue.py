"""Items for a thread of its own: in their order, left out if too many wait, and taken before the end."""

from __future__ import annotations

import threading
from itertools import islice

from tupletree._background_queue import BackgroundQueue


def test_items_are_taken_in_their_order_before_the_end() -> None:
    taken: list[int] = []
    items = BackgroundQueue[int]("t", 100, 30)

    def run() -> None:
        while (item := items.get()) is not None:
            taken.append(item)

    items.start(run)
    for item in range(50):
        items.put(item)
    items.start(lambda: taken.append(-1))  # it runs already
    items.close()
    assert taken == list(range(50))
    items.close()
    items.start(run)  # again
    items.put(50)
    items.close()
    assert taken[-1] == 50


def test_items_that_find_no_place_are_counted_once_the_others_are_taken() -> None:
    items = BackgroundQueue[int]("t", 2, 30)
    for item in range(5):
        items.put(item)
    items.count_left_out(10)
    assert items.take_left_out() == 0
    assert (items.get(), items.get()) == (0, 1)
    assert (items.take_left_out(), items.take_left_out()) == (13, 0)


def test_what_waits_is_taken_at_once_up_to_the_end() -> None:
    items = BackgroundQueue[int]("t", 10, 30)
    ends = threading.Event()
    items.start(ends.wait)
    for item in range(4):
        items.put(item)
    assert list(islice(items.get_more(), 2)) == [0, 1]
    closing = threading.Thread(target=items.close)
    closing.start()
    assert items.get() == 2
    found = [*items.get_more()]
    while None not in found:
        found += items.get_more()
    assert found == [3, None]
    ends.set()
    closing.join(30)
    assert not closing.is_alive()


def test_a_thread_that_hangs_does_not_hold_up_the_end() -> None:
    items = BackgroundQueue[int]("t", 1, 0.01)
    hangs = threading.Event()
    items.start(hangs.wait)
    items.put(1)
    items.close()
    hangs.set()
