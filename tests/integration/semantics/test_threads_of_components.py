"""Which threads call a component: declared as blocking, always the same one; else the error says what to do."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from local_components import Log

from tupletree import BasicBolt, TopologyBuilder
from tupletree.errors import with_suggestion
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.execution import run_loop


class Stores(BasicBolt):
    def __init__(self, path: Path, threads: Log, *, blocking: bool) -> None:
        self.path = path
        self.threads = threads
        self.blocking = blocking

    def setup(self) -> None:
        self._note()
        self.database = sqlite3.connect(self.path, isolation_level=None)
        self.database.execute("create table if not exists numbers (number)")

    def execute(self, tup: Any, collector: Any) -> None:
        self._note()
        self.database.execute("insert into numbers values (?)", [tup["number"]])

    def teardown(self) -> None:
        self._note()
        self.database.close()

    def _note(self) -> None:
        self.threads.append((self.context.task_id, threading.get_ident()))


class Waits(BasicBolt):
    """Blocks, so that its worker moves the components beside it."""

    def execute(self, tup: Any, collector: Any) -> None:
        threading.Event().wait(3 * run_loop.STUCK_S)


def test_a_component_declared_as_blocking_stays_on_its_thread_if_another_one_blocks(tmp_path: Path) -> None:
    threads, feed = Log(), FeederSpout(["number"])
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", feed)
    builder.set_bolt("stores", Stores(tmp_path / "numbers.db", threads, blocking=True), 2).all_grouping(numbers)
    builder.set_bolt("waits", Waits()).shuffle_grouping(numbers)
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        for number in range(3):
            feed.feed([number])
        cluster.wait_quiet()
    assert len(threads) == 2 * (1 + 3 + 1)
    assert len(set(threads)) == 2, "each task has been called by one thread"
    with sqlite3.connect(tmp_path / "numbers.db") as database:
        assert database.execute("select count(*) from numbers").fetchone() == (6,)


def test_an_object_of_another_thread_is_explained() -> None:
    made: list[sqlite3.Connection] = []
    thread = threading.Thread(target=lambda: made.append(sqlite3.connect(":memory:")))
    thread.start()
    thread.join()
    with pytest.raises(sqlite3.ProgrammingError) as caught:
        made[0].execute("select 1")
    text = with_suggestion(caught.value)
    assert text.startswith("ProgrammingError: SQLite objects created in a thread can only be used in that same thread")
    assert "set blocking = True on the class" in text and "check_same_thread=False" in text
