"""What the processes of a session have used, read from /proc; and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


def members(session: int) -> list[int]:
    """The processes of a session, by id."""
    return [int(fields[0]) for fields in _stats() if int(fields[4]) == session]


def cpu_s(session: int) -> float:
    """Processor time of the session's processes and of their children that have ended, in seconds."""
    ticks = sum(sum(map(int, fields[12:16])) for fields in _stats() if int(fields[4]) == session)
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_kb(session: int) -> dict[int, int]:
    """The highest resident size so far of each process of the session that lives."""
    peaks = {}
    for pid in members(session):
        with contextlib.suppress(OSError):
            _, is_there, rest = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")
            peaks[pid] = int(rest.split()[0]) if is_there else 0
    return peaks


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended. Does not reap it: what it used can still be read."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(leader: subprocess.Popen[bytes], grace_s: float = 5) -> None:
    """End every process of the leader's session, however deep: by SIGTERM, then by SIGKILL. The leader is reaped."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline_s = time.monotonic() + grace_s
        for pid in members(leader.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while set(members(leader.pid)) - {leader.pid} or not is_over(leader):
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.02)
    leader.wait()


def _stats() -> Iterator[list[str]]:
    """Of each process its id, then the fields of /proc/<id>/stat from the third on, as proc(5) numbers them."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield [entry.name, *Path(entry.path, "stat").read_text().rpartition(")")[2].split()]
