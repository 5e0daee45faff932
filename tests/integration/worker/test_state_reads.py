"""Questions to a worker about the states of its tasks, over real gRPC: what is answered before there is a state, and
what is refused."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from tupletree import BasicStatefulBolt, TopologyBuilder, config
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.server import start_server
from tupletree._wire.codec import encode_value
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.state import KeyValueState, MemoryStateProvider
from tupletree.testing import FeederSpout
from tupletree.v1 import worker_pb2, worker_pb2_grpc
from tupletree.worker.checkpoint import state_reads
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.plan import Plan
from tupletree.worker.service import WorkerService

KEY = encode_value("a")


class Count(BasicStatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state[tup[0]] = 1


class OddProvider(MemoryStateProvider):
    """Raises what no provider should."""

    def open_reader(self, namespace: str, conf: Any, topology_conf: Any) -> Any:
        raise ValueError("an odd shelf")

    def new_state(self, namespace: str, conf: Any, context: Any) -> KeyValueState[Any, Any]:
        return super().new_state(namespace, conf, context)


class Outside:
    """Nothing leaves the engine, which is never started."""

    def send(self, batch: Any, tasks: Any) -> None: ...
    def post(self, updates: Any) -> None: ...
    def failed(self, failure: Any) -> None: ...
    def congestion_changed(self) -> None: ...


def asked(provider: str = "memory", **fields: Any) -> Any:
    """The reply to one question to a worker with two tasks of ``count``, or the code and the text of its refusal."""
    request = worker_pb2.ReadTaskStatesRequest(
        **{"topology_id": "words-1-1", "component": "count", "indexes": [0], **fields}
    )
    return answered(lambda stub: stub.ReadState(request, timeout=30), provider)


def worker_service(provider: str = "memory") -> WorkerService:
    """The service of a worker with two tasks of ``count``, which get no tuple."""
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["x"]))
    builder.set_bolt("count", Count(), 2).shuffle_grouping("words")
    conf = {**config.defaults(), "topology.state.provider": provider}
    spec = builder.create_topology().spec()
    tasks = tasks_of(spec, conf)
    executors = executors_of(tasks, executor_counts(spec, conf))
    environment = Environment(time.monotonic, random.Random(1).getrandbits, lambda *_: None, True, lambda *_: None)
    plan = Plan("words-1-1", spec, conf, tasks, local_tasks(executors), environment, seed=1)
    engine = Engine(plan, executors, Outside(), lambda executor: None)
    return WorkerService(engine, "words-1-1", "w", asyncio.Event(), lambda version: None)


def answered(call: Callable[[Any], Any], provider: str = "memory") -> Any:
    """The reply of a worker with two tasks of ``count``, which get no tuple, or the code and the text of an error."""

    async def ask() -> Any:
        service = worker_service(provider)
        add = functools.partial(worker_pb2_grpc.add_WorkerServicer_to_server, service)
        server = await start_server([add], "127.0.0.1", 0)
        try:
            async with aio_channel(f"127.0.0.1:{server.port}") as channel:
                stub: Any = worker_pb2_grpc.WorkerStub(channel)
                return await call(stub)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details()
        finally:
            await server.stop(0)

    return asyncio.run(ask())


def test_a_state_that_is_not_open_yet_has_no_committed_values() -> None:
    for fields in ({"keys": [KEY], "indexes": [0, 1, 1]}, {"limit": 10}):
        reply = asked(**fields)
        assert [(task.index, task.HasField("committed"), len(task.entries)) for task in reply.tasks] == [
            (index, False, 0) for index in sorted(set(fields.get("indexes", [0])))
        ]


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"topology_id": "other-1-1", "keys": [KEY]}, "NOT_FOUND", "this is a worker of topology words-1-1, not of"),
        ({"indexes": [2], "keys": [KEY]}, "UNAVAILABLE", "task 2 of component 'count' does not run in this worker"),
        ({"component": "nope", "keys": [KEY]}, "UNAVAILABLE", "task 0 of component 'nope' does not run in this worker"),
        ({"component": "words", "keys": [KEY]}, "NOT_FOUND", "component 'words' has no state"),
        (
            {"indexes": [], "keys": [KEY]},
            "INVALID_ARGUMENT",
            "a question names its tasks, and that for a list names one",
        ),
        (
            {"indexes": [0, 1], "limit": 5},
            "INVALID_ARGUMENT",
            "a question names its tasks, and that for a list names one",
        ),
        ({"limit": 0}, "INVALID_ARGUMENT", "a page has 1 to 1,000 entries, not 0"),
        ({"limit": 5, "is_live": True}, "INVALID_ARGUMENT", "live values can only be asked for by key"),
        ({"keys": [KEY] * 101}, "INVALID_ARGUMENT", "ask for 1 to 100 keys at once, not 101"),
        ({"keys": [b"\xc1"], "is_live": True}, "INVALID_ARGUMENT", "a key of a state cannot be read"),
        (
            {"keys": [KEY], "provider": f"{__name__}:OddProvider"},
            "UNAVAILABLE",
            "the state provider raised ValueError: an",
        ),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(fields: dict[str, Any], code: str, sentence: str) -> None:
    found = asked(**fields)
    assert found[0] == code
    assert found[1].startswith(sentence)


def test_a_task_that_is_in_a_call_of_its_own_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "LIVE_S", 0.05)  # no thread of this engine runs at all
    code, sentence = asked(keys=[KEY], is_live=True)
    assert code == "UNAVAILABLE"
    assert sentence.startswith("task 0 of component 'count' is in a call of its own for more than 0.05 s; ask for")
