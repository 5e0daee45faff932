"""A control group for a test, where the kernel has cgroups v2 with memory that may be limited here."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tupletree.supervisor.cgroups import mount_of
from tupletree.testing.wait import wait_until


@contextlib.contextmanager
def memory_group() -> Iterator[Path]:
    """Make a group with a memory controller at the top of the hierarchy. Skips the test where that is impossible.

    At the end, everything in the group is killed and the group is removed.
    """
    mount = mount_of(Path("/proc/self/mountinfo").read_text()) if os.path.exists("/proc/self/mountinfo") else None
    if mount is None:
        pytest.skip("this system has no cgroups v2")
    top = Path(mount.point)
    if "memory" not in (top / "cgroup.controllers").read_text().split():
        pytest.skip(f"{top} has no memory controller (the machine has cgroups v1 for memory)")
    group = top / f"tupletree-test-{uuid.uuid4().hex[:8]}"
    try:
        (top / "cgroup.subtree_control").write_text("+memory +cpu")
        group.mkdir()
    except OSError as error:
        pytest.skip(f"groups cannot be made in {top}: {error.strerror}")
    try:
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")
        wait_until(lambda: _is_removed(group), what=f"{group} is removed")


def _is_removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)
    return not group.exists()
