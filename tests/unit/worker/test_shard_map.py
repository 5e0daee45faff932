"""A worker's view of which acker serves which shard: what is held back, what is failed, and in what order.

The addresses lead nowhere: what these tests look at happens before anybody answers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from local_components import Do

from tupletree import TopologyBuilder, config
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.testing import FeederSpout
from tupletree.v1 import acker_pb2
from tupletree.v1.topology_pb2 import ShardAssignment
from tupletree.worker.control_messages import ShardsLost
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.network.acker_links import (
    MAX_PAUSE_S,
    MAX_WAITING_ROOTS,
    PAUSE_S,
    WAITING_ROOTS,
    AckerLink,
    AckerLinkContext,
    AckerLinks,
)
from tupletree.worker.plan import Plan

NOWHERE = "127.0.0.1:9"


class Quiet:
    """The outside of an engine that is never started."""

    def send(self, batch: Any) -> None: ...
    def post(self, updates: Any) -> None: ...
    def failed(self, failure: Any) -> None: ...
    def congestion_changed(self) -> None: ...


class Worker:
    """A worker's engine, not started, and its links to ackers. ``told`` keeps what happened, in order."""

    def __init__(self, shards: int = 2) -> None:
        builder = TopologyBuilder()
        builder.set_spout("spout", FeederSpout(["n"]))
        builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
        conf = config.defaults()
        spec = builder.create_topology().spec()
        executors = executors_of(tasks_of(spec, conf), executor_counts(spec, conf))
        environment = Environment(
            lambda: 0.0, random.Random(1).getrandbits, lambda *error: None, True, lambda *emit: None
        )
        plan = Plan("t", spec, conf, tasks_of(spec, conf), local_tasks(executors), environment, seed=1)
        self.engine = Engine(plan, executors, Quiet(), lambda executor: None)
        self.spout_inbox = next(e.inbox for e in self.engine.executors if e.component_id == "spout")
        self.links_changed_before_telling: list[bool] = []
        hello = acker_pb2.TrackHello(topology_id="t", worker_id="w", shards=shards)
        self.ackers = AckerLinks(AckerLinkContext(hello, self.engine, self._link_changed))

    def _link_changed(self) -> None:
        self.links_changed_before_telling.append(not self.spout_inbox)

    async def follow(self, version: int, *owners: str, draining: str = "") -> None:
        await self.ackers.apply_shards(
            [
                ShardAssignment(
                    shard=shard,
                    acker_id=owner,
                    address=NOWHERE,
                    draining_acker_id=draining if draining != owner else "",
                    draining_address=NOWHERE,
                )
                for shard, owner in enumerate(owners)
            ],
            version,
        )


def run(test: Callable[[Worker], Awaitable[None]]) -> None:
    async def whole() -> None:
        worker = Worker()
        await test(worker)
        await worker.ackers.close()

    asyncio.run(whole())


def test_a_worker_that_is_behind_holds_its_updates_and_passes_the_news_on() -> None:
    """Its tuples may belong to trees begun under the newer map: whoever receives them must know that there is one."""

    async def test(worker: Worker) -> None:
        ackers = worker.ackers
        await worker.follow(3, "a", "b")
        assert (ackers.shard_version, ackers.known_version, ackers.is_behind) == (3, 3, False)
        ackers.require(5)
        assert (ackers.shard_version, ackers.known_version, ackers.is_behind) == (3, 5, True)
        ackers.post(AckUpdates.of(acks=[(1, 2)]))
        assert ackers._held
        await worker.follow(4, "a", "c")
        assert (ackers.known_version, ackers.is_behind) == (5, True)
        assert ackers._held
        await worker.follow(5, "a", "c")
        assert (ackers.known_version, ackers.is_behind, ackers._held) == (5, False, [])

    run(test)


