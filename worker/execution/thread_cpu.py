"""How long a thread has wanted a processor: what tells a thread that waits from one that is kept waiting."""

from __future__ import annotations

import threading
import time
from pathlib import Path


def wanted_s(thread: threading.Thread) -> float:
    """Seconds for which a live thread has run or could have run, had a processor been free.

    Linux counts both (schedstat: nanoseconds running, nanoseconds runnable). Where it does not, only the time running
    is known, and a thread on a crowded machine looks as if it waited.
    """
    try:
        ran_ns, queued_ns, _ = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
        return (int(ran_ns) + int(queued_ns)) / 1e9
    except (OSError, ValueError):
        assert thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
