"""Control groups of workers: the group that a supervisor may divide, and what it writes and reads."""

from __future__ import annotations

import pytest

from tupletree.errors import UsageError
from tupletree.supervisor.cgroups import (
    Division,
    MemoryEvents,
    Mount,
    controllers_to_enable,
    division,
    end_for_memory,
    group_directory,
    mount_of,
    own_group,
    prefix_of,
    settings,
)
from tupletree.supervisor.memory_limits import MemoryLimit

HYBRID = """\
24 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
31 24 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
MOUNT = Mount("/sys/fs/cgroup", "/")


def test_the_mount_and_the_own_group_are_those_of_version_2() -> None:
    assert mount_of(HYBRID) == Mount("/sys/fs/cgroup/unified", "/")
    assert mount_of("24 1 254:0 / / rw - ext4 /dev/vda rw\nodd\n") is None
    assert own_group("4:memory:/limited\n0::/system.slice/x.service\n") == "/system.slice/x.service"
    assert own_group("4:memory:/limited\n") is None


@pytest.mark.parametrize(
    ("group", "mount", "directory"),
    [
        ("/", MOUNT, "/sys/fs/cgroup"),
        ("/a/b", MOUNT, "/sys/fs/cgroup/a/b"),
        ("/docker/1", Mount("/sys/fs/cgroup", "/docker/1"), "/sys/fs/cgroup"),
        ("/docker/1/a", Mount("/sys/fs/cgroup", "/docker/1"), "/sys/fs/cgroup/a"),
    ],
)
def test_the_directory_of_a_group_is_below_the_mount(group: str, mount: Mount, directory: str) -> None:
    assert group_directory(None, group, mount) == group_directory(group, "/docker/1", mount) == directory


def test_a_system_without_groups_and_a_group_elsewhere_are_refused() -> None:
    for own, mount in ((None, MOUNT), ("/", None)):
        with pytest.raises(UsageError, match=r"^this system has no cgroups v2$"):
            group_directory("/tupletree", own, mount)
    with pytest.raises(UsageError, match=r"^the group /docker/12 is not among those in /sys/fs/cgroup$"):
        group_directory("/docker/12", "/docker/1", Mount("/sys/fs/cgroup", "/docker/1"))


def test_a_supervisor_divides_its_own_group_or_that_above_its_leaf() -> None:
    unit = "/sys/fs/cgroup/system.slice/tupletree-supervisor.service"
    assert division(f"{unit}/supervisor", [7, 8], 7) == Division(unit, "")
    assert division("/sys/fs/cgroup/box", [7], 7) == Division("/sys/fs/cgroup/box", "supervisor")
    with pytest.raises(UsageError, match=r"^other processes are in /sys/fs/cgroup/box too: name a group for its "):
        division("/sys/fs/cgroup/box", [7, 8], 7)
    for systemds in (unit, "/sys/fs/cgroup/session-1.scope"):
        with pytest.raises(UsageError, match=r" is systemd's: the supervisor needs a service with Delegate=yes and "):
            division(systemds, [7], 7)


def test_memory_is_enabled_and_processor_time_where_there_is_a_controller() -> None:
    assert controllers_to_enable("cpu io memory pids\n", "/g") == ["+memory", "+cpu"]
    assert controllers_to_enable("memory", "/g") == ["+memory"]
    for text, shown in (("cpu pids", "cpu, pids"), ("", "none")):
        with pytest.raises(UsageError, match=rf"^/g has no memory controller; its controllers: {shown}$"):
            controllers_to_enable(text, "/g")


def test_a_limit_is_a_wall_without_swap_and_the_declared_processor_time_a_weight() -> None:
    limit = MemoryLimit("t", 256, (("a", 2),), cpu_percent=40)
    assert settings(limit, 128) == {
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "memory.max": str(384 * 1024 * 1024),
        "cpu.weight": "40",
    }
    assert settings(None, 128) == {
        "memory.oom.group": "1",
        "memory.swap.max": "max",
        "memory.max": "max",
        "cpu.weight": "100",
    }
    weights = {percent: settings(MemoryLimit("t", 9, (), cpu_percent=percent), 0)["cpu.weight"] for percent in (0, 1e9)}
    assert weights == {0: "100", 1e9: "10000"}
    assert settings(MemoryLimit("t", 9, (), cpu_percent=0.1), 0)["cpu.weight"] == "1"


def test_the_names_of_two_supervisors_groups_differ() -> None:
    assert prefix_of("a") != prefix_of("b")
    assert "/" not in prefix_of("a/../b")


def test_an_end_by_the_kernel_is_explained() -> None:
    limit = MemoryLimit("t", 256, (("a", 2), ("b", 1)))
    beyond = MemoryEvents.parse("low 0\nhigh 0\nmax 31\noom 2\noom_kill 3\noom_group_kill 1\n")
    assert beyond == MemoryEvents(2, 3)
    assert end_for_memory(beyond, limit, 128) == (
        "the kernel ended it with its children, as they needed more than 384 MB of memory, and its limit is 256 MB "
        "(what the scheduler gave its executors) with a margin of 128 MB; its executors, by component: 'a' (2), "
        "'b' (1): declare more with set_memory_load, or find what holds the memory"
    )
    machine = "the kernel ended it with its children, as the machine or its container had no memory left"
    assert end_for_memory(MemoryEvents(0, 1), limit, 128) == machine
    assert end_for_memory(MemoryEvents(1, 1), None, 128) == (
        "the kernel ended it with its children, as they needed more memory than their control group may use"
    )
    assert end_for_memory(MemoryEvents(2, 0), limit, 128) is None


@pytest.mark.parametrize("text", ["", "oom\noom_kill x\n", "odd 1 2\n\n"])
def test_odd_counts_of_the_kernel_are_none(text: str) -> None:
    assert MemoryEvents.parse(text) == MemoryEvents(0, 0)
