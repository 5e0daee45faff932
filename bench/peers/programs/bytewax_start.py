"""Starts the processes of a bytewax dataflow, that of the option ``flow``, and waits for them, like an orchestrator."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.peers.programs import marks


def main() -> int:
    """Run until the dataflow ends. Return the exit status of the first failed process, or 0."""
    settings = marks.settings()
    with tempfile.TemporaryDirectory() as directory:
        recovery = _recovery(Path(directory), settings) if settings.options["recovery"] else []
        flow = f"bench.peers.programs.{settings.options['flow']}:flow()"
        processes = [
            subprocess.Popen([sys.executable, "-m", "bytewax.run", flow, *place, *recovery])
            for place in _places(settings.parallelism)
        ]
        return next((status for status in [process.wait() for process in processes] if status), 0)


def _places(number: int) -> list[list[str]]:
    if number == 1:
        return [[]]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        addresses = ";".join(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    return [["-i", str(place), "-a", addresses] for place in range(number)]


def _recovery(directory: Path, settings: marks.Settings) -> list[str]:
    from bytewax.recovery import init_db_dir

    init_db_dir(directory, settings.parallelism)
    return ["-r", str(directory), "-s", str(settings.options["snapshot_s"]), "-b", "0"]


if __name__ == "__main__":
    sys.exit(main())
