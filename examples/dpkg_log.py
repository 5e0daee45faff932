r"""Debian's package manager, by the hour: its actions on each package, counted from its log into an SQLite table.

    tupletree submit examples/dpkg_log.py --name dpkg-log
    LOG=/var/log/dpkg.log DATABASE=/tmp/packages.db tupletree submit examples/dpkg_log.py --name dpkg-log

By default the example reads the log of this machine, including the part already rotated. If the log is missing or
empty, the example generates a log of the same format. A log that still grows is followed:

    2025-06-24 14:36:25 upgrade libsystemd0:amd64 252.36-1~deb12u1 252.38-1~deb12u1
    2025-06-24 14:36:25 status unpacked libsystemd0:amd64 252.38-1~deb12u1

The table has one row per package and hour: the number of actions, the last action and its time. Lines that only report
the state of a package are ignored.
"""

import glob
import os
import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tupletree import Topology
from tupletree.spark import Pipeline
from tupletree.spark.sinks.sql import SqlState
from tupletree.spark.sources.text import TextFiles

ID = "dpkg-log"
TABLE = "packages"
LOG = "/var/log/dpkg.lo*[!z]"  # dpkg.log and dpkg.log.1; compressed logs such as dpkg.log.2.gz are left out
ACTIONS = ["install", "upgrade", "configure", "trigproc", "disappear", "remove", "purge"]
CONF = {"spark.master": "local[2]", "spark.ui.enabled": False, "spark.driver.memory": "1g"}


class PackageLog(Pipeline):
    transactional_id = ID

    def __init__(self, log: str, database: str, max_bytes_per_batch: int | str) -> None:
        self.source = TextFiles(log, max_bytes_per_batch, errors="replace")
        self.state = SqlState(database, TABLE, key=["hour", "package"], add="actions", last={"action": "at"})

    def process(self, batch: DataFrame) -> DataFrame:
        word = F.split("value", " ").getItem  # date, time, action, package:architecture, versions
        lines = batch.select(
            F.concat_ws(" ", word(0), word(1)).alias("at"),
            word(2).alias("action"),
            F.substring_index(word(3), ":", 1).alias("package"),
        ).where(F.col("action").isin(ACTIONS))
        return lines.groupBy(F.substring("at", 1, 13).alias("hour"), "package").agg(
            F.count("*").alias("actions"),
            F.max("at").alias("at"),
            F.max_by("action", "at").alias("action"),
        )


def write_log(file: Path, lines: int, seed: int) -> None:
    """Generate a log of some days. The same seed gives the same log."""
    rng = random.Random(seed)
    packages = [f"{rng.choice(['lib', 'python3-', ''])}{name}" for name in ("apt", "curl", "gcc", "make", "ssl", "xml")]
    at = datetime(2025, 1, 1)
    with file.open("w") as log:
        for _ in range(lines):
            at += timedelta(seconds=rng.expovariate(1 / 60))
            what = rng.choice([*ACTIONS, "status installed", "status unpacked"])
            log.write(f"{at:%Y-%m-%d %H:%M:%S} {what} {rng.choice(packages)}:amd64 {rng.randrange(9)}.1-2 <none>\n")


def topology(
    log: str | None = None, database: str | None = None, max_bytes_per_batch: int | str = "64KB"
) -> tuple[Topology, dict[str, object]]:
    """Count a log (by default this machine's) into a table (by default in a new file); return topology and config."""
    place = Path(tempfile.mkdtemp(prefix=f"{ID}-"))
    log = log or os.environ.get("LOG") or LOG
    if not any(os.path.getsize(file) for file in glob.glob(log)):
        log = str(place / "dpkg.log")
        write_log(Path(log), lines=5_000, seed=1)
    database = database or os.environ.get("DATABASE") or str(place / "packages.db")
    return PackageLog(log, database, max_bytes_per_batch).topology(), dict(CONF)
