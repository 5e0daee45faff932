"""Worker processes at the level of the kernel: identity of a pid, notification of exit, signals to process groups.

A worker leads its own session and process group, so it survives the supervisor, and all its child processes can be
ended with it. A pid alone is ambiguous: another process can get the same pid after a reboot or a wrap-around. Together
with the start time and the boot id, a pid identifies one process forever.

The exit of a process is detected through a pidfd, which the event loop polls like a socket. This works for child
processes and adopted workers alike.
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
    """The unique identity of a process, even if its pid is reused."""

    pid: int
    start_ticks: int  # since boot, in clock ticks
    boot_id: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def identify(pid: int) -> Identity | None:
    """Return the identity of a live process, or None if there is no such process or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # pid (name, which can contain anything) state ppid … starttime is field 22
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return Identity(pid, int(fields[19]), boot_id)


def find_by_argument(argument: str) -> int | None:
    """Return the pid of a live process with this (unique) command line argument, or None."""
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
        """Start ``command`` in its own session, with stdout and stderr appended to ``output``.

        Raises OSError, or any other exception of Popen. No process remains after an error.
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
        except BaseException:  # without a pidfd the child's exit would go unnoticed
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise

    @classmethod
    def adopt(cls, identity: Identity) -> WorkerProcess | None:
        """Return the process with this identity, or None if it has ended."""
        try:
            process = cls(identity.pid, None)
        except ProcessLookupError:
            return None
        if identify(identity.pid) != identity:  # checked after opening the pidfd, so the pidfd is of this process
            process.close()
            return None
        return process

    def watch(self, on_exit: OnExit) -> None:
        """Call ``on_exit`` once, in the running event loop, as soon as the process has ended.

        Before the call, the rest of its process group is killed, and a child process is reaped.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pidfd, self._ended, on_exit)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group. No-op if the group has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Kill and reap a process that cannot be watched, with its process group."""
        self.signal_group(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
        self.close()

    def close(self) -> None:
        """Stop watching. The process keeps running."""
        if self._loop is not None:
            self._loop.remove_reader(self._pidfd)
            self._loop = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _ended(self, on_exit: OnExit) -> None:
        # A child that is not reaped yet keeps its pid, so this cannot signal an unrelated group.
        self.signal_group(signal.SIGKILL)
        status = None if self._child is None else self._child.wait()
        self.close()
        on_exit(*describe_exit(status))


def describe_exit(status: int | None) -> tuple[ExitKind, str]:
    """Describe how a process ended. ``status`` is as in subprocess; None: unknown."""
    if status is None:
        return ExitKind.UNKNOWN, "it ended with an unknown exit status, as an earlier supervisor process had started it"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return ExitKind.SIGNAL, f"killed by {name}"
    return (ExitKind.ERROR if status else ExitKind.CLEAN), f"exit status {status}"


def last_line(path: str | os.PathLike[str], since: int = 0, limit: int = 4096) -> str:
    """Return the last non-blank line appended to a text file after offset ``since``, or "" if there is none."""
    try:
        with open_regular(path) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since, end - limit))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line), "")[:300]
