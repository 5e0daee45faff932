"""The examples of the guides run as a reader pastes them, and do what the guides say."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from document_blocks import DOCS, blocks_of, execute, run_python

from tupletree import Topology, TopologyBuilder, bolt, config
from tupletree.cli.main import main
from tupletree.errors import TopologyError
from tupletree.hooks import TopologyAction
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.testing import FeederSpout, LocalCluster, complete_topology, run_bolt
from tupletree.transactional import TransactionalTopologyBuilder

GUIDES = DOCS / "guides"
ALIGNED = {"topology.state.checkpoint.aligned": True, "topology.state.checkpoint.interval.ms": 200}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the reader."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Cities(BaseHTTPRequestHandler):
    """The service of the guide on async bolts. It fails at the first request for each user."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        user = self.path.strip("/")
        self.asked[user] += 1
        body = b"" if self.asked[user] == 1 else json.dumps({"city": f"city of {user}"}).encode()
        self.send_response(200 if body else 500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def cities() -> Iterator[str]:
    """The address of the service."""
    Cities.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cities)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def of_one_bolt(component: Any, fields: list[str]) -> Topology:
    """Return a topology of a source and one bolt."""
    builder = TopologyBuilder()
    builder.set_spout("source", FeederSpout(fields))
    builder.set_bolt("bolt", component).shuffle_grouping("source")
    return builder.create_topology()


def test_async(cities: str) -> None:
    names = run_python(GUIDES / "async.md", replaced={"http://cities.example": cities})
    found = complete_topology(names["builder"].create_topology(), {"users": [["ann"], ["bob"]]})
    assert sorted(found["city"]) == [["ann", "city of ann"], ["bob", "city of bob"]]
    assert Cities.asked == {"ann": 2, "bob": 2}, "it makes another attempt where the first fails"
    found = complete_topology(of_one_bolt(names["city"], ["user"]), {"source": [["ann"]]})
    assert found["bolt"] == [["ann", "city of ann"]]


def test_hooks(capfd: pytest.CaptureFixture[str]) -> None:
    names = run_python(GUIDES / "hooks.md")
    told = [line.strip() for line in capfd.readouterr().out.splitlines()]
    printed = (GUIDES / "hooks.md").read_text().partition("assert result")[2].partition("* **An exception")[0]
    assert told == [line.strip() for line in printed.splitlines() if line.startswith("    ")]
    chat = names["Chat"]()
    chat.prepare(config.defaults())
    chat.notify(TopologyAction(0.0, "kill", "orders", "orders-1-5", "ada", "ada", {}, {}))
    assert capfd.readouterr().out == f"ada: kill of orders at {socket.gethostname()}\n"


def test_combining(directory: Path) -> None:
    names = run_python(GUIDES / "combining.md")
    sentences, counts = [["to be or"], ["not to be"]], {"to": 2, "be": 2, "or": 1, "not": 1}
    for words in (
        complete_topology(names["builder"].create_topology(), {"sentences": sentences})["words"],
        complete_topology(of_one_bolt(names["FasterWords"](), ["sentence"]), {"source": sentences})["bolt"],
    ):
        found: Counter[str] = Counter()
        for word, count in words:
            found[word] += count
        assert found == counts
    stored = complete_topology(of_one_bolt(names["Store"](), ["word", "count"]), {"source": [["to", 2], ["be", 1]]})
    assert len(stored.acked["source"]) == 2
    with sqlite3.connect(directory / "counts.db") as database:
        assert database.execute("SELECT word, count FROM counts ORDER BY count").fetchall() == [("be", 1), ("to", 2)]
    images = [["night", [3, 9]], ["noon", [200, 250]]]
    classified = complete_topology(of_one_bolt(names["Classify"](), ["image", "pixels"]), {"source": images})
    assert classified["bolt"] == [["night", "dark"], ["noon", "light"]]


def test_the_program_of_storm_in_coming_from(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "corpus.txt").write_text("to be or\nnot to be\n")
    names = run_python(GUIDES / "coming-from.md", after="## Storm", before="## streamparse")
    with LocalCluster() as cluster:
        cluster.submit("words", names["topology"])
        cluster.wait_until(lambda: cluster.is_at_end("words"), 60)
    shown = ["be: 1", "be: 2", "not: 1", "or: 1", "to: 1", "to: 2"]
    assert sorted(capfd.readouterr().out.splitlines()) == shown


ORDERS = [
    {"customer": "ann", "amount": 2, "price": 5},
    {"amount": 1, "price": 1},
    {"customer": "bob", "amount": 1, "price": 7},
]


def has_read_all(directory: Path) -> bool:
    """True if all orders are processed or given up."""
    done, source = directory / "orders.done", directory / "orders.jsonl"
    return done.exists() and done.read_text() == str(source.stat().st_size)


@pytest.mark.long
def test_retries(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "orders.jsonl").write_text("".join(f"{json.dumps(order)}\n" for order in ORDERS))
    names = run_python(GUIDES / "retries.md", before="### A store of letters")
    rows: list[tuple[str, list[Any]]] = []

    def observe(component: str, stream: str, values: Any) -> None:
        if stream == "default":
            rows.append((component, list(values)))

    with LocalCluster() as cluster:
        cluster.submit("orders", names["builder"].create_topology(), observer=observe)
        cluster.wait_until(lambda: cluster.is_at_end("orders") and has_read_all(directory), 60)
    assert [row for component, row in rows if component == "enrich"] == [["ann", 10], ["bob", 7]]
    assert capfd.readouterr().out == f"{[ORDERS[1]]} enrich FailedException: no customer\n"

    (directory / "orders.done").unlink()
    store = f"sqlite:{directory}/letters.db"
    run_python(
        GUIDES / "retries.md",
        names,
        after="### A store of letters",
        replaced={"sqlite:/var/lib/orders/letters.db": store},
    )
    with LocalCluster() as cluster:
        cluster.submit("orders", names["builder"].create_topology(), observer=observe)
        cluster.wait_until(lambda: has_read_all(directory), 60)
        assert main(["dead-letters", "list", store, "--json"]) == 0
        [letter] = json.loads(capfd.readouterr().out)
        assert (letter["component"], letter["error"]) == ("enrich", "FailedException: no customer")
        assert main(["dead-letters", "replay", store, "--all"]) == 0
        cluster.wait_until(lambda: ("again", [ORDERS[1]]) in rows, 60)


