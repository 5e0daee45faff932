"""A process imports only what it needs: there are many workers on a machine, and each starts anew when one is lost."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

import tupletree
import tupletree.state

WEB = {"starlette", "uvicorn", "fastapi", "anyio"}
SPARK = {"pyspark", "py4j", "pandas", "pyarrow"}
TOKENS = {"jwt", "cryptography"}  # only where they are configured


def imported_by(modules: str) -> set[str]:
    """What is in sys.modules of a new process that has imported ``modules``."""
    code = f"import sys, {modules}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("tupletree.worker.__main__", {*WEB, *SPARK, *TOKENS, "numpy", "yaml", "click", "rich", "tupletree.client"}),
        ("tupletree.acker.__main__", {*WEB, *SPARK, *TOKENS, "tupletree.client"}),
        ("tupletree.supervisor.__main__", {*WEB, *SPARK, *TOKENS, "numpy", "tupletree.client"}),
    ],
)
def test_a_daemon_imports_only_what_it_needs(module: str, needless: set[str]) -> None:
    assert imported_by(module) & needless == set()


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_an_acker_starts_no_threads_for_linear_algebra() -> None:
    code = "import os, tupletree.acker.__main__; print(len(os.listdir('/proc/self/task')))"
    inherited = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=inherited)
    assert done.stdout.split() == ["1"]


def test_the_library_imports_no_package_that_most_programs_do_not_need() -> None:
    needless = {*WEB, *SPARK, *TOKENS, "numpy", "grpc", "kazoo", "yaml", "click", "rich", "asyncio", "tupletree.client"}
    assert imported_by("tupletree") & needless == set()
    assert imported_by("tupletree.streams, tupletree.connectors.files") & {*WEB, *SPARK, *TOKENS} == set()


def test_a_state_provider_imports_what_it_needs_when_it_is_used() -> None:
    needless = {"redis", "psycopg", "pyarrow", "sqlite3", "kazoo", "tupletree.transactional"}
    assert imported_by("tupletree.state, tupletree.state.providers, tupletree.state.memory") & needless == set()
    assert imported_by("tupletree.state.sqlite") & needless == {"sqlite3"}
    assert imported_by("tupletree.state.redis") & needless == set()
    assert imported_by("tupletree.state.postgres") & needless == set()
    with pytest.raises(AttributeError, match=r"^module 'tupletree\.state' has no attribute 'Provider'$"):
        _ = tupletree.state.Provider  # type: ignore[attr-defined,unused-ignore]


def test_what_is_imported_late_is_exported_like_the_rest() -> None:
    exported: dict[str, object] = {}
    exec("from tupletree import *", exported)
    assert exported.keys() - {"__builtins__"} == set(tupletree.__all__)
    assert tupletree.NimbusClient is importlib.import_module("tupletree.client").NimbusClient
    with pytest.raises(AttributeError, match=r"^module 'tupletree' has no attribute 'NimbusKlient'$"):
        _ = tupletree.NimbusKlient  # type: ignore[attr-defined,unused-ignore]
