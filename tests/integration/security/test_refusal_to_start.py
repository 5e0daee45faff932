"""Daemons refuse to listen beyond their machine without security, as processes; and start when told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tupletree.testing.wait import wait_until


@pytest.mark.parametrize("role", ["nimbus", "supervisor", "acker"])
def test_a_daemon_refuses_to_be_open_to_the_network(role: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"tupletree.{role}", "-c", "bind.host=0.0.0.0", "-c", f"local.dir={tmp_path}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("refusing to listen on bind.host 0.0.0.0, beyond this machine, without TLS")
    assert ended.stderr.count("\n") == 1


def test_a_daemon_that_is_told_to_be_insecure_says_so_and_serves(tmp_path: Path) -> None:
    settings = {
        "bind.host": "0.0.0.0",
        "security.insecure": "true",
        "local.dir": str(tmp_path),
        "acker.port": "0",
        "acker.http.port": "0",
        "zookeeper.port": "1",
    }
    command = [sys.executable, "-m", "tupletree.acker"]
    command += [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    log = tmp_path / "logs" / "acker.log"
    with open(tmp_path / "said", "w") as said:
        process = subprocess.Popen(command, stderr=said, cwd=tmp_path)
    try:
        wait_until(lambda: "INSECURE: listening on 0.0.0.0" in (tmp_path / "said").read_text(), 60, what="it says so")
        wait_until(lambda: log.exists() and "INSECURE" in log.read_text(), 60, what="its log says so")
    finally:
        process.kill()
        process.wait()


def test_the_zookeeper_of_ours_refuses_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tupletree", "zookeeper", "-c", "bind.host=0.0.0.0", "--dir", str(tmp_path / "zk")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert ended.returncode == 2
    assert "for a cluster without zookeeper.auth.user" in ended.stderr
