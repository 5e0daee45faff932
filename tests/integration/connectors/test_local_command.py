"""``tupletree local`` says what works and what does not while it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from queue_places import free_port

from tupletree.testing import wait_until

TOPOLOGY = """
from tupletree import TopologyBuilder, bolt
from tupletree.connectors.beanstalkd import BeanstalkSpout
from tupletree.connectors.formats import Json
from tupletree.connectors.http import WebhookSpout

@bolt(outputs=["order"])
def out(tup):
    yield [tup["order"]]

topology = TopologyBuilder()
topology.set_spout("orders", WebhookSpout({port}, Json(["order"])))
topology.set_spout("away", BeanstalkSpout("127.0.0.1:{away}", format=Json(["order"])))
topology.set_bolt("out", out).shuffle_grouping("orders").shuffle_grouping("away")
"""

TIMED = """
from datetime import timedelta
from tupletree import Session
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Json
from tupletree.streams import StreamBuilder

builder = StreamBuilder()
clicks = builder.source(FileSpout(r"{folder}/clicks", Json(["user", "at"])), name="clicks")
timed = clicks.event_time(lambda click: click.at, max_lag=timedelta(0), idle_timeout=timedelta(seconds=1))
timed.key_by(lambda click: click.user).window(Session(timedelta(seconds=1))).count().print()
topology = builder.topology()
"""


def test_watermarks_are_not_tuples_of_a_source_that_could_read_nothing(tmp_path: Path) -> None:
    (tmp_path / "clicks").write_text("no JSON\n" * 3)
    (tmp_path / "timed.py").write_text(TIMED.format(folder=tmp_path))
    command = [sys.executable, "-m", "tupletree", "local", "timed.py", "--seconds", "3"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    lines = ended.stderr.splitlines()
    assert (ended.returncode, lines[-1]) == (1, "no tuple was emitted: 3 messages were given up"), lines


def test_connections_and_errors_are_shown_while_it_runs_and_json_at_the_end(tmp_path: Path) -> None:
    port, away = free_port(), free_port()
    (tmp_path / "hooks.py").write_text(TOPOLOGY.format(port=port, away=away))
    command = [sys.executable, "-m", "tupletree", "local", "hooks.py", "--seconds", "0", "--json"]
    told = tmp_path / "stderr"
    with (
        told.open("w") as stderr,
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        try:
            wait_until(lambda: f"HTTP port {port}, path /: connected\n" in told.read_text(), 30, what="it listens")
            refused = "component 'away' reported UnavailableError: beanstalkd: no connection: "
            wait_until(lambda: refused in told.read_text(), 30, what="the error is shown")
            request = urllib.request.Request(f"http://127.0.0.1:{port}/", b'{"order": 1}', method="POST")
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            shown = json.loads(process.stdout.read())
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert [(one["component"], one["emitted"]) for one in shown["streams"]] == [("orders", 1), ("out", 1)]
    assert [one["component"] for one in shown["errors"]] == ["away"]
    assert told.read_text().count(refused) == 1
