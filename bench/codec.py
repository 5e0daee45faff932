"""The codec alone: rows encoded and decoded per second, and bytes per row. One process, no network.

    python -m bench.codec --rows 1000 --repeats 300 --json

A batch is what a worker sends: ``--rows`` rows of one source and one target with a root and an edge each, as the bytes
of a protobuf message. *words*: one short string a row, by Zipf's law. *mixed*: an integer, a float, a string of 40
characters, None or a boolean, a list, a dict, a time. Encoding is from rows in memory to bytes, decoding from bytes to
rows in memory. Rates are by the median processor time of ``--repeats`` batches. The decoded rows must equal the encoded
rows, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from bench import _cli
from bench._cli import WrongResultError
from bench._words import sentences
from tupletree.tuples import Origin
from tupletree.worker.core.batches import EncodedBatch, Rows, decode, encode

SEED = 20_260_103


def words(count: int) -> list[list[Any]]:
    """Return rows of one word."""
    drawn = [word for sentence in sentences(count) for word in sentence.split()]
    return [[word] for word in drawn[:count]]


def mixed(count: int) -> list[list[Any]]:
    """Return rows of many types."""
    rng = random.Random(SEED)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return [
        [
            rng.randrange(1 << 40),
            rng.random(),
            f"{rng.getrandbits(160):040x}",
            rng.choice([None, True, False]),
            [rng.randrange(100) for _ in range(4)],
            {"name": f"item{rng.randrange(1000)}", "price": rng.random()},
            start + dt.timedelta(microseconds=rng.randrange(10**12)),
        ]
        for _ in range(count)
    ]


def tracked(values: list[list[Any]]) -> Rows:
    """Return rows with a root and an edge each."""
    rng = random.Random(SEED)
    return Rows.of((row, rng.getrandbits(64) | 1, rng.getrandbits(64)) for row in values)


def median_s(function: Callable[[], object], repeats: int) -> float:
    """Return the CPU seconds of the median call."""
    spent = []
    for _ in range(repeats):
        before_s = time.process_time_ns()
        function()
        spent.append(time.process_time_ns() - before_s)
    return statistics.median(spent) / 1e9


def one_kind(kind: str, values: list[list[Any]], repeats: int) -> dict[str, Any]:
    """Return the metrics of one kind of rows.

    Raises:
        WrongResultError: decoded rows differ from the encoded ones.
    """
    origin = Origin("source", 1, "default", [f"field{number}" for number in range(len(values[0]))])
    rows = tracked(values)

    def to_bytes() -> bytes:
        return encode(origin, 2, rows).to_bytes()

    def from_bytes() -> Rows:
        return decode(EncodedBatch.from_bytes(data), origin)

    data = to_bytes()
    if list(from_bytes()) != list(rows):
        raise WrongResultError(f"decoded rows of {kind} differ from the encoded rows")
    return {
        f"{kind}_encoded_rows_per_s": round(len(rows) / median_s(to_bytes, repeats)),
        f"{kind}_decoded_rows_per_s": round(len(rows) / median_s(from_bytes, repeats)),
        f"{kind}_bytes_per_row": round(len(data) / len(rows), 1),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure both kinds of rows."""
    return {
        **one_kind("words", words(arguments.rows), arguments.repeats),
        **one_kind("mixed", mixed(arguments.rows), arguments.repeats),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--rows", type=int, default=1_000, help="rows in a batch (%(default)s)")
    parser.add_argument("--repeats", type=int, default=300)


if __name__ == "__main__":
    sys.exit(_cli.run("codec", __doc__, add_arguments, measure))
