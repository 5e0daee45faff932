"""``bench.connectors`` comes to its end at real brokers, and refuses what is not moved once."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest

from bench import connectors
from bench._kafka_broker import NoJars
from bench._rabbit_node import SERVER
from bench.connectors import OURS, summary


def arguments(system: str, venvs: Path) -> Namespace:
    parser = ArgumentParser()
    connectors.add_arguments(parser)
    few = "--messages 2000 --pending 500 --prefetch 200 --turns 1"
    return parser.parse_args(["--system", system, *few.split(), "--venvs", str(venvs)])


@pytest.mark.nightly
def test_kafka(tmp_path: Path) -> None:
    try:
        result = connectors.measure(arguments("kafka", tmp_path))
    except NoJars as error:
        pytest.skip(str(error))
    assert {"messages_per_s", "bare_messages_per_s", "ratio"} <= result.keys()
    assert "python -m bench.peers setup --only bytewax" in result["bytewax_unavailable"]


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which(SERVER), reason="rabbitmq-server is not installed")
def test_rabbitmq(tmp_path: Path) -> None:
    result = connectors.measure(arguments("rabbitmq", tmp_path))
    assert {"messages_per_s", "bare_messages_per_s", "ratio"} <= result.keys()


def test_speed_ups_are_medians_of_those_of_each_turn() -> None:
    def turn(rate: float) -> dict[str, Any]:
        return {"messages_per_s": rate, "cpu_us_per_message": 1.25, "others_cores": 0.125}

    result = summary({OURS: [turn(100), turn(300), turn(50)], "bare": [turn(200), turn(400), turn(500)]})
    assert result == {
        "messages_per_s": 100,
        "cpu_us_per_message": 1.2,
        "others_cores": 0.12,
        "bare_messages_per_s": 400,
        "bare_cpu_us_per_message": 1.2,
        "bare_others_cores": 0.12,
        "ratio": 0.5,
        "ratios": [0.5, 0.75, 0.1],
    }
