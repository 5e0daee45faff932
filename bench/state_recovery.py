"""Checkpoints of a state in a shared directory, and its recovery after kill -9, by the size of the state.

    python -m bench.state_recovery --keys 10000000 --value-bytes 100 --changed 0.01 --checkpoints 10 --json

A process fills a state of ``--keys`` values of the provider rocksdb, and then puts the share ``--changed`` of them
before each of ``--checkpoints`` checkpoints. ``checkpoint_ms`` is the median of prepare and commit,
``checkpoint_bytes`` of what one writes to the shared directory, ``change_bytes`` of what its changes have, encoded.
The process is killed while a checkpoint is prepared.

``here_s``: until another process has opened the state on the same machine, has committed that checkpoint and has read a
value. ``elsewhere_s``: the same on a machine without a copy, where values are read from the shared directory at first,
``get_shared_us`` the time of such a read, and ``copied_s``: until the copy is there. ``state_bytes``: the size of the
segments, ``copy_bytes`` that of the copy, ``cache_entries`` how many values the task keeps in memory.

Run it with several sizes: the checkpoint and ``here_s`` should go with the change, and ``copied_s`` with the size.
The recovered state must hold the values that were put, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from tupletree.state.buffered import BufferedState
from tupletree.state.rocksdb.backend import RocksDBBackend

SEED: Final = 20_261_129
NAMESPACE: Final = "bench/count/0"
PIECE: Final = 200_000
CACHE_ENTRIES: Final = 100_000
PROBES: Final = 200

State = BufferedState[str, bytes]


def key_of(number: int) -> str:
    return f"key-{number:012}"


def value_of(number: int, txid: int, size: int) -> bytes:
    """Return the value that is put before a checkpoint: it cannot be compressed."""
    return random.Random(number * 1_000_003 + txid).randbytes(size)


def opened(place: Path, machine: str) -> tuple[State, RocksDBBackend]:
    """Open the state on a machine."""
    backend = RocksDBBackend(NAMESPACE, str(place / machine), str(place / "shared"))
    return BufferedState(NAMESPACE, backend, cache_entries=CACHE_ENTRIES), backend


def write(place: Path, arguments: argparse.Namespace, teller: Connection) -> None:
    """Fill the state, checkpoint it, tell the figures, and wait to be killed while a checkpoint is prepared."""
    state, backend = opened(place, "here")
    txid = 0
    for begin in range(0, arguments.keys, PIECE):
        for number in range(begin, min(arguments.keys, begin + PIECE)):
            state.put(key_of(number), value_of(number, 0, arguments.value_bytes))
        txid += 1
        state.prepare_commit(txid)
        state.commit(txid)
    backend._merger.wait()
    rng = random.Random(SEED)
    last: dict[int, int] = {}
    times: list[float] = []
    sizes: list[int] = []
    for _ in range(arguments.checkpoints + 1):
        txid += 1
        changed = rng.sample(range(arguments.keys), max(1, int(arguments.keys * arguments.changed)))
        for number in changed:
            state.put(key_of(number), value_of(number, txid, arguments.value_bytes))
            last[number] = txid
        began_s = time.perf_counter()
        state.prepare_commit(txid)
        prepared = backend._shared.manifest.prepared
        sizes.append(0 if prepared is None else prepared.size)
        if len(times) == arguments.checkpoints:
            break
        state.commit(txid)
        times.append((time.perf_counter() - began_s) * 1e3)
    probes = {number: last[number] for number in rng.sample(sorted(last), min(PROBES, len(last)))}
    entry_bytes = len(key_of(0)) + 1 + arguments.value_bytes + 2
    figures = {
        "checkpoint_ms": round(statistics.median(times), 1),
        "checkpoint_max_ms": round(max(times), 1),
        "checkpoint_bytes": int(statistics.median(sizes)),
        "change_bytes": len(changed) * entry_bytes,
    }
    teller.send((figures, probes, txid))
    signal.pause()


def recovery(place: Path, machine: str, probes: dict[int, int], txid: int, value_bytes: int) -> tuple[float, ...]:
    """Recover the state on a machine.

    Return the seconds until the first value is read, the microseconds of each further one, and the seconds until the
    copy is there.

    Raises:
        WrongResultError: a value is not the one that was put last.
    """
    began_s = time.perf_counter()
    state, backend = opened(place, machine)
    if state.committed != txid:
        state.commit(txid)
    numbers = iter(probes)
    first = next(numbers)
    found = {first: state.get(key_of(first))}
    first_s = time.perf_counter() - began_s
    found.update({number: state.get(key_of(number)) for number in numbers})
    get_us = (time.perf_counter() - began_s - first_s) * 1e6 / max(1, len(found) - 1)
    if backend._copying is not None:
        backend._copying.wait()
    copied_s = time.perf_counter() - began_s
    state.close()
    if any(found[number] != value_of(number, last, value_bytes) for number, last in probes.items()):
        raise WrongResultError("the recovered state does not hold the values that were put")
    return round(first_s, 3), round(get_us), round(copied_s, 3)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one size.

    Raises:
        WrongResultError: a value is not the one that was put last.
    """
    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        place = Path(folder)
        (place / "shared").mkdir()
        spawn = multiprocessing.get_context("spawn")
        told, teller = spawn.Pipe(duplex=False)
        process = spawn.Process(target=write, args=(place, arguments, teller), daemon=True)
        process.start()
        teller.close()
        try:
            figures, probes, txid = told.recv()
        except EOFError:
            raise WrongResultError("the writing process has ended") from None
        finally:
            process.kill()
            process.join()
        here_s, get_us, _ = recovery(place, "here", probes, txid, arguments.value_bytes)
        elsewhere_s, shared_us, copied_s = recovery(place, "elsewhere", probes, txid, arguments.value_bytes)
        return {
            **figures,
            "here_s": here_s,
            "get_us": get_us,
            "elsewhere_s": elsewhere_s,
            "get_shared_us": shared_us,
            "copied_s": copied_s,
            "state_bytes": size_of(place / "shared"),
            "copy_bytes": size_of(place / "here"),
            "cache_entries": CACHE_ENTRIES,
        }


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys in the state (%(default)s)")
    parser.add_argument("--value-bytes", type=int, default=100, help="bytes of a value (%(default)s)")
    parser.add_argument("--changed", type=float, default=0.01, help="share that changes before each (%(default)s)")
    parser.add_argument("--checkpoints", type=int, default=10, help="checkpoints of changes (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("state_recovery", __doc__, add_arguments, measure))
