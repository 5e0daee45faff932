"""Looking into a worker's process from outside, with py-spy: profiles, and what its threads are doing.

py-spy is a program of its own and reads the worker's memory, so it works on one that hangs, and costs the worker a few
percent while it samples. The kernel has to allow it: as the same user, and where ``kernel.yama.ptrace_scope`` is 1
because each worker names its supervisor as the process that may (worker/ptrace.py). Where it does not, whoever asked is
told so in one sentence, and nothing happens to the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from tupletree.errors import ConflictError, UnavailableError, UsageError

from .logs.files import PROFILE_SUFFIXES

MAX_SECONDS: Final = 600.0
MAX_PER_SECOND: Final = 1000
DEFAULT_PER_SECOND: Final = 100
PROFILES_KEPT: Final = 10
_MORE_S: Final = 30.0  # for py-spy to begin, and to write what it has seen
_STACKS_S: Final = 15.0


class Profiler:
    """What is being looked at. One profile of a worker at a time."""

    def __init__(self) -> None:
        self._profiled: set[int] = set()

    async def profile(self, pid: int, directory: Path, seconds: float, format: str, per_second: int) -> Path:
        """Sample a process for some seconds; the file that was written.

        Raises:
            UsageError: there is no such format, or a number is out of range.
            ConflictError: it is being profiled already.
            UnavailableError: it cannot be: the kernel forbids it, the process is gone, or there is no py-spy.
        """
        suffix = PROFILE_SUFFIXES.get(format)
        if suffix is None:
            raise UsageError(f"'{format}' is no format of a profile; there are {', '.join(PROFILE_SUFFIXES)}")
        if not 0 < seconds <= MAX_SECONDS:
            raise UsageError(f"a profile takes more than 0 and up to {MAX_SECONDS:.0f} seconds, not {seconds:g}")
        if not 0 < per_second <= MAX_PER_SECOND:
            raise UsageError(f"a profile takes 1 to {MAX_PER_SECOND} samples a second, not {per_second}")
        if pid in self._profiled:
            raise ConflictError("this worker is being profiled already; one profile at a time")
        self._profiled.add(pid)
        path = directory / f"profile-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.{suffix}"
        partial = path.with_suffix(".partial")
        try:
            arguments = ["record", "--pid", str(pid), "--duration", f"{max(1, round(seconds))}"]
            arguments += ["--rate", str(per_second), "--format", format, "--threads", "--output", str(partial)]
            await _py_spy(arguments, seconds + _MORE_S)
            os.replace(partial, path)
        except FileNotFoundError:
            raise UnavailableError("py-spy ended without a profile") from None
        finally:
            self._profiled.discard(pid)
            partial.unlink(missing_ok=True)
        _forget_old(directory)
        return path

    async def stacks(self, pid: int) -> str:
        """What each thread of a process is doing now. Raises UnavailableError."""
        return (await _py_spy(["dump", "--pid", str(pid)], _STACKS_S)).decode(errors="replace")


async def _py_spy(arguments: list[str], timeout_s: float) -> bytes:
    """Run py-spy; what it printed. It ends with this call, whatever happens."""
    process = await asyncio.create_subprocess_exec(
        _program(),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "RUST_BACKTRACE": "0"},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        raise UnavailableError(f"py-spy did not end within {timeout_s:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise UnavailableError(_why(err.decode(errors="replace")))
    return out


def _program() -> str:
    """The py-spy that is installed with Tupletree, else one on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise UnavailableError("py-spy is not installed on the supervisor's machine: pip install py-spy")
    return found


def _why(said: str) -> str:
    """What py-spy said, as a reason."""
    lowered = said.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered:
        return (
            "the kernel does not let the supervisor look into the worker's process: "
            "set kernel.yama.ptrace_scope to 1 or less, or give its container the capability SYS_PTRACE"
        )
    if "no such process" in lowered or "no such file" in lowered:
        return "the worker's process has ended"
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", said).splitlines() if line.strip()]
    return f"py-spy failed: {lines[0].removeprefix('Error: ').strip()[:300] if lines else 'it gave no reason'}"


def _forget_old(directory: Path) -> None:
    """Keep the newest profiles only."""
    for path in sorted(directory.glob("profile-*"))[:-PROFILES_KEPT]:
        path.unlink(missing_ok=True)
