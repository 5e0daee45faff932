"""What processes have used: processor time and memory, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def cpu_s(pids: Iterable[int]) -> float:
    """Processor time that processes have used so far, in seconds. Raises OSError if one is gone."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def busy_s() -> float:
    """Processor time that all of the machine has used so far, in seconds; what a hypervisor took from it included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def peak_rss_mb(pids: Iterable[int]) -> float:
    """The highest resident sizes of processes, summed. Raises OSError if one is gone."""
    kilobytes = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        kilobytes += int(status.partition("VmHWM:")[2].split()[0])
    return kilobytes / 1024
