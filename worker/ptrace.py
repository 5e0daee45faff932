"""Whom the kernel lets look into this process: where ``kernel.yama.ptrace_scope`` is 1, ancestors and one named here.

py-spy runs as a child of the supervisor, which is this process' parent only until it has been started again; so each
worker names the supervisor that answers its life signs.
"""

from __future__ import annotations

import contextlib
import ctypes

_PR_SET_PTRACER = 0x59616D61


def allow(pid: int) -> None:
    """Let that process and its children look into this one. Where the kernel has no such rule, nothing happens."""
    with contextlib.suppress(OSError, AttributeError, ctypes.ArgumentError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
