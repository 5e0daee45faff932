"""project-name: how often each word stands in the lines of a file, as a program of streams."""

import re
from pathlib import Path

from tupletree import Topology
from tupletree.connectors.files import FileSpout
from tupletree.streams import Stream, StreamBuilder, Table

LINES = Path(__file__).with_name("lines.txt")
"""On a cluster, the workers read this file: the path must exist on their machines."""


def words(line: str) -> list[str]:
    """Return the words of a line, in lower case."""
    return re.findall(r"[\w']+", line.lower())


def count_words(lines: Stream[str]) -> Table[str, int]:
    """Return the number of times that each word has come; the numbers are saved in checkpoints."""
    return lines.flat_map(words).key_by(lambda word: word).count(name="count")


def topology() -> Topology:
    """Return the program as a topology: what `tupletree local` and `tupletree submit` run."""
    builder = StreamBuilder()
    lines: Stream[str] = builder.source(FileSpout(LINES, are_complete=True), name="lines")
    count_words(lines).print()
    return builder.topology()
