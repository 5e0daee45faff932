"""Command line of the example. Exit status 0 only if exactly-once held."""

from __future__ import annotations

from examples.pipelines.run import Run
from examples.transactions.main import run_main

RATE = 800  # lines a second


def main() -> int:
    """Run the example and return the exit status."""
    description = (
        "Word count on Spark, on a cluster of this machine, with kill -9 of the worker that drives Spark, Spark's "
        "JVM, a Python worker that runs a task of it, an acker or the leading nimbus every few seconds; then all "
        "counts are compared with the truth."
    )
    return run_main("spark_word_count", description, RATE, Run)
