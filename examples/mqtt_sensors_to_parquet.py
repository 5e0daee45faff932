"""Measurements of sensors from MQTT into Parquet files, which any tool of data analysis reads.

    apt-get install mosquitto    # docs/guides/connectors/mqtt.md has the options with which it loses little
    pip install 'tupletree[mqtt]'
    tupletree local examples/mqtt_sensors_to_parquet.py --seconds 0    # until Ctrl-C; in another terminal:
    python -m examples.mqtt_sensors_to_parquet 1000                    # 1,000 measurements, of which each 100th is bad
    python -c "import pyarrow.parquet as pq; print(pq.read_table('/tmp/sensors/readings').to_pandas())"    # 5 s later

MQTT_BROKER is HOST:PORT, SENSORS_DIR the directory. Each good measurement is in a file at least once: it is
acknowledged to the broker when its file is complete and on disk, at most five seconds after it came. While the disk is
full or the topology is away, the broker keeps it, in a session that begins when the topology first connects; without
those options it keeps 1,000 measurements, and drops later ones. The topic and the reason of a measurement that cannot
be stored are lines in SENSORS_DIR/rejected.

A measurement that was delivered again after a crash can be in two files; its sensor and time are the same.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from tupletree import BasicBolt, FailedException, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector
from tupletree.connectors.file_sinks import FileSink, ParquetSink
from tupletree.connectors.formats import Json
from tupletree.connectors.mqtt import MqttSpout
from tupletree.connectors.row_sinks import RowSinkBolt

BROKER = os.environ.get("MQTT_BROKER", "localhost:1883")
DIRECTORY = Path(os.environ.get("SENSORS_DIR", "/tmp/sensors"))
COLUMNS = {"sensor": "string", "at": "timestamp", "celsius": "double"}
RATE, SECONDS = 2000, 5
"""The measurements per second for which there is room, and the seconds until a file is complete."""


class Check(BasicBolt):
    """Passes measurements on that a column can have."""

    outputs = list(COLUMNS)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        sensor, at, celsius = tup.values  # from strangers: of any type
        if not isinstance(sensor, str) or not isinstance(celsius, int | float):
            raise FailedException(f"{sensor!r} and {celsius!r}: a text and a number were expected", retry=False)
        if not -274 < celsius < 10_000:  # NaN, and numbers of any length, are JSON to Python
            raise FailedException(f"{celsius!r} is not a temperature", retry=False)
        if not isinstance(at, int | float) or not 0 < at < 1e11:
            raise FailedException(f"{at!r} is not a time in seconds", retry=False)
        collector.emit([sensor, datetime.fromtimestamp(at, UTC), float(celsius)])


def topology() -> Topology:
    readings = ParquetSink(DIRECTORY / "readings", COLUMNS, max_rows=RATE * SECONDS, max_age_s=SECONDS)
    rejected = FileSink(DIRECTORY / "rejected", Json(["message", "error"]), max_age_s=SECONDS)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    builder = TopologyBuilder()
    spout = MqttSpout(
        BROKER,
        "sensors/#",
        Json(["sensor", "at", "celsius"]),
        client_id="store",
        max_in_flight=2 * RATE * SECONDS,  # they are acknowledged when their file is complete
    )
    measured = builder.set_spout("measured", spout).set_dead_letters("rejected")
    checked = builder.set_bolt("check", Check()).shuffle_grouping(measured)
    builder.set_bolt("store", RowSinkBolt(readings)).shuffle_grouping(checked)
    builder.set_bolt("reject", RowSinkBolt(rejected)).shuffle_grouping(measured, "rejected")
    return builder.create_topology()


def publish(count: int) -> None:
    """Publish measurements of ten sensors, one for each millisecond until now."""
    host, _, port = BROKER.partition(":")
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.connect(host, int(port or 1883))
    client.loop_start()
    begin = time.time() - count / 1000
    for number in range(count):
        celsius = "cold" if number % 100 == 99 else 20 + number % 7
        measurement = {"sensor": f"s{number % 10}", "at": begin + number / 1000, "celsius": celsius}
        confirmed = client.publish(f"sensors/s{number % 10}", json.dumps(measurement), qos=1)
        confirmed.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    publish(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
