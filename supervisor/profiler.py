"""Profiles and thread stacks of a worker process, taken from outside with py-spy.

py-spy is a separate program, run as the worker's user, that reads the worker's memory. So it works on a hanging worker
and costs a few percent while sampling. The kernel permits this to the same user, even with ``kernel.yama.ptrace_scope``
1, because each worker names its supervisor as its permitted tracer (worker/ptrace.py). If the kernel refuses, the
caller gets an error in one sentence, and the worker is not affected.
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
from typing import Any, Final

from tupletree._extras import SERVER
from tupletree._process_table import user_of
from tupletree.errors import ConflictError, UnavailableError, UsageError

from .file_rights import give
from .logs.files import PROFILE_SUFFIXES

MAX_SECONDS: Final = 600.0
MAX_PER_SECOND: Final = 1000
DEFAULT_PER_SECOND: Final = 100
PROFILES_KEPT: Final = 10
_MORE_S: Final = 30.0  # for py-spy to start, and to write the profile
_STACKS_S: Final = 15.0


class Profiler:
    """Runs py-spy on workers. At most one profile per worker at a time."""

    def __init__(self) -> None:
        self._profiled: set[int] = set()

    async def profile(self, pid: int, directory: Path, seconds: float, format: str, per_second: int) -> Path:
        """Sample a process for ``seconds`` and return the path of the profile.

        Raises:
            UsageError: the format is unknown, or a number is out of range.
            ConflictError: the process is being profiled already.
            UnavailableError: the kernel forbids py-spy to read the process, the process has ended, or py-spy is missing
                or failed.
        """
        suffix = PROFILE_SUFFIXES.get(format)
        if suffix is None:
            raise UsageError(f"'{format}' is not a profile format; choose one of {', '.join(PROFILE_SUFFIXES)}")
        if not 0 < seconds <= MAX_SECONDS:
            raise UsageError(f"a profile must last more than 0 and at most {MAX_SECONDS:.0f} seconds, not {seconds:g}")
        if not 0 < per_second <= MAX_PER_SECOND:
            raise UsageError(f"a profile takes 1 to {MAX_PER_SECOND} samples per second, not {per_second}")
        if pid in self._profiled:
            raise ConflictError("this worker is already being profiled; try again later")
        self._profiled.add(pid)
        path = directory / f"profile-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.{suffix}"
        partial = directory.with_name(f"{directory.name}.{path.stem}.partial")  # where no worker writes
        try:
            arguments = ["record", "--pid", str(pid), "--duration", f"{max(1, round(seconds))}"]
            arguments += ["--rate", str(per_second), "--format", format, "--threads", "--output", str(partial)]
            await asyncio.to_thread(_create, partial, directory)
            await _py_spy(pid, arguments, seconds + _MORE_S)
            if not partial.stat().st_size:
                raise UnavailableError("py-spy ended without a profile")
            os.replace(partial, path)
        finally:
            self._profiled.discard(pid)
            partial.unlink(missing_ok=True)
        _forget_old(directory)
        return path

    async def stacks(self, pid: int) -> str:
        """Return the current stack of each thread of a process. Raises UnavailableError."""
        return (await _py_spy(pid, ["dump", "--pid", str(pid)], _STACKS_S)).decode(errors="replace")


def _create(path: Path, directory: Path) -> None:
    """Create a file for py-spy to write, which belongs to the owner of a worker's directory."""
    path.touch(mode=0o600)
    give(path, directory)


async def _py_spy(pid: int, arguments: list[str], timeout_s: float) -> bytes:
    """Run py-spy on a process, as the user of that process, and return its output. It never outlives this call."""
    user = user_of(pid) if os.geteuid() == 0 else None
    rights: dict[str, Any] = {}
    if user is not None and user[0] != 0:
        rights = {"user": user[0], "group": user[1], "extra_groups": []}
    process = await asyncio.create_subprocess_exec(
        _program(),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "RUST_BACKTRACE": "0"},
        **rights,
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
    """Return the path of py-spy: as installed with Tupletree, else from PATH. Raises UnavailableError."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise UnavailableError(f"py-spy is not installed on the supervisor's machine: {SERVER}")
    return found


def _why(said: str) -> str:
    """Convert the error output of py-spy into a reason."""
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
    """Remove all but the ``PROFILES_KEPT`` newest profiles."""
    for path in sorted(directory.glob("profile-*"))[:-PROFILES_KEPT]:
        path.unlink(missing_ok=True)
