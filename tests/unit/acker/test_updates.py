"""What a worker may say: cutting batches, and the malformed messages. (Over a real stream: tests/integration/acker.)"""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.acker.updates import Batch, Hello, check_hello, check_updates
from tupletree.errors import ProtocolError
from tupletree.v1 import acker_pb2 as pb

HELLO = Hello("wc-1", "w1", frozenset({3, 4}), 30.0, 2)


def request(sequence: int = 1, **fields: object) -> pb.TrackRequest:
    return pb.TrackRequest(updates=pb.LedgerUpdates(sequence=sequence, shards=[pb.ShardUpdate(**fields)]))  # type: ignore[arg-type]


def test_hello() -> None:
    hello = pb.TrackHello(topology_id="wc-1", worker_id="w1", tasks=[3, 4], message_timeout_s=30, shards=2)
    assert check_hello(pb.TrackRequest(hello=hello)) == HELLO


def test_a_worker_may_not_name_a_namespace_of_trees() -> None:
    hello = pb.TrackHello(topology_id="$trees/orders", worker_id="w1", tasks=[3], shards=1)
    with pytest.raises(ProtocolError, match=r"'\$trees/orders' is a namespace of trees, which TrackTrees serves"):
        check_hello(pb.TrackRequest(hello=hello))


def test_updates() -> None:
    roots, values, tasks = array("Q", [1, 2]), array("Q", [3, 4]), array("I", [3, 4])
    sent = request(
        shard=1,
        init_roots=roots.tobytes(),
        init_values=values.tobytes(),
        init_tasks=tasks.tobytes(),
        ack_roots=values.tobytes(),
        ack_values=roots.tobytes(),
        fail_roots=roots.tobytes(),
        reset_roots=array("Q", [9]).tobytes(),
    )
    none = array("Q")
    assert check_updates(sent, HELLO, 1) == [
        Batch(1, roots, values, tasks, values, roots, roots, array("Q", [9])),
    ]
    assert check_updates(request(), HELLO, 1) == [Batch(0, none, none, array("I"), none, none, none, none)]
    assert check_updates(pb.TrackRequest(updates=pb.LedgerUpdates(sequence=5)), HELLO, 5) == []


def test_a_later_shard_that_is_malformed_spoils_the_whole_message() -> None:
    both = request(ack_roots=bytes(8), ack_values=bytes(8))
    both.updates.shards.add(fail_roots=b"1")
    with pytest.raises(ProtocolError, match="updates for shard 0: 1 bytes"):
        check_updates(both, HELLO, 1)


@given(st.lists(st.binary(max_size=40), min_size=7, max_size=7), st.integers(0, 3), st.integers(0, 2))
def test_any_bytes_are_either_whole_arrays_or_a_protocol_error(parts: list[bytes], shard: int, sequence: int) -> None:
    names = ("init_roots", "init_values", "init_tasks", "ack_roots", "ack_values", "fail_roots", "reset_roots")
    try:
        (batch,) = check_updates(request(sequence, shard=shard, **dict(zip(names, parts, strict=True))), HELLO, 1)
    except ProtocolError:
        return
    assert len(batch.init_roots) == len(batch.init_values) == len(batch.init_tasks)
    assert len(batch.ack_roots) == len(batch.ack_values)
    assert set(batch.init_tasks) <= HELLO.tasks
    assert batch.shard < HELLO.shards
    assert sequence == 1


@given(st.lists(st.integers(0, 30), min_size=4, max_size=4), st.integers(1, 10))
def test_parts_hold_every_update_once_and_keep_arrays_together(lengths: list[int], size: int) -> None:
    inits, acks, fails, resets = lengths
    batch = Batch(
        1,
        array("Q", range(inits)),
        array("Q", range(100, 100 + inits)),
        array("I", range(200, 200 + inits)),
        array("Q", range(acks)),
        array("Q", range(300, 300 + acks)),
        array("Q", range(fails)),
        array("Q", range(resets)),
    )
    parts = list(batch.parts(size))
    assert sum(map(len, parts)) == len(batch) == sum(lengths)
    for field in Batch.__slots__[1:-1]:
        joined = array("I" if field == "init_tasks" else "Q")
        for part in parts:
            assert len(getattr(part, field)) <= size
            joined.extend(getattr(part, field))
        assert joined == getattr(batch, field)
    for part in parts:
        assert [value - 100 for value in part.init_values] == list(part.init_roots)
        assert [value - 300 for value in part.ack_values] == list(part.ack_roots)
