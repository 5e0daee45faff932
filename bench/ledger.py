"""How fast one shard's ledger takes updates, and what a pending tree costs. Prints one JSON line.

    python -m bench.ledger [--trees 400000] [--acks 3] [--window 50000] [--batch 4096] [--pending 1000000]
                           [--record]

Speed: ``trees`` trees of one init and ``acks`` acks each, with at most ``window`` of them pending at a time, in batches
as a worker's flush sends them; the arrays are made before the clock starts. Every tree must end as acked.
Memory: resident bytes of this process before and after ``pending`` trees were initialised, and again after their cohort
has aged once, so that it counts what Python really keeps.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from bench._record import RESULTS, record
from tupletree.acker.ledger import Ledger

Batch: TypeAlias = "tuple[array[int], array[int], array[int], array[int], array[int]]"


def batches(trees: int, acks: int, window: int, size: int, rng: random.Random) -> Iterator[Batch]:
    """Inits and acks of ``trees`` trees; the k-th ack of a tree comes ``k * window / acks`` trees after its init."""
    stride = max(1, window // acks)
    roots = array("Q", (rng.getrandbits(64) for _ in range(trees)))
    edges = [array("Q", (rng.getrandbits(64) | 1 for _ in range(trees))) for _ in range(acks)]
    for start in range(0, trees + acks * stride, size):
        inits = range(min(start, trees), min(start + size, trees))
        ack_roots, ack_values = array("Q"), array("Q")
        for k in range(acks):
            first = start - (k + 1) * stride
            for tree in range(max(0, first), max(0, min(first + size, trees))):
                ack_roots.append(roots[tree])
                ack_values.append(edges[k][tree] ^ (edges[k + 1][tree] if k + 1 < acks else 0))
        yield (
            roots[inits.start : inits.stop],
            edges[0][inits.start : inits.stop],
            array("I", (1 + tree % 4 for tree in inits)),
            ack_roots,
            ack_values,
        )


def updates_per_s(trees: int, acks: int, window: int, size: int) -> float:
    work = list(batches(trees, acks, window, size, random.Random(1)))
    ledger, none, acked = Ledger(), array("Q"), 0
    began_s = time.perf_counter()
    for number, batch in enumerate(work):
        verdicts = ledger.apply(*batch, none, none, number / 1000)
        acked += sum(map(len, verdicts.acked.values()))
    took_s = time.perf_counter() - began_s
    assert acked == trees, f"{acked} of {trees} trees acked"
    assert len(ledger) == 0
    return trees * (1 + acks) / took_s


def bytes_per_tree(pending: int) -> tuple[float, float]:
    """Resident bytes for each pending tree: as measured, and as the ledger reports them."""
    rng, none, ledger, size = random.Random(2), array("Q"), Ledger(), 4096
    tasks = array("I", [7] * size)
    before = resident_bytes()
    for number in range(pending // size):
        roots, values = (array("Q", (rng.getrandbits(64) for _ in range(size))) for _ in range(2))
        ledger.apply(roots, values, tasks, none, none, none, none, number / 100)
    ledger.rotate(0.0)
    return (resident_bytes() - before) / len(ledger), ledger.bytes_held / len(ledger)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=400_000)
    parser.add_argument("--acks", type=int, default=3)
    parser.add_argument("--window", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--record", action="store_true", help="also write the result to bench/results")
    args = parser.parse_args()
    measured, reported = bytes_per_tree(args.pending)
    result = {
        "updates_per_s": round(updates_per_s(args.trees, args.acks, args.window, args.batch)),
        "bytes_per_tree": round(measured, 1),
        "bytes_per_tree_reported": round(reported, 1),
    }
    config = {name: value for name, value in vars(args).items() if name != "record"}
    entry = record("ledger", config, result, RESULTS if args.record else None)
    print(json.dumps({**result, **{name: value for name, value in entry.items() if name != "result"}}))


if __name__ == "__main__":
    main()
