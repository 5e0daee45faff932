"""Workers under the accounts of the users who own their topologies.

    <local.dir>/workers/<worker id>/    root's, for others to pass through
        work.json, process.json         root's: trusted after a restart of the supervisor
        launch.json                     the user's alone: the keys of its topology, and its credentials at ZooKeeper
        own/                            the user's alone: where the worker starts
            bundle/                     its copy of the bundle
            tls/                        its copy of supervisor.worker.tls.cert and .key, and of the authorities
    <logs.dir>/<topology>/<port>/       the user's alone

Everything else in local.dir is closed to users: bundles, blobs, directories of other users' workers.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tupletree._coord.session import credentials
from tupletree._coord.worker_acls import MIN_PASSWORD, WORKER_AUTH, WorkerAcls
from tupletree._security.files import read_private
from tupletree.bundle import REQUIREMENTS
from tupletree.errors import ConfigError, UnavailableError, UsageError

from .accounts import KEY, Account, AccountRules, closed_level, lack_of_rights
from .blob_plan import uses_of_work
from .local_assignment import LocalAssignment

OWN: Final = "own"
"""The directory of a worker that belongs to its user, in the one that belongs to the supervisor."""

_FOR_USERS: Final = 0o711
_KEPT: Final = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "JAVA_HOME", "SPARK_HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "TUPLETREE_PURE"}
)
_WITHHELD: Final = ("zookeeper.auth.user", "zookeeper.auth.password", "zookeeper.auth.password.file")
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_GET_SECUREBITS: Final = 27


@dataclass(frozen=True)
class Users:
    """The users of this machine who may have workers. ``tls``: certificate and key of all workers; None: no TLS."""

    rules: AccountRules
    acls: WorkerAcls
    tls: tuple[str, str] | None

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> Users | None:
        """Return the settings; None if workers run as the supervisor's user. Raises ConfigError."""
        if not conf[KEY]:
            return None
        if not conf.get("security.tokens"):
            raise ConfigError(f"{KEY} needs security.tokens: without them anybody can submit in any user's name")
        if conf.get("zookeeper.auth.password"):
            raise ConfigError(f"{KEY} needs zookeeper.auth.password.file, closed to users, not zookeeper.auth.password")
        if conf.get("zookeeper.tls.key"):
            raise ConfigError(f"{KEY} needs a ZooKeeper that asks for no certificate: workers must not read its key")
        shown = credentials(conf)
        if shown is None or len(shown[1]) < MIN_PASSWORD:
            raise ConfigError(
                f"{KEY} needs zookeeper.auth.user and a password of {MIN_PASSWORD} or more random characters in "
                "zookeeper.auth.password.file"
            )
        names = frozenset(conf["supervisor.worker.banned.users"])
        rules = AccountRules(int(conf["supervisor.worker.min.user.id"]), names)
        return cls(rules, WorkerAcls(shown), _tls_of(conf))

    def find(self, owner: str) -> Account:
        """Return the account for the workers of a user. Raises UsageError."""
        try:
            entry = pwd.getpwnam(owner)
            groups = tuple(os.getgrouplist(owner, entry.pw_gid))
            account = Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, groups)
        except (KeyError, ValueError):
            account = None
        fault = self.rules.refusal(owner, account)
        if fault or account is None:
            raise UsageError(fault)
        return account

    def conf_of(self, account: Account, conf: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """Return a worker's configuration without the secrets of daemons, and with files that its user may read.

        ``directory``: the user's, where copies of the files are made.
        """
        told = {**conf, **dict.fromkeys(_WITHHELD), "nimbus.dead.letters.stores": {}}
        told[WORKER_AUTH] = self.acls.of_worker(account.name)
        cert, key = self.tls or (None, None)
        for name, file in (("tls.ca", conf.get("tls.ca")), ("tls.cert", cert), ("tls.key", key)):
            told[name] = _copied(file, directory / "tls", name)
        told["zookeeper.tls.ca"] = _copied(conf.get("zookeeper.tls.ca"), directory / "tls", "zookeeper.tls.ca")
        return told


def _tls_of(conf: Mapping[str, Any]) -> tuple[str, str] | None:
    if not conf.get("tls.ca"):
        return None
    cert, key = conf.get("supervisor.worker.tls.cert"), conf.get("supervisor.worker.tls.key")
    if not cert or not key:
        raise ConfigError(
            f"{KEY} needs supervisor.worker.tls.cert and supervisor.worker.tls.key: workers must not read tls.key"
        )
    key_content = read_private(key, "supervisor.worker.tls.key")
    if key_content == read_private(str(conf.get("tls.key")), "tls.key"):
        raise ConfigError("supervisor.worker.tls.key is the key of the daemons: make another for workers")
    return str(cert), str(key)


def _copied(file: str | None, directory: Path, name: str) -> str | None:
    if not file:
        return None
    directory.mkdir(exist_ok=True)
    copy = directory / f"{name}.pem"
    copy.write_bytes(Path(file).expanduser().read_bytes())
    copy.chmod(0o400)
    return str(copy)


# The machine


def prepare_machine(local_dir: str, logs_dir: str) -> None:
    """Close what is not for users, and let this process and its children gain no rights. Raises UsageError."""
    if sys.platform != "linux":
        raise UsageError(f"{KEY} needs Linux; unset it on this machine")
    libc = ctypes.CDLL(None)
    if fault := lack_of_rights(os.geteuid(), _effective_capabilities(), libc.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0)):
        raise UsageError(fault)
    for path, mode in (
        (Path(local_dir), None),
        (Path(local_dir, "workers"), _FOR_USERS),
        (Path(local_dir, "bundles"), 0o700),
        (Path(local_dir, "blobs"), 0o700),
        (Path(logs_dir), _FOR_USERS),
    ):
        path.mkdir(parents=True, exist_ok=True)
        if (owner := path.stat().st_uid) != 0:
            raise UsageError(
                f"{KEY} needs directories of root, and {path} belongs to user id {owner}: chown -R root {path}"
            )
        if mode is not None:
            path.chmod(mode)
    interpreter = Path(sys.executable)
    for path in (Path(local_dir, "workers"), Path(logs_dir), interpreter.parent, interpreter.resolve().parent):
        if fault := closed_level(_levels(path.resolve())):
            raise UsageError(fault)
    for log in Path(logs_dir).glob("*.log*"):
        log.chmod(0o600)
    os.setgroups([])
    os.umask(0o077)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _levels(path: Path) -> Iterator[tuple[str, int, int]]:
    for one in (path, *path.parents):
        facts = one.stat()
        yield str(one), facts.st_mode, facts.st_uid


