"""Worker processes as the kernel shows them: who a pid is, when it ends, and signals to its group.

A worker leads a session and process group of its own, so it survives the supervisor, and whatever it started can be
ended with it. A pid alone names nobody: it may be taken by another process after a reboot or a wrap-around. With the
process' start time and the boot's id it names one process for ever.

The end of a process is noticed through a pidfd, which the event loop polls like a socket, and which works for children
and for adopted workers alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .files import open_output, open_regular
from .slot_events import ExitKind

OnExit = Callable[[ExitKind, str], None]


@dataclass(frozen=True)
class Identity:
    """One process, and no other that ever had its pid."""

    pid: int
    start_ticks: int  # since boot, in clock ticks
    boot_id: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def identify(pid: int) -> Identity | None:
    """The identity of a live process; None if there is none (a zombie is none: nothing runs any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # pid (name, which may hold anything) state ppid … starttime is field 22
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return Identity(pid, int(fields[19]), boot_id)


def find_by_argument(argument: str) -> int | None:
    """The pid of a live process that was started with this (unmistakable) argument."""
    wanted = os.fsencode(argument)
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if wanted in arguments and identify(int(name)) is not None:
            return int(name)
    return None


class WorkerProcess:
    """A live worker process: launched by us, or adopted from an earlier supervisor process."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self._child = child
        self._pidfd = os.pidfd_open(pid)
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def launch(cls, command: Sequence[str], cwd: str, env: Mapping[str, str], output: str) -> WorkerProcess:
        """Start ``command`` in a session of its own; what it prints is appended to ``output``.

        Raises OSError, and whatever else Popen raises; then no process is left.
        """
        with open_output(output) as out:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            return cls(child.pid, child)
        except BaseException:  # without a pidfd nobody would hear of its end
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise

    @classmethod
    def adopt(cls, identity: Identity) -> WorkerProcess | None:
        """The process of that identity; None if it is gone."""
        try:
            process = cls(identity.pid, None)
        except ProcessLookupError:
            return None
        if identify(identity.pid) != identity:  # asked after the pidfd was opened, so it is this process or none
            process.close()
            return None
        return process

    def watch(self, on_exit: OnExit) -> None:
        """Call ``on_exit`` once, in the running event loop, as soon as the process ended.

        What is left of its group is killed before, and a child is reaped.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pidfd, self._ended, on_exit)

    def signal_group(self, number: int) -> None:
        """Signal the process and all it started. Nothing if they are gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Kill the process and all it started, and reap it: for one that nobody can watch."""
        self.signal_group(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
        self.close()

    def close(self) -> None:
        """Stop watching. The process runs on."""
        if self._loop is not None:
            self._loop.remove_reader(self._pidfd)
            self._loop = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _ended(self, on_exit: OnExit) -> None:
        # A child that is not reaped yet keeps its pid, so this cannot hit a stranger's group.
        self.signal_group(signal.SIGKILL)
        status = None if self._child is None else self._child.wait()
        self.close()
        on_exit(*describe_exit(status))


def describe_exit(status: int | None) -> tuple[ExitKind, str]:
    """How a process ended, in words. ``status`` as subprocess gives it; None: nobody told us."""
    if status is None:
        return ExitKind.UNKNOWN, "it ended; its exit status went to an earlier supervisor process"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return ExitKind.SIGNAL, f"killed by {name}"
    return (ExitKind.ERROR if status else ExitKind.CLEAN), f"exit status {status}"


def last_line(path: str | os.PathLike[str], since: int = 0, limit: int = 4096) -> str:
    """The last line that is not blank of what was appended to a text file after ``since``; "" if there is none."""
    try:
        with open_regular(path) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since, end - limit))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line), "")[:300]
