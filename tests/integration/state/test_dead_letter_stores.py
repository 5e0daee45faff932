"""Dead letters that are kept: stores, the bolt that fills them, the spout that replays, and the command line."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from local_components import DoBasic, Log

from tests.integration.transactional.database_servers import RedisServer
from tupletree import BasicBolt, FailedException, Message, ReliableSpout, TopologyBuilder, direct
from tupletree._wire.codec import encode_value
from tupletree.cli.main import main
from tupletree.dead_letters import DeadLetterBolt, DeadLetterSpout, DeadLetterStore, Letter, open_store
from tupletree.errors import ProtocolError, UnavailableError, UsageError
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


def test_a_page_of_letters_begins_after_the_page_before(url: str) -> None:
    store = open_store(url)
    letters = [letter(3), letter(1), letter(2, "other"), dataclasses.replace(letter(4), at_s=103.0)]
    same_time = sorted((letters[0], letters[3]), key=lambda one: one.id)
    in_order = [letters[1], letters[2], *same_time]
    store.add(letters)
    for newest in (False, True):
        found: list[Letter] = []
        while page := store.letters(limit=1, newest=newest, after=(found[-1].at_s, found[-1].id) if found else None):
            found += page
        assert found == (list(reversed(in_order)) if newest else in_order)
    assert [one.row for one in store.letters(limit=2, rows=False)] == [b"", b""]
    assert store.letters("other", newest=True, after=(102.0, "")) == []


def test_letters_are_counted_found_and_chosen(url: str) -> None:
    store = open_store(url, timeout_s=60.0)
    assert (store.count() or 0, store.find("none"), store.ids()) == (0, None, [])
    store.replay(["none"])
    store.remove(["none"])
    letters = [letter(number, "orders" if number % 2 else "other") for number in range(120)]
    store.add(letters)
    assert store.count() == 120
    assert store.find(letters[7].id) == dataclasses.replace(letters[7], row=b"") and store.find("none") is None
    assert set(store.ids("orders", until_s=105.0)) == {letters[1].id, letters[3].id, letters[5].id}
    assert len(store.ids(limit=7)) == 7 and len(store.ids()) == 120
    store.replay(one.id for one in letters[:110])
    assert set(store.ids(replayed=False)) == {one.id for one in letters[110:]}
    store.remove(one.id for one in letters[:110])
    assert store.count() == 10


def test_an_entry_that_is_no_letter_is_named_and_nothing_is_built_of_it(url: str) -> None:
    store = open_store(url)
    store.add([letter(1)])
    damage(url, letter(1).id)
    for read in (store.letters, lambda: store.find(letter(1).id)):
        with pytest.raises(ProtocolError, match=rf"^dead letters in .*: the entry '{letter(1).id}': "):
            read()


def test_an_entry_that_is_no_letter_can_be_skipped(url: str) -> None:
    store = open_store(url)
    store.add([letter(number) for number in range(3)])
    store.replay([letter(0).id, letter(2).id])
    for broken in (letter(0).id, letter(1).id):
        damage(url, broken)
    found: list[str] = []
    read = store.letters(replayed=True, limit=1, damaged=lambda id, error: found.append(f"{id} {error}"))
    assert [one.message for one in read] == ["'m2'"], "the limit is of letters"
    [told] = found
    assert told.startswith(f"{letter(0).id} dead letters in ") and f"the entry '{letter(0).id}'" in told
    store.add([letter(0)])
    assert store.find(letter(0).id) == dataclasses.replace(letter(0), row=b""), "the same message was given up again"


def damage(url: str, id: str) -> None:
    """Replace the number of attempts of a letter by a tuple, which a decoder of rows would build."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as connection, connection:
            connection.execute("UPDATE letters SET attempts = x'80' WHERE id = ?", (id,))
        return
    address, _, prefix = url.partition("?prefix=")
    with redis.Redis.from_url(address) as client:
        client.hset(f"{prefix}:dead-letters", id, encode_value([*letter(1).stored()[:-1], (True,)]))


