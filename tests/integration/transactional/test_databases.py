"""What every database promises to the rules of stored values, on real ones: conftest.py starts the servers."""

from __future__ import annotations

import copy
import math
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from database_places import Place, SqlitePlace

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.transactional.databases import SqliteDatabase
from tupletree.transactional.databases.contract import Changes, Database, Row, View
from tupletree.transactional.databases.encoding import FORMAT
from tupletree.transactional.maps import OpaqueMap, TransactionalMap

A = TransactionAttempt


KILLS = int(os.environ.get("WRITER_KILLS", "2"))
DURABLE = pytest.mark.parametrize("place", ["sqlite", "redis", "postgres"], indirect=True)


def put(rows: dict[str, Row], mark: TransactionAttempt | None = None) -> Callable[[View], Changes]:
    return lambda view: Changes(rows, mark=mark)


def increment(key: str) -> Callable[[View], Changes]:
    def decide(view: View) -> Changes:
        row = view.rows([key]).get(key, Row(0, 0))
        return Changes({key: Row(row.txid + 1, row.value + 1)})

    return decide


def test_a_table_is_there_from_its_first_use_and_empty(database: Database) -> None:
    assert database.read("words") == {}
    assert database.read("words", ["a"]) == {}
    seen: list[Any] = []

    def look(view: View) -> Changes:
        seen.append((view.mark(), dict(view.rows(["a"])), dict(view.rows_of(1))))
        return Changes()

    assert database.apply("words", look) == Changes()
    assert seen[-1] == (None, {}, {})
    assert database.read("words") == {}


def test_what_is_put_is_read_by_every_copy(database: Database) -> None:
    rows = {"a": Row(1, 1), "b": Row(2, 5, 4, True), "c": Row(2, 5, None, True)}
    changes = Changes(rows, mark=A(2, 7 << 32))
    assert database.apply("words", lambda view: changes) == changes
    for one in (database, copy.deepcopy(database), pickle.loads(pickle.dumps(database))):
        assert one.read("words") == rows
        assert one.read("words", ["a", "missing"]) == {"a": Row(1, 1)}
        assert one.read("words", []) == {}
        assert one.read("other") == {}


def test_a_decision_sees_marks_and_rows(database: Database) -> None:
    rows = {"a": Row(1, 1), "b": Row(2, 5, 4, True), "c": Row(2, 6)}
    database.apply("words", put(rows, A(2, 9)))
    seen: list[Any] = []

    def look(view: View) -> Changes:
        seen.append((view.mark(), dict(view.rows(["a", "b", "x"])), dict(view.rows_of(2)), dict(view.rows_of(3))))
        return Changes()

    database.apply("words", look)
    assert seen[-1] == (A(2, 9), {"a": rows["a"], "b": rows["b"]}, {"b": rows["b"], "c": rows["c"]}, {})


def test_changes_are_put_deleted_and_marked_at_once(database: Database) -> None:
    database.apply("words", put({"a": Row(1, 1), "b": Row(1, 1), "c": Row(1, 1)}, A(1, 1)))
    database.apply("words", lambda view: Changes({"a": Row(2, 2)}, deletes=["b", "missing"]))
    assert database.read("words") == {"a": Row(2, 2), "c": Row(1, 1)}
    seen: list[Any] = []
    database.apply(
        "words", lambda view: seen.append((view.mark(), {*view.rows_of(1)}, {*view.rows_of(2)})) or Changes()
    )
    assert seen[-1] == (A(1, 1), {"c"}, {"a"})


def test_what_a_decision_raises_is_passed_on_and_nothing_is_written(database: Database) -> None:
    values = OpaqueMap(database, "words")
    values.add(A(2, 2), {"a": 1})
    with pytest.raises(StaleAttemptError):
        values.add(A(2, 1), {"a": 5, "b": 5})
    with pytest.raises(ZeroDivisionError):
        values.update(A(3, 3), {"b": lambda old: 1, "a": lambda old: old / 0})
    with pytest.raises(UsageError, match=r"table 'words', key 'a': .* a set"):
        values.update(A(3, 3), {"b": lambda old: 1, "a": lambda old: set()})
    assert database.read("words") == {"a": Row(2, 1)}
    assert values.add(A(3, 3), {"a": 1}) == {"a": 2}


VALUES = [None, True, False, 0, -1, 2**53 + 1, 10**30, 1.5, "", "naïve 🌳 \"'\\ \n", [], {}, [1, [None, {"a b": [2]}]]]


def test_any_json_is_carried_as_value_and_as_previous(database: Database) -> None:
    rows = {f"{number}": Row(3, value, value, True) for number, value in enumerate(VALUES)}
    database.apply("values", put(rows))
    assert database.read("values") == rows
    assert all(type(row.value) is type(rows[key].value) for key, row in database.read("values", rows).items())


def test_floats_keep_their_value(database: Database) -> None:
    values = [0.1, 1e-300, 1e22, -1.7976931348623157e308, 5e-324, math.pi]
    rows = {f"{number}": Row(1, value) for number, value in enumerate(values)}
    database.apply("values", put(rows))
    assert {key: float(row.value) for key, row in database.read("values").items()} == {
        key: row.value for key, row in rows.items()
    }


@pytest.mark.parametrize("key", ["", " ", "a'b\"c", "%s {} ?", "ключ", "🌳", "line\nbreak", "x" * 500, "A", "a:b"])
def test_any_text_is_a_key(database: Database, key: str) -> None:
    database.apply("words", put({key: Row(1, 1), "another": Row(1, 2)}))
    assert database.read("words", [key]) == {key: Row(1, 1)}
    database.apply("words", lambda view: Changes(deletes=[*view.rows_of(1).keys() - {"another"}]))
    assert database.read("words") == {"another": Row(1, 2)}


def test_keys_that_differ_in_case_are_two(database: Database) -> None:
    TransactionalMap(database, "words").add(A(1, 1), {"a": 1, "A": 2, "á": 3})
    assert TransactionalMap(database, "words").items() == {"a": 1, "A": 2, "á": 3}


def test_tuples_are_keys(database: Database) -> None:
    counts = OpaqueMap(database, "words")
    keys = [(), ("a",), ("a", 1), ("a", "1"), (-(10**30), "naïve 🌳 \"'\\ \n,"), ("a,b",), ("a", "b"), "a", '["a"]']
    amounts = {key: number for number, key in enumerate(keys)}
    assert counts.add(A(1, 1), amounts) == amounts
    assert counts.add(A(1, 2), amounts) == amounts, "the attempt before is undone"
    assert counts.add(A(2, 3), {("a", 1): 10}) == {("a", 1): 12}
    assert counts.get([("a", 1), ("a", "1"), "a", ("missing",)]) == {("a", 1): 12, ("a", "1"): 3, "a": 7}
    assert counts.get_one((), "none") == 0 and counts.get_one(("missing",), "none") == "none"
    assert counts.items() == {**amounts, ("a", 1): 12}
    assert database.read("words").keys() >= {"a", '["a"]', 'tuple:["a",1]', "tuple:[]", 'tuple:["a","1"]'}


def test_ten_thousand_keys_are_one_commit(database: Database) -> None:
    values = OpaqueMap(database, "words")
    ones = {f"word {number}": 1 for number in range(10_000)}
    values.add(A(1, 1), ones)
    values.add(A(2, 2), ones)
    assert values.add(A(2, 3), dict.fromkeys(list(ones)[:5_000], 2)) == dict.fromkeys(list(ones)[:5_000], 3)
    assert sum(values.items().values()) == 20_000
    assert sum(values.get(list(ones)[:5_000]).values()) == 15_000


@pytest.mark.parametrize("name", ["", "a b", "a.b", 'a"b', "a;b", "é", "a" * 51, "sqlite_a", "tupletree_tables"])
def test_a_name_that_is_none_is_refused(database: Database, name: str) -> None:
    with pytest.raises(UsageError, match="letters, digits and underscores"):
        database.apply(name, put({}))
    with pytest.raises(UsageError, match="letters, digits and underscores"):
        database.read(name)


@pytest.mark.parametrize("name", ["select", "1", "_", "Words", "a" * 50, "a_txid"])
def test_a_name_that_is_one_may_be_odd(database: Database, name: str) -> None:
    OpaqueMap(database, name).add(A(1, 1), {"a": 1})
    OpaqueMap(database, name).add(A(1, 2), {"a": 2})
    TransactionalMap(database, "a").add(A(1, 1), {"a": 1})
    assert OpaqueMap(database, name).items() == {"a": 2}


def test_a_closed_database_opens_again(database: Database) -> None:
    database.apply("words", put({"a": Row(1, 1)}))
    database.close()
    assert database.read("words") == {"a": Row(1, 1)}
    database.close()
    database.close()
    database.apply("words", put({"a": Row(2, 2)}))
    assert database.read("words") == {"a": Row(2, 2)}


def test_threads_meet_and_lose_nothing(database: Database) -> None:
    def work() -> None:
        for _ in range(25):
            database.apply("words", increment("all"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert database.read("words") == {"all": Row(100, 100)}


def test_a_dead_attempt_that_races_with_its_replay_leaves_nothing(database: Database) -> None:
    """Three tasks of each attempt commit at once, those of the dead one other keys and amounts."""
    counts = OpaqueMap(database, "words")
    unexpected: list[Exception] = []

    def commit(attempt: TransactionAttempt, amounts: dict[str, int], is_dead: bool) -> None:
        try:
            counts.add(attempt, amounts)
        except Exception as error:
            if not (is_dead and isinstance(error, StaleAttemptError)):
                unexpected.append(error)

    for txid in range(1, 16):
        dead, replay = A(txid, 2 * txid), A(txid, 2 * txid + 1)
        commits = [(dead, {f"{task}": 100, f"{txid}-{task}": 1}, True) for task in range(3)]
        commits += [(replay, {f"{task}": 1}, False) for task in range(3)]
        threads = [threading.Thread(target=commit, args=arguments) for arguments in commits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not unexpected
    assert counts.items() == {"0": 15, "1": 15, "2": 15}


@DURABLE
def test_a_table_of_a_newer_format_is_one_clear_error(place: Place, database: Database) -> None:
    OpaqueMap(database, "words").add(A(1, 1), {"a": 1})
    place.set_format("words", FORMAT + 1)
    message = f"table 'words' has format {FORMAT + 1}, and this version of Tupletree knows formats up to {FORMAT}"
    with pytest.raises(UsageError, match=message):
        database.read("words")
    with pytest.raises(UsageError, match=message):
        OpaqueMap(database, "words").add(A(1, 1), {"a": 1})


@DURABLE
def test_a_table_that_somebody_else_made_is_left_alone(place: Place, database: Database) -> None:
    database.apply("words", put({"a": Row(1, 1)}))
    place.make_foreign("theirs")
    with pytest.raises(UsageError, match="table 'theirs' exists already, but Tupletree did not create it"):
        database.read("theirs")
    with pytest.raises(UsageError, match="table 'theirs' exists already, but Tupletree did not create it"):
        database.apply("theirs", put({"a": Row(1, 1)}))


INCREMENT = """
import pickle, sys
from tupletree.transactional.databases.contract import Changes, Row
def increment(key):
    def decide(view):
        row = view.rows([key]).get(key, Row(0, 0))
        return Changes({key: Row(row.txid + 1, row.value + 1)})
    return decide
database = pickle.loads(bytes.fromhex(sys.argv[1]))
for _ in range(int(sys.argv[3])):
    database.apply("words", increment("all"))
    database.apply("words", increment(sys.argv[2]))
"""


def run(script: str, database: Database, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", script, pickle.dumps(database).hex(), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE)


@DURABLE
def test_processes_meet_and_lose_nothing(database: Database) -> None:
    """They also make the file and the table at the same time."""
    writers = [run(INCREMENT, database, f"own-{number}", "30") for number in range(3)]
    assert [writer.communicate()[0] or writer.returncode for writer in writers] == [0, 0, 0]
    own = {f"own-{number}": Row(30, 30) for number in range(3)}
    assert database.read("words") == {"all": Row(90, 90), **own}


WRITER = """
import pickle, sys
from tupletree.attempt import TransactionAttempt
from tupletree.transactional.maps import OpaqueMap
values = OpaqueMap(pickle.loads(bytes.fromhex(sys.argv[1])), "words")
for txid in range(int(sys.argv[2]), 1_000_000):
    values.add(TransactionAttempt(txid, txid), {f"word {number}": 1 for number in range(300)})
    print(txid, flush=True)
"""


@DURABLE
@pytest.mark.sized
def test_a_writer_that_is_killed_leaves_all_of_a_commit_or_nothing(database: Database) -> None:
    counts = OpaqueMap(database, "words")
    last = 0
    for kill in range(KILLS):
        writer = run(WRITER, database, str(last + 1))
        assert writer.stdout is not None
        printed = [int(writer.stdout.readline()) for _ in range(1 + kill)][-1]
        wait_until(lambda: any(row.txid > printed for row in database.read("words").values()), 20)  # noqa: B023
        writer.send_signal(signal.SIGKILL)
        said = [int(line) for line in writer.stdout.read().split()]  # communicate would pass over what is read already
        writer.wait()
        rows = database.read("words")
        assert len({(row.txid, row.value, row.previous) for row in rows.values()}) == 1
        assert len(rows) == 300
        last = rows["word 0"].txid
        assert last in ((said or [printed])[-1], (said or [printed])[-1] + 1)
        assert counts.get_one("word 0") == last


ONLY_SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@ONLY_SQLITE
def test_a_writer_that_holds_the_file_makes_it_unavailable_until_it_is_gone(place: SqlitePlace) -> None:
    database = SqliteDatabase(place.path, busy_timeout_s=0.2)
    database.apply("words", put({"a": Row(1, 1)}))
    other = sqlite3.connect(place.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match=r"values\.db: database is locked"):
        database.apply("words", put({"a": Row(2, 2)}))
    assert database.read("words") == {"a": Row(1, 1)}
    other.close()
    database.apply("words", put({"a": Row(2, 2)}))


@ONLY_SQLITE
def test_a_full_disk_makes_it_unavailable_and_writes_nothing(place: SqlitePlace) -> None:
    database = SqliteDatabase(place.path)
    values = TransactionalMap(database, "words")
    values.add(A(1, 1), {"a": 1})
    database._file.use(lambda connection: connection.execute("PRAGMA max_page_count = 20"))
    with pytest.raises(UnavailableError, match="database or disk is full"):
        values.add(A(2, 2), {f"word {number}": 1 for number in range(10_000)})
    assert values.items() == {"a": 1}


def test_a_file_that_is_deleted_while_in_use_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    counts = OpaqueMap(SqliteDatabase(tmp_path / "values.db"), "words")
    counts.add(A(1, 1), {"a": 1})
    (tmp_path / "values.db").rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(
            UnavailableError, match=r"values.db was deleted or replaced while it was in use: put it back"
        ):
            counts.add(A(2, 2), {"a": 1})
    assert not (tmp_path / "values.db").exists()
    (tmp_path / "away").rename(tmp_path / "values.db")
    assert counts.add(A(2, 2), {"a": 1}) == {"a": 2}


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, " * 1000)
    with pytest.raises(UsageError, match="text is not an SQLite file"):
        SqliteDatabase(tmp_path / "text").read("words")
    with pytest.raises(UnavailableError, match=r"text/values\.db: .*Not a directory|File exists"):
        SqliteDatabase(tmp_path / "text" / "values.db").read("words")
    with pytest.raises(UsageError, match="a path of a file was expected"):
        SqliteDatabase(":memory:")


def test_a_relative_path_is_taken_from_where_the_database_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    database = SqliteDatabase("values.db")
    monkeypatch.chdir("elsewhere")
    database.apply("words", put({"a": Row(1, 1)}))
    assert (tmp_path / "values.db").exists()
