"""Notes of health on topologies that are scaled by their load."""

from __future__ import annotations

from dataclasses import replace

from assessment_facts import topology, verdict

from tupletree.v1 import topology_pb2 as pb


def test_a_load_that_calls_for_more_than_is_permitted_is_worth_a_warning() -> None:
    one = replace(topology(), scaling_held="'count' needs more executors, as 8 is the most that it may have")
    found = verdict(one)
    assert (found.status, [note.kind for note in found.notes]) == ("healthy", ["topology.not_scaled"])
    assert found.notes[0].sentence == (
        "topology 'words' is not scaled by its load: 'count' needs more executors, as 8 is the most that it may have"
    )
    assert found.notes[0].command == "tupletree autoscale words"


def test_a_rebalance_by_load_says_why() -> None:
    one = topology(status=pb.TOPOLOGY_STATUS_REBALANCING)
    one.record.pending.autoscaled.reason = "its busiest thread was busy for 93% of the last 60 s"
    assert [note.sentence for note in verdict(one).notes] == [
        "topology 'words' is being rebalanced by its load: its busiest thread was busy for 93% of the last 60 s"
    ]
