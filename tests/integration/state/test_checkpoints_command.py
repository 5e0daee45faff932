"""``tupletree checkpoints``: what is stored in a real ZooKeeper."""

from __future__ import annotations

import json

import pytest

from tupletree import config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.cli.main import main


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
