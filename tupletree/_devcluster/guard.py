"""Ends every process of a cluster directory when its owner ends for any reason.

The owner runs this file as a separate process and holds the only write end of its standard input:

    owner                          guard                       cluster processes
      | -- "armed" ----------------> | waits for EOF on its input
      | -- (closes, dies, is killed) |
                                     | -- SIGKILL -----------------> | each process of the directory
                                     | removes the directory, if requested, and exits

A process belongs to the directory if one of its arguments is a path in the directory and its command line is ours
(``-m`` and a daemon, or ZooKeeper's main class). This also finds workers, which survive the supervisor that started
them. Process ids are not stored, so that a reused id cannot be hit.

This file runs as a plain script, so that it starts in milliseconds. Of our files, it loads only
_process_table.py.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time

if __name__ == "__main__":
    _table = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_process_table.py")
    _functions = runpy.run_path(_table)
    command_lines, groups_of = _functions["command_lines"], _functions["groups_of"]
else:
    from tupletree._process_table import HAS_PROC, command_lines, groups_of

_OURS = {f"tupletree.{role}" for role in ("nimbus", "supervisor", "acker", "drpc_server", "worker")}
_OURS.add("org.apache.zookeeper.server.ZooKeeperServerMain")
_END_TIMEOUT_S = 10.0


def processes_of(directory: str) -> list[int]:
    """Return the ids of the live processes that belong to ``directory``, ascending."""
    return list(command_lines_of(directory))


def command_lines_of(directory: str) -> dict[int, list[str]]:
    """Return the arguments of the live processes that belong to ``directory``, by ascending id."""
    root = os.path.realpath(directory)
    # A zombie has no arguments, so it never belongs.
    return {pid: arguments for pid, arguments in command_lines() if _belongs(pid, arguments, root)}


def _belongs(pid: int, arguments: list[str], root: str) -> bool:
    if pid == os.getpid() or _OURS.isdisjoint(arguments):
        return False
    return any(argument.startswith(root + os.sep) for argument in arguments)


def end_all(directory: str, timeout_s: float = _END_TIMEOUT_S) -> list[int]:
    """Kill the processes of ``directory``, each with its process group if it is the group leader, until none is left.

    With /proc, the other groups of the sessions that they lead are killed too, such as the programs of ShellBolts.
    Returns the ids of the killed processes of ``directory``. A supervisor can start one more worker before it dies, so
    the search is repeated until it finds no process. The caller must reap its own children.
    """
    killed: list[int] = []
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        alive = processes_of(directory)
        if not alive:
            break
        for pid in alive:
            for group in groups_of(pid):
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGKILL)
            with contextlib.suppress(OSError):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        time.sleep(0.02)
    return sorted(set(killed))


class Guard:
    """The owner's handle on a guard process for ``directory``. ``remove``: also remove the directory."""

    def __init__(self, directory: str, *, remove: bool) -> None:
        options = ["-I", "-S"] if HAS_PROC else ["-P"]  # psutil is not in the standard library
        self._process = subprocess.Popen(
            [sys.executable, *options, os.path.abspath(__file__), os.path.realpath(directory), "01"[remove]],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def close(self) -> None:
        """Trigger the guard now and wait until it has finished. Idempotent."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait()


def main() -> None:
    directory, remove = sys.argv[1], sys.argv[2] == "1"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    end_all(directory)
    if remove:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
