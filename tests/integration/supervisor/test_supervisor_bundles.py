"""Bundles on a supervisor's machine: fetched over gRPC, resumed, verified, unpacked, given their environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest
from supervisor_harness import BundleServer, make_bundle, supervisor

from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.errors import NotFoundError, ProtocolError, UnavailableError, UsageError
from tupletree.supervisor import files, virtualenv
from tupletree.supervisor.bundles import Bundles, find_leader
from tupletree.supervisor.virtualenv import prepare_python
from tupletree.testing.wait import wait_until


@pytest.fixture
def server() -> Iterator[BundleServer]:
    with contextlib.closing(BundleServer()) as one:
        yield one


def bundles_from(server: BundleServer, root: Path) -> Bundles:
    async def leader() -> str:
        return await find_leader([server.address])

    return Bundles(root, leader, [].append)


def wheel(directory: Path, name: str, version: str) -> Path:
    """A wheel with one module, made by hand."""
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_a_bundle_is_fetched_once_and_unpacked(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    bundles = bundles_from(server, tmp_path / "bundles")
    directory = asyncio.run(bundles.localize(info.sha256, info.size))
    assert (directory / "topology.pb").exists() and (directory / "code" / "bundle_code.py").exists()
    assert asyncio.run(bundles_from(server, tmp_path / "bundles").localize(info.sha256, info.size)) == directory
    assert len(server.requests) == 1
    assert os.listdir(tmp_path / "bundles") == [info.sha256]


def test_a_broken_download_goes_on_where_it_broke_off(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    bundles = bundles_from(server, tmp_path / "bundles")
    server.cut_after = 200

    async def attempts() -> None:
        with pytest.raises(UnavailableError, match="the leader is going down"):
            await bundles.localize(info.sha256, info.size)
        server.cut_after = None
        await bundles.localize(info.sha256, info.size)

    asyncio.run(attempts())
    assert [request.offset for request in server.requests] == [0, 200]


def test_a_damaged_bundle_is_thrown_away_and_fetched_anew(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    bundles = bundles_from(server, tmp_path / "bundles")
    server.spoil = True

    async def attempts() -> None:
        with pytest.raises(UnavailableError, match="arrived damaged"):
            await bundles.localize(info.sha256, info.size)
        assert os.listdir(tmp_path / "bundles") == []
        server.spoil = False
        await bundles.localize(info.sha256, info.size)

    asyncio.run(attempts())
    assert [request.offset for request in server.requests] == [0, 0]


def test_more_bytes_than_the_record_says_are_refused(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    with pytest.raises(UnavailableError, match="longer than its recorded size"):
        asyncio.run(bundles_from(server, tmp_path / "bundles").localize(info.sha256, info.size - 1))
    assert os.listdir(tmp_path / "bundles") == []


def test_fewer_bytes_than_the_record_says_are_not_enough(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    with pytest.raises(UnavailableError, match="sent only a part of the bundle"):
        asyncio.run(bundles_from(server, tmp_path / "bundles").localize(info.sha256, info.size + 1))


def test_a_bundle_that_the_leader_lacks_is_not_found(server: BundleServer, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="the leading nimbus does not have the bundle aaaaaaaaaaaa"):
        asyncio.run(bundles_from(server, tmp_path / "bundles").localize("a" * 64, 5))


def test_what_is_no_bundle_is_refused_and_forgotten(server: BundleServer, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_bytes(b"nonsense" * 50)
    info = server.add(tmp_path / "nonsense")
    with pytest.raises(UsageError, match="not a bundle"):
        asyncio.run(bundles_from(server, tmp_path / "bundles").localize(info.sha256, info.size))
    assert os.listdir(tmp_path / "bundles") == []


def test_a_digest_is_no_path(server: BundleServer, tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="not the digest of a bundle"):
        asyncio.run(bundles_from(server, tmp_path / "bundles").localize("../../etc", 5))


def test_a_directory_that_cannot_be_written_gets_one_sentence(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    (tmp_path / "bundles").write_text("in the way")
    with pytest.raises(UnavailableError, match="the bundle cannot be stored: File exists"):
        asyncio.run(bundles_from(server, tmp_path / "bundles").localize(info.sha256, info.size))


def test_a_bundle_is_removed_whole_unless_it_is_needed_again(server: BundleServer, tmp_path: Path) -> None:
    info = server.add(make_bundle(tmp_path))
    bundles = bundles_from(server, tmp_path / "bundles")

    async def scenario() -> None:
        await bundles.localize(info.sha256, info.size)
        (tmp_path / "bundles" / f"{info.sha256}.lock").touch()
        assert bundles.digests() == {info.sha256}
        await bundles.remove(info.sha256, lambda: True)
        assert bundles.directory(info.sha256).is_dir()
        await bundles.remove(info.sha256, lambda: False)

    asyncio.run(scenario())
    assert os.listdir(tmp_path / "bundles") == []
    assert not bundles._locks


def test_without_a_nimbus_there_is_no_leader() -> None:
    with pytest.raises(UnavailableError, match="no nimbus answers"):
        asyncio.run(find_leader(["127.0.0.1:1"]))


def unpacked(tmp_path: Path, requirements: str) -> Path:
    directory = tmp_path / "unpacked"
    directory.mkdir()
    (directory / "requirements.txt").write_text(requirements)
    return directory


def import_in(python: str, *names: str) -> str:
    code = f"import {', '.join(names)}; print({names[0]}.__file__)"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_without_requirements_workers_run_in_the_supervisors_own_python(tmp_path: Path) -> None:
    assert asyncio.run(prepare_python(tmp_path, tmp_path / "log", "t")) == sys.executable


def test_an_environment_has_what_is_required_and_what_the_supervisor_has(tmp_path: Path) -> None:
    directory = unpacked(tmp_path, f"standin_lib @ file://{wheel(tmp_path, 'standin_lib', '1.0')}\n")

    async def twice() -> list[str]:
        """Two slots at the same time, and one later."""
        both = await asyncio.gather(*(prepare_python(directory, tmp_path / "log", "t") for _ in range(2)))
        stamp = (directory / "venv" / ".complete").stat().st_mtime_ns
        later = await prepare_python(directory, tmp_path / "log", "t")
        assert (directory / "venv" / ".complete").stat().st_mtime_ns == stamp
        return [*both, later]

    pythons = asyncio.run(twice())
    assert set(pythons) == {str(directory / "venv" / "bin" / "python")}
    assert import_in(pythons[0], "standin_lib", "tupletree", "grpc").startswith(str(directory))
    assert "Successfully installed standin" in (tmp_path / "log").read_text()


def test_an_environment_is_complete_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else modules could be empty after a power failure, for as long as the bundle is used."""
    directory = unpacked(tmp_path, f"standin_lib @ file://{wheel(tmp_path, 'standin_lib', '1.0')}\n")
    synced: list[set[str]] = []

    def sync(path: Path) -> None:
        files.sync_file_system(path)
        synced.append({one.name for one in path.rglob("*")})

    monkeypatch.setattr(virtualenv, "sync_file_system", sync)
    asyncio.run(prepare_python(directory, tmp_path / "log", "t"))
    assert ["standin_lib.py" in names and ".complete" not in names for names in synced] == [True]


