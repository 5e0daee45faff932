"""CPU time and memory of processes and of the machine, read from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROCESS_CLOCK: Final = 2


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU time that processes have used so far, in seconds. Raises OSError if a process is gone."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def precise_cpu_s(pids: Iterable[int]) -> float:
    """Return what ``cpu_s`` does, in steps of nanoseconds instead of hundredths of a second, by the clocks of processes
    (Linux: clock_getcpuclockid). Raises OSError if a process is gone."""
    return sum(time.clock_gettime(~pid << 3 | _PROCESS_CLOCK) for pid in pids)


def busy_s() -> float:
    """Return the CPU time used by the whole machine so far, in seconds, including time stolen by a hypervisor."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def peak_rss_mb(pids: Iterable[int]) -> float:
    """Return the sum of the peak resident sizes of processes. Raises OSError if a process is gone."""
    kilobytes = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        kilobytes += int(status.partition("VmHWM:")[2].split()[0])
    return kilobytes / 1024


def available_mb() -> float:
    """Return the memory that new processes can use without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 1024


def family_cpu_s() -> float:
    """Return the CPU time of this process and its descendants, including descendants that have ended, in seconds."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")
