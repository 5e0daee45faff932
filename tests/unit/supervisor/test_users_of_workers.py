"""The configuration of workers that run as their users, their environment, and the supervisor's files beside theirs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tupletree._coord.worker_acls import WORKER_AUTH
from tupletree.config import defaults
from tupletree.errors import ConfigError, UnavailableError, UsageError
from tupletree.supervisor.accounts import Account
from tupletree.supervisor.files import open_output, read_text
from tupletree.supervisor.users import (
    Users,
    copy_bundle,
    environment_of,
    hand_over,
    make_log_directory,
    prepare_machine,
)

SOMEBODY = Account("somebody", 61234, 61234, "/home/somebody")

only_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root gives files to other users"
)


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, Any]:
    for name, content in (("password", "p" * 32), ("cluster.key", "a"), ("worker.key", "b"), ("worker.crt", "c")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "ca.crt").write_text("d")
    return {
        **defaults(),
        "supervisor.run.worker.as.user": True,
        "security.tokens": True,
        "zookeeper.auth.user": "tupletree",
        "zookeeper.auth.password.file": str(tmp_path / "password"),
        "tls.ca": str(tmp_path / "ca.crt"),
        "tls.cert": str(tmp_path / "cluster.crt"),
        "tls.key": str(tmp_path / "cluster.key"),
        "supervisor.worker.tls.cert": str(tmp_path / "worker.crt"),
        "supervisor.worker.tls.key": str(tmp_path / "worker.key"),
    }


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that other users pass through, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="tupletree-users-") as directory:
        os.chmod(directory, 0o711)
        yield Path(directory)


def users(conf: dict[str, Any]) -> Users:
    found = Users.from_conf(conf)
    assert found is not None
    return found


def test_nothing_is_asked_of_a_supervisor_whose_workers_run_as_it_does() -> None:
    assert Users.from_conf(defaults()) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"security.tokens": False}, r"needs security\.tokens"),
        ({"zookeeper.auth.password": "x"}, r"needs zookeeper\.auth\.password\.file, closed to users"),
        (
            {"zookeeper.auth.user": None, "zookeeper.auth.password.file": None},
            r"needs zookeeper\.auth\.user and a pass",
        ),
        ({"zookeeper.tls.key": "k"}, r"needs a ZooKeeper that asks for no certificate"),
        ({"supervisor.worker.tls.key": None}, r"needs supervisor\.worker\.tls\.cert and supervisor\.worker\.tls\.key"),
    ],
)
def test_what_would_give_secrets_to_workers_is_refused(
    conf: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Users.from_conf({**conf, **changes})


def test_a_short_password_and_the_key_of_the_daemons_are_refused(conf: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"worker\.tls\.key is the key of the daemons"):
        Users.from_conf({**conf, "supervisor.worker.tls.key": conf["tls.key"]})
    (tmp_path / "password").write_text("p" * 31)
    with pytest.raises(ConfigError, match=r"a password of 32 or more random characters"):
        Users.from_conf(conf)


def test_a_worker_is_told_no_secret_of_daemons_and_gets_copies_of_what_it_reads(
    conf: dict[str, Any], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    told = users({**conf, "nimbus.dead.letters.stores": {"a": "redis://:secret@h/1"}}).conf_of(SOMEBODY, conf, own)
    assert told["zookeeper.auth.user"] is told["zookeeper.auth.password.file"] is None
    assert told["nimbus.dead.letters.stores"] == {}
    assert "p" * 32 not in str(told)
    assert [Path(told[key]).read_text() for key in ("tls.ca", "tls.cert", "tls.key")] == ["d", "c", "b"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (own / "tls").iterdir()} == {0o400}
    other = users(conf).acls.of_worker("other")
    assert told[WORKER_AUTH]["shown"][0] == other["shown"][0]
    assert told[WORKER_AUTH]["shown"][1] != other["shown"][1]


def test_an_account_is_found_by_the_owner_s_name(conf: dict[str, Any]) -> None:
    for name in ("no-such-account-here", "a\0b"):
        with pytest.raises(UsageError, match="this machine has no account of that name"):
            users(conf).find(name)
    with pytest.raises(UsageError, match=r"its user id 0 is below"):
        users(conf).find("root")


def test_the_environment_of_a_worker_is_that_of_a_login() -> None:
    inherited = {"PATH": "/bin", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root", "USER": "root"}
    told = environment_of(SOMEBODY, inherited)
    home = {"HOME": "/home/somebody", "USER": "somebody", "LOGNAME": "somebody"}
    assert told == {"PATH": "/bin", "LC_ALL": "C", **home}


def test_who_is_not_root_is_told_so_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = "needs a supervisor that root runs" if sys.platform == "linux" else "needs Linux"
    with pytest.raises(UsageError, match=said):
        prepare_machine(str(tmp_path / "local"), str(tmp_path / "logs"))
    assert list(tmp_path.iterdir()) == []


@only_root
def test_links_in_a_user_s_directory_lead_no_further_than_the_user(reachable: Path) -> None:
    secret, readable = reachable / "secret", reachable / "readable"
    secret.write_text("secret")
    secret.chmod(0o600)
    readable.write_text("readable")
    logs = reachable / "logs" / "6700"
    make_log_directory(logs, SOMEBODY)
    os.link(secret, logs / "worker.log")
    os.link(readable, logs / "worker.log.1")
    os.symlink(readable, logs / "worker.log.2")
    readable.chmod(0o644)
    assert read_text(logs / "worker.log.1") == "readable"
    for name in ("worker.log", "worker.log.2"):
        with pytest.raises(OSError, match=r"Permission denied|symbolic links"):
            read_text(logs / name)
    with pytest.raises(PermissionError):
        open_output(logs / "worker.log")
    assert secret.read_text() == "secret"
    open_output(logs / "worker.out").close()
    assert (logs / "worker.out").stat().st_uid == SOMEBODY.uid
    assert secret.read_bytes() == b"secret"  # this thread has its own rights again


@only_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv takes a capability away")
def test_without_the_rights_of_the_owner_nothing_is_opened(reachable: Path) -> None:
    logs = reachable / "logs" / "6700"
    make_log_directory(logs, SOMEBODY)
    (logs / "worker.log").touch()
    read = "import sys; from tupletree.supervisor.files import read_text; read_text(sys.argv[1])"
    without = ["setpriv", "--bounding-set=-setuid", "--inh-caps=-all", sys.executable, "-c", read]
    ended = subprocess.run([*without, logs / "worker.log"], capture_output=True, text=True, check=False)
    assert "PermissionError: [Errno 1] the rights of its owner cannot be taken" in ended.stderr


@only_root
def test_directories_of_another_account_are_refused(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    os.chown(local, SOMEBODY.uid, SOMEBODY.gid)
    with pytest.raises(UsageError, match=r"belongs to user id 61234: chown -R root "):
        prepare_machine(str(local), str(tmp_path / "logs"))


@only_root
def test_directories_that_users_cannot_pass_through_are_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(UsageError, match=r"is closed: chmod o\+x "):
        prepare_machine(str(tmp_path / "local"), str(tmp_path / "logs"))


@only_root
def test_what_is_handed_over_belongs_to_the_user_alone(tmp_path: Path) -> None:
    bundle, own = tmp_path / "bundle", tmp_path / "own"
    (bundle / "code").mkdir(parents=True)
    (bundle / "code" / "run.sh").write_text("#!/bin/sh\n")
    (bundle / "code" / "run.sh").chmod(0o755)
    own.mkdir()
    copy = copy_bundle(bundle, own)
    os.symlink("/etc/passwd", own / "link")
    hand_over(own, SOMEBODY)
    everything = [own, copy, copy / "code", copy / "code" / "run.sh", own / "link"]
    assert {path.lstat().st_uid for path in everything} == {SOMEBODY.uid}
    assert os.stat("/etc/passwd").st_uid == 0
    assert stat.S_IMODE(own.stat().st_mode) == 0o700 and os.access(copy / "code" / "run.sh", os.X_OK)
    assert (bundle / "code" / "run.sh").stat().st_uid == 0


@only_root
def test_logs_of_another_user_are_not_given_away(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "6700"
    make_log_directory(logs, SOMEBODY)
    make_log_directory(logs, SOMEBODY)
    with pytest.raises(UnavailableError, match=r"belong to user id 61234: move them away"):
        make_log_directory(logs, Account("other", 61235, 61235, "/"))
