"""Make the archive of Spark's classes described in class_archive.py, once per environment.

python -m tupletree.spark.prepare          takes half a minute; ``make setup`` runs this
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tupletree import _class_archive
from tupletree.spark import session
from tupletree.spark.class_archive import archive
from tupletree.spark.sources.text import TextFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = "words of a text whose every line is a row\n" * 1000

END_S = 120.0
"""Maximum time for a JVM to write the archive when it exits."""


def make(path: Path) -> None:
    """Run a job like those of a pipeline, and have its JVM archive the classes that it loaded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        partial, text = Path(directory, path.name), Path(directory, "text")
        text.write_text(TEXT)
        options = " ".join([*_class_archive.making(partial), session.LOG_OPTION])
        spark = session.acquire({"spark.master": "local[2]", "spark.driver.defaultJavaOptions": options})
        gateway: Any = spark.sparkContext._gateway
        try:
            _run(spark, TextFiles(text), [str(text), 0, len(TEXT)])
        finally:
            session.release()
            gateway.shutdown()
            gateway.proc.stdin.close()
            status = gateway.proc.wait(END_S)
        if status != 0:
            raise OSError(f"Java ended with status {status}")
        _class_archive.keep(partial, path, "spark-*.jsa")


def _run(spark: SparkSession, source: TextFiles, split: list[object]) -> None:
    import pyspark.sql.functions as F
    from pyspark.sql import Observation

    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "archive")
    frame = source.dataframe(spark, [split]).observe(Observation(), F.count(F.lit(1)).alias("rows"))
    words = frame.select(F.explode(F.split(F.lower("value"), " ")).alias("word")).where("word != ''")
    words.groupBy("word").count().toArrow()


def main() -> int:
    """Make the archive if there is none. Exit status 1 if that fails; Spark then starts without the archive."""
    path = archive()
    if path is None:
        print("No Java was found: set JAVA_HOME, or add java to the PATH.", file=sys.stderr)
        return 1
    if path.exists():
        return 0
    print(f"preparing Spark's classes for faster starts, in {path.parent}", flush=True)
    try:
        make(path)
    except Exception as error:
        print(f"Spark's classes could not be archived, so Spark starts more slowly: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
