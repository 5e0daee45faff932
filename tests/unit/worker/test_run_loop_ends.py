"""The ends of run loops: with their topology, by an exception, and where a component does not return."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from local_components import Do, DoBasic, Latch, Log
from run_loop_scene import ENOUGH_S, components_of, feeder_of_two, loops, two_branches

from tupletree import Spout, TopologyBuilder
from tupletree.testing import LocalCluster, local_topology


class Closing(Do):
    """Logs its task when it is cleaned up."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def cleanup(self) -> None:
        self.log.append(self.context.component_id)


def test_killing_a_topology_ends_its_threads_and_closes_its_components(cluster: LocalCluster) -> None:
    log = Log()
    cluster.submit("t", two_branches(feeder_of_two(), Closing(log), Closing(log)).create_topology())
    threads = loops(cluster)
    cluster.kill("t")
    assert sorted(log) == ["left", "right"]
    assert not any(thread.is_alive() for thread in threads)


def test_killing_a_topology_with_a_stuck_bolt_closes_the_others_and_leaves_no_spout_running(
    cluster: LocalCluster, latch: Latch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_topology, "STOP_TIMEOUT_S", ENOUGH_S)
    log, entered = Log(), Latch()
    feeder = feeder_of_two()

    def execute(tup: Any, collector: Any) -> None:
        entered.set()
        latch.wait()

    cluster.submit("t", two_branches(feeder, DoBasic(execute), Closing(log)).create_topology())
    feeder.feed([0], None, "left")
    assert entered.wait(ENOUGH_S)
    engine = cluster._find("t").engine
    killer = threading.Thread(target=cluster.kill, args=("t",))
    killer.start()
    cluster.wait_until(lambda: list(log) == ["right"], ENOUGH_S)
    cluster.wait_until(
        lambda: [components_of(loop) for loop in engine.loops if loop.is_alive()] == [{"left"}], ENOUGH_S
    )
    latch.set()
    killer.join(ENOUGH_S)
    assert not any(loop.is_alive() for loop in engine.loops)


def test_an_exception_ends_every_loop_of_its_topology(cluster: LocalCluster) -> None:
    feeder = feeder_of_two()

    def raise_it(tup: Any, collector: Any) -> None:
        raise ValueError("broken")

    builder = two_branches(feeder, DoBasic(raise_it), Do())
    builder.set_bolt("alone", Do()).shuffle_grouping("spout", "right").set_blocking()
    cluster.submit("t", builder.create_topology())
    threads = loops(cluster)
    feeder.feed([1], 1, "left")
    with pytest.raises(local_topology.TaskFailedError, match="'left' failed: ValueError: broken"):
        cluster.wait_quiet()
    for thread in threads:
        thread.join(ENOUGH_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("raised", [SystemExit("bye"), asyncio.CancelledError("no more")])
def test_what_is_no_exception_ends_the_topology_too(cluster: LocalCluster, raised: BaseException) -> None:
    """On the thread of a run loop these would end the thread alone: nothing runs any more, and all looks well."""
    feeder = feeder_of_two()

    def raise_it(tup: Any, collector: Any) -> None:
        raise raised

    cluster.submit("t", two_branches(feeder, DoBasic(raise_it), Do()).create_topology())
    feeder.feed([1], 1, "left")
    with pytest.raises(local_topology.TaskFailedError, match=f"'left' failed: {type(raised).__name__}: {raised}"):
        cluster.wait_quiet()


class Exiting(Spout):
    """Ends the process, as it thinks, at the call that it is told."""

    outputs = ("n",)

    def __init__(self, at: str) -> None:
        self.at = at

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self._reached("open")

    def next_tuple(self) -> None:
        self._reached("next_tuple")

    def _reached(self, call: str) -> None:
        if call == self.at:
            sys.exit(f"in {call}")


@pytest.mark.parametrize("call", ["open", "next_tuple"])
def test_a_spout_that_calls_sys_exit_ends_its_topology(cluster: LocalCluster, call: str) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Exiting(call))
    with pytest.raises(local_topology.TaskFailedError, match=f"component 'spout' failed: SystemExit: in {call}"):
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: False, ENOUGH_S)
