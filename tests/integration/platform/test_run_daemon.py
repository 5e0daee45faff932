"""The run loop of a daemon, as real processes with real signals."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import textwrap

import pytest

from tupletree.testing.wait import wait_until

HEADER = """
    import asyncio, sys, time
    from tupletree import errors
    from tupletree._daemon.announce import announce
    from tupletree._log import setup_logging
    from tupletree._daemon.run import run_daemon
"""


def start(tmp_path: pathlib.Path, body: str) -> subprocess.Popen[str]:
    script = tmp_path / "daemon.py"
    script.write_text(textwrap.dedent(HEADER) + textwrap.dedent(body) + "\nsys.exit(run_daemon(main))\n")
    command = [sys.executable, str(script), str(tmp_path / "announced")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, stderr


def wait_announced(tmp_path: pathlib.Path) -> dict[str, object]:
    path = tmp_path / "announced"
    wait_until(path.exists, 20)
    facts: dict[str, object] = json.loads(path.read_text())
    return facts


WAITS = """
    async def main(stop):
        announce(sys.argv[1], role="acker", grpc_port=1)
        await stop.wait()
        return 0
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    process = start(tmp_path, WAITS)
    facts = wait_announced(tmp_path)
    assert facts == {"pid": process.pid, "role": "acker", "grpc_port": 1}
    process.send_signal(number)
    assert finish(process) == (0, "")


def test_a_second_signal_ends_one_that_hangs(tmp_path: pathlib.Path) -> None:
    process = start(
        tmp_path,
        """
        async def main(stop):
            announce(sys.argv[1])
            await stop.wait()
            announce(sys.argv[1] + ".stopping")
            await asyncio.sleep(3600)
        """,
    )
    wait_announced(tmp_path)
    process.send_signal(signal.SIGTERM)
    wait_until((tmp_path / "announced.stopping").exists, 20)
    process.send_signal(signal.SIGTERM)
    assert finish(process) == (128 + signal.SIGTERM, "")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("errors.UsageError('port 6627 on 127.0.0.1 is in use')", 2, "port 6627 on 127.0.0.1 is in use\n"),
        ("errors.UnavailableError('no ZooKeeper at a:1')", 1, "no ZooKeeper at a:1\n"),
    ],
)
def test_our_errors_are_one_sentence(tmp_path: pathlib.Path, error: str, code: int, says: str) -> None:
    process = start(tmp_path, f"async def main(stop):\n    raise {error}\n")
    assert finish(process) == (code, says)


def test_another_error_is_a_traceback_also_in_the_log(tmp_path: pathlib.Path) -> None:
    process = start(
        tmp_path,
        f"""
        async def main(stop):
            setup_logging("acker", {str(tmp_path)!r})
            raise KeyError("shard")
        """,
    )
    code, stderr = finish(process)
    assert code == 1
    assert stderr.splitlines()[-1] == "KeyError: 'shard'"
    assert "KeyError: 'shard'" in (tmp_path / "acker.log").read_text()


def test_a_thread_that_hangs_does_not_hold_the_process(tmp_path: pathlib.Path) -> None:
    process = start(
        tmp_path,
        """
        async def main(stop):
            asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)
            return 3
        """,
    )
    assert finish(process) == (3, "")


def test_threads_of_others_that_hang_do_not_hold_the_process(tmp_path: pathlib.Path) -> None:
    process = start(
        tmp_path,
        """
        import concurrent.futures
        pool = concurrent.futures.ThreadPoolExecutor()
        async def main(stop):
            pool.submit(time.sleep, 3600)
            return 3
        """,
    )
    assert finish(process) == (3, "")


def test_a_daemon_on_a_terminal_says_where_its_log_is(tmp_path: pathlib.Path) -> None:
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "tupletree", "acker", "-c", f"local.dir={tmp_path}"]
    command += ["-c", 'zookeeper.servers=["127.0.0.1:1"]', "-c", "zookeeper.connection.timeout=100"]
    ended = subprocess.run(
        [*command, "-c", "acker.port=0", "-c", "acker.http.port=0"], stderr=its, timeout=60, check=False
    )
    os.close(its)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        lines = terminal.read(4096).decode().splitlines()
    assert (ended.returncode, lines) == (
        1,
        [
            f"acker runs until Ctrl-C; its log is {tmp_path}/logs/acker.log",
            "ZooKeeper at 127.0.0.1:1 did not answer within 0.1 s: connections are refused, as nothing listens there",
        ],
    )
