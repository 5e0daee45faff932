"""Verdicts over a real stream: who gets what, confirmations, timeouts, malformed input."""

from __future__ import annotations

import math
from collections.abc import Callable

import grpc
import pytest
from acker_harness import AckerProcess, HandWorker, update

from tupletree.testing.wait import wait_until
from tupletree.v1 import acker_pb2 as pb

StartAcker = Callable[..., AckerProcess]
Connect = Callable[..., HandWorker]


def test_verdict_round_trip(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    wait_until(lambda: worker.acker_id == acker.id, what="the acker's hello")
    worker.send(update(inits=[(10, 5, 1), (11, 7, 1), (12, 0, 1)]))
    worker.send(update(acks=[(10, 5 ^ 9)], resets=[11]))
    worker.send(update(acks=[(10, 9)], fails=[11]))
    worker.confirm()
    wait_until(lambda: worker.verdicts["failed"][1] == [11])
    assert sorted(worker.verdicts["acked"][1]) == [10, 12]
    assert worker.verdicts["reset"][1] == [11]
    (shard,) = acker.ledger()["shards"]
    assert shard["topology"] == "wc-1"
    figures = ("pending", "inits", "acks", "fails", "resets", "completed", "timeouts")
    assert [shard[figure] for figure in figures] == [0, 3, 2, 1, 1, 2, 0]


def test_verdicts_go_to_the_stream_that_named_the_spout(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    first, second = connect(acker, spouts=[1]), connect(acker, spouts=[2], worker="w2")
    bolts = connect(acker, spouts=[], worker="w3")
    bolts.send(update(acks=[(10, 5), (20, 6)]))  # before the inits
    bolts.confirm()
    first.send(update(inits=[(10, 5, 1)]))
    second.send(update(inits=[(20, 6, 2)]))
    wait_until(lambda: first.verdicts["acked"] == {1: [10]} and second.verdicts["acked"] == {2: [20]})
    assert not any(bolts.verdicts.values())


def test_a_verdict_for_a_worker_that_is_gone_is_dropped(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    spout, bolts = connect(acker), connect(acker, spouts=[], worker="w2")
    spout.send(update(inits=[(10, 5, 1)]))
    spout.confirm()
    spout.send_raw(None)
    assert spout.status()[0] is grpc.StatusCode.OK
    bolts.send(update(acks=[(10, 5)]))
    bolts.confirm()
    assert acker.ledger()["shards"][0]["completed"] == 1
    again = connect(acker)
    again.send(update(inits=[(11, 5, 1)]))
    bolts.send(update(acks=[(11, 5)]))
    wait_until(lambda: again.verdicts["acked"] == {1: [11]})


def test_the_newest_stream_of_a_spout_gets_its_verdicts(start_acker: StartAcker, connect: Connect) -> None:
    """A worker that reconnects is served before its broken stream is noticed."""
    acker = start_acker()
    old = connect(acker)
    old.send(update(inits=[(10, 5, 1)]))
    old.confirm()
    new = connect(acker)
    new.send(update(acks=[(10, 5)]))
    wait_until(lambda: new.verdicts["acked"] == {1: [10]})
    old.send_raw(None)
    old.status()
    new.send(update(inits=[(11, 0, 1)]))
    wait_until(lambda: new.verdicts["acked"] == {1: [10, 11]})
    assert not old.verdicts["acked"]


def test_several_shards_and_topologies_keep_apart(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    one, two = connect(acker, "one-1", shards=2), connect(acker, "two-2", shards=2)
    one.send(update(inits=[(10, 5, 1)]), update(inits=[(11, 5, 1)], shard=1))
    two.send(update(inits=[(10, 5, 1)]))
    two.send(update(acks=[(10, 5)]))
    wait_until(lambda: two.verdicts["acked"] == {1: [10]})
    one.confirm()
    found = {(shard["topology"], shard["shard"]): shard["pending"] for shard in acker.ledger()["shards"]}
    assert found == {("one-1", 0): 1, ("one-1", 1): 1, ("two-2", 0): 0}
    assert not one.verdicts["acked"]


def test_trees_expire_and_orphans_vanish(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker, timeout_s=0.2)
    worker.send(update(inits=[(10, 5, 1)], acks=[(99, 5)]))
    wait_until(lambda: worker.verdicts["expired"] == {1: [10]})
    assert acker.ledger()["shards"][0]["timeouts"] == 1
    metrics = acker.http("/metrics")[1]
    assert 'tupletree_acker_expired_trees_total{shard="0",topology="wc-1",topology_id="wc-1"} 1.0' in metrics
    assert "tupletree_acker_entries 0.0" in metrics


def test_a_topology_nobody_tends_is_forgotten(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker, timeout_s=0.1)
    worker.send(update(acks=[(10, 5)]))
    worker.confirm()
    worker.send_raw(None)
    wait_until(lambda: acker.ledger()["shards"] == [])


def malformed() -> list[tuple[str, pb.TrackRequest, str]]:
    good = update(inits=[(10, 5, 1)])

    def but(**fields: object) -> pb.TrackRequest:
        shard = pb.ShardUpdate()
        shard.CopyFrom(good)
        for name, value in fields.items():
            setattr(shard, name, value)
        # A whole shard comes first: nothing of a malformed message may be applied.
        return pb.TrackRequest(updates=pb.LedgerUpdates(sequence=2, shards=[good, shard]))

    return [
        ("half a root", but(init_roots=b"1234567"), "7 bytes are not a packed array"),
        ("half a task", but(init_tasks=b"123"), "3 bytes are not a packed array"),
        ("fewer values than roots", but(init_values=b""), "1 init roots, 0 values, 1 tasks"),
        ("fewer tasks than roots", but(init_tasks=b""), "1 init roots, 1 values, 0 tasks"),
        ("acks without values", but(ack_roots=bytes(16)), "2 ack roots, 0 values"),
        ("shard out of range", but(shard=1), "shard 1, but wc-1 has 1 shards"),
        ("somebody else's spout", but(init_tasks=b"\2\0\0\0"), "task 2 is not a spout task of w1"),
        ("a gap in the sequence", pb.TrackRequest(updates=pb.LedgerUpdates(sequence=3)), "sequence 3, expected 2"),
        ("a second hello", pb.TrackRequest(hello=pb.TrackHello(topology_id="x")), "carries updates only"),
        ("nothing", pb.TrackRequest(), "carries updates only"),
    ]


def test_a_malformed_message_ends_its_stream_alone(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    other = connect(acker, worker="w2", spouts=[2])
    for number, (name, request, sentence) in enumerate(malformed(), 1):
        worker = connect(acker)
        worker.send(update(acks=[(1000 + number, 5)]))
        worker.confirm()
        worker.send_raw(request)
        code, details = worker.status()
        assert code is grpc.StatusCode.OUT_OF_RANGE, name
        assert sentence in details, name
        (shard,) = acker.ledger()["shards"]
        assert (shard["inits"], shard["acks"], shard["pending"]) == (0, number, 0), name
    other.send(update(inits=[(10, 0, 2)]))
    wait_until(lambda: other.verdicts["acked"] == {2: [10]})


@pytest.mark.parametrize(
    ("hello", "sentence"),
    [
        (pb.TrackHello(worker_id="w", shards=1), "topology_id has 0 characters"),
        (pb.TrackHello(topology_id="t", shards=1), "worker_id has 0 characters"),
        (pb.TrackHello(topology_id="t", worker_id="w"), "shards is 0"),
        (pb.TrackHello(topology_id="t", worker_id="w", shards=1, message_timeout_s=-1), "message_timeout_s is -1"),
        (
            pb.TrackHello(topology_id="t", worker_id="w", shards=1, message_timeout_s=math.inf),
            "message_timeout_s is inf",
        ),
        (pb.TrackHello(topology_id="t", worker_id="w", shards=1, tasks=[0]), "task 0"),
    ],
)
def test_a_malformed_hello(shared_acker: AckerProcess, hello: pb.TrackHello, sentence: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        list(shared_acker.stub.Track(iter([pb.TrackRequest(hello=hello)]), timeout=10))
    assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE
    assert sentence in str(refused.value.details())
    assert shared_acker.ledger()["shards"] == []


def test_no_hello(shared_acker: AckerProcess) -> None:
    for requests in ([], [pb.TrackRequest(updates=pb.LedgerUpdates(sequence=1))]):
        with pytest.raises(grpc.RpcError, match="begins with a hello"):
            list(shared_acker.stub.Track(iter(requests), timeout=10))


def test_drop_topology_is_fenced_by_epoch(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    worker.send(update(inits=[(10, 5, 1)]))
    worker.confirm()
    acker.stub.DropTopology(pb.DropTopologyRequest(epoch=7, topology_id="other-9"), timeout=5)
    with pytest.raises(grpc.RpcError) as refused:
        acker.stub.DropTopology(pb.DropTopologyRequest(epoch=6, topology_id="wc-1"), timeout=5)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "epoch 6 is outdated" in str(refused.value.details())
    assert acker.ledger()["shards"][0]["pending"] == 1
    acker.stub.DropTopology(pb.DropTopologyRequest(epoch=7, topology_id="wc-1"), timeout=5)
    assert acker.ledger()["shards"] == []
    code, details = worker.status()
    assert code is grpc.StatusCode.NOT_FOUND
    assert "wc-1 was removed" in details


def test_describe_ledger_says_what_the_page_says(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    worker.send(update(inits=[(10, 5, 1)]))
    worker.confirm()
    reply = acker.stub.DescribeLedger(pb.DescribeLedgerRequest(), timeout=5)
    page = acker.ledger()
    assert (reply.acker_id, reply.ready, reply.draining) == (page["acker_id"], True, False)
    (shard,), (shown,) = reply.shards, page["shards"]
    assert set(shown) - {"topology"} == {field.name for field in shard.DESCRIPTOR.fields} - {"topology_id"}
    assert shard.pending == shown["pending"] == 1
    assert 0 < shard.bytes_held == shown["bytes_held"]
    assert shown["oldest_age_s"] < 30


def test_every_ledger_figure_is_a_metric(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    worker.send(update(inits=[(10, 5, 1)], acks=[(11, 3), (12, 0)], fails=[13], resets=[14]))
    worker.confirm()
    metrics = acker.http("/metrics")[1]
    for name, value in {
        "pending_trees": 1,
        "inits_total": 1,
        "acks_total": 2,
        "fails_total": 1,
        "resets_total": 1,
        "expired_trees_total": 0,
        "completed_trees_total": 0,
    }.items():
        assert f'tupletree_acker_{name}{{shard="0",topology="wc-1",topology_id="wc-1"}} {value}.0\n' in metrics
    assert 'tupletree_acker_held_bytes{shard="0",topology="wc-1",topology_id="wc-1"}' in metrics
    assert 'tupletree_acker_oldest_pending_age_seconds{shard="0",topology="wc-1",topology_id="wc-1"}' in metrics
    assert "tupletree_acker_ready 1.0" in metrics
