"""Savepoints of a topology that goes on while its states are read: never of two checkpoints or of other tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tupletree._savepoints.files import Place
from tupletree._savepoints.manifest import FILE, Manifest
from tupletree._wire.codec import decode_value, encode_value
from tupletree.client.savepoints import SavepointCalls
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.answers import position
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

TASKS = {"count": 2, "lines": 1}


class Topology:
    """What nimbus answers for a topology whose entries have the number of its checkpoint as value.

    ``reads``: called with the number of the read that is about to be answered, to let something happen before it.
    """

    def __init__(self, reads: Callable[[Topology, int], None] = lambda topology, number: None) -> None:
        self.reads = reads
        self.number = 0
        self.txid = 7
        self.tasks = dict(TASKS)
        self.id = "words-1-1"
        self.version = 1
        self.calls: list[str] = []
        self.is_held = False
        self.large = False

    def DescribeTopology(self, request: Any, timeout: float) -> rpc.DescribeTopologyReply:
        conf = json.dumps({"topology.state.checkpoint.aligned": True})
        record = pb.TopologyRecord(
            id=self.id,
            name=request.name,
            conf_json=conf,
            bundle_sha256=f"ab{self.version}",
            status=pb.TOPOLOGY_STATUS_ACTIVE,
        )
        record.version = self.version
        kinds = {"count": pb.COMPONENT_KIND_BOLT, "lines": pb.COMPONENT_KIND_SPOUT}
        spec = pb.TopologySpec(components=[pb.ComponentSpec(id=id, kind=kind) for id, kind in kinds.items()])
        return rpc.DescribeTopologyReply(summary=rpc.TopologySummary(record=record), spec=spec)

    def HoldCheckpoints(self, request: Any, timeout: float) -> rpc.HoldCheckpointsReply:
        self.is_held = request.hold_s > 0
        if not self.is_held:
            self.txid += 1
        held = pb.HeldCheckpoint(txid=self.txid, tasks=self.tasks)
        return rpc.HoldCheckpointsReply(topology_id=self.id, held=held, quiet_age_s=0.0)

    def ReadState(self, request: Any, timeout: float) -> rpc.ReadStateReply:
        self.number += 1
        self.reads(self, self.number)
        index = int(request.after.partition(".")[0] or 0)
        entry = pb.StateEntry(key=encode_value(f"key {index}"), value=encode_value(self.txid), size=1)
        if self.large:
            entry = pb.StateEntry(key=encode_value("large"), size=9_000_000)
        task = pb.TaskState(index=index, committed=self.txid, entries=[entry])
        more = position(index + 1, b"") if index + 1 < self.tasks[request.component] else ""
        return rpc.ReadStateReply(tasks=[task], next=more, topology_id=self.id)

    def __getattr__(self, name: str) -> Any:
        def call(request: Any, timeout: float) -> rpc.TopologyReply:
            self.calls.append(name)
            return rpc.TopologyReply()

        return call


class Client(SavepointCalls):
    def __init__(self, topology: Topology) -> None:
        super().__init__("127.0.0.1:1", {"nimbus.seeds": "127.0.0.1:1"})
        self.topology = topology

    def _call(self, invoke: Callable[[Any], Any], retry: bool = True) -> Any:
        return invoke(self.topology)


def contents(place: Path) -> tuple[Manifest, set[Any]]:
    """The manifest, and the values of all entries."""
    manifest = Place(str(place)).read_manifest()
    rows = [row for id, part in manifest.components.items() for row in Place(str(place)).read_rows(id, part, "")]
    assert len(rows) == sum(part.entries or 0 for part in manifest.components.values())
    return manifest, {decode_value(value) for _, _, value in rows}


@pytest.mark.parametrize("at", range(1, 4))
def test_a_checkpoint_that_commits_in_the_middle_is_never_mixed_with_the_one_before(tmp_path: Path, at: int) -> None:
    def commit(topology: Topology, number: int) -> None:
        topology.txid += number == at

    topology = Topology(commit)
    made = Client(topology).savepoint("words", tmp_path / "kept")
    manifest, values = contents(tmp_path / "kept")
    assert (made.checkpoint, manifest.checkpoint, values) == (8, 8, {8})
    assert manifest.positions == {"lines": [8]}
    assert not topology.is_held, "checkpoints go on"


@pytest.mark.parametrize(("at", "goes_on"), [(1, True), (3, True), (3, False)])
def test_an_attempt_leaves_a_savepoint_that_another_has_completed_meanwhile_as_it_is(
    tmp_path: Path, at: int, goes_on: bool
) -> None:
    place = tmp_path / "kept"
    before: dict[str, bytes] = {}

    def complete_another(topology: Topology, number: int) -> None:
        if number == at and not before:
            Client(Topology()).savepoint("words", place)
            own = {part.files for part in Place(str(place)).read_manifest().components.values()}
            before.update({name: (place / name).read_bytes() for name in (*own, FILE)})
            topology.txid += goes_on

    with pytest.raises(UsageError, match=rf"^there is a savepoint at {place} already: name another directory with"):
        Client(Topology(complete_another)).savepoint("words", place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    manifest, values = contents(place)
    assert (manifest.checkpoint, values) == (7, {7})


def test_a_commit_after_the_last_page_makes_all_of_it_void(tmp_path: Path) -> None:
    def change(topology: Topology, number: int) -> None:
        if number == 3:  # the last page of the first attempt: the tasks change behind it
            topology.tasks = {"count": 3, "lines": 1}

    made = Client(Topology(change)).savepoint("words", tmp_path / "kept")
    manifest, _ = contents(tmp_path / "kept")
    assert (manifest.components["count"].tasks, made.entries["count"]) == (3, 3)


@pytest.mark.parametrize("at", ["the wait for a checkpoint", "the last page"])
def test_a_savepoint_across_an_update_is_of_the_version_whose_states_it_has(tmp_path: Path, at: str) -> None:
    class Updated(Topology):
        def HoldCheckpoints(self, request: Any, timeout: float) -> rpc.HoldCheckpointsReply:
            if at == "the wait for a checkpoint":
                self.version = 2
            return super().HoldCheckpoints(request, timeout)

    def update(topology: Topology, number: int) -> None:
        if number == 3 and at == "the last page":
            topology.version = 2

    Client(Updated(update)).savepoint("words", tmp_path / "kept")
    manifest, _ = contents(tmp_path / "kept")
    assert (manifest.version, manifest.bundle_sha256) == (2, "ab2")


def test_what_goes_on_and_on_is_given_up_and_leaves_no_files(tmp_path: Path) -> None:
    def commit(topology: Topology, number: int) -> None:
        topology.txid += 1

    topology = Topology(commit)
    with pytest.raises(UnavailableError, match=r"^checkpoints of topology 'words' went on each of 3 times that its"):
        Client(topology).savepoint("words", tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
    assert not topology.is_held


def test_a_topology_that_is_submitted_again_meanwhile_is_another_one(tmp_path: Path) -> None:
    def submit(topology: Topology, number: int) -> None:
        topology.id = "words-2-1"

    with pytest.raises(UnavailableError):
        Client(Topology(submit)).savepoint("words", tmp_path / "kept")


def test_a_value_that_is_too_large_gets_a_sentence(tmp_path: Path) -> None:
    topology = Topology()
    topology.large = True
    with pytest.raises(UsageError, match=r"^component 'count' has a value of 9,000,000 bytes in its state, and a save"):
        Client(topology).savepoint("words", tmp_path / "kept")


def test_a_topology_is_killed_while_checkpoints_are_held_and_active_again_if_that_fails(tmp_path: Path) -> None:
    topology = Topology()
    made = Client(topology).savepoint("words", tmp_path / "kept", kill=True)
    assert topology.calls == ["Deactivate", "Kill"]
    assert topology.is_held
    assert made.checkpoint >= 7 + 2, "it began after nothing was in flight"

    topology = Topology()
    topology.large = True
    with pytest.raises(UsageError):
        Client(topology).savepoint("words", tmp_path / "other", kill=True)
    assert topology.calls == ["Deactivate", "Activate"]
    assert not topology.is_held


def test_a_topology_that_has_gone_on_from_its_savepoint_is_not_killed(tmp_path: Path) -> None:
    class Interrupted(Topology):
        """Its checkpoint spout ends after the savepoint, and its successor knows of no hold."""

        left = 2

        def HoldCheckpoints(self, request: Any, timeout: float) -> rpc.HoldCheckpointsReply:
            if self.number == 3 and request.hold_s:
                self.left -= 1
                self.txid += self.left == 0
            return super().HoldCheckpoints(request, timeout)

    topology = Interrupted()
    with pytest.raises(
        UnavailableError, match=r"^checkpoint 12 was committed after the savepoint at .*/kept, which is"
    ):
        Client(topology).savepoint("words", tmp_path / "kept", kill=True)
    assert topology.calls == ["Deactivate", "Activate"]
    assert not topology.is_held


def test_one_state_is_exported_of_one_checkpoint(tmp_path: Path) -> None:
    def commit(topology: Topology, number: int) -> None:
        topology.txid += number == 2

    path = tmp_path / "x.jsonl"
    assert Client(Topology(commit)).export_state("words", "count", path) == (8, 2)
    assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == [8, 8]
    assert list(tmp_path.iterdir()) == [path]
