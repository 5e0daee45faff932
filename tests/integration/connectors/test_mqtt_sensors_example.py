"""The example of sensors: PyArrow finds every good measurement in Parquet files, and every bad one has a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from example_programs import imported_example
from mqtt_place import MqttServer

from tests.integration.transactional.database_servers import running
from tupletree.testing import LocalCluster


@pytest.fixture
def server() -> Iterator[MqttServer]:
    with running(MqttServer) as server:
        yield server


@pytest.mark.nightly
def test_measurements_are_in_files_and_acknowledged_when_the_files_are_complete(
    server: MqttServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where = {"MQTT_BROKER": f"127.0.0.1:{server.port}", "SENSORS_DIR": str(tmp_path / "sensors")}
    example = imported_example("mqtt_sensors_to_parquet", monkeypatch, **where)

    def measured() -> list[tuple[str, float]]:
        table = pq.read_table(example.DIRECTORY / "readings")
        return sorted(zip(table["sensor"].to_pylist(), table["celsius"].to_pylist(), strict=True))

    def rejected() -> list[dict[str, str]]:
        files = (example.DIRECTORY / "rejected").glob("*.jsonl")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    with LocalCluster() as cluster:
        cluster.submit("sensors", example.topology())
        cluster.wait_until(
            lambda: re.search(r"tupletree_spout_connected\{.*\} 1\.0", cluster.metrics("sensors")) is not None, 30
        )
        example.publish(500)
        cluster.wait_until(lambda: server.queued("store-0") == 0, 60)
        expected = sorted((f"s{number % 10}", 20.0 + number % 7) for number in range(500) if number % 100 != 99)
        assert measured() == expected
        assert [(line["message"].split()[0], line["error"]) for line in rejected()] == [
            ("sensors/s9", "FailedException: 's9' and 'cold': a text and a number were expected")
        ] * 5
