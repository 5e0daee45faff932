"""The same programs on Tupletree and on other stream processors, in one run.

    python -m bench.peers setup [--only bytewax,pathway]
    python -m bench.peers --rounds 5 --sentences 300000 --json [--record] [--only bytewax,pathway]
    python -m bench.peers --table streams --rounds 5

--table says what is compared: the word count (words), the word count by tupletree.streams (streams), the word count
with more tasks and workers than cores (tasks), a chain of map, filter and map (chain), keyed sliding windows
(windows), or bolts of pystorm in the worker and in Storm's processes (pystorm). In each round every configuration runs
once. Figures are medians over the rounds. A ratio is the speed-up of the table's base, which is always included: of
words, tupletree-2 (two workers, one acker, every sentence tracked).
README.md beside this file says what is timed. The exit status is 1 if a configuration failed or counted wrong. A peer
that is not installed is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench._record import record
from bench.peers import environments, report
from bench.peers.comparison import Comparison, compare
from bench.peers.environments import UnavailableError
from bench.peers.rows import PEERS, TABLES, UnknownRowError, chosen


def main(argv: Sequence[str]) -> int:
    """Set up, or measure and print; return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        table = TABLES[arguments.table]
        rows = chosen(arguments.only, table)
    except UnknownRowError as error:
        parser.error(str(error))
    venvs = arguments.venvs.expanduser().absolute()
    if arguments.command == "setup":
        return set_up(venvs, [peer for peer in PEERS if any(row.peer == peer for row in rows)])
    plan = Comparison(arguments.rounds, arguments.sentences, venvs, arguments.timeout, table.base)
    result = compare(rows, plan, lambda line: print(line, file=sys.stderr, flush=True))
    if arguments.record:
        config = {"rounds": plan.rounds, "sentences": plan.sentences, "rows": [row.name for row in rows]}
        record(table.record, config, result)
    print(json.dumps(result) if arguments.json else report.table(result))
    return 0 if all(row["exact"] for row in result["rows"].values()) else 1


def set_up(venvs: Path, peers: Sequence[str]) -> int:
    """Make the environments of these peers. Return 1 if one is unavailable; the others are still made."""
    status = 0
    for peer in peers:
        try:
            environments.set_up(venvs, peer)
            print(f"{peer}: ready", flush=True)
        except UnavailableError as error:
            print(f"{peer}: not available: {error}", flush=True)
            status = 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", choices=("run", "setup"), default="run")
    parser.add_argument("--table", choices=TABLES, default="words", help="what is compared (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--only", type=lambda names: names.split(","), default=[], help="comma-separated peers or rows")
    parser.add_argument("--venvs", type=Path, default=environments.DEFAULT, help="the environments' folder")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a run fails")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--record", action="store_true", help="keep the result in bench/results/")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
