"""Authoring, local runs and ``tupletree dev`` where there is no /proc and no pidfd, as on macOS.

The tests named below run once more in a namespace whose /proc is empty, in interpreters without the functions that
only Linux has. psutil and Java, which need a /proc on Linux, are shown the real one elsewhere.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tupletree._devcluster.java import find_java

pytestmark = pytest.mark.timeout(1200)

ROOT = Path(__file__).parents[3]
LINUX_ONLY = """
import os, select, time
for module, names in (
    (os, "pidfd_open waitid sched_getaffinity sched_setaffinity eventfd memfd_create posix_fadvise fdatasync pipe2"),
    (select, "epoll"),
    (time, "pthread_getcpuclockid"),
):
    for name in names.split():
        delattr(module, name)
import psutil
psutil.PROCFS_PATH = {proc!r}
"""
JAVA = """\
#!/bin/sh
exec unshare -m sh -c 'umount /proc && exec "$@"' sh {java} "$@"
"""
TOPOLOGY = """
from tupletree import TopologyBuilder, spout

@spout(outputs=["number"])
def numbers(): yield from ([1], [2])

topology = TopologyBuilder()
topology.set_spout("numbers", numbers)
"""
COVER = 'mount --bind /proc "$1" && mount --bind "$2" /proc && shift 2 && exec "$@"'


class OtherSystem:
    """Runs commands without /proc and without the functions that only Linux has."""

    def __init__(self, directory: Path) -> None:
        self._proc, self._empty = directory / "proc", directory / "empty"
        for path in (self._proc, self._empty, directory / "site", directory / "java" / "bin"):
            path.mkdir(parents=True)
        (directory / "site" / "sitecustomize.py").write_text(LINUX_ONLY.format(proc=str(self._proc)))
        java = directory / "java" / "bin" / "java"
        java.write_text(JAVA.format(java=shlex.quote(find_java())))
        java.chmod(0o755)
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self._environment = {**ours, "PYTHONPATH": str(directory / "site"), "JAVA_HOME": str(directory / "java")}
        self._environment["PYTHON"] = sys.executable

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        cover = ["unshare", "-rm", "sh", "-c", COVER, "sh", str(self._proc), str(self._empty)]
        return subprocess.run(
            [*cover, *command], cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def other_system(tmp_path: Path) -> OtherSystem:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this machine permits no namespaces of users and mounts")
    return OtherSystem(tmp_path)


def test_nothing_of_it_is_there_but_processes_are_found(other_system: OtherSystem) -> None:
    program = """
import os
from tupletree._process_table import HAS_PROC, command_lines, started
assert not os.listdir("/proc") and not HAS_PROC and not hasattr(os, "pidfd_open")
assert started(os.getpid())[1] == "" and started(2**22 + 1) is None
assert dict(command_lines())[os.getpid()][1] == "-c"
"""
    done = other_system.run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_without_psutil_one_sentence_says_what_to_install(other_system: OtherSystem, tmp_path: Path) -> None:
    program = "import sys; sys.modules['psutil'] = None; from tupletree.cli.main import main; sys.exit(main())"
    done = other_system.run(sys.executable, "-c", program, "dev", "--dir", str(tmp_path / "data"))
    assert done.returncode == 2
    assert done.stderr.endswith("processes cannot be listed without /proc: run `pip install psutil`\n")


def test_a_topology_runs_by_tupletree_local(other_system: OtherSystem, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TOPOLOGY)
    done = other_system.run(sys.executable, "-m", "tupletree", "local", str(tmp_path / "two.py"), "--json")
    assert done.returncode == 0, done.stderr
    assert [one["emitted"] for one in json.loads(done.stdout)["streams"]] == [2]


@pytest.mark.nightly
def test_what_needs_no_proc_passes_its_own_tests(other_system: OtherSystem) -> None:
    done = other_system.run("sh", str(ROOT / ".ci" / "test-portable"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout
