"""Dead letters over REST: real stores, rights, stores that are away, damaged or silent, and the audit log."""

from __future__ import annotations

import json
import secrets
import socket
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.transactional.database_servers import RedisServer
from tupletree._security.files import write_private
from tupletree._security.tokens import Keyring
from tupletree.dead_letters import DeadLetterStore, Letter, open_store
from tupletree.replaying_spout import LETTER_FIELDS
from tupletree.testing import DevCluster, make_tuple

LONG = "<script>" * 3000


def letter(number: int, name: str = "orders", error: str = "ValueError: no") -> Letter:
    values = [f"m{number}", [number, "row"], "default", 5, "enrich", 7, error, "Traceback …"]
    return Letter.of(make_tuple(values, LETTER_FIELDS, component="orders"), name, 100.0 + number)


class Site:
    """A nimbus that asks for tokens, and its stores."""

    def __init__(self, cluster: DevCluster, keyring: Keyring, stores: dict[str, str]) -> None:
        self.base = f"http://127.0.0.1:{next(one.http_port for one in cluster.processes if one.role == 'nimbus')}"
        self.directory = Path(cluster.directory)
        self._keyring = keyring
        self.stores = stores

    def store(self, name: str) -> DeadLetterStore:
        """The store, emptied."""
        store = open_store(self.stores[name])
        store.remove(store.ids())
        return store

    def ask(self, path: str, method: str = "GET", role: str = "admin", **headers: str) -> tuple[int, Any]:
        """Status and JSON of a request below dead-letters."""
        token = self._keyring.issue("ann", "user", roles=frozenset({role}))
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        data = None if method == "GET" else b"{}"
        request = urllib.request.Request(f"{self.base}/api/v1/{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def get(self, path: str) -> Any:
        status, found = self.ask(path)
        assert status == 200, found
        return found


@pytest.fixture(scope="module")
def site(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("letters-over-rest")
    secret = secrets.token_hex(32).encode()
    write_private(directory / "secret", secret)
    keyring = Keyring("tupletree", secret)
    (directory / "damaged.db").write_bytes(b"not SQLite at all" * 100)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        stores = {
            "file": f"sqlite:{directory}/letters.db",
            "redis": f"{redis_server.url}?prefix=over-rest",
            "none": f"sqlite:{directory}/none/letters.db",
            "damaged": f"sqlite:{directory}/damaged.db",
            "away": "redis://ann:secret@127.0.0.1:1/0",
            "silent": f"redis://127.0.0.1:{silent.getsockname()[1]}/0",
        }
        operator = keyring.issue("operator", "user", roles=frozenset({"admin"}))
        conf = {
            "security.tokens": True,
            "security.secret.file": str(directory / "secret"),
            "security.token": operator,
            "nimbus.dead.letters.stores": stores,
        }
        with DevCluster(supervisors=0, ackers=0, conf=conf) as cluster:
            yield Site(cluster, keyring, stores)


@pytest.mark.long
def test_stores_are_listed_with_what_is_wrong_with_them_and_a_silent_one_holds_up_nothing(site: Site) -> None:
    site.store("file").add([letter(1), letter(2)])
    site.store("redis").add([letter(3)])
    with ThreadPoolExecutor() as threads:
        listed = threads.submit(site.get, "dead-letters")
        site.get("dead-letters/none")
        assert site.get("cluster/summary")["deadLetterStores"] == 6
        assert not listed.done()
    found = {one["name"]: one for one in listed.result()["stores"]}
    assert found.keys() == {"file", "redis", "none", "damaged", "away", "silent"}
    assert {name: one["count"] for name, one in found.items() if not one["error"]} == {
        "file": 2,
        "redis": 1,
        "none": None,
    }
    assert found["damaged"]["error"].endswith("damaged.db: file is not a database")
    assert "Redis at 127.0.0.1:1: " in found["away"]["error"] and "secret" not in str(found)
    assert found["silent"]["error"].startswith("the store of dead letters 'silent' ")


@pytest.mark.parametrize("name", ["file", "redis"])
def test_letters_are_paged_newest_first_and_shown_one_by_one(site: Site, name: str) -> None:
    store = site.store(name)
    store.add([letter(number, "orders" if number < 4 else "other", LONG) for number in range(5)])
    first = site.get(f"dead-letters/{name}?topology=orders&limit=3")
    assert [one["message"] for one in first["letters"]] == ["'m3'", "'m2'", "'m1'"]
    assert first["count"] == 5 and first["letters"][0]["error"] == LONG[:200] + "…"
    second = site.get(f"dead-letters/{name}?topology=orders&limit=3&after={first['next']}")
    assert [one["message"] for one in second["letters"]] == ["'m0'"] and second["next"] is None
    one = site.get(f"dead-letters/{name}/{letter(2).id}")
    assert (one["values"], one["attempts"], one["component"], one["task"]) == ("[2, 'row']", 5, "enrich", 7)
    assert (one["error"], one["traceback"], one["isReplayed"]) == (LONG[:10_000] + "…", "Traceback …", False)


@pytest.mark.parametrize("name", ["file", "redis"])
def test_letters_are_replayed_and_dropped(site: Site, name: str) -> None:
    store = site.store(name)
    store.add([letter(number) for number in range(4)] + [letter(9, "other")])

    def changed(path: str) -> Any:
        status, found = site.ask(f"dead-letters/{name}{path}", "POST")
        assert status == 200 and found.pop("isComplete") and found.pop("store") == name
        return found["letters"]

    assert changed(f"/{letter(1).id}/replay") == 1
    assert [one.message for one in store.letters(replayed=True)] == ["'m1'"]
    assert site.get(f"dead-letters/{name}/{letter(1).id}")["isReplayed"] is True
    assert changed("/replay?topology=orders") == 3
    assert len(store.letters(replayed=True)) == 4
    assert changed(f"/{letter(2).id}/drop") == 1
    assert changed("/drop?topology=orders&until=101.5") == 2
    assert [one.message for one in store.letters()] == ["'m3'", "'m9'"]
    assert changed("/drop") == 2 and store.count() == 0


def test_damaged_entries_are_skipped_and_dropped_by_their_ids(site: Site) -> None:
    store = site.store("file")
    store.add([letter(number) for number in range(3)])
    with closing(sqlite3.connect(site.stores["file"].removeprefix("sqlite:"))) as connection, connection:
        connection.execute("UPDATE letters SET attempts = x'80' WHERE id = ?", (letter(1).id,))
    found = site.get("dead-letters/file?limit=2")
    assert [one["message"] for one in found["letters"]] == ["'m2'", "'m0'"]
    assert (found["damaged"], found["count"], found["next"]) == ([letter(1).id], 3, None)
    path = f"dead-letters/file/{letter(1).id}"
    assert site.ask(path)[0] == site.ask(f"{path}/replay", "POST")[0] == 502
    status, dropped = site.ask(f"{path}/drop", "POST")
    assert (status, dropped["letters"]) == (200, 1)
    assert site.get("dead-letters/file")["damaged"] == []


def test_what_is_not_there_or_cannot_be_used_gets_a_sentence(site: Site) -> None:
    site.store("file")
    for path, status, sentence in (
        ("dead-letters/other", 404, "nimbus.dead.letters.stores has no store 'other'"),
        ("dead-letters/file/x", 404, "the store 'file' has no letter 'x'"),
        ("dead-letters/file?limit=0", 400, "limit is a whole number from 1 to 200, not '0'"),
        ("dead-letters/damaged", 502, "the store of dead letters 'damaged' cannot be used: dead letters in "),
        ("dead-letters/away/x", 502, "the store of dead letters 'away' cannot be used: Redis at 127.0.0.1:1: "),
    ):
        found, reply = site.ask(path)
        assert found == status and reply["errorMessage"].startswith(sentence), reply
    assert site.get("dead-letters/none")["letters"] == []
    assert site.ask("dead-letters/file/x/drop", "POST")[0] == 404
    assert site.ask("dead-letters/file/drop?until=x", "POST")[0] == 400


def test_rows_and_foreign_values_are_never_decoded(site: Site, redis_server: RedisServer) -> None:
    store = site.store("redis")
    hostile = b"cbuiltins\nexec\n(S'raise SystemExit'\ntR."  # a pickle that would end nimbus
    store.add([Letter("id", "orders", 1.0, "m", "[…]", "s", 1, "c", 2, "e", "t", hostile)])
    assert site.get("dead-letters/redis")["letters"][0]["id"] == "id"
    assert site.get("dead-letters/redis/id")["values"] == "[…]"
    assert store.letters()[0].row == hostile


def test_readers_see_letters_and_administrators_change_them(site: Site) -> None:
    store = site.store("file")
    store.add([letter(1)])
    path = f"dead-letters/file/{letter(1).id}"
    assert [site.ask(path, role=role)[0] for role in ("submit", "metrics", "read", "admin")] == [403, 403, 200, 200]
    assert [site.ask("cluster/summary", role=role)[1]["deadLetterStores"] for role in ("submit", "read")] == [0, 6]
    for change in (f"{path}/drop", f"{path}/replay", "dead-letters/file/drop", "dead-letters/file/replay"):
        for role in ("read", "submit"):
            status, reply = site.ask(change, "POST", role)
            assert status == 403 and reply["errorMessage"].endswith("the caller needs to be an administrator"), reply
        assert site.ask(change, "POST", Origin="http://evil.example")[0] == 403
    assert site.ask(f"{path}/drop")[0] == 405
    assert store.letters() == [letter(1)]


def test_who_dropped_which_letter_is_in_the_audit_log(site: Site) -> None:
    site.store("file").add([letter(1)])
    assert site.ask(f"dead-letters/file/{letter(1).id}/drop", "POST")[0] == 200
    assert site.ask("dead-letters/file/drop?topology=a", "POST", "read")[0] == 403
    [path] = site.directory.glob("*/logs/audit.log")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    said = [(one["operation"].partition("/dead-letters")[2], one["outcome"]) for one in lines]
    assert said[-2:] == [(f"/file/{letter(1).id}/drop", "done"), ("/file/drop?topology=a", "refused")]
