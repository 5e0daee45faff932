"""Each bench that runs a topology comes to its end on a real cluster, and finds its own result right."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import async_http, chain, dead_letters, latency, start, storm_perf, webhooks, windows, word_count, yahoo
from bench.nexmark import __main__ as nexmark
from tupletree.testing import DevCluster

pytestmark = pytest.mark.nightly

WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=WORKERS, ackers=1) as running:
        yield running


def words(**changed: Any) -> Namespace:
    given = {
        "workers": WORKERS,
        "spouts": 1,
        "tasks": 0,
        "ackers": 1,
        "sentences": 300,
        "pending": 100,
        "split": "plain",
        "held": 20,
        "state": "none",
        "pure": False,
    }
    return Namespace(**{**given, "timeout": 60.0, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"spouts": 2, "split": "many"},
        {"split": "combined"},
        {"ackers": 0, "workers": 1},
        {"tasks": 5},
        {"split": "pystorm"},
        {"split": "yield"},
        {"state": "default"},
        {"state": "aligned"},
        {"split": "streams", "spouts": 2},
        {"split": "streams-combined"},
        {"split": "streams", "state": "aligned"},
    ],
    ids=lambda changed: "-".join(f"{key}-{value}" for key, value in changed.items()) or "plain",
)
def test_word_count(cluster: DevCluster, changed: dict[str, Any]) -> None:
    result = word_count.measure_on(cluster, words(**changed))
    assert result["acked"] == (300 if changed.get("ackers", 1) else 0)
    assert ("p99_ms" in result) == bool(changed.get("ackers", 1))
    assert {"words_per_s", "wall_s", "cpu_s", "cpu_us_per_word", "peak_rss_mb", "others_cores"} <= result.keys()


@pytest.mark.parametrize("message", ["word", "sentence"])
@pytest.mark.parametrize("way", ["bolts", "streams"])
def test_chain(cluster: DevCluster, way: str, message: str) -> None:
    given = Namespace(way=way, message=message, workers=WORKERS, ackers=1, sentences=300, pending=100, timeout=60.0)
    assert {"words_per_s", "cpu_us_per_word"} <= chain.measure_on(cluster, given).keys()


def test_windows(cluster: DevCluster) -> None:
    given = Namespace(workers=1, ackers=1, sentences=300, pending=1000, timeout=60.0)
    assert {"words_per_s", "cpu_us_per_word"} <= windows.measure_on(cluster, given).keys()


@pytest.mark.parametrize("rate", [0.0, 500.0])
def test_async_http(cluster: DevCluster, rate: float) -> None:
    given = Namespace(calls=200, in_flight=20, delay_ms=5.0, rate=rate)
    result = async_http.measure_on(cluster, given)
    assert {"calls_per_s", "bare_calls_per_s", "ratio", "p50_ms", "bare_p50_ms", "cpu_server_s"} <= result.keys()
    assert result["p50_ms"] >= 5 and result["bare_p50_ms"] >= 5


@pytest.mark.parametrize("orders", [False, True])
def test_dead_letters(cluster: DevCluster, orders: bool) -> None:
    given = Namespace(numbers=2_001, poison_every=100, attempts=2, pending=500, orders=orders, rounds=1)
    result = dead_letters.measure_on(cluster, given)
    assert result["ratio"] == pytest.approx(result["numbers_per_s"] / result["clean_numbers_per_s"], rel=0.01)


@pytest.mark.parametrize("rate", [0.0, 500.0])
def test_webhooks(cluster: DevCluster, rate: float) -> None:
    result = webhooks.measure_on(cluster, Namespace(requests=300, clients=8, warm=20, rate=rate))
    assert {"requests_per_s", "cpu_us_per_request", "others_cores"} <= result.keys()
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]


@pytest.mark.parametrize(("topology", "workers"), [("const", 2), ("identity", 1)])
def test_storm_perf(cluster: DevCluster, topology: str, workers: int) -> None:
    arguments = Namespace(topology=topology, workers=workers, ackers=1, tuples=2_000, pending=200)
    result = storm_perf.measure_on(cluster, arguments)
    assert {"tuples_per_s", "cpu_us_per_tuple"} <= result.keys()


@pytest.mark.parametrize("query", ["q4", "all"])
def test_nexmark(cluster: DevCluster, query: str, tmp_path: Path) -> None:
    given = Namespace(query=query, events=2_000, workers=WORKERS, ackers=1, pending=5_000, venvs=str(tmp_path))
    result = nexmark.measure_on(cluster, given)
    for figures in [result] if query != "all" else result.values():
        assert {"events_per_s", "cpu_us_per_event", "results", "flink_unavailable"} <= figures.keys()


def test_latency(cluster: DevCluster) -> None:
    arguments = Namespace(rate=200.0, seconds=1.0, warm=0.2, workers=WORKERS, ackers=1)
    result = latency.measure_on(cluster, arguments)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["p999_ms"] <= result["max_ms"]
    assert result["ack_p50_ms"] > 0


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_yahoo(cluster: DevCluster) -> None:
    arguments = Namespace(events=2_000, event_rate=100.0, workers=WORKERS, ackers=1, pending=200, local=False)
    result = yahoo.measure_on(cluster, arguments)
    assert result["windows"] > 100  # two windows or more for each campaign
    assert {"parse", "filter", "project", "join", "windows"} <= result["inside_us_per_event"].keys()
    assert set(result["cpu_us_per_event_of"]) == {"worker", "acker", "redis"}


def test_start(cluster: DevCluster) -> None:
    result = start.measure_on(cluster, Namespace(workers=WORKERS, times=1))
    assert result["submitted_ms"] <= result["first_word_ms"] <= result["first_ack_ms"]
