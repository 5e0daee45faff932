"""Word count that survives kill -9: every line is counted at least once, whatever process dies.

    tupletree submit examples/word_count.py --name words -c topology.workers=2

Two rules guarantee this. The spout is a ReliableSpout: lines that fail are emitted again, and after a crash it resumes
where all lines before are counted. The counting bolt acks a word only after its increment is on disk: a crash between
the two repeats a word, but cannot lose a word.
"""

import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from tupletree import BasicBolt, Bolt, Message, ReliableSpout, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector

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


class Lines(ReliableSpout):
    """Emits lines 0, 1, 2, … of the text, repeated as often as needed, divided among the spout's tasks."""

    outputs = ["line"]

    def __init__(self, lines: int, directory: Path) -> None:
        self.lines = lines
        self.directory = directory

    def setup(self) -> None:
        self.done = database(
            self.directory / f"lines-{self.context.task_index}.db",
            "CREATE TABLE IF NOT EXISTS done (task INTEGER PRIMARY KEY, line INTEGER)",
        )
        (self.position,) = self.done.execute("SELECT max(line) FROM done").fetchone()

    def read(self) -> Iterator[Message]:
        texts, tasks = text(), len(self.context.component_tasks(self.context.component_id))
        first = self.context.task_index if self.position is None else self.position + tasks
        for line in range(first, self.lines, tasks):
            yield Message([texts[line % len(texts)]], id=line, position=line)

    def commit(self, position: int) -> None:
        with self.done:
            self.done.execute("INSERT OR REPLACE INTO done VALUES (?, ?)", [self.context.task_index, position])


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


def topology(lines: int = 200_000, directory: str | None = None, source: type[Lines] = Lines) -> Topology:
    """Count ``lines`` lines of text into SQLite files in ``directory`` (by default a new temporary directory)."""
    place = Path(directory or tempfile.mkdtemp(prefix="word-count-")).absolute()
    builder = TopologyBuilder()
    builder.set_spout("lines", source(lines, place), parallelism=2)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("lines")
    count = builder.set_bolt("count", Count(place), parallelism=2).fields_grouping("split", ["word"])
    count.add_configuration("topology.tick.tuple.freq.secs", 1)
    return builder.create_topology()