def test_state(directory: Path) -> None:
    (directory / "corpus.txt").write_text("to be or\nnot to be\n")
    names = run_python(GUIDES / "state.md", before="## Questions to a state")
    with LocalCluster() as cluster:
        cluster.submit("words", names["builder"].create_topology(), ALIGNED)
        counts = {"to": 2, "be": 2, "or": 1, "not": 1}
        cluster.wait_until(lambda: cluster.state("words", "count") == counts, 60)
    changed = names["Count"]()
    assert changed.state_version == 2
    assert changed.migrate_value("to", 2, 1) == {"count": 2, "at": None}
    assert run_bolt(changed, [{"word": "to", "at": at} for at in (5, 6)]).rows() == [["to", 1], ["to", 2]]


def test_state_providers() -> None:
    names = run_python(GUIDES / "state-providers.md")
    opened = []

    def own_backend(namespace: str, address: str) -> MemoryBackend:
        opened.append((namespace, address))
        return MemoryBackend(namespace, Namespace())

    names["OwnBackend"] = own_backend  # what its reader writes
    state = names["OwnStateProvider"]().new_state("words/count/0", {"address": "db:1234"}, None)
    state.put("to", 2)
    state.prepare_commit(1)
    state.commit(1)
    assert (opened, state.get("to")) == ([("words/count/0", "db:1234")], 2)


def test_multilang(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell, saved, hosted, _ = [block for block in blocks_of(GUIDES / "multilang.md") if block.kind == "python"]
    names: dict[str, Any] = {}
    execute(shell, GUIDES / "multilang.md", names)
    assert set(names["topology"].components) == {"lines", "split", "count"}
    (directory / "count.py").write_text(saved.text)
    (directory / "words.txt").write_text("a\nrose\na\n")
    monkeypatch.syspath_prepend(str(directory))
    execute(hosted, GUIDES / "multilang.md", names)
    counts: list[list[Any]] = []
    with LocalCluster() as cluster:
        cluster.submit("words", names["topology"], observer=lambda *of: counts.append(list(of[2])))
        cluster.wait_until(lambda: sorted(map(tuple, counts[3:])) == [("a", 1), ("a", 2), ("rose", 1)])


def committed(path: Path) -> int:
    """Return the total that the guide on transactions reads with sqlite3, or 0."""
    try:
        with sqlite3.connect(path) as database:
            return int(dict(database.execute("SELECT key, value FROM counts")).get("all", 0))
    except sqlite3.OperationalError:  # there is no table yet
        return 0


def test_transactions(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_python(GUIDES / "transactions.md")
    with LocalCluster() as cluster:
        cluster.submit("count", names["topology"]())
        cluster.wait_until(lambda: committed(directory / "counts.db") == 20_000, 60)
    other = directory / "numbers"
    other.mkdir()
    monkeypatch.chdir(other)
    builder = TransactionalTopologyBuilder("numbers", "numbers", names["Numbers"](), parallelism=3)
    builder.set_bolt("sum", names["AddInGroups"]()).global_grouping("numbers")
    with LocalCluster() as cluster:
        cluster.submit("numbers", builder.create_topology())
        cluster.wait_until(lambda: committed(other / "counts.db") == 3_000, 60)


def test_values() -> None:
    names = run_python(GUIDES / "values.md")
    money = names["Money"](Decimal("1.50"), "EUR")

    @bolt(outputs=["money"])
    def pass_on(tup: Any) -> Iterator[Any]:
        yield [tup["money"]]

    assert complete_topology(of_one_bolt(pass_on, ["money"]), {"source": [[money]]})["bolt"] == [[money]]
    sales = [["Aachen", 10], ["Bonn", 1000], ["Aachen", 5]]
    found = complete_topology(of_one_bolt(names["Totals"](), ["shop", "amount"]), {"source": sales})
    assert found.rows("bolt") == [["Aachen", 10], ["Bonn", 1000], ["Aachen", 15]]
    assert found.rows("bolt", "large") == [["Bonn"]]
    with pytest.raises(TopologyError, match=r"amount"):
        of_one_bolt(names["Totals"](), ["shop"])


def test_windows() -> None:
    names = run_python(GUIDES / "windows.md")
    sales, totals = FeederSpout([]), list[int]()
    topology = names["builder"].create_topology().replacing({"sales": sales})

    def observe(component: str, stream: str, row: Any) -> None:
        if (component, stream) == ("totals", "default"):
            totals.append(row[0])

    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit("sales", topology, observer=observe)
        for number in range(100):
            sales.feed([number, "shop 1", 7], number)
        cluster.wait_quiet()
        for _ in range(6):
            cluster.advance(5)
        assert totals == [700] * 4, "a sale is in the windows of twenty seconds, one of which ends every five"
        cluster.wait_until(lambda: cluster.state("sales", "shop-totals").get("shop 1") == 700)
    rows = [[amount] for amount in (1, 2, 3, 4)]
    sliding = of_one_bolt(names["RunningTotals"]().with_window(3, 1), ["amount"])
    assert complete_topology(sliding, {"source": rows}, allow_pending=True)["bolt"] == [[1], [3], [6], [9]]
