"""A process that opens a state again and again, beside others, and counts in it.

    python racing_writers.py CONFIG COMMITS

Each commit adds 1 to what was committed before. It prints how many commits succeeded, and how many possibly did.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing, suppress

from tupletree.errors import TupletreeError


def main(config: str, commits: str) -> None:
    from state_places import NAMESPACE, context_of

    from tupletree.state import RocksDBStateProvider

    provider = RocksDBStateProvider()
    done = possibly = 0
    while done < int(commits):
        with (
            suppress(TupletreeError),
            closing(provider.new_state(NAMESPACE, json.loads(config), context_of({}))) as state,
        ):
            if state.prepared is not None:
                state.rollback()
            while done < int(commits):
                state.add("count", 1)
                txid = (state.committed or 0) + 1
                state.prepare_commit(txid)
                possibly += 1
                state.commit(txid)
                possibly -= 1
                done += 1
    print(done, possibly)


if __name__ == "__main__":
    main(*sys.argv[1:])
