"""Two workers that are connected over real gRPC: one that runs a bolt, and the links of one that sends to it."""

import asyncio
import contextlib
import functools
import random
import time

from tupletree import Bolt, TopologyBuilder, config
from tupletree._rpc.server import start_server
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.testing import FeederSpout
from tupletree.v1 import worker_pb2_grpc
from tupletree.worker.core.batches import Row, Rows, encode
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.execution.inbox import Gate
from tupletree.worker.network.peer_links import Peer, PeerLinkContext, PeerLinks
from tupletree.worker.plan import Plan
from tupletree.worker.service import WorkerService

SEEN = []
BOLT_TASK, SPOUT_TASK = 1, 2


class Collect(Bolt):
    def execute(self, tup):
        SEEN.append((tup.values, tup.anchors))
        self.collector.ack(tup)


class Receiver:
    """A worker that runs the bolt of a two-component topology, behind a real server."""

    def __init__(self, limit=32_768):
        builder = TopologyBuilder()
        builder.set_spout("a-spout", FeederSpout(["x"]))
        builder.set_bolt("a-bolt", Collect()).shuffle_grouping("a-spout")
        conf = {**config.defaults(), "topology.executor.receive.buffer.size": limit}
        spec = builder.create_topology().spec()
        tasks = tasks_of(spec, conf)
        executors = [each for each in executors_of(tasks, executor_counts(spec, conf)) if each[0] == BOLT_TASK]
        self.skew_s = 0.0
        environment = Environment(
            lambda: time.monotonic() + self.skew_s,
            random.Random(1).getrandbits,
            lambda *_: None,
            True,
            lambda *_: None,
            unix_clock=time.time,
        )
        plan = Plan("t", spec, conf, tasks, local_tasks(executors), environment, seed=1)
        self.engine = Engine(plan, executors, self, lambda executor: None)
        self.opened = asyncio.Event()
        self.posted = []
        self.versions = []
        self.service = WorkerService(self.engine, "t", "w2", self.opened, self.versions.append)
        self.loop = asyncio.get_running_loop()

    def send(self, batch):
        raise AssertionError("the bolt emits nothing")

    def post(self, updates):
        self.posted.append(updates)

    def failed(self, failure):
        raise failure

    def congestion_changed(self):
        self.loop.call_soon_threadsafe(self.service.congestion_changed)

    @contextlib.asynccontextmanager
    async def serving(self, port=0):
        add = functools.partial(worker_pb2_grpc.add_WorkerServicer_to_server, self.service)
        server = await start_server([add], "127.0.0.1", port)
        try:
            yield server.port
        finally:
            await server.stop(0)


class Sender:
    """The links of a worker that sends."""

    def __init__(self):
        self.gate = Gate(lambda: None)
        self.failed = set()
        self.peers = PeerLinks(
            PeerLinkContext("t", "w1", self.gate, lambda: 3, self.failed.update, lambda: None, lambda batch: [])
        )

    async def follow(self, port, worker_id="w2"):
        peer = Peer(worker_id, f"127.0.0.1:{port}", frozenset({BOLT_TASK}))
        await self.peers.connect({"slot": peer}, {"slot": peer.tasks})

    def send(self, receiver, values, root=0):
        origin = receiver.engine.origins[(SPOUT_TASK, "default")]
        rows: list[Row] = [([value], root, root + 1 if root else 0) for value in values]
        self.peers.send(encode(origin, BOLT_TASK, Rows.of(rows)), frozenset([BOLT_TASK]))


async def until(predicate):
    deadline_s = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline_s, "not true in time"
        await asyncio.sleep(0.005)
