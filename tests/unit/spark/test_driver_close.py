"""A driver that is closed has left no thread behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree.spark import Pipeline
from tupletree.spark.driver import Driver, Processed

CLOSES = 300  # each thread of a driver comes to its end in another order now and then


class Unheard:
    """Events that nobody hears of."""

    def ready(self) -> None:
        pass

    def unavailable(self, error: BaseException) -> None:
        pass

    def broken(self, error: BaseException) -> None:
        pass

    def processed(self, attempt: Any, done: Processed) -> None:
        pass

    def committed(self, attempt: Any) -> None:
        pass

    def failed(self, attempt: Any, doing: str, error: BaseException) -> None:
        pass


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns so often that each can be overtaken anywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def commit_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("spark-commit")}


def test_the_thread_that_commits_has_ended_when_close_returns(switching_often: None) -> None:
    conf = {"spark.remote": "sc://nowhere", "spark.master": "local[1]"}  # which exclude each other: there is no session
    others = commit_threads()  # of drivers that other tests closed while a session was being opened
    for _ in range(CLOSES):
        Driver("id", Pipeline(), False, conf, 2, Unheard()).close()
        assert commit_threads() <= others
