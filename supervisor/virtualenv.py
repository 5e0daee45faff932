"""The virtual environment of a bundle with a requirements.txt.

The environment uses the supervisor's own interpreter and sees all packages installed for it (Tupletree above all).
Packages from the requirements are installed on top and take precedence. An environment is built once per digest:
``venv/.complete`` is written last, when the rest is on the disk, and a directory without this file is removed and
rebuilt. pip inherits the open lock file, so even an installer that outlives its supervisor keeps the next supervisor
from building in the same directory.

The working directory is that of the bundle, because requirements can refer to files there. No Python process here
imports from this directory (``-P``): a module of the bundle could otherwise shadow a standard library module.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.machinery
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from tupletree.bundle import REQUIREMENTS
from tupletree.errors import UnavailableError

from .files import open_output, open_regular, remove_tree, sync_file_system

_LOCK_POLL_S: Final = 0.2
_MAX_S: Final = 1800.0
_MARK: Final = ".complete"
_PARENT: Final = "_tupletree_parent.pth"
_REASON_BYTES: Final = 256 * 1024


async def prepare_python(bundle_dir: Path, log: Path, topology_id: str) -> str:
    """Return the interpreter for a bundle's workers, after building the bundle's environment if necessary.

    pip's output goes to ``log``. Cancellation ends pip. Raises UnavailableError, in one sentence with pip's own reason.
    """
    if not (bundle_dir / REQUIREMENTS).is_file():
        return sys.executable
    venv = bundle_dir / "venv"
    python = venv / "bin" / "python"
    if (venv / _MARK).exists():
        return str(python)
    try:
        async with _locked(bundle_dir.with_name(f"{bundle_dir.name}.lock")) as lock:
            if not (venv / _MARK).exists():
                await _build(bundle_dir, venv, log, lock)
    except _BuildError as error:
        raise UnavailableError(
            f"the requirements of topology {topology_id} cannot be installed: {error} (complete output in {log})"
        ) from error
    except OSError as error:
        raise UnavailableError(
            f"the environment of topology {topology_id} cannot be built: {error.strerror} ({error.filename})"
        ) from error
    return str(python)


def is_pip_installed() -> bool:
    """Tell whether the interpreter of this process has pip.

    Only the path is searched: setuptools' own finder takes a search for pip as a sign that pip runs in this process,
    and before Python 3.12 a later ``import setuptools`` in the same process then fails.
    """
    return importlib.machinery.PathFinder.find_spec("pip") is not None


class _BuildError(Exception):
    """The failure of a build step, with the reason from its output."""


async def _build(bundle_dir: Path, venv: Path, log: Path, lock: int) -> None:
    await asyncio.to_thread(remove_tree, venv)
    log.parent.mkdir(parents=True, exist_ok=True)
    open_output(log, is_new=True).close()
    has_pip = is_pip_installed()  # else the new environment gets its own pip: slower
    make = [
        sys.executable,
        "-P",
        "-m",
        "venv",
        "--system-site-packages",
        *(["--without-pip"] if has_pip else []),
        str(venv),
    ]
    await _run(make, bundle_dir, log, lock)
    _inherit_packages(venv)
    python = str(venv / "bin" / "python")
    pip = [sys.executable, "-P", "-m", "pip", "--python", python] if has_pip else [python, "-P", "-m", "pip"]
    await _run([*pip, "install", "-r", REQUIREMENTS], bundle_dir, log, lock)
    await asyncio.to_thread(sync_file_system, venv)
    (venv / _MARK).touch()


def _inherit_packages(venv: Path) -> None:
    """Make the packages of this environment, possibly itself a virtual one, visible in the new environment."""
    inherited = [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    lines = "".join(f"import site; site.addsitedir({entry!r})\n" for entry in inherited)
    major, minor = sys.version_info[:2]
    (venv / "lib" / f"python{major}.{minor}" / "site-packages" / _PARENT).write_text(lines, encoding="utf-8")


async def _run(command: Sequence[str], cwd: Path, log: Path, lock: int) -> None:
    quiet = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    with open_output(log) as out:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env={**python_environment(), **quiet},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=(lock,),
        )
    try:
        status = await asyncio.wait_for(asyncio.shield(process.wait()), _MAX_S)
    except TimeoutError:
        raise _BuildError(f"an installation command did not finish within {_MAX_S:g} s") from None
    finally:
        if process.returncode is None:  # too slow, or cancelled
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if status != 0:
        raise _BuildError(_reason(log) or f"exit status {status}")


def python_environment() -> dict[str, str]:
    """Return the supervisor's environment variables with absolute paths in PYTHONPATH."""
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, entries))} if entries else {}
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **path}


def _reason(log: Path) -> str:
    """Return pip's reason for a failure: its last line that begins with ERROR, else its last line."""
    with open_regular(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _REASON_BYTES))
        said = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1][:300]


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[int]:
    """Hold an exclusive lock on a file, and yield the file's descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_POLL_S)
        yield descriptor
    finally:
        os.close(descriptor)
