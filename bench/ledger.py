"""Update rate of one shard's ledger, and memory per pending tree.

    python -m bench.ledger [--batch 8192] [--rounds 200] [--pending 1000000,10000000] [--json] [--record]

*Updates*: each round is one ``Ledger.apply`` of ``batch`` inits and, for each ack that a tree gets, ``batch`` acks of
earlier trees in random order, in arrays like those from the wire; ``window`` trees are pending. Every tree must end as
acked. Rates are per second of processor time, so of one core. ``many_pending`` is the same rate on top of the largest
number of trees in ``--pending``: compiled, that case runs by whole arrays, and the others run update by update.
*Small batches*: microseconds of an ``apply`` of 1 to 4,000 updates, a quarter of them inits, 10,000 trees pending.
``--halves`` measures only small batches, with either half of the rules alone: all updates by the loops of
scalar_ops.py, or all by whole arrays; in turns, the medians of five.
*Memory*, for each number of trees in ``--pending``, in a process of its own: bytes per pending tree, resident and
computed, when all trees are pending; the maximum of both from half of the trees on, which includes growth; the peak.
*Stalls*, in the same process: the longest ``apply`` of 4,096 inits during growth, and the longest step of the rotation
that expires all trees, in milliseconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench import _cli
from bench._processes import peak_rss_mb
from tupletree.acker import ledger as rules
from tupletree.acker.ledger import Ledger

U64: TypeAlias = NDArray[np.uint64]
Batch: TypeAlias = "tuple[array[int], array[int], array[int], array[int], array[int]]"
NONE: Final = array("Q")
SPOUT_TASKS: Final = 4
SIZES: Final = 1, 10, 100, 400, 1000, 4000
KEY: Final = 0x5DEECE66D_9E3779B97F4A7C15_BF58476D1CE4E5B9


def words(ids: U64) -> array[int]:
    """Return ids as an array like those from the wire."""
    return array("Q", ids.tobytes())


def ids(rng: np.random.Generator, count: int) -> U64:
    """Return random ids other than 0."""
    return rng.integers(1, 1 << 64, count, dtype=np.uint64)


def rounds(count: int, acks: int, batch: int, window: int) -> Iterator[Batch]:
    """Yield the updates of each round.

    ``batch`` trees begin in each of the first ``count`` rounds. The k-th ack of a tree follows ``k * window / acks``
    trees later. From round ``window / batch`` on, rounds are full of every kind; the last rounds only ack.
    """
    rng = np.random.default_rng(1)
    lag = max(1, window // batch // acks)
    tasks = array("I", (np.arange(batch, dtype=np.uint32) % SPOUT_TASKS + 1).tobytes())
    begun: list[list[U64]] = []
    for number in range(count + acks * lag):
        is_beginning = number < count
        if is_beginning:
            begun.append([ids(rng, batch) for _ in range(1 + acks)])
        roots, values = [], []
        for ack in range(1, acks + 1):
            if 0 <= number - ack * lag < count:
                tree, *edges = begun[number - ack * lag]
                order = rng.permutation(batch)
                roots.append(tree[order])
                values.append((edges[ack - 1] ^ edges[ack] if ack < acks else edges[ack - 1])[order])
        yield (
            words(begun[-1][0]) if is_beginning else NONE,
            words(begun[-1][1]) if is_beginning else NONE,
            tasks if is_beginning else array("I"),
            words(np.concatenate(roots)) if roots else NONE,
            words(np.concatenate(values)) if values else NONE,
        )


def filled(pending: int, ledger: Ledger) -> Iterator[float]:
    """Begin ``pending`` trees, 4,096 at a time; yield the CPU seconds of each batch."""
    rng, size = np.random.default_rng(2), 4096
    tasks = array("I", [SPOUT_TASKS + 1]) * size
    for number in range(pending // size):
        roots, values = words(ids(rng, size)), words(ids(rng, size))
        before_s = time.process_time()
        ledger.apply(roots, values, tasks, NONE, NONE, NONE, NONE, number / 1000)
        yield time.process_time() - before_s


def updates_per_s(count: int, acks: int, batch: int, window: int, pending: int = 0) -> float:
    """Return the updates per second of the median round that is full of every kind.

    Raises:
        WrongResultError: not every tree was acked.
    """
    ledger, took_s, acked = Ledger(hash_key=KEY), [], 0
    for _ in filled(pending, ledger):
        pass
    before = len(ledger)
    for number, work in enumerate(rounds(count, acks, batch, window)):
        before_s = time.process_time()
        verdicts = ledger.apply(*work, NONE, NONE, 1e6 + number / 1000)
        if len(work[0]) == batch and len(work[3]) == acks * batch:
            took_s.append(time.process_time() - before_s)
        acked += sum(map(len, verdicts.acked.values()))
    if acked != count * batch or len(ledger) != before:
        raise _cli.WrongResultError(f"{acked} of {count * batch} trees were acked, {len(ledger) - before} are left")
    return batch * (1 + acks) / statistics.median(took_s)


def small_batch_us(updates: int) -> float:
    """Return the microseconds of one ``apply`` of ``updates`` updates: a quarter inits, the others acks of three."""
    inits = max(1, updates // 4)
    ledger = Ledger(hash_key=KEY)
    works = list(rounds(max(2000, 30_000 // inits), 3, inits, 10_000))
    if updates == 1:
        nothing = array("I")
        works = [part for work in works for part in ((*work[:3], NONE, NONE), (NONE, NONE, nothing, *work[3:]))]
    before_s = time.process_time()
    applied = 0
    for work in works:
        applied += len(work[0]) + len(work[3])
        ledger.apply(*work, NONE, NONE, 0.0)
    return (time.process_time() - before_s) / applied * updates * 1e6


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def memory(pending: int) -> dict[str, float]:
    """Return the memory cost of ``pending`` trees in this process, which holds nothing else."""
    ledger = Ledger(hash_key=KEY)
    for _ in filled(8192, Ledger()):
        pass  # allocates everything that is allocated only once
    before = resident_bytes()
    highest, computed, longest_s = 0.0, 0.0, 0.0
    for took_s in filled(pending, ledger):
        longest_s = max(longest_s, took_s)
        if len(ledger) > pending // 2:
            highest = max(highest, (resident_bytes() - before) / len(ledger))
            computed = max(computed, ledger.bytes_held / len(ledger))
    figures = {
        "bytes_per_tree": round((resident_bytes() - before) / len(ledger), 1),
        "bytes_per_tree_computed": round(ledger.bytes_held / len(ledger), 1),
        "bytes_per_tree_highest": round(highest, 1),
        "bytes_per_tree_computed_highest": round(computed, 1),
        "bytes_per_tree_of_peak": round((peak_rss_mb([os.getpid()]) * 1024**2 - before) / len(ledger), 1),
        "longest_insert_ms": round(longest_s * 1e3, 1),
    }
    steps = [0.0]
    for _ in range(2):
        ledger.rotate(0.0)
    rotation = ledger.rotation(0.0)
    while True:
        before_s = time.process_time()
        if next(rotation, None) is None:
            break
        steps.append(time.process_time() - before_s)
    return {**figures, "longest_rotation_step_ms": round(max(steps) * 1e3, 1), "rotation_s": round(sum(steps), 2)}


def halves(sizes: Sequence[int]) -> dict[str, Any]:
    """Return the microseconds of small batches by each half of the rules alone, in turns: the medians of five."""
    limits = {"loops": sys.maxsize, "arrays": 0}
    took = {(size, half): list[float]() for size in sizes for half in limits}
    for _ in range(5):
        for (size, half), found in took.items():
            rules._MIN_ARRAY_UPDATES, rules._MIN_ARRAY_ENTRIES = limits[half], 0
            found.append(small_batch_us(size))
    return {f"apply_{size}_{half}_us": round(statistics.median(found), 1) for (size, half), found in took.items()}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, or the halves."""
    if arguments.halves:
        return halves(SIZES)
    count, batch, window = arguments.rounds, arguments.batch, arguments.window
    numbers = [int(number) for number in arguments.pending.split(",")]
    result: dict[str, Any] = {
        "updates_per_s": round(updates_per_s(count, 3, batch, window)),
        "updates_per_s_1_ack": round(updates_per_s(count, 1, batch, window)),
        "updates_per_s_8_acks": round(updates_per_s(count // 2, 8, batch, window)),
        "updates_per_s_batches_of_1024": round(updates_per_s(count * 2, 3, 1024, window)),
        "updates_per_s_many_pending": round(updates_per_s(count // 2, 3, batch, window, max(numbers))),
    }
    result |= {f"apply_{updates}_us": round(small_batch_us(updates), 1) for updates in SIZES}
    for number in numbers:
        command = [sys.executable, "-m", "bench.ledger", "--only-memory", str(number)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        result |= {f"{name}_{number}": value for name, value in json.loads(told.stdout).items()}
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--batch", type=int, default=8192, help="trees that begin in a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--window", type=int, default=50_000, help="trees pending (%(default)s)")
    parser.add_argument("--halves", action="store_true", help="measure the two halves of the rules, in turns")
    parser.add_argument("--pending", default="1000000,10000000", help="trees in each memory run (%(default)s)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only-memory"]:
        print(json.dumps(memory(int(sys.argv[2]))))
        sys.exit(0)
    sys.exit(_cli.run("ledger", __doc__, add_arguments, measure))
