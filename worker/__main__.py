"""Entry point of a worker process: ``python -m tupletree.worker --launch FILE``. Only supervisors start workers."""

from __future__ import annotations

import argparse
import faulthandler
import functools
import gc
import os
import sys
from collections.abc import Sequence

from tupletree._daemon.run import run_daemon
from tupletree._log import setup_logging
from tupletree._security.current import Security, use
from tupletree.errors import TupletreeError

from . import ptrace
from .daemon import run_worker
from .launch_file import LaunchFile, add_code_path
from .reporting.stdio_capture import capture

GC_THRESHOLD = 50_000
"""Tuples are many small objects without reference cycles. Collecting after every 700 allocations, Python's default,
costs a few percent of throughput."""

SWITCH_INTERVAL_S = 0.0005
"""The longest time that a busy run loop keeps the asyncio thread, which sends and receives messages, from running."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, until the slot is taken away, or until a component raises. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tupletree.worker", description="Run the tasks of one slot.")
    parser.add_argument("--launch", metavar="FILE", required=True, help="the launch file that the supervisor wrote")
    arguments = parser.parse_args(argv)
    try:
        launch = LaunchFile.load(arguments.launch)
        setup_logging(
            "worker",
            launch.log_dir,
            launch.conf["logs.level"],
            max_bytes=launch.conf["worker.log.max.bytes"],
            backups=launch.conf["worker.log.backups"],
        )
        use(Security.of_worker(launch.conf, launch.topology_id, launch.worker_id))
    except TupletreeError as error:
        print(error, file=sys.stderr)
        return 2
    faulthandler.enable()  # a crash in a library leaves the stacks of all threads in worker.out
    if launch.log_dir is not None:
        capture()
    ptrace.allow(os.getppid())
    add_code_path(launch.bundle_dir)
    gc.set_threshold(GC_THRESHOLD, 5, 20)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return run_daemon(functools.partial(run_worker, launch))


if __name__ == "__main__":
    sys.exit(main())
