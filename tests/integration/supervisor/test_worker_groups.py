"""Workers in control groups of their own, by the kernel: limits, ends, adoption and removal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import supervisor_harness
from kazoo.client import KazooClient
from supervisor_harness import SUPERVISE, SUPERVISOR, Supervisor, alive, make_bundle, supervisor

from tests.integration.supervisor.memory_groups import memory_group
from tupletree._coord import paths
from tupletree._coord.store import encode
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.bundle import BundleInfo
from tupletree.errors import ConfigError
from tupletree.supervisor.accounts import Account
from tupletree.supervisor.cgroups import mount_of, prefix_of
from tupletree.supervisor.processes import WorkerProcess
from tupletree.supervisor.worker_groups import entering_as, find_groups
from tupletree.testing.wait import wait_until

FAST = {"supervisor.worker.shutdown.sleep.secs": 0.5, "supervisor.monitor.frequency.secs": 0.5}
LIMIT = "topology.worker.memory.limit.mb"
MB = 1024 * 1024


@pytest.fixture
def group() -> Iterator[Path]:
    with memory_group() as made:
        yield made


@pytest.fixture
def subject(
    zookeeper: EmbeddedZooKeeper, zookeeper_root: str, group: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Supervisor]:
    """A supervisor that starts alone in a group."""
    enter = ("/bin/sh", "-c", f'echo 0 > {group}/supervisor/cgroup.procs && exec "$@"', "sh")
    (group / "supervisor").mkdir()
    monkeypatch.setattr(supervisor_harness, "SUPERVISE", (*enter, *SUPERVISE))
    with supervisor(zookeeper, zookeeper_root, 2, **FAST, **{"supervisor.cgroup.use": "required"}) as one:
        one.start()
        yield one


@pytest.fixture
def plain(subject: Supervisor, tmp_path: Path) -> BundleInfo:
    return subject.bundles.add(make_bundle(tmp_path))


def group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/").rpartition("/")[2]


def test_a_worker_and_its_child_beyond_the_limit_are_ended_by_the_kernel_and_their_group_goes(
    subject: Supervisor, plain: BundleInfo, group: Path
) -> None:
    topology_id, port = subject.submit("hungry", plain, **{"standin.mode": "hungry", LIMIT: 100}), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    logs = subject.directory / "logs" / topology_id / str(port)
    child = int((logs / "child.pid").read_text())
    assert group_of(first.pid) == group_of(child) == f"{prefix_of(SUPERVISOR)}{first.worker_id}"
    own = group / group_of(first.pid)
    assert (own / "memory.max").read_text().strip() == str((100 + 128) * MB)
    assert (own / "memory.oom.group").read_text().strip() == "1"

    (logs / "eat").touch()
    wait_until(lambda: not alive(first.pid) and not alive(child), 20, what="the kernel ends both")
    (logs / "eat").unlink()
    message = wait_until(lambda: subject.store.errors(topology_id), what="the end is reported")[0].message
    assert message.startswith(
        f"the worker on port {port} died: the kernel ended it with its children, as they needed more than 228 MB of "
        "memory, and its limit is 100 MB (topology.worker.memory.limit.mb) with a margin of 128 MB"
    )
    assert f'worker_exits_total{{cause="memory",slot="{port}"}} 1.0' in subject.get("/metrics")[1]
    second = subject.wait_slot(port, "running", unlike=first.worker_id)
    wait_until(lambda: not own.exists(), what="the group is removed")
    assert (group / group_of(second.pid)).exists()

    subject.assign(topology_id)
    wait_until(lambda: [one.name for one in group.iterdir() if one.is_dir()] == ["supervisor"], 15, what="all are gone")


def test_a_worker_that_ends_as_the_machine_has_no_memory_left_is_told_apart(
    subject: Supervisor, plain: BundleInfo, group: Path
) -> None:
    topology_id, port = subject.submit("innocent", plain, **{"standin.mode": "hungry"}), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    used = int((group / "memory.current").read_text())
    (group / "memory.max").write_text(str(used + 100 * MB))
    logs = subject.directory / "logs" / topology_id / str(port)
    (logs / "eat").touch()
    wait_until(lambda: not alive(first.pid), 20, what="the kernel ends it")
    (logs / "eat").unlink()
    (group / "memory.max").write_text("max")
    message = wait_until(lambda: subject.store.errors(topology_id), what="the end is reported")[0].message
    assert message == (
        f"the worker on port {port} died: the kernel ended it with its children, as the machine or its container had "
        "no memory left"
    )


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A group without controllers, which a machine with cgroups v1 has too."""
    mount = mount_of(Path("/proc/self/mountinfo").read_text()) if os.path.exists("/proc/self/mountinfo") else None
    if mount is None:
        pytest.skip("this system has no cgroups v2")
    made = Path(mount.point) / f"tupletree-test-{uuid.uuid4().hex[:8]}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"groups cannot be made in {mount.point}: {error.strerror}")
    yield made
    made.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs of other users")
