"""Objects that the tasks of a worker share: made once, whichever thread asks first, and closed last first."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tupletree.errors import UsageError
from tupletree.worker.shared_objects import SharedObjects


def test_an_object_is_made_once_for_all_threads() -> None:
    shared = SharedObjects()
    made: list[object] = []
    ready = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask(_: int) -> object:
        ready.wait()
        return shared.get("model", make, None)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, range(8)))
    assert len(made) == 1 and found == made * 8


def test_none_is_an_object_like_any_other() -> None:
    shared = SharedObjects()
    calls: list[int] = []
    assert [shared.get("nothing", lambda: calls.append(1), None) for _ in range(2)] == [None, None]
    assert calls == [1]


def test_an_object_that_takes_long_does_not_hold_up_others() -> None:
    shared = SharedObjects()
    may_end = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(shared.get, "slow", may_end.wait, None)
        assert shared.get("fast", lambda: 1, None) == 1
        may_end.set()
        assert slow.result() is True


def test_after_a_failure_the_next_who_asks_makes_the_object() -> None:
    shared = SharedObjects()
    with pytest.raises(OSError, match=r"^no such model$"):
        shared.get("model", _fails, None)
    assert shared.get("model", lambda: 2, None) == 2


def _fails() -> None:
    raise OSError("no such model")


def test_an_object_that_needs_itself_is_refused() -> None:
    shared = SharedObjects()
    with pytest.raises(UsageError, match=r"^the function that makes the shared object 'a' asks for this object$"):
        shared.get("a", lambda: shared.get("b", lambda: shared.get("a", dict, None), None), None)
    assert shared.get("a", lambda: shared.get("b", lambda: 3, None), None) == 3


@pytest.mark.parametrize("name", ["", None, 1, b"model"])
def test_a_name_is_a_text(name: Any) -> None:
    with pytest.raises(UsageError, match=r"named by a text such as 'model', not "):
        SharedObjects().get(name, dict, None)


def test_objects_are_closed_once_and_the_last_one_first(caplog: pytest.LogCaptureFixture) -> None:
    shared = SharedObjects()
    closed: list[str] = []

    def close(one: str) -> None:
        closed.append(one)
        if one == "second":
            raise OSError("cannot be closed")

    for name in ("first", "second", "third"):
        assert shared.get(name, lambda name=name: name, close) == name
    shared.get("first", lambda: "another", close)
    shared.get("without", dict, None)
    with caplog.at_level(logging.INFO):
        shared.close()
        shared.close()
    assert closed == ["third", "second", "first"]
    assert ["shared.close_failed" in one and "cannot be closed" in one for one in caplog.messages] == [True]
