"""DRPC within one process: the same answers, ends and refusals as on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from drpc_harness import TWEETERS, Double, reach_builder, reach_of

from tupletree.backoff import Backoff
from tupletree.component import BasicBolt, BasicCollector, Bolt
from tupletree.drpc import DRPCSpout, LinearDRPCTopologyBuilder, LocalDRPC, ReturnResults
from tupletree.errors import DRPCError, DRPCTimeoutError, FailedException, TopologyError, UsageError
from tupletree.testing import LocalCluster
from tupletree.topology import Topology, TopologyBuilder
from tupletree.transactional import BatchBolt
from tupletree.tuples import Tuple


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def drpc() -> Iterator[LocalDRPC]:
    with LocalDRPC() as drpc:
        yield drpc


def doubling(drpc: LocalDRPC, answers: str = "one") -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout("double", answers=answers, drpc=drpc))
    builder.set_bolt("double", Double(), 2).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults()).shuffle_grouping("double")
    return builder


def test_answers_and_failures(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("double", doubling(drpc).create_topology())
    assert drpc.execute("double", 21) == 42
    assert drpc.execute("double", {"a": [1, None, "ä"]}["a"]) == [1, None, "ä"] * 2
    with pytest.raises(DRPCError, match=r"failed in component 'double': FailedException: asked to fail"):
        drpc.execute("double", "fail")
    with pytest.raises(DRPCError, match=r"complete with no result"):
        drpc.execute("double", "forget")
    with pytest.raises(DRPCTimeoutError, match=r"no topology has served function 'unknown'"):
        drpc.execute("unknown", timeout_s=0.05)


def test_all_results_as_a_list(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("double", doubling(drpc, "all").create_topology())
    assert drpc.execute("double", "repeat") == ["repeatrepeat"] * 2
    assert drpc.execute("double", "forget") == []


def test_a_handler_awaits_an_answer(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("double", doubling(drpc).create_topology())

    async def run() -> list[int]:
        calls = [drpc.execute_async("double", number) for number in range(200)]
        with pytest.raises(DRPCTimeoutError):
            await drpc.execute_async("unknown", timeout_s=0.05)
        return list(await asyncio.gather(*calls))

    assert asyncio.run(run()) == [2 * number for number in range(200)]


def test_reach(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("reach", reach_builder().create_local_topology(drpc))
    for _ in range(20):
        for url in (*TWEETERS, "nobody"):
            assert drpc.execute("reach", url) == reach_of(url)


class FailsAtTheEnd(BatchBolt):
    outputs = ["count"]

    def execute(self, tup: object) -> None: ...

    def finish_batch(self) -> None:
        raise FailedException("not today")


class Words(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: object, collector: object) -> None:
        for word in tup["args"].split():  # type: ignore[index]
            if word == "bad":
                raise FailedException("a bad word")
            collector.emit([word])  # type: ignore[attr-defined]


def test_a_failure_in_a_chain_reaches_the_caller(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    builder = LinearDRPCTopologyBuilder("words")
    builder.add_bolt(Words(), 2)
    builder.add_bolt(FailsAtTheEnd(), 2).global_grouping()
    cluster.submit("words", builder.create_local_topology(drpc))
    with pytest.raises(DRPCError, match=r"component 'bolt-1': FailedException: not today"):
        drpc.execute("words", "a b c")
    with pytest.raises(DRPCError, match=r"component 'bolt-0': FailedException: a bad word"):
        drpc.execute("words", "a bad c")


def test_requests_wait_for_a_deactivated_topology(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("double", doubling(drpc).create_topology())
    assert drpc.execute("double", 1) == 2
    cluster.deactivate("double")
    with pytest.raises(DRPCTimeoutError, match=r"time"):
        drpc.execute("double", 1, timeout_s=0.2)
    cluster.activate("double")
    assert drpc.execute("double", 1) == 2


class Divides(BasicBolt):
    """Divides 1 by a number; emits an object for None, and bytes for text. Fails in ``setup`` if it is so made."""

    outputs = ["result", "return_info"]

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken

    def setup(self) -> None:
        if self.is_broken:
            raise OSError("no table")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        number = tup["args"]
        odd = {type(None): object(), str: b"1"}
        collector.emit([odd.get(type(number)) or 1 / number, tup["return_info"]])


def dividing(drpc: LocalDRPC, **how: bool) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout("divide", drpc=drpc, max_in_flight=1))
    builder.set_bolt("divide", Divides(**how)).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults()).shuffle_grouping("divide")
    return builder.create_topology()


@pytest.mark.parametrize("blocks", [[], ["requests"], ["divide"]])
def test_a_component_that_raises_ends_all_calls_at_once(
    cluster: LocalCluster, drpc: LocalDRPC, monkeypatch: pytest.MonkeyPatch, blocks: list[str]
) -> None:
    monkeypatch.setattr(DRPCSpout, "blocking", "requests" in blocks)
    monkeypatch.setattr(Divides, "blocking", "divide" in blocks)
    cluster.submit("divide", dividing(drpc))
    assert drpc.execute("divide", 2) == 0.5

    async def run() -> None:
        calls = [drpc.execute_async("divide", 0) for _ in range(5)]  # one is taken, the others are queued
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, DRPCError) and error.kind == "lost"
            assert str(error).startswith("the topology that serves function 'divide' has ended: task ")
            assert "of component 'divide' failed: ZeroDivisionError: " in str(error)

    asyncio.run(run())
    with pytest.raises(DRPCError, match=r"ZeroDivisionError") as raised:  # nobody will serve it
        drpc.execute("divide", 2)
    assert raised.value.kind == "lost"
    cluster.kill("divide")
    cluster.submit("divide", dividing(drpc))
    assert drpc.execute("divide", 2) == 0.5


def test_a_component_that_cannot_start_ends_calls_at_once(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("divide", dividing(drpc, is_broken=True))
    with pytest.raises(DRPCError, match=r"component 'divide' failed: OSError: no table"):
        drpc.execute("divide", 2)


def test_another_topology_goes_on_serving_the_function(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("first", dividing(drpc))
    cluster.submit("second", dividing(drpc))
    cluster.wait_until(lambda: len(cluster.statuses("first")) == len(cluster.statuses("second")) == 1)
    with pytest.raises(DRPCError, match=r"ZeroDivisionError"):
        drpc.execute("divide", 0)
    assert [drpc.execute("divide", 2) for _ in range(3)] == [0.5] * 3


def test_a_result_that_is_no_json_value_ends_the_call_at_once(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    cluster.submit("divide", dividing(drpc))
    with pytest.raises(DRPCError, match=r"component 'answers': UsageError: the result of .* must be a JSON value"):
        drpc.execute("divide", "text")
    with pytest.raises(DRPCError, match=r"component 'divide' emitted a value of type object in field 'result'"):
        drpc.execute("divide", None)


class Forgets(Bolt):
    outputs = ["result", "return_info"]

    def execute(self, tup: object) -> None: ...


def test_a_tree_that_times_out_fails_its_request(drpc: LocalDRPC) -> None:
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout("double", drpc=drpc))
    builder.set_bolt("forgets", Forgets()).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults()).shuffle_grouping("forgets")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit("double", builder.create_topology())

        async def run() -> None:
            call = asyncio.create_task(drpc.execute_async("double", 1))
            while not call.done():
                await asyncio.to_thread(cluster.advance, 10)
            with pytest.raises(DRPCTimeoutError, match=r"the tree was not complete within 30 s"):
                await call

        asyncio.run(run())


def test_refusals(cluster: LocalCluster, drpc: LocalDRPC) -> None:
    with pytest.raises(UsageError, match=r"must be named by at most 100"):
        DRPCSpout("a b")
    with pytest.raises(UsageError, match=r"answers is 'some'"):
        DRPCSpout("f", answers="some")
    with pytest.raises(UsageError, match=r"must be a JSON value"):
        drpc.execute("f", object())
    with pytest.raises(UsageError, match=r"timeout_s is 'soon', expected a number of seconds, more than 0 and at most"):
        drpc.execute("f", timeout_s="soon")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"has no bolt"):
        LinearDRPCTopologyBuilder("f").create_topology()
    builder = LinearDRPCTopologyBuilder("f")
    with pytest.raises(TopologyError, match=r"must be a BatchBolt or a BasicBolt, not Forgets"):
        builder.add_bolt(Forgets())  # type: ignore[arg-type]
    builder.add_bolt(Double())
    with pytest.raises(TopologyError, match=r"must declare one field"):
        builder.create_topology()


@pytest.mark.parametrize("conf", [{"topology.acker.executors": 0}, {}])
def test_what_makes_an_answer_uncertain_is_refused(
    cluster: LocalCluster, drpc: LocalDRPC, conf: dict[str, int]
) -> None:
    builder = TopologyBuilder()
    spout = builder.set_spout("requests", DRPCSpout("double", drpc=drpc))
    if not conf:
        spout.set_retry(Backoff())
    builder.set_bolt("answers", ReturnResults()).shuffle_grouping("requests")
    cluster.submit("double", builder.create_topology(), conf)
    with pytest.raises(Exception, match=r"without ackers a DRPCSpout|emits each request once"):
        cluster.wait_until(lambda: False, 5)
