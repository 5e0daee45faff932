"""The wheel that the container image installs, built from what the image's build sees, in an environment of its own.

What it depends on is borrowed from this environment; Tupletree itself is not: the editable installation stays behind.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import tupletree
from tupletree._compiled import CHOICE
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.testing import wait_until

pytestmark = pytest.mark.timeout(600)  # where nothing is compiled yet, the build of the wheel compiles it

ROOT = Path(__file__).parents[3]
DAEMONS = ("nimbus", "supervisor", "worker", "acker", "drpc_server")
CONTEXT = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "tupletree", *DAEMONS)
COMPILED = "tupletree/_compiled"


def run(*command: str | Path, cwd: Path) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TUPLETREE_", "PYTHON"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment with the wheel installed."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    skipped = shutil.ignore_patterns("__pycache__", "*.so", "SOURCES*")
    for name in CONTEXT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=skipped)
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    if CHOICE == "compiled":  # what is compiled already need not be compiled again: that takes minutes
        tag = f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
        shutil.copytree(ROOT / COMPILED, source / "build" / tag / COMPILED)
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *options, "-w", directory, source, cwd=directory)
    (wheel,) = directory.glob("tupletree-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", directory / "venv", cwd=directory)
    bin_ = directory / "venv" / "bin"
    install = ("pip", "--python", bin_ / "python", "install", "--no-deps", "--quiet")
    run(sys.executable, "-m", *install, wheel, cwd=directory)
    (library,) = (directory / "venv" / "lib").glob("python*/site-packages")
    # A directory in a .pth file is searched, but .pth files in it are not followed: they name the checkout.
    (library / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    shutil.rmtree(source)
    return bin_


@pytest.mark.long
def test_the_wheel_is_what_runs_and_it_is_compiled_where_this_checkout_is(programs: Path, tmp_path: Path) -> None:
    assert f"hot path: {'compiled' if CHOICE == 'compiled' else 'plain Python'}" in run(
        programs / "tupletree", "version", cwd=tmp_path
    )
    where = run(programs / "python", "-c", "import tupletree; print(tupletree.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(programs.parent)


def test_the_wheel_has_every_file_of_the_packages(programs: Path, tmp_path: Path) -> None:
    asked = "import tupletree, pathlib; print(pathlib.Path(tupletree.__file__).parent)"
    installed = Path(run(programs / "python", "-c", asked, cwd=tmp_path).strip())
    roots = {Path(tupletree.__file__).parent: installed}
    roots |= {ROOT / role: installed / role for role in DAEMONS}
    made = (".pyc", *importlib.machinery.EXTENSION_SUFFIXES)
    for here, there in roots.items():
        wanted = {one.relative_to(here) for one in here.rglob("*") if one.is_file() and not one.name.endswith(made)}
        wanted -= {one for one in wanted if one.match("_compiled/SOURCES*")}
        assert {str(one) for one in wanted if not (there / one).is_file()} == set()


@pytest.fixture
def nimbus(programs: Path, tmp_path: Path, zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> Iterator[int]:
    """The HTTP port of a nimbus that runs from the wheel."""
    announced = tmp_path / "announced.json"
    settings = ["bind.host=127.0.0.1", "nimbus.port=0", "nimbus.http.port=0", f"local.dir={tmp_path}/data"]
    settings += [f"zookeeper.servers=[{zookeeper.connect_string}]", f"zookeeper.root={zookeeper_root}"]
    command = [str(programs / "tupletree"), "nimbus", "--announce", str(announced)]
    with (tmp_path / "out.log").open("wb") as out:
        process = subprocess.Popen(
            [*command, *(part for one in settings for part in ("-c", one))], cwd=tmp_path, stdout=out, stderr=out
        )
    try:
        wait_until(lambda: announced.exists() or process.poll() is not None, 60, what="nimbus serves")
        assert process.poll() is None, (tmp_path / "out.log").read_text()
        yield int(json.loads(announced.read_text())["http_port"])
    finally:
        process.terminate()
        process.wait(30)


def test_a_daemon_of_the_wheel_serves_and_the_images_health_check_finds_it(nimbus: int, tmp_path: Path) -> None:
    check = [sys.executable, str(ROOT / "deploy" / "container" / "healthy.py")]
    environment = {**os.environ, "TUPLETREE_NIMBUS_HTTP_PORT": str(nimbus)}
    wait_until(lambda: subprocess.run(check, env=environment, check=False).returncode == 0, 60, what="it is healthy")
    with urllib.request.urlopen(f"http://127.0.0.1:{nimbus}/", timeout=10) as page:
        assert b"<html" in page.read().lower()
    nobody = {**environment, "TUPLETREE_NIMBUS_HTTP_PORT": "1", "HEALTH_HOST": "127.0.0.2"}
    assert subprocess.run(check, env=nobody, check=False, capture_output=True).returncode == 1
