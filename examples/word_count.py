"""Word count that survives kill -9: every line is counted at least once, whatever process dies.

    tupletree submit examples/word_count.py --name words -c topology.workers=2

Two rules guarantee this. The spout records the acked lines and emits all others again. The counting bolt acks a word
only after its increment is on disk: a crash between the two repeats a word, but cannot lose a word.
"""

import re
import sqlite3
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from tupletree import BasicBolt, Bolt, Spout, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector

BLOCK = 1_000  # lines recorded as "may be emitted" at a time
BATCH = 2_000  # words committed at a time


def text() -> list[str]:
    """Return real English text that comes with every Python: the help on the language."""
    return [line for topic in topics.values() for line in topic.splitlines() if line.strip()]


def words(line: str) -> list[str]:
    return re.findall(r"[a-z]+", line.lower())


def database(path: Path, schema: str) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # An executor can move to a thread of its own later; only one thread at a time uses the connection.
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # a commit survives kill -9; FULL would survive a power cut too
    connection.executescript(schema)
    return connection


class Lines(Spout):
    """Emits lines 0, 1, 2, … of the text, repeated as often as needed, divided among the spout's tasks."""

    outputs = ["line"]

    def __init__(self, lines: int, directory: Path) -> None:
        self.lines = lines
        self.directory = directory

    def setup(self) -> None:
        context = self.context
        self.text = text()
        self.mine = range(context.task_index, self.lines, len(context.component_tasks(context.component_id)))
        self.journal = database(
            self.directory / f"lines-{context.task_index}.db",
            """CREATE TABLE IF NOT EXISTS acked (line INTEGER PRIMARY KEY, replayed INTEGER);
               CREATE TABLE IF NOT EXISTS reached (lines INTEGER);""",
        )
        acked = {line for (line,) in self.journal.execute("SELECT line FROM acked")}
        (self.reached,) = self.journal.execute("SELECT coalesce(max(lines), 0) FROM reached").fetchone()
        self.todo = deque(line for line in self.mine[: self.reached] if line not in acked)
        self.replayed = set(self.todo)  # a crash came before their ack: they can have been counted already
        self.acked: list[int] = []

    def next_tuple(self) -> None:
        if not self.todo:
            self.write_down()
        if self.todo:
            line = self.todo.popleft()
            self.collector.emit([self.text[line % len(self.text)]], msg_id=line)

    def ack(self, msg_id: int) -> None:
        self.acked.append(msg_id)

    def fail(self, msg_id: int) -> None:
        self.replayed.add(msg_id)
        self.todo.appendleft(msg_id)

    def write_down(self) -> None:
        """Record the acked lines, and the next lines before they are emitted."""
        coming = self.mine[self.reached : self.reached + BLOCK]
        if self.acked or coming:
            with self.journal:
                rows = [(line, line in self.replayed) for line in self.acked]
                self.journal.executemany("INSERT OR REPLACE INTO acked VALUES (?, ?)", rows)
                self.journal.execute("INSERT INTO reached VALUES (?)", [self.reached + len(coming)])
            self.acked.clear()
            self.reached += len(coming)
            self.todo.extend(coming)


class Split(BasicBolt):
    """Splits lines into words. Each word is anchored to its line, which is acked when all words are emitted."""

    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[str]]:
        for word in words(tup["line"]):
            yield [word]


class Count(Bolt):
    """Counts words in an SQLite file per task, and acks them once they are committed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def setup(self) -> None:
        self.held: list[Tuple] = []
        self.counts = database(
            self.directory / f"counts-{self.context.task_index}.db",
            "CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, count INTEGER)",
        )

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.held.append(tup)
        if tup.is_tick or len(self.held) >= BATCH:
            self.commit()

    def commit(self) -> None:
        with self.counts:
            self.counts.executemany(
                "INSERT INTO counts VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET count = count + excluded.count",
                Counter(tup["word"] for tup in self.held).items(),
            )
        for tup in self.held:
            self.collector.ack(tup)
        self.held = []


def topology(lines: int = 200_000, directory: str | None = None) -> Topology:
    """Count ``lines`` lines of text into SQLite files in ``directory`` (by default a new temporary directory)."""
    place = Path(directory or tempfile.mkdtemp(prefix="word-count-")).absolute()
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(lines, place), parallelism=2)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("lines")
    count = builder.set_bolt("count", Count(place), parallelism=2).fields_grouping("split", ["word"])
    count.add_configuration("topology.tick.tuple.freq.secs", 1)
    return builder.create_topology()
