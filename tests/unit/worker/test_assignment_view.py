"""What a worker makes of a snapshot, and how often it reports errors."""

from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.assignment_view import has_place, view
from tupletree.worker.network.peer_links import Peer
from tupletree.worker.reporting.heartbeats import ErrorThrottle

RECORD = pb.TopologyRecord(id="t-1", status=pb.TOPOLOGY_STATUS_ACTIVE)
ASSIGNMENT = pb.Assignment(
    topology_id="t-1",
    version=7,
    shard_version=5,
    workers=[
        pb.WorkerAssignment(supervisor_id="s", port=1, executors=[pb.ExecutorRange(first_task=1, last_task=2)]),
        pb.WorkerAssignment(supervisor_id="s", port=2, executors=[pb.ExecutorRange(first_task=3, last_task=3)]),
        pb.WorkerAssignment(supervisor_id="z", port=1, executors=[pb.ExecutorRange(first_task=4, last_task=5)]),
    ],
    shards=[pb.ShardAssignment(shard=0, acker_id="a", address="h:9")],
)
PRESENCES = {
    ("s", 1): pb.WorkerPresence(worker_id="w1", supervisor_id="s", host="h", port=1),
    ("z", 1): pb.WorkerPresence(worker_id="w3", supervisor_id="z", host="g", port=1),
}


def test_a_worker_sees_its_executors_its_peers_and_the_shard_map():
    seen = view("s:1", RECORD, ASSIGNMENT, PRESENCES)
    assert seen.executors == ((1, 2),)
    assert seen.peers == {"s:2": None, "z:1": Peer("w3", "g:1", frozenset({4, 5}))}
    assert seen.remote_tasks == {"s:2": {3}, "z:1": {4, 5}}
    assert seen.workers == {"w1", "w3"}
    assert (seen.version, seen.shard_version, len(seen.shards)) == (7, 5, 1)


def test_spouts_are_active_in_no_status_but_active():
    for status in pb.TopologyStatus.values():
        record = pb.TopologyRecord(id="t-1", status=status)
        assert view("s:1", record, ASSIGNMENT, {}).is_active == (status == pb.TOPOLOGY_STATUS_ACTIVE)


def test_there_is_nothing_to_follow_without_a_record_an_assignment_or_a_place_in_it():
    assert view("s:1", None, ASSIGNMENT, {}) is None
    assert view("s:1", RECORD, None, {}) is None
    assert view("s:3", RECORD, ASSIGNMENT, {}) is None


def test_a_worker_whose_executors_changed_while_it_was_built_has_no_place():
    """Whatever it has followed before: its first snapshot is compared, too, with what it was built with."""
    built = view("s:1", RECORD, ASSIGNMENT, PRESENCES).executors
    moved = pb.Assignment()
    moved.CopyFrom(ASSIGNMENT)
    moved.version = 8
    assert has_place(view("s:1", RECORD, moved, PRESENCES), built)
    moved.workers[0].executors.add(first_task=6, last_task=6)
    assert not has_place(view("s:1", RECORD, moved, PRESENCES), built)
    del moved.workers[0]
    assert not has_place(view("s:1", RECORD, moved, PRESENCES), built)


def test_only_so_many_errors_of_a_component_pass_in_an_interval():
    throttle = ErrorThrottle(most=2, interval_s=10)
    assert [throttle.allows("a", now_s) for now_s in (0, 1, 2, 9.9, 10, 10.5, 11)] == [
        True, True, False, False, True, False, True,
    ]  # fmt: skip
    assert throttle.allows("b", 2)


def test_the_newest_of_the_errors_above_the_limit_is_reported_when_the_interval_is_over():
    throttle = ErrorThrottle(most=2, interval_s=10)
    errors = [pb.ComponentError(component_id="a", message=str(number)) for number in range(6)]
    assert [throttle.admit(error, now_s) for now_s, error in enumerate(errors[:5])] == [True, True, False, False, False]
    assert throttle.release(9.9) == []
    assert throttle.release(10) == [errors[4]] and throttle.release(30) == []
    assert not throttle.admit(errors[2], 10.5), "what was held is counted"
    assert throttle.admit(errors[5], 21) and throttle.release(30) == [], "a newer error replaces one that is held"
