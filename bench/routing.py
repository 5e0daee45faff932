"""Routing alone: decisions per second of each grouping. One process, no network.

    python -m bench.routing --rows 100000 --targets 8 --json

A decision is one call of a prepared grouping with the values of a tuple: words by Zipf's law from a vocabulary of
10,000. In *fields_new* every row has a different word, so that no key is remembered. ``nothing`` measures the loop
itself, with a function that does nothing: its time is part of all other rates. Rates are by processor time, the median
of ``--repeats`` passes. Fields groupings must send equal words to equal targets, shuffle must be even, and every
decision must name existing targets; else the exit status is 1.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from bench import _cli
from bench._cli import WrongResultError
from bench._words import sentences
from tupletree.worker.core import routing

SEED = 20_260_104
Choose = Callable[[Sequence[Any]], Any]


def rows(count: int) -> list[list[Any]]:
    """Return rows of one word."""
    drawn = [word for sentence in sentences(count // 6 + 1) for word in sentence.split()]
    return [[word] for word in drawn[:count]]


def choosers(targets: Sequence[int]) -> dict[str, Choose]:
    """Return each grouping, prepared for one emitting task."""
    fields = (targets, [0], "split", ["word"])
    return {
        "nothing": lambda values: targets[0],
        "shuffle": routing.shuffle(targets, random.Random(SEED)).choose,
        "fields": routing.fields(*fields).choose,
        "fields_new": routing.fields(*fields).choose,
        "partial_key": routing.partial_key(*fields).choose,
        "global": routing.global_(targets).choose,
        "all": routing.all_(targets),
        "custom": routing.custom(
            lambda task, values: (targets[len(values[0]) % len(targets)],),
            1,
            {target: target for target in targets},
            "split",
            "default",
        ),
    }


def check(name: str, choose: Choose, given: Sequence[list[Any]], targets: Sequence[int]) -> None:
    """Check the choices of a grouping.

    Raises:
        WrongResultError: a choice is wrong.
    """
    chosen = [choose(values) for values in given]
    known = set(targets)
    if name in ("all", "custom"):
        is_right = all(set(some) <= known for some in chosen)
    elif name.startswith("fields"):
        pairs = {(values[0], target) for values, target in zip(given, chosen, strict=True)}
        is_right = len(pairs) == len({values[0] for values in given})
    elif name == "shuffle":
        counts = Counter(chosen)
        is_right = max(counts.values()) - min(counts.values()) <= 1 and set(counts) == known
    else:
        is_right = set(chosen) <= known
    if not is_right:
        raise WrongResultError(f"the {name} grouping chose wrong targets")


def per_s(choose: Choose, given: Sequence[list[Any]], repeats: int) -> int:
    """Return the decisions per second of CPU time, in the median pass."""
    spent = []
    for _ in range(repeats):
        before_s = time.process_time_ns()
        for values in given:
            choose(values)
        spent.append(time.process_time_ns() - before_s)
    return round(1e9 * len(given) / statistics.median(spent))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure each grouping in turn."""
    targets = list(range(2, 2 + arguments.targets))
    words = rows(arguments.rows)
    # Twice as many keys as are remembered, so that no key is ever found.
    new = [[f"key{number}"] for number in range(2 * routing.KEYS_REMEMBERED)]
    result = {}
    for name, choose in choosers(targets).items():
        given = new if name == "fields_new" else words
        check(name, choose, given[: len(given) // len(targets) * len(targets)], targets)
        result[f"{name}_per_s"] = per_s(choose, given, arguments.repeats)
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--rows", type=int, default=100_000, help="decisions in a pass (%(default)s)")
    parser.add_argument("--targets", type=int, default=8, help="receiving tasks (%(default)s)")
    parser.add_argument("--repeats", type=int, default=7)


if __name__ == "__main__":
    sys.exit(_cli.run("routing", __doc__, add_arguments, measure))
