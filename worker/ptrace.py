"""Permission to trace this process. With ``kernel.yama.ptrace_scope`` 1, only ancestors and one named process may.

py-spy runs as a child of the supervisor. A supervisor that was restarted is no longer the parent of this process, so
each worker names the supervisor that answers its heartbeats.
"""

from __future__ import annotations

import contextlib
import ctypes

_PR_SET_PTRACER = 0x59616D61


def allow(pid: int) -> None:
    """Let a process and its children trace this process. Does nothing on kernels without this rule."""
    with contextlib.suppress(OSError, AttributeError, ctypes.ArgumentError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
