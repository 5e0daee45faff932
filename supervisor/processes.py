"""Worker processes at the level of the kernel: identity of a pid, notification of exit, signals to process groups.

A worker leads its own session and process group, so it survives the supervisor, and all its child processes can be
ended with it: those in its group, and with /proc those in other groups of its session, such as the programs of
ShellBolts, which end their own children by their groups.

A pid alone is ambiguous: another process can get the same pid after a reboot or a wrap-around. Together with the start
time and the boot id, a pid identifies one process forever.

The exit of a process is detected through a pidfd, which the event loop polls like a socket. Without pidfds (not on
Linux, or in Linux before 5.3) the start time of the process is looked up ten times per second. Both work for child
processes and adopted workers alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tupletree._process_table import command_lines, groups_of, started, user_of

from .accounts import Account
from .files import open_output, open_regular
from .slot_events import ExitKind

OnExit = Callable[[ExitKind, str], None]

_POLL_S: Final = 0.1


@dataclass(frozen=True)
class Identity:
    """The unique identity of a process, even if its pid is reused."""

    pid: int
    start_ticks: int  # since boot, in clock ticks; without /proc, microseconds since 1970
    boot_id: str  # "" without /proc

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def identify(pid: int) -> Identity | None:
    """Return the identity of a live process, or None if there is no such process or only a zombie."""
    at = started(pid)
    return None if at is None else Identity(pid, *at)


def find_by_argument(argument: str, uid: int) -> int | None:
    """Return the pid of a live process of a user with this (unique) command line argument, or None.

    Any user can start a process with any arguments.
    """
    for pid, arguments in command_lines():
        if argument in arguments and identify(pid) is not None:
            user = user_of(pid)
            if user is None or user[0] == uid:
                return pid
    return None


def _open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if this system has none. Raises OSError, for example if there is no such process."""
    open_pidfd: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    try:
        return None if open_pidfd is None else open_pidfd(pid)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a filter of system calls
            raise
        return None


def end_session(leader: Identity) -> None:
    """Kill what is left of the session of a process that has ended. Without /proc, nothing is found.

    A pid is not used again while it is that of a session. So nothing is left if another process has it.
    """
    own = identify(os.getpid())
    if identify(leader.pid) is None and own is not None and own.boot_id == leader.boot_id:
        for group in groups_of(leader.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


class WorkerProcess:
    """A live worker process: launched by us, or adopted from an earlier supervisor process."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self._child = child
        self._pidfd = _open_pidfd(pid)
        self._identity = identify(pid) if self._pidfd is None else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def launch(
        cls,
        command: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output: str,
        account: Account | None = None,
        stdin: int = subprocess.DEVNULL,
        inherited: Sequence[int] = (),
    ) -> WorkerProcess:
        """Start ``command`` in its own session, with stdout and stderr appended to ``output``.

        ``account``: whose process it is, without any right of this one; None: the same user's. ``inherited``:
        descriptors that stay open. Raises OSError, or any other exception of Popen. No process remains after an error.
        """
        with open_output(output) as out:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=stdin,
                stdout=out,
                stderr=out,
                start_new_session=True,
                pass_fds=inherited,
                **({} if account is None else _identity_of(account)),
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
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._ended, on_exit)
        else:
            self._poll_later(self._loop, on_exit)

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
        if self._loop is not None and self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pidfd is not None and self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _poll_later(self, loop: asyncio.AbstractEventLoop, on_exit: OnExit) -> None:
        self._timer = loop.call_later(_POLL_S, self._poll, loop, on_exit)

    def _poll(self, loop: asyncio.AbstractEventLoop, on_exit: OnExit) -> None:
        found = identify(self.pid)  # None for a child that has ended and is not reaped yet
        if found is None or found != self._identity:
            self._ended(on_exit)
        else:
            self._poll_later(loop, on_exit)

    def _ended(self, on_exit: OnExit) -> None:
        # A child that is not reaped yet keeps its pid, so this cannot signal an unrelated group.
        self.signal_group(signal.SIGKILL)
        status = None if self._child is None else self._child.wait()
        self.close()
        on_exit(*describe_exit(status))


def _identity_of(account: Account) -> dict[str, Any]:
    """Return the arguments of Popen with which the child becomes another user, before it runs any of that user's code.

    The change from user id 0 takes all capabilities from the child.
    """
    return {"user": account.uid, "group": account.gid, "extra_groups": account.groups, "umask": 0o077}


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
