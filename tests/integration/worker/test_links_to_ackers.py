"""A worker's links to ackers over real gRPC: what its spouts hear when one comes, breaks, drains or is taken away."""

import asyncio
import contextlib
import functools
import random
import time

from tupletree import TopologyBuilder, config
from tupletree._daemon.health import Readiness
from tupletree._rpc.server import start_server
from tupletree._security import current as security
from tupletree._security.tls import Tls
from tupletree._wire.fail_reasons import FailReason
from tupletree.acker.admission import Admission
from tupletree.acker.registry import Registry
from tupletree.acker.service import AckerService
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.testing import FeederSpout
from tupletree.v1 import acker_pb2, acker_pb2_grpc
from tupletree.v1.topology_pb2 import ShardAssignment
from tupletree.worker.control_messages import ShardsLost
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.execution.inbox import ACKERS
from tupletree.worker.network.acker_links import UNCONFIRMED_UPDATES, AckerLinkContext, AckerLinks
from tupletree.worker.plan import Plan

SPOUT_TASK = 1


class RunningAcker:
    """An acker's service, its registry and its address."""

    def __init__(self, acker_id):
        self.id = acker_id
        self.registry = Registry()
        self.failures = []
        admission = Admission(1_000_000)
        self.service = AckerService(acker_id, self.registry, admission, Readiness(), self.failures.append)
        self.address = ""

    @contextlib.asynccontextmanager
    async def serving(self):
        add = functools.partial(acker_pb2_grpc.add_AckerServicer_to_server, self.service)
        server = await start_server([add], "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.port}"
        try:
            yield self
        finally:
            await server.stop(0)

    @property
    def versions(self):
        """The shard versions that the workers have reported."""
        return [version for topology in self.registry.topologies.values() for version in topology.streams.values()]


class Worker:
    """A worker's engine, not started, and its links to ackers, for a topology of one spout and one shard."""

    def __init__(self):
        builder = TopologyBuilder()
        builder.set_spout("spout", FeederSpout(["n"]))
        conf = config.defaults()
        spec = builder.create_topology().spec()
        tasks = tasks_of(spec, conf)
        executors = executors_of(tasks, executor_counts(spec, conf))
        environment = Environment(time.monotonic, random.Random(1).getrandbits, lambda *_: None, True, lambda *_: None)
        plan = Plan("t", spec, conf, tasks, local_tasks(executors), environment, seed=1)
        self.engine = Engine(plan, executors, self, lambda executor: None)
        hello = acker_pb2.TrackHello(topology_id="t", worker_id="w", tasks=[SPOUT_TASK], message_timeout_s=30, shards=1)
        self.ackers = AckerLinks(AckerLinkContext(hello, self.engine, self.link_changed))

    def post(self, updates):
        raise AssertionError("no run loop was started")

    send = failed = post

    def congestion_changed(self):
        """Nobody asks."""

    def link_changed(self):
        self.engine.set_ackers_ready(self.ackers.are_up)

    @property
    def heard(self):
        """What the spout was told since this was last asked."""
        inbox = self.engine.executors[0].inbox
        return list(iter(inbox.pop_news, None))

    async def follow(self, version, owner, draining=None):
        shard = ShardAssignment(shard=0, acker_id=owner.id, address=owner.address)
        if draining is not None:
            shard.draining_acker_id, shard.draining_address = draining.id, draining.address
        await self.ackers.apply_shards([shard], version)

    def is_up(self, *ackers):
        return all(acker.id in self.ackers._links and self.ackers._links[acker.id].is_up for acker in ackers)


async def until(predicate):
    deadline_s = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline_s, "not true in time"
        await asyncio.sleep(0.005)


def run(test):
    async def whole():
        async with RunningAcker("a").serving() as a, RunningAcker("b").serving() as b:
            worker = Worker()
            await worker.follow(1, a)
            await until(lambda: worker.is_up(a) and a.versions == [1])
            await test(worker, a, b)
            await worker.ackers.close()

    asyncio.run(whole())


def test_spouts_hear_nothing_of_an_acker_that_drains_to_its_end():
    async def test(worker, a, b):
        a.registry.begin_drain()
        await worker.follow(2, b, draining=a)
        await until(lambda: worker.is_up(a, b) and a.versions == [2])
        a.service.end_streams(None)
        await until(lambda: not worker.is_up(a))
        await worker.follow(3, b)
        assert worker.heard == []
        assert ACKERS not in worker.engine.gate.closed

    run(test)


def test_an_acker_may_have_drained_while_this_worker_is_writing():
    """The write then fails, and the stream's end looks like an error."""

    async def test(worker, a, b):
        async def keep_writing():
            for root in range(1, 1_000_000):
                worker.ackers.post(AckUpdates.of(acks=[(root, root)]))
                await asyncio.sleep(0)

        writing = asyncio.create_task(keep_writing())
        await worker.follow(2, b, draining=a)
        await until(lambda: worker.is_up(a, b))
        a.service.end_streams(None)
        await until(lambda: not worker.is_up(a))
        writing.cancel()
        assert worker.heard == []

    for _ in range(5):
        run(test)


def test_a_link_goes_on_when_a_certificate_that_is_being_replaced_cannot_be_read(caplog, tmp_path):
    caplog.set_level("INFO")

    async def test(worker, a, b):
        security.use(security.Security(tls=Tls(str(tmp_path / "ca.crt"))))
        try:
            await worker.follow(2, b, draining=a)
            await until(lambda: "ca.crt" in caplog.text)
        finally:
            security.use(security.OFF)
        await until(lambda: worker.is_up(a, b))
        worker.ackers.post(AckUpdates.of(acks=[(1, 1)]))
        await until(lambda: worker.ackers._links["b"].is_idle)

    run(test)
    assert caplog.text.count("ca.crt") == 1  # not at each attempt


def test_that_another_acker_answers_is_told_once(caplog):
    """The map names the one that died for as long as ZooKeeper is away."""
    caplog.set_level("INFO")

    async def test(worker, a, b):
        dead = RunningAcker("dead")
        dead.address = b.address
        await worker.follow(2, dead)
        await until(lambda: b.service.work.streams_opened >= 2)
        assert not worker.is_up(dead)

    run(test)
    assert caplog.text.count("acker b answers at this address") == 1


def test_the_trees_of_an_acker_that_is_taken_out_of_the_map_before_it_has_drained_are_lost():
    """Nimbus may lose sight of it before this worker does; or its successor drains in turn and takes its place."""

    async def test(worker, a, b):
        await worker.follow(2, b, draining=a)
        await until(lambda: worker.is_up(a, b))
        await worker.follow(3, b)
        assert worker.heard == [ShardsLost(frozenset([0]), 1)]

    run(test)


def test_the_trees_of_an_acker_that_leaves_while_it_still_owns_shards_are_lost():
    """A newer map that had nothing to do with its drain made it believe that its shards had moved."""

    async def test(worker, a, b):
        a.registry.begin_drain()
        await worker.follow(2, a)
        await until(lambda: a.versions == [2])
        a.service.end_streams(None)
        await until(lambda: not worker.is_up(a))
        assert ACKERS in worker.engine.gate.closed
        assert worker.heard == [ShardsLost(frozenset([0]), 1)]
        await worker.follow(3, b, draining=a)
        await until(lambda: worker.is_up(b))
        assert ACKERS not in worker.engine.gate.closed

    run(test)


def begun(roots):
    """The inits of trees."""
    updates = AckUpdates()
    for root in roots:
        updates.add_init(root, root, SPOUT_TASK)
    return updates


def test_many_trees_that_fail_each_for_a_reason_of_its_own_do_not_break_the_stream():
    """As after a pause of the acker: the reasons together were larger than a message may be."""

    async def test(worker, a, b):
        link = worker.ackers._links["a"]
        for first in range(1, 80_001, 400):
            updates = AckUpdates()
            for root in range(first, first + 400):
                updates.fail([root], FailReason("bolt", 2, f"order {root} {'x' * 700}", "y" * 700))
            worker.ackers.post(updates)
        await until(lambda: link.is_idle)
        assert (link.connects, worker.heard) == (1, [])

    run(test)


def test_spouts_wait_while_an_acker_has_no_room_and_acks_go_on():
    """Also when more messages are unconfirmed than a worker leaves otherwise: the acks in them make the room."""

    async def test(worker, a, b):
        gate, link = worker.engine.gate, worker.ackers._links["a"]
        a.service._admission.limit = 1000
        roots = range(1, 1201)
        worker.ackers.post(begun(roots))
        await until(lambda: link.is_idle)
        assert gate.closed_by(link) == frozenset()
        worker.ackers.post(begun([5000]))
        await until(lambda: gate.closed_by(link) == {ACKERS})
        (topology,) = a.registry.topologies.values()
        for sent in range(UNCONFIRMED_UPDATES + 20):
            worker.ackers.post(AckUpdates.of(acks=[(6000 + sent, 1)]))
            await until(lambda: not link._waiting)
        assert len(link._unconfirmed) > UNCONFIRMED_UPDATES
        assert topology.trees == 1200
        worker.ackers.post(AckUpdates.of(fails=roots))
        await until(lambda: link.is_idle and gate.closed_by(link) == frozenset())
        assert topology.trees == 1

    run(test)


def test_a_worker_whose_stream_breaks_while_trees_are_held_is_asked_anew():
    async def test(worker, a, b):
        gate, link = worker.engine.gate, worker.ackers._links["a"]
        a.service._admission.limit = 10
        worker.ackers.post(begun(range(1, 12)))
        await until(lambda: link.is_idle)
        worker.ackers.post(begun([5000]))
        await until(lambda: gate.closed_by(link) == {ACKERS})
        a.service.end_streams(OSError("the stream breaks"))
        await until(lambda: gate.closed_by(link) == frozenset())
        await until(lambda: worker.is_up(a) and link.is_idle)
        assert a.service._admission.waiting == 0  # what was held was not confirmed, and was failed instead

    run(test)


def test_a_new_stream_tells_the_version_though_there_is_no_update():
    """An acker that drains waits to be told of a newer map by every stream that it has."""

    async def test(worker, a, b):
        a.service.end_streams(OSError("the stream breaks"))
        await until(lambda: not worker.is_up(a))
        await until(lambda: worker.is_up(a) and a.versions == [1])

    run(test)
