"""Workers that run as the users who own their topologies: on a real cluster, with two accounts of this machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import user_probe
from security_harness import Secured

from tupletree._checkpoints.record import stored_checkpoint
from tupletree._devcluster.guard import end_all as end_all_of
from tupletree._process_table import started
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.client import NimbusClient
from tupletree.errors import NotFoundError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

ANN, BEN = f"ttree-ann-{os.getpid()}", f"ttree-ben-{os.getpid()}"
SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Place:
    """A cluster whose supervisor runs workers as their users. ``local``: the supervisor's directory."""

    cluster: DevCluster
    secured: Secured
    local: Path

    def client(self, user: str) -> NimbusClient:
        return NimbusClient(conf={**self.cluster.conf, "security.token": self.secured.user(user, "submit")})

    @property
    def supervisor(self) -> str:
        [one] = self.cluster.client.cluster().supervisors
        return f"{one.presence.host}:{one.presence.grpc_port}"

    def submit(self, user: str, name: str, paths: list[str], nodes: list[list[str]], **conf: Any) -> str:
        with self.client(user) as client:
            told = {"probe.paths": paths, "probe.nodes": nodes, "topology.workers": 1, **conf}
            return client.submit(name, user_probe.topology(), told)

    def report(self, topology_id: str) -> tuple[dict[str, Any], Path]:
        """Return what the probe of a topology wrote, and the directory of its worker."""

        def found() -> list[Path]:
            return [
                one for one in self.local.glob(f"workers/*/own/{user_probe.REPORT}") if self.is_of(one, topology_id)
            ]

        wait_until(lambda: bool(found()), timeout=60, what=f"the probe of {topology_id} has looked around")
        [path] = found()
        return json.loads(path.read_text()), path.parents[1]

    @staticmethod
    def is_of(path: Path, topology_id: str) -> bool:
        work = json.loads((path.parents[1] / "work.json").read_text())
        return bool(work["work"]["topology_id"] == topology_id)

    def errors(self, user: str, name: str) -> list[str]:
        with self.client(user) as client:
            return [one.message for one in client.describe(name).errors]


@pytest.fixture(scope="module")
def accounts() -> Iterator[None]:
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("only root can make accounts, with useradd")
    with contextlib.ExitStack() as ends:
        for name in (ANN, BEN):
            subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True)
            ends.callback(subprocess.run, ["userdel", name], check=True)
        yield


