"""A table that gets no memory stays as it was: in a process of its own, whose address space is limited."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from tupletree.acker.hash_table import Table

def limit(more):
    pages = int(open("/proc/self/statm").read().split()[0])
    soft = resource.RLIM_INFINITY if more is None else pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))

table, failures = Table(), 0
mix = lambda root: table.hash_one(root)
root = 0
while failures < 2:
    limit(1 << 20)
    try:
        while True:
            table.insert_one(root + 1, mix(root + 1), root, 1, 1, 1)
            root += 1
    except MemoryError:
        failures += 1
    limit(None)
    assert len(table) == root, (len(table), root)
    assert table.find_one(root + 1, mix(root + 1)) == -1
    for known in range(1, root + 1, 97):
        assert table.values[table.find_one(known, mix(known))] == known - 1, known
    table.insert_one(root + 1, mix(root + 1), root, 1, 1, 1)
    root += 1
print("whole")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits its address space")
@pytest.mark.parametrize("pure", ["", "1"])
def test_a_table_that_cannot_grow_is_whole_and_grows_later(pure: str) -> None:
    environment = {**os.environ, "TUPLETREE_PURE": pure}
    if not pure:
        del environment["TUPLETREE_PURE"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-2000:]
