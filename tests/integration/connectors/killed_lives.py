"""Owners of one table that commit numbered transactions, and whose processes are killed at any moment."""

from __future__ import annotations

import contextlib
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence

from tupletree.connectors.transactional_sink import TransactionalSink

LIFE = """
import pickle, sys
from tupletree.attempt import TransactionAttempt
sink, owner, first, last = pickle.load(sys.stdin.buffer)
sink.open(owner)
for txid in range(first, last + 1):
    print(txid, flush=True)
    sink.commit(TransactionAttempt(txid, 1), [(owner, txid), (owner, -txid)])
print("end", flush=True)
"""


class Life:
    """A process that commits from a transaction on. ``begun``: the last transaction that it was seen to begin."""

    def __init__(self, sink: TransactionalSink, owner: str, first: int, last: int) -> None:
        self.begun = first
        self.process = subprocess.Popen(
            [sys.executable, "-c", LIFE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
        )
        assert self.process.stdin is not None
        pickle.dump((sink, owner, first, last), self.process.stdin)
        self.process.stdin.close()

    def follow(self, until: int | None = None) -> None:
        """Read what the process begins, until a transaction begins, or to the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line != b"end\n":
                self.begun = int(line)
            if self.begun == until:
                return

    def kill(self, after_s: float) -> None:
        """Kill the process after a time, and read what it has begun by then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(after_s)
        self.process.kill()
        self.follow()
        self.process.wait(30)


def kill_lives(sinks: Sequence[TransactionalSink], *, transactions: int, kills: int) -> list[tuple[str, int]]:
    """Have an owner for each sink commit, at the same time; kill the first ``kills`` lives of each. Return the rows.

    The next life begins with the last transaction that the life before has begun, as a task does.
    """
    chosen = random.Random(1)
    lives = [Life(sink, f"owner {index}", 1, transactions) for index, sink in enumerate(sinks)]
    try:
        for _ in range(kills):
            for index, (sink, life) in enumerate(zip(sinks, lives, strict=True)):
                life.follow(min(transactions, life.begun + chosen.randint(1, transactions // kills)))
                life.kill(chosen.uniform(0, 0.05))
                lives[index] = Life(sink, f"owner {index}", life.begun, transactions)
        for life in lives:
            life.follow()
            assert life.process.wait(60) == 0
            assert life.begun == transactions
    finally:
        for life in lives:
            life.process.kill()
            life.process.wait(30)
    every = range(1, transactions + 1)
    return [(f"owner {index}", sign * txid) for index in range(len(sinks)) for txid in every for sign in (1, -1)]
