"""``tupletree cluster`` beside an application that has just begun; without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from tupletree._sparkcluster.record import MODULE, ClusterDirectory, Record
from tupletree.cli.main import main
from tupletree.testing import wait_until

MASTER = "spark://nowhere:7077"


@pytest.fixture
def directory(tmp_path: Path) -> ClusterDirectory:
    return ClusterDirectory(str(tmp_path))


@pytest.fixture
def application(directory: ClusterDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the arguments of an application, which ends with its input."""
    arguments = [sys.executable, "-c", "input()", MODULE, directory.path]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: directory.process() == process.pid, 20)
        yield process


@pytest.mark.parametrize("arguments", [["up", "--spark-master", MASTER], ["status"]])
def test_the_record_of_an_earlier_application_is_not_that_of_the_one_that_begins(
    arguments: list[str],
    directory: ClusterDirectory,
    application: subprocess.Popen[bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    earlier = Record(1, "up", "spark://other:7077", 2, 1, failures=("earlier",))
    path = Path(directory.path, "application.json")
    os.mkfifo(path)  # a writer waits until the command reads
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(main, ["cluster", *arguments, "--dir", directory.path])
        with path.open("w") as file:
            directory.save(Record(application.pid, "up", MASTER, 2, 1, failures=("newest",)))
            file.write(json.dumps(asdict(earlier)))
        assert status.result() == 1  # none of its machines is there
    said = capsys.readouterr().out
    assert "newest" in said
    assert "earlier" not in said
    assert not Path(directory.spec_path).exists()
