"""The examples of pipelines do what they say, each by a truth of this test's own."""

from __future__ import annotations

import fnmatch
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples import dpkg_log, spark_alerts, spark_word_count, word_count
from examples.demo.table import counts
from tupletree.testing import LocalCluster

pytestmark = pytest.mark.usefixtures("spark")


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """What is in a table; nothing before it is there."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


def test_the_words_of_files_are_counted(tmp_path: Path) -> None:
    text = word_count.text()[:2_000]
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("".join(f"{line}\n" for line in text[number::3]))
    topology, conf = spark_word_count.topology(f"{tmp_path}/*.txt", str(tmp_path / "words.db"))
    truth = Counter(re.findall("[a-z]+", "\n".join(text).lower()))
    with LocalCluster() as cluster:
        cluster.submit("words", topology, conf)
        cluster.wait_until(lambda: counts(tmp_path / "words.db") == truth, timeout=120)


def packages(log: str) -> dict[tuple[str, str], int]:
    """Hour and package to how often something was done to it."""
    found: Counter[tuple[str, str]] = Counter()
    for line in log.splitlines():
        day, time, action, *more = line.split(" ")
        if action not in ("status", "startup"):
            found[f"{day} {time[:2]}", more[0].split(":")[0]] += 1
    return dict(found)


def counted(database: Path) -> dict[tuple[str, str], int]:
    return {
        (hour, package): count for hour, package, count in rows(database, "SELECT hour, package, actions FROM packages")
    }


def test_a_log_of_packages_is_counted_by_package_and_hour(tmp_path: Path) -> None:
    log = tmp_path / "dpkg.log"
    dpkg_log.write_log(log, lines=1_500, seed=7)
    topology, conf = dpkg_log.topology(str(log), str(tmp_path / "packages.db"))
    truth = packages(log.read_text())
    with LocalCluster() as cluster:
        cluster.submit("packages", topology, conf)
        cluster.wait_until(lambda: counted(tmp_path / "packages.db") == truth, timeout=120)
    times = rows(tmp_path / "packages.db", "SELECT at, action, package FROM packages")
    said = set(log.read_text().splitlines())
    assert all(any(line.startswith(f"{at} {action} {package}:") for line in said) for at, action, package in times)


def test_the_log_of_this_machine_is_read_but_for_what_is_compressed() -> None:
    names = ["dpkg.log", "dpkg.log.1", "dpkg.log.2.gz", "alternatives.log"]
    read = [name for name in names if fnmatch.fnmatchcase(f"/var/log/{name}", dpkg_log.LOG)]
    assert read == ["dpkg.log", "dpkg.log.1"]


def test_a_log_that_is_missing_is_made_up_and_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name in "ab":
        dpkg_log.write_log(tmp_path / name, lines=100, seed=3)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    topology, _ = dpkg_log.topology(str(tmp_path / "missing.log"), str(tmp_path / "packages.db"))
    assert "pipeline" in topology.components


@pytest.mark.nightly
def test_what_alarms_reaches_the_bolt_and_the_table_has_it_all(tmp_path: Path) -> None:
    topology, conf = spark_alerts.topology(str(tmp_path))
    flat = [row for own in spark_alerts.readings() for row in own]
    highest: dict[tuple[Any, Any], Any] = {}
    for sensor, minute, degrees in flat:
        highest[sensor, minute] = max(highest.get((sensor, minute), degrees), degrees)
    alarming = {f"{sensor}, minute {minute}: {top} degrees" for (sensor, minute), top in highest.items() if top > 30}
    assert alarming, "else the example shows nothing"
    query = "SELECT sensor, minute, readings, highest FROM sensors"
    with LocalCluster() as cluster:
        cluster.submit("alerts", topology, conf)
        cluster.wait_until(lambda: len(rows(tmp_path / "sensors.db", query)) == len(highest), timeout=120)
        cluster.wait_quiet()
    assert {(sensor, minute): top for sensor, minute, _, top in rows(tmp_path / "sensors.db", query)} == highest
    assert {count for _, _, count, _ in rows(tmp_path / "sensors.db", query)} == {6}
    assert sorted((tmp_path / "alerts.txt").read_text().splitlines()) == sorted(alarming)
