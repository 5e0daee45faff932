"""A process that checkpoints a state as fast as it can, and what the state must be at each checkpoint.

    python checkpointing_writer.py PROVIDER CONFIG [PREPARED]

It prints ``prepared T`` and ``committed T`` after each. With PREPARED it waits, forever, when that is prepared.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

KEYS = 3_000


def changes_of(txid: int) -> dict[int, int | None]:
    """What changes before checkpoint ``txid``; None: is deleted."""
    return {number: txid if (number + txid) % 4 else None for number in range(txid % 5, KEYS, 5)}


def expected_at(txid: int) -> dict[int, int]:
    """The whole state at a checkpoint."""
    state: dict[int, int | None] = {}
    for one in range(1, txid + 1):
        state.update(changes_of(one))
    return {key: value for key, value in state.items() if value is not None}


def main(provider: str, config: str, until: str = "0") -> None:
    from state_places import NAMESPACE, context_of

    from tupletree import config as configuration
    from tupletree.state.providers import open_state

    conf: dict[str, Any] = configuration.defaults() | {
        "topology.state.provider": provider,
        "topology.state.provider.config": json.loads(config),
    }
    _, state = open_state(NAMESPACE, conf, context_of(conf))
    txid = state.committed or 0
    while True:
        txid += 1
        for key, value in changes_of(txid).items():
            if value is None:
                state.delete(key)
            else:
                state.put(key, value)
        state.prepare_commit(txid)
        print("prepared", txid, flush=True)
        if txid == int(until):
            state.put("live", 1)
            threading.Event().wait()
        state.commit(txid)
        print("committed", txid, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
