"""``tupletree transactions``: reading and forgetting progress in a real ZooKeeper."""

from __future__ import annotations

import json

import pytest
from stored_metadata import store_metadata

from tupletree import config
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.attempt import TransactionAttempt
from tupletree.cli.main import main
from tupletree.transactional.progress import Progress


@pytest.fixture
def where(zookeeper, zookeeper_root):
    return {"zookeeper.servers": [zookeeper.connect_string], "transactional.zookeeper.root": zookeeper_root}


@pytest.fixture
def store(where):
    one = open_store({**config.defaults(), **where})
    yield one
    one.close()


@pytest.fixture
def command(where, capsys):
    def run(*arguments):
        options = [option for key, value in where.items() for option in ("-c", f"{key}={json.dumps(value)}")]
        status = main(["transactions", *arguments, *options])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_there_may_be_none_and_it_says_where_it_looked(command, zookeeper_root):
    said = f"no transactional topology has run yet: ZooKeeper has no progress below {zookeeper_root}\n"
    assert command() == (0, said, "")
    assert command("--json") == (0, "[]\n", "")


def test_progress_is_shown_while_it_is_made_and_forgotten_when_asked(command, store):
    attempt = TransactionAttempt(2, (1 << 32) + 7)
    for name in ("counts", "words"):
        progress = Progress.take_over(store, name, "topology one")
        for txid in (1, 2, 3):
            store_metadata(progress, txid, txid)
        progress.record(1, (attempt,))
    status, said, _ = command("counts", "--json")
    assert status == 0
    assert json.loads(said) == [
        {
            "id": "counts",
            "epoch": 1,
            "owner": "topology one",
            "committed": 1,
            "committing": {"txid": 2, "attempt": attempt.attempt},
            "begun": 3,
            "partitions": 0,
        }
    ]
    assert "transaction 2 (attempt 1.7)" in command()[1]
    status, said, _ = command("counts", "--forget", "--yes")
    assert (status, said.splitlines()[-1]) == (0, "forgotten: counts")
    assert [one["id"] for one in json.loads(command("--json")[1])] == ["words"]
    assert Progress.take_over(store, "counts", "topology two").committed == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no progress is stored for transactional id 'nothing'; known: there is none"),
        (["a/b"], "transactional id 'a/b' contains '/', which is not allowed"),
        (["--forget"], "--forget requires a transactional id"),
    ],
)
def test_a_mistake_is_one_sentence(command, arguments, said):
    status, out, error = command(*arguments)
    assert (status, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1
