"""The move of a state in a shared directory to another number of tasks: its time and the memory of the process.

    python -m bench.state_division --keys 10000000 --value-bytes 1000 --before 4 --after 6 --json

The states of ``--before`` tasks of the provider rocksdb are filled with ``--keys`` values in all, a hundredth of which
then changes once more. Another process moves them to ``--after`` tasks, as the worker of the checkpoint spout does:
``move_s``. ``base_mb`` is the memory of this process before the move, ``peak_mb`` its largest during the move.
``first_s``: until a new task, on a machine without a copy, has opened its state and read a value; ``get_shared_us``:
the time of each further read; ``copied_s``: until the copy is there. ``state_bytes``: the size of the segments.

Run it with several sizes: ``peak_mb`` should stay. Each value must be at its task, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._processes import peak_rss_mb
from bench.state_recovery import PROBES, SEED, key_of, size_of, value_of
from tupletree import StatefulBolt, config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint
from tupletree._wire.codec import decode_value, encode_value
from tupletree._wire.value_hash import hash_values
from tupletree.context import TopologyContext
from tupletree.state.buffered import BufferedState
from tupletree.state.rocksdb.backend import RocksDBBackend
from tupletree.state.rocksdb.bulk import SharedBulkState
from tupletree.state.rocksdb.directory_store import DirectoryStore
from tupletree.state.rocksdb.shared import SharedWriter
from tupletree.worker.checkpoint.contents import Part
from tupletree.worker.checkpoint.redistribution import names_of, redistribute

ID: Final = "bench"
COMPONENT: Final = "count"
TXID: Final = 2
PIECE: Final = 100_000

Entry = tuple[bytes, bytes]


class Count(StatefulBolt):
    """A bolt whose keys are those of its grouping."""

    is_divisible = True


def entries_of(numbers: range | list[int], txid: int, arguments: argparse.Namespace) -> list[list[Entry]]:
    """Return the entries of some keys for each task of before."""
    entries: list[list[Entry]] = [[] for _ in range(arguments.before)]
    for number in numbers:
        key, value = key_of(number), value_of(number, txid, arguments.value_bytes)
        entries[owner(key, arguments.before)].append((encode_value(key), encode_value(value)))
    return entries


def owner(key: str, tasks: int) -> int:
    return hash_values([key], COMPONENT, ["key"]) % tasks


def fill(shared: Path, arguments: argparse.Namespace) -> list[int]:
    """Fill the states of the tasks of before; return the numbers of the keys that have changed since."""
    names = names_of(ID, COMPONENT, arguments.before, 0)
    states = [SharedBulkState(name, DirectoryStore(str(shared))) for name in names]
    for begin in range(0, arguments.keys, PIECE):
        pieces = entries_of(range(begin, min(arguments.keys, begin + PIECE)), 1, arguments)
        for state, piece in zip(states, pieces, strict=True):
            state.add(piece)
    for state in states:
        state.fill(1)
    changed = sorted(random.Random(SEED).sample(range(arguments.keys), max(1, arguments.keys // 100)))
    for name, changes in zip(names, entries_of(changed, TXID, arguments), strict=True):
        writer = SharedWriter(name, DirectoryStore(str(shared)))
        writer.advance(writer.manifest.preparing(writer.write(TXID, changes)))
        writer.advance(writer.manifest.committing())
    return changed


def conf_of(place: Path) -> dict[str, Any]:
    """Return the configuration of the topology."""
    shared, copies = str(place / "shared"), str(place / "copies")
    return config.defaults() | {
        "topology.state.provider": "rocksdb",
        "topology.state.provider.config": {"shared": shared, "directory": copies},
    }


def move(place: Path, arguments: argparse.Namespace, teller: Connection) -> None:
    """Move the states, and tell the seconds and the memory."""
    tasks = list(range(1, arguments.after + 1))
    context = TopologyContext(
        topology_id=ID,
        component_id=COMPONENT,
        task_id=1,
        tasks={COMPONENT: tasks},
        sources={},
        targets={},
        conf=conf_of(place),
    )
    part = Part(Count(), context, [["key"]])
    stored = Checkpoint(TXID, Phase.COMMITTED, {COMPONENT: arguments.before}, 1)
    base_mb, began_s = peak_rss_mb([os.getpid()]), time.perf_counter()
    redistribute(lambda id: part, ID, stored, {COMPONENT: arguments.after})
    moved_s = time.perf_counter() - began_s
    figures = {"move_s": moved_s, "base_mb": base_mb, "peak_mb": peak_rss_mb([os.getpid()])}
    teller.send({name: round(figure, 1) for name, figure in figures.items()})


def first_values(place: Path, changed: list[int], arguments: argparse.Namespace) -> dict[str, Any]:
    """Open the state of a new task on a machine without a copy, and read values. Raises WrongResultError."""
    name = names_of(ID, COMPONENT, arguments.after, TXID)[0]
    numbers = random.Random(SEED).sample(range(arguments.keys), min(arguments.keys, PROBES * arguments.after))
    own = [number for number in numbers if owner(key_of(number), arguments.after) == 0]
    began_s = time.perf_counter()
    backend = RocksDBBackend(name, str(place / "copies"), str(place / "shared"))
    state: BufferedState[str, bytes] = BufferedState(name, backend)
    found = [state.get(key_of(own[0]))]
    first_s = time.perf_counter() - began_s
    found += [state.get(key_of(number)) for number in own[1:]]
    get_us = (time.perf_counter() - began_s - first_s) * 1e6 / max(1, len(own) - 1)
    if backend._copying is not None:
        backend._copying.wait()
    copied_s = time.perf_counter() - began_s
    state.close()
    newer = set(changed)
    expected = [value_of(number, 1 + (number in newer), arguments.value_bytes) for number in own]
    if found != expected:
        raise WrongResultError("a new task does not have the values that were put")
    return {"first_s": round(first_s, 3), "get_shared_us": round(get_us), "copied_s": round(copied_s, 1)}


def check(shared: Path, arguments: argparse.Namespace) -> None:
    """Raise WrongResultError unless each key is at its task, and nowhere else."""

    count = 0
    for index, name in enumerate(names_of(ID, COMPONENT, arguments.after, TXID)):
        for page in SharedBulkState(name, DirectoryStore(str(shared))).scan_encoded():
            count += sum(owner(decode_value(key), arguments.after) == index for key, _ in page)
    if count != arguments.keys:
        raise WrongResultError(f"{count:,} keys are at their tasks, not {arguments.keys:,}")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one size.

    Raises:
        WrongResultError: the states do not hold what was put.
    """
    with tempfile.TemporaryDirectory(prefix="bench-division-") as folder:
        place = Path(folder)
        (place / "shared").mkdir()
        changed = fill(place / "shared", arguments)
        state_bytes = size_of(place / "shared")
        spawn = multiprocessing.get_context("spawn")
        told, teller = spawn.Pipe(duplex=False)
        process = spawn.Process(target=move, args=(place, arguments, teller), daemon=True)
        process.start()
        teller.close()
        try:
            figures = told.recv()
        except EOFError:
            raise WrongResultError("the moving process has ended") from None
        finally:
            process.kill()
            process.join()
        figures |= first_values(place, changed, arguments)
        check(place / "shared", arguments)
        return {**figures, "state_bytes": state_bytes}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys in the states (%(default)s)")
    parser.add_argument("--value-bytes", type=int, default=100, help="bytes of a value (%(default)s)")
    parser.add_argument("--before", type=int, default=4, help="tasks before the move (%(default)s)")
    parser.add_argument("--after", type=int, default=6, help="tasks after the move (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("state_division", __doc__, add_arguments, measure))
