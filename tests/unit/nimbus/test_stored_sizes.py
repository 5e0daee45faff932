"""What is stored in ZooKeeper fits into one of its messages, at the limits that are documented."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._coord.forms import decode, encode
from tupletree._coord.leader import MAX_TRANSACTION_BYTES, Create, Delete, Put, parts, size_of
from tupletree.config import defaults
from tupletree.errors import InternalError, UsageError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.lifecycle import MAX_EXECUTORS, MAX_WORKERS, Rebalance
from tupletree.nimbus.submission.validation import MAX_RECORD_BYTES, MAX_SHARDS, MAX_TASKS, new_record
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb


def large_assignment(executors: int, workers: int, shards: int, *, seed: int = 1) -> pb.Assignment:
    """Executors anywhere, hosts as clouds name them, and every shard moving from one acker to another."""
    chance = random.Random(seed)

    def host() -> str:
        return f"ip-{'-'.join(str(chance.randrange(256)) for _ in range(4))}.ap-southeast-2.compute.internal"

    def identity(kind: str) -> str:
        return f"{kind}-{chance.getrandbits(128):032x}"

    assignment = pb.Assignment(topology_id="t" * 100, epoch=1 << 40, version=1 << 40, shard_version=1 << 40)
    places: list[list[int]] = [[] for _ in range(workers)]
    for task in range(1, executors + 1):
        chance.choice(places).append(task)
    for tasks in places:
        worker = assignment.workers.add(supervisor_id=identity("supervisor"), host=host(), port=chance.randrange(65536))
        worker.executors.extend(pb.ExecutorRange(first_task=task, last_task=task) for task in tasks)
    for number in range(shards):
        assignment.shards.add(
            shard=number,
            acker_id=identity("acker"),
            address=f"{host()}:6629",
            draining_acker_id=identity("acker"),
            draining_address=f"{host()}:6629",
        )
    return assignment


def test_an_assignment_at_all_limits_fits_beside_its_record_in_one_transaction() -> None:
    assignment = large_assignment(MAX_EXECUTORS, MAX_WORKERS, MAX_SHARDS)
    data = encode(assignment)
    assert len(data) + MAX_RECORD_BYTES + 2048 < MAX_TRANSACTION_BYTES
    assert decode(data, pb.Assignment, "there") == assignment
    assert encode(assignment) == data


def test_even_an_executor_for_each_of_the_most_tasks_fits() -> None:
    assignment = large_assignment(MAX_TASKS, MAX_WORKERS, MAX_SHARDS)
    data = encode(assignment)
    assert len(data) < 0.6 * MAX_TRANSACTION_BYTES
    assert decode(data, pb.Assignment, "there") == assignment


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=600), max_size=20))
def test_assignments_of_any_shape_come_back_as_they_were(shape: list[list[tuple[int, int]]]) -> None:
    assignment = pb.Assignment(topology_id="t", version=3)
    for port, executors in enumerate(shape):
        worker = assignment.workers.add(supervisor_id="s", host="h" * 5000, port=port)
        first = 1
        for gap, tasks in executors:
            worker.executors.add(first_task=first + gap, last_task=first + gap + tasks - 1)
            first += gap + tasks
    assert decode(encode(assignment), pb.Assignment, "there") == assignment


def test_a_small_assignment_is_json_that_a_person_can_read() -> None:
    assignment = large_assignment(10, 2, 2)
    assert encode(assignment).startswith(b'{"topologyId": "ttt')
    assert decode(encode(assignment), pb.Assignment, "there") == assignment


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-5], lambda data: data[:100] + b"x" + data[101:], lambda _: b"\0"]
)
def test_a_packed_assignment_that_is_spoilt_is_refused(spoil: object) -> None:
    data = encode(large_assignment(2000, 500, 10))
    assert data.startswith(b"\0")
    with pytest.raises(InternalError, match="/here does not hold a Assignment"):
        decode(spoil(data), pb.Assignment, "/here")  # type: ignore[operator]


def test_text_is_stored_as_it_is_not_as_escapes() -> None:
    record = pb.TopologyRecord(id="t", owner="é" * 1000)
    assert len(encode(record)) < 2100
    assert decode(encode(record), pb.TopologyRecord, "there") == record


def test_a_record_is_measured_as_it_is_stored() -> None:
    spec = pb.TopologySpec()
    for number in range(4000):
        name = f"{number:05}" + "c" * 75
        spec.components.add(id=name, kind=pb.COMPONENT_KIND_SPOUT, parallelism=1, tasks=1)
    header = rpc.SubmitHeader(name="wide", conf_json="{}", sha256="0" * 64, size=1, spec=spec)
    with pytest.raises(UsageError, match=r"topology 'wide' takes \d+ bytes in ZooKeeper .*; the limit is 600000"):
        new_record(header, defaults(), "wide-1-1", 0.0)


def test_a_rebalance_to_more_executors_than_a_topology_may_have_is_refused() -> None:
    record = pb.TopologyRecord(id="t-1-1", name="t", status=lifecycle.ACTIVE, conf_json="{}")
    record.tasks.update({"a": 30_000, "b": 5})
    record.executors.update({"a": 1, "b": 5})
    lifecycle.ask(record, Rebalance(0, 0, {"a": MAX_EXECUTORS - 5}), 1.0)
    with pytest.raises(UsageError, match="topology 't' would have 30005 executors; the limit is 10000"):
        lifecycle.ask(record, Rebalance(0, 0, {"a": 30_000}), 1.0)


def test_a_removal_is_cut_into_transactions_that_fit_and_keep_their_order() -> None:
    writes = [Delete(f"/tupletree/errors/t/{'c' * 200}{number}") for number in range(10_000)]
    found = parts(writes)
    assert [one for part in found for one in part] == writes
    assert all(sum(map(size_of, part)) <= MAX_TRANSACTION_BYTES for part in found)
    assert len(found) < 8
    assert parts([]) == []
    assert len(parts([Create("/a", b"x"), Put("/b", b"y", 3)])) == 1
