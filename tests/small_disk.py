"""A disk that is soon full, for tests of what writes files."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A disk of its own, of half a megabyte. Skips the test without the right to mount one."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def remount(place: Path, options: str) -> None:
    """Change the options of the disk, such as ``size=64m`` or ``ro``."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)
