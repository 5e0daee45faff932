"""Spark and bolts in one topology: Spark aggregates batches of readings, and alarming rows go on as tuples.

    tupletree submit examples/spark_alerts.py --name spark-alerts

    pipeline:coordinator --batch--> pipeline (Spark) --rows that alarm--> alerts
                                        |                                   |
                                        +--> every sensor, exactly once     +--> a line for each alert

The result of each batch goes into a table, exactly once. The rows that ``emit`` keeps are emitted as tuples to ordinary
bolts, at least once: a batch that fails afterwards is computed and emitted again. So the bolt reports a sensor only
once per minute, as long as the bolt's worker is alive.
"""

import os
import random
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tupletree import BasicBolt, Topology, Tuple
from tupletree.collector import BasicCollector
from tupletree.spark import Pipeline
from tupletree.spark.sinks.sql import SqlState
from tupletree.spark.sources.memory import MemorySource

ID = "spark-alerts"
TABLE = "sensors"
SENSORS = ["attic", "boiler", "cellar", "freezer", "greenhouse"]
MINUTES = 120
LIMIT = 30.0  # degrees
CONF = {"spark.master": "local[2]", "spark.ui.enabled": False, "spark.driver.memory": "1g"}


def readings(seed: int = 1) -> list[list[list[object]]]:
    """Return the readings of each sensor, six per minute: sensor, minute, and degrees that vary randomly."""
    rng = random.Random(seed)
    rows: list[list[list[object]]] = []
    for sensor in SENSORS:
        degrees, own = 20.0, list[list[object]]()
        for number in range(MINUTES * 6):
            degrees += rng.gauss(0, 0.5)
            own.append([sensor, number // 6, round(degrees, 1)])
        rows.append(own)
    return rows


class Sensors(Pipeline):
    transactional_id = ID
    outputs = ["sensor", "minute", "highest"]

    def __init__(self, rows: list[list[list[object]]], database: str) -> None:
        self.source = MemorySource(rows, "sensor STRING, minute BIGINT, degrees DOUBLE", max_rows_per_batch=60)
        self.state = SqlState(database, TABLE, key=["sensor", "minute"], add="readings", min="lowest", max="highest")

    def process(self, batch: DataFrame) -> DataFrame:
        return batch.groupBy("sensor", "minute").agg(
            F.count("*").alias("readings"),
            F.min("degrees").alias("lowest"),
            F.max("degrees").alias("highest"),
        )

    def emit(self, result: DataFrame) -> DataFrame:
        return result.where(F.col("highest") > LIMIT)


class Alerts(BasicBolt):
    """Writes a line for each alert. A real bolt would call somebody."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def setup(self) -> None:
        self.told: set[tuple[str, int]] = set()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        alert = (tup["sensor"], tup["minute"])
        if alert not in self.told:
            self.told.add(alert)
            with self.file.open("a") as file:
                file.write(f"{tup['sensor']}, minute {tup['minute']}: {tup['highest']} degrees\n")


def topology(directory: str | None = None) -> tuple[Topology, dict[str, object]]:
    """Write the table and the alerts to files in ``directory`` (by default a new temporary directory)."""
    place = Path(directory or os.environ.get("DIRECTORY") or tempfile.mkdtemp(prefix=f"{ID}-")).absolute()
    builder = Sensors(readings(), str(place / "sensors.db")).builder()
    builder.set_bolt("alerts", Alerts(place / "alerts.txt")).fields_grouping("pipeline", ["sensor"])
    return builder.create_topology(), dict(CONF)