def test_modules_of_the_bundle_do_not_replace_those_that_the_build_needs(tmp_path: Path) -> None:
    directory = unpacked(tmp_path, f"standin_lib @ file://{wheel(tmp_path, 'standin_lib', '1.0')}\n")
    for name in ("logging", "queue", "venv", "pip"):
        (directory / f"{name}.py").write_text("raise SystemExit('a module of the bundle runs')\n")
    assert import_in(asyncio.run(prepare_python(directory, tmp_path / "log", "t")), "standin_lib")


def test_a_process_that_has_looked_for_pip_can_still_import_setuptools() -> None:
    program = "from tupletree.supervisor.virtualenv import is_pip_installed; is_pip_installed(); import setuptools"
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_requirements_that_cannot_be_met_get_one_sentence_with_pips_reason(tmp_path: Path) -> None:
    directory = unpacked(tmp_path, f"absent_lib @ file://{tmp_path}/absent_lib-1.0-py3-none-any.whl\n")
    with pytest.raises(UnavailableError) as caught:
        asyncio.run(prepare_python(directory, tmp_path / "log", "wordcount-1-1"))
    sentence = str(caught.value)
    assert sentence.startswith("the requirements of topology wordcount-1-1 cannot be installed: ")
    assert "absent_lib-1.0" in sentence and sentence.endswith(f"(complete output in {tmp_path / 'log'})")
    assert "\n" not in sentence


