"""CPU time and memory of the processes of a session, read from /proc; and their termination."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


def members(session: int) -> list[int]:
    """Return the ids of the processes of a session."""
    return [int(fields[0]) for fields in _stats() if int(fields[4]) == session]


def cpu_s(session: int) -> float:
    """Return the CPU time of the session's processes and of their ended children, in seconds."""
    ticks = sum(sum(map(int, fields[12:16])) for fields in _stats() if int(fields[4]) == session)
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_kb(session: int) -> dict[int, int]:
    """Return the peak resident size so far of each living process of the session."""
    peaks = {}
    for pid in members(session):
        with contextlib.suppress(OSError):
            _, is_there, rest = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")
            peaks[pid] = int(rest.split()[0]) if is_there else 0
    return peaks


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """True if a process has ended. Does not reap the process, so that its CPU time can still be read."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(leader: subprocess.Popen[bytes], grace_s: float = 5) -> None:
    """End every process of the leader's session, at any depth: by SIGTERM, then by SIGKILL. The leader is reaped."""
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
    """Yield, per process, its id and the fields of /proc/<id>/stat from the third on, indexed as in proc(5)."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield [entry.name, *Path(entry.path, "stat").read_text().rpartition(")")[2].split()]