def test_a_version_that_was_made_up_holds_nothing_up_for_good() -> None:
    async def test(worker: Worker) -> None:
        ackers = worker.ackers
        await worker.follow(3, "a", "b")
        ackers.require(9)
        ackers.post(AckUpdates.of(acks=[(1, 2)]))
        assert (ackers.claimed_version, bool(ackers._held)) == (9, True)
        ackers.refute(9)
        assert (ackers.claimed_version, ackers.known_version, ackers._held) == (None, 3, [])
        ackers.require(10)
        assert not ackers.is_behind
        ackers.require(5)
        assert ackers.claimed_version == 5
        await worker.follow(9, "a", "b")
        ackers.require(10)
        assert ackers.claimed_version == 10

    run(test)


def test_a_true_version_is_waited_for_though_a_greater_one_was_made_up() -> None:
    async def test(worker: Worker) -> None:
        ackers = worker.ackers
        await worker.follow(3, "a", "b")
        ackers.require(9)
        ackers.refute(9)
        ackers.require(4)
        ackers.refute(9)
        assert ackers.claimed_version == 4

    run(test)


def test_what_waits_for_an_acker_or_for_a_map_holds_first_the_spouts_and_then_the_bolts_too() -> None:
    """An acker may be out of this worker's reach alone: the spouts that feed its bolts go on, on other workers."""

    def some(roots: int) -> AckUpdates:
        return AckUpdates.of(acks=[(root, 1) for root in range(1, roots + 1)])

    async def test(worker: Worker) -> None:
        ackers, gate = worker.ackers, worker.engine.gate
        spout, bolt = sorted(worker.engine.executors, key=lambda one: one.component_id, reverse=True)
        await worker.follow(1, "a", "a")
        for _ in range(2):
            ackers.post(some(WAITING_ROOTS))
            assert (spout.is_held, bolt.is_held) == (False, False)
            ackers.post(some(1))
            assert (spout.is_held, bolt.is_held) == (True, False)
            ackers.post(some(MAX_WAITING_ROOTS))
            assert (spout.is_held, bolt.is_held) == (True, True)
            if not ackers.is_behind:
                await worker.follow(2, "b", "b")
                assert gate.closed == frozenset()
                ackers.require(3)
        ackers._held = [some(1)]
        await worker.follow(3, "b", "b")
        assert gate.closed == frozenset()

    run(test)


def test_an_older_map_is_ignored() -> None:
    async def test(worker: Worker) -> None:
        await worker.follow(3, "a", "b")
        await worker.follow(2, "x", "y")
        assert worker.ackers.shard_version == 3
        assert not worker.spout_inbox

    run(test)


def test_spouts_are_told_of_shards_that_left_their_acker_once_everything_else_is_done() -> None:
    async def test(worker: Worker) -> None:
        await worker.follow(1, "a", "b")
        await worker.follow(2, "a", "c")
        assert all(worker.links_changed_before_telling)
        assert worker.spout_inbox.pop_news() == ShardsLost(frozenset([1]), 2)
        assert worker.spout_inbox.pop_news() is None
        await worker.follow(3, "", "c")
        assert worker.spout_inbox.pop_news() == ShardsLost(frozenset([0]), 2)

    run(test)


def test_shards_of_an_acker_that_drains_are_not_lost() -> None:
    async def test(worker: Worker) -> None:
        await worker.follow(1, "a", "a")
        await worker.follow(2, "b", "b", draining="a")
        await worker.follow(3, "b", "b")
        assert not worker.spout_inbox

    run(test)


def test_no_acker_is_up_before_it_has_answered() -> None:
    async def test(worker: Worker) -> None:
        assert not worker.ackers.are_up
        await worker.follow(1, "a", "b")
        assert not worker.ackers.are_up

    run(test)


def test_the_acker_says_for_how_long_updates_are_gathered_within_bounds() -> None:
    async def scenario() -> None:
        link = AckerLink("a", NOWHERE, Worker().ackers._context)
        pauses_s = []
        for linger_us in (0, 9_000, 4_000_000_000, 0):
            link._on_reply(acker_pb2.TrackReply(linger_us=linger_us))
            pauses_s.append(link._pause_s)
        await link.close()
        assert pauses_s == [PAUSE_S, 0.009, MAX_PAUSE_S, PAUSE_S]

    asyncio.run(scenario())
