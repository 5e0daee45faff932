"""The processes of this machine: start times, command lines and states, from /proc, or from psutil elsewhere.

This file imports only the standard library where there is a /proc, so that a plain script can load it in milliseconds.
Elsewhere, each function raises UsageError if psutil is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any, Final

HAS_PROC: Final = os.path.exists("/proc/self/stat")


def started(pid: int) -> tuple[int, str] | None:
    """Return the start time of a live process; None if there is no such process or only a zombie.

    With /proc, the time is in clock ticks since boot, with the boot's id; elsewhere in microseconds since 1970, with
    "". Either way, the result together with the pid identifies one process forever.
    """
    if not HAS_PROC:
        return _started_elsewhere(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # pid (name, which can contain anything) state ppid … starttime is field 22
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else (int(fields[19]), boot_id)


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """Yield the id and arguments of each process that may be read, by ascending id. A zombie has no arguments."""
    if not HAS_PROC:
        yield from _command_lines_elsewhere()
        return
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield pid, os.fsdecode(file.read()).split("\0")
        except OSError:
            continue  # it has ended, or belongs to another user


def user_of(pid: int) -> tuple[int, int] | None:
    """Return the user and the group id of a live process; None if there is no such process, or no /proc."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            uid, gid = (int(line.split()[1]) for line in file if line.startswith((b"Uid:", b"Gid:")))
    except (OSError, ValueError):
        return None
    return uid, gid


def resident_bytes(sessions: Collection[int]) -> dict[int, int]:
    """Return the resident memory of the processes of each session, by the id of its first process. Needs /proc.

    Memory that processes share counts for each of them.
    """
    found: dict[int, int] = {}
    for pid in (name for name in os.listdir("/proc") if name.isdecimal()):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # session is field 6, rss in pages field 24
        except OSError:
            continue  # it has ended
        session = int(fields[3])
        if session in sessions:
            found[session] = found.get(session, 0) + int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return found


def groups_of(session: int) -> set[int]:
    """Return the process groups of a session that has live processes. Without /proc there is none."""
    found: set[int] = set()
    for pid in (name for name in os.listdir("/proc") if name.isdecimal()) if HAS_PROC else ():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # group is field 5, session field 6
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
            found.add(int(fields[2]))
    return found


def is_stopped(pid: int) -> bool:
    """True if every thread of a process is stopped: sending the signal returns before the last thread stops."""
    if not HAS_PROC:
        psutil = _psutil()
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        except psutil.Error:
            return False
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] not in ("T", "t"):
                    return False
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just ended: look again
    return True


def _psutil() -> Any:
    try:
        import psutil
    except ImportError as error:
        from tupletree.errors import UsageError

        raise UsageError("processes cannot be listed without /proc: run `pip install psutil`") from error
    return psutil


def _started_elsewhere(pid: int) -> tuple[int, str] | None:
    psutil = _psutil()
    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if is_zombie else (round(process.create_time() * 1e6), "")
    except psutil.Error:
        return None


def _command_lines_elsewhere() -> Iterator[tuple[int, list[str]]]:
    psutil = _psutil()
    for pid in sorted(psutil.pids()):
        try:
            yield pid, psutil.Process(pid).cmdline()
        except psutil.Error:
            continue