@pytest.fixture(scope="module")
def area(accounts: None) -> Iterator[Path]:
    """A directory that other users reach, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="tupletree-users-"))
    path.chmod(0o755)
    yield path
    end_all_of(str(path))
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def interpreter(area: Path) -> str:
    """An interpreter that other users can run, with the packages of this one."""
    if _runs(sys.executable):
        return sys.executable
    python = area / "python"
    if not _runs(SYSTEM_PYTHON):
        pytest.skip(f"other users can run neither {sys.executable} nor {SYSTEM_PYTHON}")
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(python)], check=True)
    [packages] = python.glob("lib/python*/site-packages")
    places = [entry for entry in sys.path if entry.endswith("site-packages")]
    (packages / "parent.pth").write_text("".join(f"import site; site.addsitedir({entry!r})\n" for entry in places))
    shutil.copy(Path(sys.executable).with_name("py-spy"), python / "bin")
    return str(python / "bin" / "python")


def _runs(python: str) -> bool:
    """True if another user can run an interpreter."""
    try:
        subprocess.run([python, "-c", ""], user=BEN, group=BEN, extra_groups=[], check=True, cwd="/")
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def place(interpreter: str, area: Path) -> Iterator[Place]:
    secured = Secured.make(area / "tls")
    password = area / "tls" / "zookeeper"
    password.write_text(secrets.token_hex(16))
    password.chmod(0o600)
    conf = {
        **secured.conf,
        "security.token": secured.user("operator", "admin"),
        "zookeeper.auth.user": "tupletree",
        "zookeeper.auth.password.file": str(password),
    }
    own = {
        "supervisor.run.worker.as.user": True,
        "supervisor.worker.tls.cert": str(area / "tls" / "worker.crt"),
        "supervisor.worker.tls.key": str(area / "tls" / "worker.key"),
        "local.dir": str(area / "supervisor"),
        "logs.dir": str(area / "supervisor" / "logs"),
        "supervisor.stop.workers.on.shutdown": True,
        "supervisor.memory.limit.tolerance.margin.mb": 0,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", interpreter)
        with DevCluster(slots=6, conf=conf, supervisor_confs=[own]) as cluster:
            yield Place(cluster, secured, area / "supervisor")


def test_two_users_run_as_themselves_and_do_not_reach_each_other(place: Place) -> None:
    root = str(place.cluster.conf["zookeeper.root"])
    ann = place.submit(ANN, "ann", [], [])
    seen, directory = place.report(ann)
    runs_as(seen, ANN)
    [port] = [path.name for path in (place.local / "logs" / ann).iterdir()]
    tls = place.secured.directory
    secret = [
        str(tls / "secret"), str(tls / "cluster.key"), str(tls / "worker.key"), str(tls / "zookeeper"),
        str(directory / "launch.json"), str(directory / "work.json"), str(directory / "own"),
        str(directory / "own" / "bundle"), str(place.local / "bundles"), str(place.local / "blobs"),
        str(place.local / "workers"), str(place.local / "logs" / ann / port), str(place.local / "logs"),
        str(place.local / "logs" / "supervisor.log"), f"/proc/{seen['pid']}/environ",
    ]  # fmt: skip
    closed = [
        ["get", f"{root}/topologies/{ann}"], ["get", f"{root}/assignments/{ann}"], ["list", f"{root}/topologies"],
        ["create", f"{root}/errors/{ann}/mine"], ["set", f"{root}/leader/epoch"], ["list", f"{root}/supervisors"],
        ["create", f"{root}/assignments/mine"], ["create", f"{root}/leader/candidates/mine"],
        ["create", f"{root}/mine"], ["set", f"{root}/topologies/{ann}"], ["list", f"{root}/workers/{ann}"],
    ]  # fmt: skip
    ben = place.submit(BEN, "ben", secret, closed)
    seen, _ = place.report(ben)
    runs_as(seen, BEN)
    assert {path: said for path, said in seen["paths"].items() if said != "PermissionError"} == {}
    assert {node: said for node, said in seen["nodes"].items() if said != "NoAuthError"} == {}
    assert seen["conf"]["zookeeper.auth.password.file"] is None
    assert Path(seen["conf"]["tls.key"]).read_bytes() == (tls / "worker.key").read_bytes()
    traps_lead_nowhere(place, ben)
    end_all(place, {"ann": ANN, "ben": BEN}, [seen["pid"], seen["child"]])


def runs_as(seen: dict[str, Any], user: str) -> None:
    uid = int(subprocess.run(["id", "-u", user], check=True, capture_output=True, text=True).stdout)
    gid = int(subprocess.run(["id", "-g", user], check=True, capture_output=True, text=True).stdout)
    assert seen["ids"] == [uid, uid, gid, uid]
    assert seen["status"]["Groups"].split() == [str(gid)]
    assert {seen["status"][name].strip("0 ") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}
    assert seen["status"]["NoNewPrivs"] == "1"
    assert seen["home"] == f"/home/{user}"
    assert not {"TUPLETREE_SECRET_OF_TESTS", "PYTEST_CURRENT_TEST"} & set(seen["environment"])


def traps_lead_nowhere(place: Place, topology_id: str) -> None:
    """A link that user code made in the directory of its logs shows nothing; what the worker wrote is served."""
    client, supervisor = place.cluster.client, place.supervisor
    [out] = [one for one in client.list_logs(supervisor, topology_id) if one.name == "worker.out"]
    assert b"the probe" in b"".join(one.data for one in client.tail_log(supervisor, topology_id, out.port))
    assert list(client.search_log(supervisor, topology_id, out.port, "the probe has looked around"))[:-1]
    assert user_probe.TRAP not in [one.name for one in client.list_logs(supervisor, topology_id)]
    shown = b"".join(one.data for one in client.tail_log(supervisor, topology_id, out.port, file=user_probe.TRAP))
    assert shown == b""


def end_all(place: Place, names: dict[str, str], pids: list[int]) -> None:
    for name, user in names.items():
        with place.client(user) as client:
            client.kill(name, wait_secs=0)
    wait_until(lambda: not any(map(started, pids)), timeout=30, what="workers and what they started have ended")
    wait_until(lambda: not list((place.local / "workers").iterdir()), timeout=30, what="their directories are removed")


def test_a_supervisor_adopts_and_examines_workers_of_users(place: Place) -> None:
    topology_id = place.submit(ANN, "adopted", [], [])
    seen, directory = place.report(topology_id)
    (directory / "process.json").unlink()  # then the process is found by its command line
    place.cluster.kill("supervisor")
    place.cluster.restart("supervisor")
    client, supervisor = place.cluster.client, place.supervisor
    [slot] = [one for one in client.slots(supervisor).slots if one.topology_id == topology_id]
    assert slot.pid == seen["pid"]
    assert "MainThread" in client.dump_stacks(supervisor, topology_id, slot.port)
    profile = b"".join(one.data for one in client.profile_worker(supervisor, topology_id, slot.port, 1, "raw"))
    memory = b"".join(one.data for one in client.profile_worker(supervisor, topology_id, slot.port, 1, "memory"))
    assert profile and memory
    names = {one.name[:8] for one in client.list_logs(supervisor, topology_id)}
    assert {"profile-", "memory-2"} <= names
    logs = place.local / "logs" / topology_id / str(slot.port)
    uid = seen["ids"][0]
    assert {path.lstat().st_uid for path in logs.iterdir()} == {uid}
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700
    end_all(place, {"adopted": ANN}, [seen["pid"], seen["child"]])


def test_each_user_has_states_that_the_others_do_not_reach(place: Place) -> None:
    conf = {"topology.state.provider": "zookeeper", "topology.state.checkpoint.interval.ms": 200}
    for user, name in ((ANN, "count-ann"), (BEN, "count-ben")):
        with place.client(user) as client:
            client.submit(name, user_probe.counting_topology(), conf)
    root = str(place.cluster.conf["transactional.zookeeper.root"])
    store = open_store(place.cluster.conf)
    try:
        for name in ("count-ann", "count-ben"):
            is_committed = functools.partial(lambda one: stored_checkpoint(store, one).round > 2, name)
            wait_until(is_committed, timeout=60, what=f"checkpoints of {name} are committed")
        spaces = [f"{root}/$states/{one}" for one in store.children("/$states") if "ann" in one]
        checkpoint = f"{root}/$checkpoints/count-ann/checkpoint"
    finally:
        store.close()
    assert spaces
    reached = [["get", checkpoint], ["set", checkpoint], ["list", spaces[0]], ["create", f"{spaces[0]}/mine"]]
    reached += [["delete", f"{root}/$checkpoints/count-ann"], ["set", root]]
    topology_id = place.submit(BEN, "ben", [], reached)
    seen, _ = place.report(topology_id)
    assert {node: said for node, said in seen["nodes"].items() if said != "NoAuthError"} == {}
    end_all(place, {"ben": BEN, "count-ann": ANN, "count-ben": BEN}, [seen["pid"]])


def test_memory_of_a_user_s_worker_is_watched(place: Place) -> None:
    place.submit(ANN, "hog", [], [], **{"topology.worker.memory.limit.mb": 5})
    said = "MB of memory, and its limit is 5 MB"
    wait_until(lambda: any(said in one for one in place.errors(ANN, "hog")), timeout=60, what="its worker is ended")
    end_all(place, {"hog": ANN}, [])


def test_what_cannot_run_as_its_user_does_not_run_at_all(place: Place, tmp_path: Path) -> None:
    place.submit("ttree-nobody-here", "unknown", [], [])
    place.submit("daemon", "system", [], [])
    place.submit("nobody", "banned", [], [])
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("wheel\n")
    with place.client(ANN) as client:
        conf = {"probe.paths": [], "probe.nodes": []}
        client.submit("required", user_probe.topology(), conf, requirements=requirements)
    for user, name, said in (
        ("ttree-nobody-here", "unknown", "this machine has no account of that name"),
        ("nobody", "banned", "supervisor.worker.banned.users names this account"),
        ("daemon", "system", "is below supervisor.worker.min.user.id, 1000"),
        (ANN, "required", "a topology with requirements cannot run where supervisor.run.worker.as.user is set"),
    ):
        wait_until(lambda user=user, name=name, said=said: any(said in one for one in place.errors(user, name)))  # type: ignore[misc]
    assert not list(place.local.glob("workers/*/process.json"))
    for user, name in (("ttree-nobody-here", "unknown"), ("daemon", "system"), ("nobody", "banned"), (ANN, "required")):
        with place.client(user) as client:
            client.kill(name, wait_secs=0)


def test_a_topology_with_blobs_is_refused(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_text("a b c")
    with place.client(ANN) as client:
        client.put_blob("words", file)
        place.submit(ANN, "blobs", [], [], **{"topology.blobstore.map": {"words": {}}})
        said = "a topology with topology.blobstore.map cannot run where supervisor.run.worker.as.user is set"
        wait_until(lambda: any(said in one for one in place.errors(ANN, "blobs")), what="it is refused")
        client.kill("blobs", wait_secs=0)
        with contextlib.suppress(NotFoundError):
            client.delete_blob("words", force=True)
