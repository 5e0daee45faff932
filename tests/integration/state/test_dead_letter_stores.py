"""Dead letters that are kept: stores, the bolt that fills them, the spout that replays, and the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_components import Log

from tupletree import BasicBolt, FailedException, Message, ReliableSpout, TopologyBuilder
from tupletree.cli.main import main
from tupletree.dead_letters import DeadLetterBolt, DeadLetterSpout, DeadLetterStore, Letter, open_store
from tupletree.errors import UnavailableError, UsageError
from tupletree.replaying_spout import LETTER_FIELDS
from tupletree.testing import LocalCluster, make_tuple


def letter(number: int, name: str = "orders", component: str = "orders") -> Letter:
    values = [f"m{number}", [number, "row"], "default", 5, "enrich", 7, "ValueError: no", "  File …"]
    return Letter.of(make_tuple(values, LETTER_FIELDS, component=component), name, 100.0 + number)


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/made/letters.db"
    server = request.getfixturevalue("redis_server")
    return f"{server.url}?prefix={tmp_path.name}"


def ids(store: DeadLetterStore, name: str = "", replayed: bool | None = None) -> list[str]:
    return [one.message for one in store.letters(name, replayed=replayed)]


def test_a_store_keeps_letters_until_they_are_removed(url: str) -> None:
    store = open_store(url)
    assert store.letters() == []
    letters = [letter(3), letter(1), letter(2, "other")]
    store.add(letters)
    store.add([])
    assert open_store(url).letters() == [letters[1], letters[2], letters[0]]
    assert ids(store, "orders") == ["'m1'", "'m3'"] and len(store.letters(limit=2)) == 2
    store.replay([letters[0].id, "unknown"])
    assert ids(store, replayed=True) == ["'m3'"] and ids(store, "orders", False) == ["'m1'"]
    again = dataclasses.replace(letter(3), at_s=999.0, attempts=9)
    store.add([again])
    [found] = [one for one in store.letters() if one.id == again.id]
    assert (found.at_s, found.attempts, found.is_replayed) == (103.0, 9, False), "it is one letter, and failed again"
    store.remove([letters[1].id, "unknown"])
    assert ids(store) == ["'m2'", "'m3'"]
    assert found.decoded() == [3, "row"]


def test_letters_of_several_spouts_and_topologies_are_several() -> None:
    assert len({letter(1).id, letter(2).id, letter(1, "other").id, letter(1, component="b").id}) == 4
    assert letter(1).id == dataclasses.replace(letter(1), at_s=5).id


def test_a_wrong_address_is_refused_where_it_is_written() -> None:
    for wrong in ("letters.db", "sqlite:", "http://x", ""):
        with pytest.raises(UsageError, match="a store of dead letters is sqlite:PATH or redis://HOST:PORT/DB, not"):
            DeadLetterBolt(wrong)


def test_a_store_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url in (f"sqlite:{tmp_path}/file/letters.db", "redis://127.0.0.1:1/0"):
        with pytest.raises(UnavailableError):
            open_store(url).letters()


class Orders(ReliableSpout):
    outputs = ("n",)

    def read(self) -> Iterator[Message]:
        yield from (Message([n], id=f"m{n}") for n in range(4))


def test_letters_are_stored_replayed_and_gone(url: str) -> None:
    done, broken = Log(), Log()
    broken.append(True)

    class Enrich(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> None:
            if tup["n"] == 2 and broken:
                raise FailedException("no customer", retry=False)
            done.append(tup["n"])

    builder = TopologyBuilder()
    orders = builder.set_spout("orders", Orders()).set_dead_letters("rejected")
    again = builder.set_spout("again", DeadLetterSpout(url, ["n"], every_s=0.05)).set_dead_letters("rejected")
    stored = builder.set_bolt("letters", DeadLetterBolt(url))
    stored.shuffle_grouping(orders, "rejected").shuffle_grouping(again, "rejected")
    builder.set_bolt("enrich", Enrich()).shuffle_grouping(orders).shuffle_grouping(again)
    store = open_store(url)
    with LocalCluster() as cluster:
        cluster.submit("shop", builder.create_topology())
        [first] = cluster.wait_until(store.letters)
        assert (first.name, first.message, first.values, first.attempts) == ("shop", "'m2'", "[2]", 1)
        assert (first.component, first.error) == ("enrich", "FailedException: no customer")
        store.replay([first.id])
        cluster.wait_until(lambda: (found := store.letters()) and found[0].id != first.id and len(found) == 1)
        [second] = store.letters()
        assert (second.values, second.is_replayed) == ("[2]", False), "it failed again, as a letter of the other spout"
        broken.clear()
        store.replay([second.id])
        cluster.wait_until(lambda: not store.letters())
        assert sorted(done) == [0, 1, 2, 3]


def run(*arguments: str) -> int:
    return main(["dead-letters", *arguments])


def test_the_command_lists_shows_replays_and_drops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:{tmp_path}/letters.db"
    assert run("list", url) == 0
    assert capsys.readouterr().out == "no dead letters\n"
    letters = [letter(1), letter(2), letter(3, "other")]
    open_store(url).add(letters)
    assert run("list", url, "--name", "orders", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["id"], one["message"], one["values"]) for one in told] == [
        (letters[0].id, "'m1'", "[1, 'row']"),
        (letters[1].id, "'m2'", "[2, 'row']"),
    ]
    assert run("list", url) == 0
    assert letters[2].id[:8] in (out := capsys.readouterr().out) and "ValueError: no" in out
    assert run("show", url, letters[0].id[:8]) == 0
    shown = capsys.readouterr().out
    assert (
        "row:       [1, 'row'] on stream default" in shown
        and "failed in: enrich, task 7" in shown
        and "File …" in shown
    )
    assert run("replay", url, letters[0].id) == 0
    assert capsys.readouterr().out == "1 letter will be emitted by a DeadLetterSpout of orders\n"
    assert [one.id for one in open_store(url).letters(replayed=True)] == [letters[0].id]
    assert run("drop", url, "--all", "--name", "orders", "--yes") == 0
    assert capsys.readouterr().out == "2 letters deleted\n"
    assert open_store(url).letters() == [letters[2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["show", "URL", "ffffffffffff"],
            "there is no letter 'ffffffffffff'; 'tupletree dead-letters list' shows the ids",
        ),
        (["replay", "URL"], "give either the ids of letters or --all"),
        (["drop", "URL", "x", "--all"], "give either the ids of letters or --all"),
        (["list", "letters.db"], "a store of dead letters is sqlite:PATH or redis://HOST:PORT/DB, not 'letters.db'"),
        (["replay", "URL", ""], "2 letters have an id that begins with ''"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:{tmp_path}/letters.db"
    open_store(url).add([letter(1), letter(2)])
    assert run(*[url if one == "URL" else one for one in arguments]) == 2
    assert message in capsys.readouterr().err
