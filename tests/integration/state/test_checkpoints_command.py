"""``tupletree checkpoints``: what is stored in a real ZooKeeper."""

from __future__ import annotations

import json

import pytest

from tupletree import config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._coord import paths
from tupletree._coord.session import connect, disconnect
from tupletree._coord.store import encode
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.cli.main import main
from tupletree.v1 import topology_pb2 as pb


@pytest.fixture
def where(zookeeper, zookeeper_root):
    return {"zookeeper.servers": [zookeeper.connect_string], "transactional.zookeeper.root": zookeeper_root}


@pytest.fixture
def command(where, capsys):
    def run(*arguments):
        options = [option for key, value in where.items() for option in ("-c", f"{key}={json.dumps(value)}")]
        status = main(["checkpoints", *arguments, *options])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_there_may_be_none_and_it_says_where_it_looked(command, zookeeper_root):
    said = f"no stateful topology has run yet: ZooKeeper has no checkpoint below {zookeeper_root}\n"
    assert command() == (0, said, "")
    assert command("--json") == (0, "[]\n", "")


def test_a_checkpoint_is_shown_with_its_phase_and_tasks(command, where):
    store = open_store({**config.defaults(), **where})
    for name in ("counts", "words"):
        record = CheckpointRecord.take_over(store, name, "topology one")
        record.save(Checkpoint(6, Phase.COMMITTED, {"count": 3, "join": 1}))
        record.save(Checkpoint(7, Phase.PREPARING, {"count": 3, "join": 1}))
    store.close()
    status, said, _ = command("words", "--json")
    assert (status, json.loads(said)) == (
        0,
        [
            {
                "id": "words",
                "txid": 7,
                "phase": "preparing",
                "tasks": {"count": 3, "join": 1},
                "epoch": 1,
                "owner": "topology one",
            }
        ],
    )
    status, said, _ = command()
    assert status == 0
    shown = [line.split()[:3] for line in said.splitlines()]
    assert ["counts", "7", "preparing"] in shown
    assert ["words", "7", "preparing"] in shown
    assert "count: 3, join: 1" in said


def test_an_unknown_id_is_one_sentence(command):
    assert command("nothing") == (
        2,
        "",
        "tupletree: no checkpoint is stored for state id 'nothing'; known: there is none\n",
    )


@pytest.fixture
def stored(where):
    """Store a checkpoint of the ids given."""

    def store(*ids):
        opened = open_store({**config.defaults(), **where})
        for one in ids:
            CheckpointRecord.take_over(opened, one, "topology one").save(Checkpoint(6, Phase.COMMITTED, {"count": 3}))
        opened.close()

    return store


def test_a_checkpoint_is_forgotten_once_and_forgetting_it_again_is_no_error(command, stored):
    stored("counts", "words")
    assert command("words", "--forget", "--yes") == (0, "words: the stored checkpoint is removed\n", "")
    assert command("--forget", "-y", "words", "counts", "--json") == (
        0,
        '[{"id": "words", "forgotten": false}, {"id": "counts", "forgotten": true}]\n',
        "",
    )
    assert command("--json") == (0, "[]\n", "")
    assert command("words", "--forget") == (0, "words: no checkpoint is stored\n", ""), "there is nothing to ask"
    stored("words")
    (found,) = json.loads(command("--json")[1])
    assert (found["id"], found["epoch"]) == ("words", 1), "the id begins anew"
    status, _, _ = command("words", "--forget")  # nobody answers here
    assert status != 0 and len(json.loads(command("--json")[1])) == 1


def test_the_checkpoint_of_a_topology_that_exists_is_not_forgotten(command, stored, zookeeper, zookeeper_root):
    stored("words", "mine", "other")
    cluster = {"zookeeper.root": f"{zookeeper_root}-cluster"}
    client = connect({**config.defaults(), "zookeeper.servers": [zookeeper.connect_string]})
    for record in (
        pb.TopologyRecord(id="words-1-5", name="words", tasks={"$checkpointspout": 1, "count": 2}),
        pb.TopologyRecord(
            id="a-2-5", name="a", tasks={"$checkpointspout": 1}, conf_json='{"topology.state.id": "mine"}'
        ),
        pb.TopologyRecord(id="other-3-5", name="other", tasks={"count": 2}),
    ):
        client.create(paths.topology(cluster["zookeeper.root"], record.id), encode(record), makepath=True)
    disconnect(client)
    options = ("--forget", "--yes", "-c", f"zookeeper.root={cluster['zookeeper.root']}")
    assert command("other", "words", *options)[2] == (
        "tupletree: the checkpoint of state id 'words' belongs to topology 'words', which still exists; kill the "
        "topology first\n"
    )
    assert "belongs to topology 'a'" in command("mine", *options)[2]
    assert len(json.loads(command("--json")[1])) == 3, "nothing is removed when one of the ids is refused"
    assert command("other", *options)[0] == 0


@pytest.mark.parametrize("wrong", ["a/b", "..", "", "a b"])
def test_what_cannot_be_a_state_id_is_not_forgotten(command, wrong):
    status, out, err = command(wrong, "--forget", "--yes")
    assert (status, out) == (2, "") and "topology.state.id" in err


def test_an_id_must_be_named_to_be_forgotten(command):
    assert command("--forget") == (2, "", "tupletree: --forget requires a state id\n")
