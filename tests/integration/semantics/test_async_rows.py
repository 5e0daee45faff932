"""Async bolts: rows that share a list, emits that come too late, and calls that end with what is no exception."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from local_components import Keep, Log

from tupletree import AsyncBolt, TopologyBuilder
from tupletree.errors import TaskFailedError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology


class Scene:
    """One number -> bolt -> sink."""

    def __init__(self, cluster: LocalCluster, execute: Any) -> None:
        self.kept = Log()
        self.numbers = FeederSpout(["n"])
        builder = TopologyBuilder()
        builder.set_spout("numbers", self.numbers)
        bolt = type("Awaits", (AsyncBolt,), {"outputs": ["n"], "execute": execute})()
        builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
        builder.set_bolt("sink", Keep(self.kept)).shuffle_grouping("bolt")
        cluster.submit("t", builder.create_topology())
        self.numbers.feed([1], 1)


async def yielded(self: Any, tup: Any) -> AsyncIterator[list[int]]:
    row = [0]
    for row[0] in range(3):
        yield row


async def emitted(self: Any, tup: Any) -> None:
    row = [0]
    for row[0] in range(3):
        self.collector.emit(row)


@pytest.mark.parametrize("execute", [yielded, emitted])
def test_the_list_of_a_row_may_be_used_for_the_next_one(cluster: LocalCluster, execute: Any) -> None:
    scene = Scene(cluster, execute)
    cluster.wait_quiet()
    assert [values for _, values in scene.kept] == [[0], [1], [2]]


def test_an_emit_after_the_end_of_execute_is_an_error(cluster: LocalCluster) -> None:
    async def late(self: Any, tup: Any) -> None:
        await asyncio.sleep(0.01)
        self.collector.emit([tup[0]])

    async def execute(self: Any, tup: Any) -> None:
        self.late = asyncio.create_task(late(self, tup))  # awaited by nobody

    scene = Scene(cluster, execute)
    cluster.wait_until(lambda: bool(cluster.errors("t")) and scene.numbers.acked == [1], 20)
    [(component, error)] = cluster.errors("t")
    assert component == "bolt" and "only while execute runs: await what execute calls" in str(error)
    assert len(scene.kept) == 0


def test_what_is_no_exception_ends_the_worker_as_an_exception_does(cluster: LocalCluster) -> None:
    class Panic(BaseException):  # as that of libraries in Rust
        pass

    async def execute(self: Any, tup: Any) -> None:
        raise Panic("index out of bounds")

    Scene(cluster, execute)
    with pytest.raises(TaskFailedError, match=r"of component 'bolt' failed.*raised Panic\('index out of bounds'\)"):
        cluster.wait_quiet()


def test_a_tick_of_an_async_bolt_yields_its_rows() -> None:
    class Ticks(AsyncBolt):
        outputs = ("n",)

        def component_configuration(self) -> dict[str, Any]:
            return {"topology.tick.tuple.freq.secs": 1}

        async def execute(self, tup: Any) -> None:
            pass

        def tick(self) -> Any:
            yield [7]

    class Emits(Ticks):
        def tick(self) -> Any:
            self.collector.emit([7])

    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["n"]))
    builder.set_bolt("bolt", Ticks()).shuffle_grouping("numbers")
    assert complete_topology(builder.create_topology(), {"numbers": []}).rows("bolt") == [[7]]
    builder.set_bolt("emits", Emits()).shuffle_grouping("numbers")
    with pytest.raises(TaskFailedError, match="a tick yields its rows"):
        complete_topology(builder.create_topology(), {"numbers": []})
