"""Where there will be no Spark session, nothing waits for one: the process of the driver can end."""

from __future__ import annotations

import subprocess
import sys

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
both = {"spark.remote": "sc://nowhere", "spark.master": "local[1]"}
driver = Driver("id", Pipeline(), False, both, 2, told)
driver.start(Job(TransactionAttempt(1, 1), [], 0.0, None))
assert told.is_broken.wait(30)
print(told.broken_by[0])
"""


def test_a_job_that_waits_for_a_session_does_not_hold_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    assert "exclude each other" in run.stdout
