"""Where there will be no Spark session, nothing waits for one: the process of the driver can end."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

BOTH = """
CONF = {"spark.remote": "sc://nowhere", "spark.master": "local[1]"}
"""

KILLED = """
from tupletree.spark import session
CONF = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
jvm = session.acquire(CONF).sparkContext._gateway.proc
jvm.kill()
jvm.wait()
"""

SCRIPT = """
import threading
from tupletree.attempt import TransactionAttempt
from tupletree.spark import Pipeline
from tupletree.spark.driver import Driver
from tupletree.spark.jobs import Job

class Told:
    def __init__(self):
        self.broken_by = []
        self.is_broken = threading.Event()
    def broken(self, error):
        self.broken_by.append(error)
        self.is_broken.set()

told = Told()
driver = Driver("id", Pipeline(), False, CONF, 2, told)
driver.start(Job(TransactionAttempt(1, 1), [], 0.0, None))
assert told.is_broken.wait(30)
print("broken by", type(told.broken_by[0]).__name__, told.broken_by[0])
"""


def said(script: str) -> str:
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_job_that_waits_for_a_session_does_not_hold_the_process() -> None:
    assert "exclude each other" in said(BOTH + SCRIPT)


def test_a_session_whose_jvm_dies_as_the_driver_starts_is_not_waited_for() -> None:
    assert "broken by" in said(KILLED + SCRIPT)