def test_an_interrupted_environment_is_built_again(tmp_path: Path) -> None:
    directory = unpacked(tmp_path, f"standin_lib @ file://{wheel(tmp_path, 'standin_lib', '1.0')}\n")
    (directory / "venv" / "bin").mkdir(parents=True)
    (directory / "venv" / "bin" / "python").write_text("half of it")
    python = asyncio.run(prepare_python(directory, tmp_path / "log", "t"))
    assert import_in(python, "standin_lib")


def test_cancelling_ends_the_installer(tmp_path: Path) -> None:
    # A source distribution whose build never ends, and needs nothing from elsewhere.
    source = tmp_path / "endless"
    source.mkdir()
    backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (source / "pyproject.toml").write_text(backend)
    (source / "backend.py").write_text("import time\ntime.sleep(600)\n")
    directory = unpacked(tmp_path, f"{source}\n")

    async def cancelled() -> None:
        task = asyncio.ensure_future(prepare_python(directory, tmp_path / "log", "t"))
        async with asyncio.timeout(60):
            while not installers(str(source)):
                await asyncio.sleep(0.05)
        task.cancel()
        await swallow(task)

    asyncio.run(cancelled())
    wait_until(lambda: not installers(str(source)))


async def swallow(task: Awaitable[object]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await task


def installers(directory: str) -> list[str]:
    """The processes that work in a directory."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/cwd") == directory:
                    found.append(name)
    return found


@pytest.mark.long
def test_workers_of_a_topology_with_requirements_run_in_their_environment(
    zookeeper: EmbeddedZooKeeper, zookeeper_root: str, tmp_path: Path
) -> None:
    required = f"standin_lib @ file://{wheel(tmp_path, 'standin_lib', '1.0')}\n"
    missing = f"absent_lib @ file://{tmp_path}/absent_lib-1.0-py3-none-any.whl\n"
    with supervisor(zookeeper, zookeeper_root, 3, **{"supervisor.bundle.deletion.delay.secs": 0}) as one:
        one.start()
        good = one.bundles.add(make_bundle(tmp_path, "good", required))
        bad = one.bundles.add(make_bundle(tmp_path, "bad", missing))
        good_id, bad_id = one.submit("good", good), one.submit("bad", bad)
        one.assign(good_id, *one.ports[:2])
        one.assign(bad_id, one.ports[2])
        for port in one.ports[:2]:
            one.wait_slot(port, "running", timeout=60)
            log = (one.directory / "logs" / good_id / str(port) / "worker.log").read_text()
            assert f"{good.sha256}/venv/bin/python" in log
        wait_until(lambda: one.store.errors(bad_id), 30)
        assert "cannot be installed" in one.store.errors(bad_id)[0].message
        assert "cannot be installed" in one.slot(one.ports[2]).last_exit
        assert one.slot(one.ports[0]).state == "running"

        one.remove(bad_id)
        one.wait_slot(one.ports[2], "empty")
        directory = one.directory / "data" / "bundles"
        wait_until(lambda: {name[:64] for name in os.listdir(directory)} == {good.sha256}, 20)
