"""Exactly-once word counts on a cluster of this machine, with kill -9 every few seconds, compared with the truth.

transactions: examples/transactional_words.py; random workers, ackers, supervisors and nimbuses are killed, ZooKeeper
once. pipeline: examples/spark_word_count.py; the kills hit the worker that drives Spark, Spark's JVM, a Python worker
that runs a task, an acker, or the leading nimbus.

The exit status is 0 only if exactly-once held.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.crashes.pipeline import Run as PipelineRun
from bench.crashes.run import Run, Story
from bench.crashes.transactions import Run as TransactionsRun
from examples.demo.screen import Screen
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster

MakeRun = Callable[[DevCluster, Screen, Path, int, float], Run[Any]]
"""(cluster, screen, directory, seed, lines per second) -> run."""

RUNS: dict[str, tuple[MakeRun, float]] = {"transactions": (TransactionsRun, 2_000), "pipeline": (PipelineRun, 800)}
"""The runs by name, each with its default of lines per second."""


def main() -> int:
    """Parse arguments, play a run on a cluster, print the result, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.crashes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("--seconds", type=float, default=60, help="duration of the kills (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="determines the kills (%(default)s)")
    parser.add_argument("--rate", type=float, help="lines written per second (transactions 2000, pipeline 800)")
    parser.add_argument("--directory", type=Path, help="keep lines and databases in this new directory")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object; progress to stderr")
    arguments = parser.parse_args()
    make_run, rate = RUNS[arguments.run]
    arguments.rate = rate if arguments.rate is None else arguments.rate
    if arguments.seconds <= 0 or arguments.rate <= 0:
        parser.error("--seconds and --rate must be more than 0")
    if arguments.directory is not None and arguments.directory.exists():
        parser.error(f"--directory: {arguments.directory} exists already")
    logging.getLogger().addHandler(logging.NullHandler())  # ZooKeeper's absence is expected here
    try:
        story = play(arguments, make_run)
    except (TupletreeError, TimeoutError) as error:
        print(f"{arguments.run}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(story.as_json()) if arguments.json else summary(story))
    return 0 if story.held else 1


def play(arguments: argparse.Namespace, make_run: MakeRun) -> Story:
    """Start a cluster, play the run, and stop the cluster."""
    with Screen(plain=True, errors=arguments.json) as screen:
        screen.note("starting ZooKeeper, 2 nimbuses, 2 supervisors and 2 ackers on free ports of this machine")
        with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as cluster:
            screen.note(f"the cluster is up, in {cluster.directory}")
            directory = (arguments.directory or Path(cluster.directory, "kept")).absolute()
            return make_run(cluster, screen, directory, arguments.seed, arguments.rate).run(arguments.seconds)


def summary(story: Story) -> str:
    """Return the comparison with the truth, in words."""
    judgement = story.judgement
    kills = ", ".join(f"{role} {count}" for role, count in sorted(story.kills.items()))
    return "\n".join(
        [
            "",
            f"{judgement.lines:,} lines, {judgement.words:,} words, {judgement.distinct:,} different words",
            f"{story.batches:,} transactions committed, about {story.replays:,} batches replayed",
            f"kill -9: {kills}; the longest time without a commit was {story.longest_stall_s:.1f} s",
            *(f"FAULT: {fault}" for fault in judgement.faults),
            *([] if story.finished else ["FAULT: not everything was committed in time"]),
            f"exactly once: {'HELD' if story.held else 'NOT HELD'}",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