def _effective_capabilities() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = [line.split()[1] for line in file if line.startswith("CapEff:")]
    return int(found[0], 16)


# A worker


def refuse_requirements(bundle: Path) -> None:
    """Raise UsageError if a bundle has requirements: pip would run their code as this process."""
    if (bundle / REQUIREMENTS).exists():
        raise UsageError(
            f"a topology with requirements cannot run where {KEY} is set: install its packages on the machines, "
            "or put them into its code"
        )


def refuse_blobs(work: LocalAssignment) -> None:
    """Raise UsageError if a worker has blobs, which lie where its user cannot read."""
    if uses_of_work(work):
        raise UsageError(
            f"a topology with topology.blobstore.map cannot run where {KEY} is set: put the files into its bundle, "
            "or where its user can read them"
        )


def environment_of(account: Account, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the supervisor's environment that say nothing secret, and those of a login."""
    kept = {name: value for name, value in environment.items() if name in _KEPT or name.startswith("LC_")}
    return {**kept, "HOME": account.home, "USER": account.name, "LOGNAME": account.name}


def make_log_directory(path: Path, account: Account) -> None:
    """Make the directory of a worker's logs, which belongs to its user. Raises OSError or UnavailableError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(_FOR_USERS)
    path.mkdir(mode=0o700, exist_ok=True)
    owner = os.lstat(path).st_uid
    if owner not in (0, account.uid):
        raise UnavailableError(f"the logs in {path} belong to user id {owner}: move them away")
    if owner == 0:  # of workers that root ran
        hand_over(path, account)


def copy_bundle(bundle: Path, directory: Path) -> Path:
    """Copy a bundle into the directory of a worker, and return the copy. Raises OSError."""
    return Path(shutil.copytree(bundle, directory / "bundle", symlinks=True, copy_function=shutil.copy))


def hand_over(path: Path, account: Account) -> None:
    """Give a directory and everything in it to a user, itself last: until then no user can enter it. Raises OSError."""
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            os.chown(os.path.join(folder, name), account.uid, account.gid, follow_symlinks=False)
    os.chown(path, account.uid, account.gid, follow_symlinks=False)
    os.chmod(path, 0o700)