def test_letters_that_were_stored_without_an_order_are_found_and_one_that_is_gone_is_not(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    store = open_store(f"{redis_server.url}?prefix={tmp_path.name}")
    store.add([letter(2)])
    key = f"{tmp_path.name}:dead-letters"
    with redis.Redis.from_url(redis_server.url) as client:
        for one in (letter(3), letter(1)):
            client.hset(key, one.id, encode_value(one.stored()))
        assert ids(store) == ["'m1'", "'m2'", "'m3'"]
        client.hdel(key, letter(2).id)
        assert ids(store) == ["'m1'", "'m3'"]


def test_replayed_letters_are_found_without_reading_the_others(redis_server: RedisServer, tmp_path: Path) -> None:
    store = open_store(f"{redis_server.url}?prefix={tmp_path.name}")
    store.add([letter(number) for number in range(1000)])
    store.replay([letter(700).id])
    assert ids(store, replayed=True) == ["'m700'"]
    with redis.Redis.from_url(redis_server.url) as client:
        client.config_resetstat()
        assert ids(store, replayed=True) == ["'m700'"]
        calls = {name: one["calls"] for name, one in client.info("commandstats").items()}
    assert calls["cmdstat_hmget"] == 1 and not any("scan" in name for name in calls)


def test_a_letter_that_is_removed_is_not_brought_back_by_its_replay(redis_server: RedisServer, tmp_path: Path) -> None:
    store = open_store(f"{redis_server.url}?prefix={tmp_path.name}")
    key = f"{tmp_path.name}:dead-letters"
    with redis.Redis.from_url(redis_server.url) as client:
        store.add([letter(1), letter(2)])
        before = client.hget(key, letter(2).id)
        store.replay([letter(1).id, letter(2).id])
        assert client.hget(key, letter(2).id) == before, "the entry is not written again"
        store.remove([letter(1).id])
        store.replay([letter(1).id])
        assert store.count() == 1 and ids(store, replayed=True) == ["'m2'"]
        assert client.zcard(f"{key}:replayed") == 1
        store.add([letter(1)])
        assert ids(store, replayed=True) == ["'m2'"]


def test_letters_that_an_earlier_version_marked_are_found(url: str) -> None:
    open_store(url).add([letter(number) for number in range(3)])
    marked = dataclasses.replace(letter(1), is_replayed=True)
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as connection, connection:
            connection.execute("DROP INDEX letters_replayed")
            connection.execute("UPDATE letters SET is_replayed = 1 WHERE id = ?", (marked.id,))
    else:
        address, _, prefix = url.partition("?prefix=")
        with redis.Redis.from_url(address) as client:
            client.hset(f"{prefix}:dead-letters", marked.id, encode_value(marked.stored()))
    store = open_store(url)
    assert store.letters(replayed=True) == [marked]
    store.replay([letter(2).id])
    assert ids(store, replayed=True) == ["'m1'", "'m2'"] and ids(store, replayed=False) == ["'m0'"]
    store.add([letter(1)])
    assert ids(store, replayed=True) == ["'m2'"]


def test_reading_makes_no_file_and_a_file_without_letters_has_none(tmp_path: Path) -> None:
    path = tmp_path / "made" / "letters.db"
    store = open_store(f"sqlite:{path}")
    assert (store.count(), store.letters(), store.ids(), store.find("x")) == (None, [], [], None)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    assert (store.count(), store.letters()) == (None, [])
    path.write_bytes(b"not SQLite at all" * 100)
    with pytest.raises(UnavailableError, match=rf"^dead letters in {path}: file is not a database$"):
        store.count()


def test_a_file_that_is_locked_is_waited_for_as_long_as_the_caller_says(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path}/letters.db", timeout_s=0.05)
    store.add([letter(1)])
    with closing(sqlite3.connect(f"{tmp_path}/letters.db")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnavailableError, match="database is locked"):
            store.count()
    assert store.count() == 1


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


def test_damaged_letters_are_reported_once_and_the_others_are_replayed(url: str) -> None:
    store = open_store(url)
    unreadable = dataclasses.replace(letter(1, "shop"), row=b"\xc1")
    store.add([letter(0, "shop"), unreadable, letter(2, "shop")])
    store.replay(store.ids())
    damage(url, letter(0, "shop").id)
    done = Log()

    class Enrich(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> None:
            done.append(tup["n"])

    builder = TopologyBuilder()
    again = builder.set_spout("again", DeadLetterSpout(url, ["n", "text"], every_s=0.01))
    builder.set_bolt("enrich", Enrich()).shuffle_grouping(again)
    with LocalCluster() as cluster:
        cluster.submit("shop", builder.create_topology())
        cluster.wait_until(lambda: store.count() == 2)
        store.add([letter(3, "shop")])
        store.replay([letter(3, "shop").id])
        cluster.wait_until(lambda: done[:] == [2, 3] and store.count() == 2)
        told = sorted(f"{component}: {error}" for component, error in cluster.errors("shop"))
    assert len(told) == 2, told
    assert told[0].startswith("again: dead letters in ") and f"the entry '{letter(0, 'shop').id}'" in told[0]
    assert told[1].startswith(f"again: the row of the letter '{unreadable.id}': a value cannot be decoded: ")


def test_letters_that_do_not_fit_the_outputs_are_reported_once_and_the_others_are_replayed(url: str) -> None:
    store = open_store(url)
    elsewhere = dataclasses.replace(letter(0, "shop"), stream="other")
    to_one_task = dataclasses.replace(letter(1, "shop"), stream="commands")
    store.add(
        [elsewhere, to_one_task, dataclasses.replace(letter(2, "shop"), row=encode_value([2])), letter(3, "shop")]
    )
    store.replay(store.ids())
    done = Log()
    builder = TopologyBuilder()
    outputs = {"default": ["n", "text"], "commands": direct(["n", "text"])}
    again = builder.set_spout("again", DeadLetterSpout(url, outputs, every_s=0.01))
    builder.set_bolt("enrich", DoBasic(lambda tup, collector: done.append(tup["n"]))).shuffle_grouping(again)
    with LocalCluster() as cluster:
        cluster.submit("shop", builder.create_topology())
        cluster.wait_until(lambda: done[:] == [3] and store.count() == 3)
        told = sorted(str(error).partition(": ")[2] for _, error in cluster.errors("shop"))
    assert told == [
        "its row has 1 values, and stream 'default' has 2 fields",
        "its stream 'commands' is direct, and a letter does not say for which task",
        "its stream 'other' is not among the outputs of the DeadLetterSpout: default, commands",
    ]


def run(*arguments: str) -> int:
    return main(["dead-letters", *arguments])


def test_the_command_lists_shows_replays_and_drops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:{tmp_path}/letters.db"
    assert run("list", url) == run("replay", url, "--all") == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"no dead letters: there is no {url}, or no DeadLetterB")
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


def test_the_command_skips_damaged_entries_and_drops_them(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    letters = [letter(number) for number in range(4)]
    store = open_store(url)
    store.add(letters)
    broken = [letters[0].id, letters[2].id]
    for id in broken:
        damage(url, id)
    assert run("list", url, "--json") == 0
    told = capsys.readouterr()
    assert [one["id"] for one in json.loads(told.out)] == [letters[1].id, letters[3].id]
    assert told.err == (
        f"2 damaged entries skipped: {broken[0]}, {broken[1]}; 'tupletree dead-letters drop' deletes them\n"
    )
    assert run("show", url, letters[1].id) == 0
    for act in ("show", "replay"):
        assert run(act, url, broken[0]) == 2
        assert f"the entry '{broken[0]}'" in (err := capsys.readouterr().err) and "'tupletree dead-letters drop'" in err
    assert run("replay", url, "--all") == 0
    assert capsys.readouterr().out == "2 letters will be emitted by a DeadLetterSpout of orders\n"
    assert run("drop", url, broken[0], letters[1].id, "--yes") == 0
    assert capsys.readouterr().out == "1 letter and 1 damaged entry deleted\n"
    assert run("drop", url, "--all", "--name", "orders", "--yes") == 0
    assert capsys.readouterr().out == "1 letter deleted\n"
    assert run("drop", url, "--all", "--yes") == 0
    assert capsys.readouterr().out == "0 letters and 1 damaged entry deleted\n"
    assert not store.count()


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
