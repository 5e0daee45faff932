"""Starts pathway's word count by ``pathway spawn``, as in its documentation, with one worker per process."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from bench.peers.programs import marks
from bench.peers.programs.files import write_files


def main() -> NoReturn:
    """Write the input files if needed, one per worker. Then become ``pathway spawn``."""
    settings = marks.settings()
    if settings.options["source"] == "files":
        directory = tempfile.mkdtemp(prefix="sentences-")
        write_files(settings, directory, settings.parallelism)
        settings = replace(settings, options={**settings.options, "directory": directory})
    spawn = str(Path(sys.executable).parent / "pathway")
    program = [sys.executable, "-m", "bench.peers.programs.pathway_words"]
    places = ["--processes", str(settings.parallelism), "--first-port", str(_free_port())]
    os.execve(spawn, [spawn, "spawn", *places, *program], {**os.environ, marks.VARIABLE: settings.to_json()})


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    main()
