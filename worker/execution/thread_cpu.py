"""Time for which a thread has wanted a processor. Distinguishes a waiting thread from one without a processor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path


def wanted_s(thread: threading.Thread) -> float:
    """Return the seconds for which a live thread has run, or would have run on a free processor.

    Linux counts both (schedstat: nanoseconds running, nanoseconds runnable). Without schedstat, only the running time
    is known, and a thread on an overloaded machine appears to wait. Without clocks of other threads (macOS), the time
    of the whole process is an upper bound: a thread is seen waiting only while the other threads do little.
    """
    try:
        ran_ns, queued_ns, _ = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
        return (int(ran_ns) + int(queued_ns)) / 1e9
    except (OSError, ValueError):
        clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
        if clock_of is None:
            return time.process_time()
        assert thread.ident is not None
        return time.clock_gettime(clock_of(thread.ident))