def test_nothing_that_a_user_chose_runs_before_its_program_has_left_cgroup_procs(
    small_group: Path, tmp_path: Path
) -> None:
    """A library in LD_PRELOAD would otherwise move any process of the machine into the group, and have it killed."""
    nobody = Account("nobody", 65534, 65534, "/", (65534,))
    own = {"LD_PRELOAD": "/nowhere/own.so", "OWN": "ä\udcff"}
    show = "cat /proc/self/cgroup; echo 0 > $0 || echo closed; id -u; id -G; readlink /proc/self/fd/0; umask; env"
    output = tmp_path / "output"
    entrance = os.open(small_group / "cgroup.procs", os.O_WRONLY)
    try:
        with entering_as(nobody, own) as (enter, facts):
            command = [*enter, "/bin/sh", "-c", f"exec 2>/dev/null; {show}", f"{small_group}/cgroup.procs"]
            process = WorkerProcess.launch(
                command, "/", dict(os.environ), str(output), stdin=entrance, inherited=[facts]
            )
    finally:
        os.close(entrance)
    wait_until(lambda: not alive(process.pid), 20, what="it ends")
    process.end()
    text = output.read_text(errors="surrogateescape")
    lines = [line for line in text.splitlines() if "LD_PRELOAD cannot" not in line]
    assert f"0::/{small_group.name}" in lines
    assert lines[lines.index("closed") :][:5] == ["closed", "65534", "65534", "/dev/null", "0077"]
    assert f"OWN={own['OWN']}" in lines
    assert text.count("'/nowhere/own.so' from LD_PRELOAD") <= 1, "only the loader of the user's own program reads it"
    assert not any(line.startswith("HOME=") for line in lines)


def test_an_adopted_worker_keeps_its_group_gets_new_limits_and_leftovers_are_removed(
    subject: Supervisor, plain: BundleInfo, group: Path
) -> None:
    topology_id, port = subject.submit("adopted", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    own = group / group_of(first.pid)
    assert (own / "memory.max").read_text().strip() == "max"
    subject.kill()
    leftover, others = group / f"{prefix_of(SUPERVISOR)}gone", group / f"{prefix_of('other')}runs"
    leftover.mkdir()
    others.mkdir()
    enter = f"echo 0 > {leftover}/cgroup.procs && exec sleep 600"
    with subprocess.Popen(["/bin/sh", "-c", enter], start_new_session=True) as lost:
        try:
            subject.start()
            slot = subject.wait_slot(port, "running")
            assert (slot.worker_id, slot.pid) == (first.worker_id, first.pid)
            assert lost.wait(15) == -signal.SIGKILL
        finally:
            lost.kill()
    wait_until(lambda: not leftover.exists(), 15, what="the leftover is removed")
    assert others.exists() and own.exists(), "another supervisor's group, and the adopted worker's"

    found = subject.store.assignments()[topology_id].value
    found.workers[0].memory_mb = 300
    client: KazooClient = subject.store.client
    client.set(paths.assignment(subject.root, topology_id), encode(found))
    wait_until(lambda: (own / "memory.max").read_text().strip() == str(428 * MB), 15, what="the limit is written")
    assert subject.slot(port).worker_id == first.worker_id


def test_a_supervisor_alone_in_its_group_moves_into_a_leaf_and_one_in_company_is_refused(
    zookeeper: EmbeddedZooKeeper, zookeeper_root: str, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = ("/bin/sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh")
    monkeypatch.setattr(supervisor_harness, "SUPERVISE", (*enter, *SUPERVISE))
    with supervisor(zookeeper, zookeeper_root, 1, **FAST) as one:
        one.start()
        assert one.process is not None
        assert group_of(one.process.pid) == "supervisor"
        assert f"cgroup.used root={group}" in one.log()
        one.kill()
    (group / "supervisor").rmdir()
    for controller in ("-memory", "-cpu"):
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(controller)

    with supervisor(zookeeper, zookeeper_root, 1, **FAST) as one, company(group):
        one.start()
        assert "cgroup.unused" in one.log(), "auto: memory is watched"
        one.kill()
        one.launch(**{"supervisor.cgroup.use": "required"})
        assert one.join() == 2
        assert (
            f"configuration key 'supervisor.cgroup.use' is 'required', but other processes are in {group} too: name a "
            f"group for its workers in supervisor.cgroup.root" in one.output()
        )


def test_a_group_that_cannot_be_divided_is_refused_in_one_sentence(
    group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(root: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=rf"'supervisor.cgroup.use' is 'required', but {reason}"):
            find_groups("required", root, "me", 128)
        assert find_groups("auto", root, "me", 128) is None
        assert find_groups("never", root, "me", 128) is None

    own = f"/{group.name}"
    refused(f"{own}/none", r".*/none/cgroup.controllers: No such file or directory$")
    with company(group):
        refused(own, r"processes run in .* itself, such as workers that were launched before: end them first$")
    with monkeypatch.context() as changed:
        changed.setenv("PATH", "/nowhere")
        refused(own, r"no program can be started in a group below .*: .*not found$")
    (group / "cgroup.freeze").write_text("1")
    refused(own, r"a program in a group below .* does not run: is that group frozen\?$")
    (group / "cgroup.freeze").write_text("0")
    wait_until(lambda: find_groups("required", own, "me", 128), what="the thawed group is divided")
    assert [one.name for one in group.iterdir() if one.is_dir()] == [], "no trial is left"


@contextlib.contextmanager
def company(group: Path) -> Iterator[None]:
    enter = f"echo 0 > {group}/cgroup.procs && exec sleep 600"
    with subprocess.Popen(["/bin/sh", "-c", enter], start_new_session=True) as process:
        try:
            wait_until(lambda: str(process.pid) in (group / "cgroup.procs").read_text().split(), what="it is there")
            yield
        finally:
            os.kill(process.pid, signal.SIGKILL)
