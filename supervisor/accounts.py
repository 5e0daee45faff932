"""Decisions about running workers as the users who own them: which account, and what this process needs for it.

owner of the topology -> account of the same name -> refused, or the user id of its workers
"""

from __future__ import annotations  # pure

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KEY: Final = "supervisor.run.worker.as.user"

CAPABILITIES: Final = {
    "CAP_CHOWN": 0,  # directories are given to users
    "CAP_DAC_OVERRIDE": 1,  # directories of users are removed
    "CAP_FOWNER": 3,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
}
"""The bits of the capabilities without which a supervisor cannot run workers as other users."""


@dataclass(frozen=True)
class Account:
    """An account of this machine. ``groups``: the ids of all its groups."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class AccountRules:
    """The accounts that workers may run under."""

    min_uid: int  # supervisor.worker.min.user.id
    banned: frozenset[str]  # supervisor.worker.banned.users

    def refusal(self, owner: str, account: Account | None) -> str:
        """Explain in one sentence why workers of ``owner`` do not run as ``account``; "" if they may."""
        if not owner:
            return "its workers have no account to run as: the topology has no owner; submit it with a token"
        shown = f"its workers do not run as its owner '{owner}'"
        if account is None or account.name != owner:
            return f"{shown}: this machine has no account of that name; create one, or submit as another user"
        if owner in self.banned:
            return f"{shown}: supervisor.worker.banned.users names this account"
        if account.uid < self.min_uid:
            return f"{shown}: its user id {account.uid} is below supervisor.worker.min.user.id, {self.min_uid}"
        if 0 in (account.gid, *account.groups):
            return f"{shown}: this account is in the group of root; take it out"
        return ""


def lack_of_rights(uid: int, effective: int, securebits: int) -> str:
    """Explain in one sentence why a process cannot run workers as other users; "" if it can.

    ``effective``: its capabilities, as bits. ``securebits``: as prctl tells; any of them can keep the capabilities of a
    child. Only the change from user id 0 to another ends all capabilities of a process, so a supervisor with another id
    would leave its own to its workers.
    """
    if uid != 0:
        return f"{KEY} needs a supervisor that root runs, and this one has user id {uid}: start it as root, or unset it"
    missing = [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]
    if missing:
        return f"{KEY} needs {', '.join(missing)}, which this supervisor lacks: add it to CapabilityBoundingSet"
    if securebits:
        return f"{KEY} needs a supervisor without secure bits, and this one has {securebits:#x}: unset SecureBits"
    return ""


def closed_level(levels: Iterable[tuple[str, int, int]]) -> str:
    """Explain in one sentence why users cannot reach, or could replace, what is at a path; "" if all is well.

    ``levels``: path, mode and owner of each directory on the way.
    """
    for path, mode, uid in levels:
        if not mode & stat.S_IXOTH:
            return f"{KEY} needs directories that users can pass through, and {path} is closed: chmod o+x {path}"
        if uid != 0:
            return f"{KEY} needs directories of root, and {path} belongs to user id {uid}: chown root {path}"
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            return f"{KEY} needs directories that only root writes, and {path} is open: chmod go-w {path}"
    return ""
