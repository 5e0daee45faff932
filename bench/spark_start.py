"""The start of Spark for a pipeline: from a fresh process to the first result, and jobs in the steady state.

    python -m bench.spark_start --jvm ours --jobs 80 --json

This process starts the session of a pipeline on a local master, and counts the words of a text as a pipeline would, one
job after the other. Seconds from the beginning: until the session is there (``session_s``) and until the first job has
its result (``first_result_s``); ``…_cpu_s`` is the processor time of this process, Spark's JVM and its Python workers
until then, which other users of the machine move less. ``job_cpu_ms`` is the median of the processor time of a job in
the last quarter of the jobs, when the JVM has compiled what it will.

``--jvm ours`` is what a pipeline gets, ``plain`` is the JVM's own choice of when to compile.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import _cli
from bench._processes import family_cpu_s
from tupletree.spark import class_archive, session
from tupletree.spark.sources.text import TextFiles

PLAIN = f"{session.LOG_OPTION} {class_archive.options()}".rstrip()


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Start Spark here and run all jobs. Raises ValueError if a count is wrong."""
    began_s, began_cpu_s = time.perf_counter(), family_cpu_s()
    own = {"spark.driver.defaultJavaOptions": PLAIN} if arguments.jvm == "plain" else {}
    result: dict[str, Any] = {}

    def note(name: str) -> None:
        result[f"{name}_s"] = round(time.perf_counter() - began_s, 2)
        result[f"{name}_cpu_s"] = round(family_cpu_s() - began_cpu_s, 2)

    lines = [f"word{number % 997} and word{number % 31}" for number in range(arguments.lines)]
    truth = Counter(word for line in lines for word in line.split())
    with tempfile.TemporaryDirectory(prefix="bench-spark-start-") as directory:
        text = Path(directory, "text")
        text.write_text("\n".join(lines) + "\n")
        spark = session.acquire({"spark.master": f"local[{arguments.cores}]", **own})
        try:
            note("session")
            costs = []
            for number in range(arguments.jobs):
                before_s = family_cpu_s()
                counted = count(spark, text)
                costs.append(family_cpu_s() - before_s)
                if counted != truth:
                    raise ValueError(f"job {number} counted {counted.total()} words, not {truth.total()}")
                if number == 0:
                    note("first_result")
        finally:
            session.release()
    result["job_cpu_ms"] = round(1000 * statistics.median(costs[-max(1, len(costs) // 4) :]), 1)
    return result


def count(spark: Any, text: Path) -> Counter[str]:
    """Count the words of a file, read as by a pipeline."""
    import pyspark.sql.functions as F

    frame = TextFiles(text).dataframe(spark, [[str(text), 0, text.stat().st_size]])
    words = frame.select(F.explode(F.split(F.lower("value"), " ")).alias("word")).where("word != ''")
    table = words.groupBy("word").count().toArrow().to_pydict()
    return Counter(dict(zip(table["word"], table["count"], strict=True)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--jvm", choices=("ours", "plain"), default="ours")
    parser.add_argument("--jobs", type=int, default=80, help="jobs, one after the other (%(default)s)")
    parser.add_argument("--lines", type=int, default=100_000, help="lines of the text (%(default)s)")
    parser.add_argument("--cores", type=int, default=2, help="cores of the local master (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("spark_start", __doc__, add_arguments, measure))
