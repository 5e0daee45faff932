"""Which accounts workers may run under, and what a supervisor needs for it."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.supervisor.accounts import CAPABILITIES, Account, AccountRules, closed_level, lack_of_rights

RULES = AccountRules(1000, frozenset({"nobody", "admin"}))
ALL = sum(1 << bit for bit in CAPABILITIES.values())
PASSABLE = stat.S_IFDIR | 0o711


def account(name: str = "alice", uid: int = 1001, gid: int = 1001, groups: tuple[int, ...] = ()) -> Account:
    return Account(name, uid, gid, f"/home/{name}", groups)


def test_an_owner_with_an_ordinary_account_has_workers() -> None:
    assert RULES.refusal("alice", account()) == ""
    assert RULES.refusal("alice", account(uid=1000, groups=(1001, 27))) == ""


@pytest.mark.parametrize(
    ("owner", "found", "said"),
    [
        ("", None, "the topology has no owner; submit it with a token"),
        ("alice", None, "owner 'alice': this machine has no account of that name; create one"),
        ("Alice", account(), "owner 'Alice': this machine has no account of that name"),
        ("admin", account("admin"), "supervisor.worker.banned.users names this account"),
        ("alice", account(uid=999), "its user id 999 is below supervisor.worker.min.user.id, 1000"),
        ("root", account("root", 0, 0), "its user id 0 is below"),
        ("alice", account(gid=0), "this account is in the group of root"),
        ("alice", account(groups=(1001, 0)), "this account is in the group of root"),
    ],
)
def test_every_other_owner_has_none(owner: str, found: Account | None, said: str) -> None:
    assert said in RULES.refusal(owner, found)


@given(st.text(), st.integers(0, 70000), st.integers(0, 70000))
def test_no_worker_runs_as_root_or_below_the_least_user_id(owner: str, uid: int, gid: int) -> None:
    if RULES.refusal(owner, account(owner, uid, gid)) == "":
        assert uid >= 1000 and gid != 0 and owner not in RULES.banned


@given(st.integers(0, 1 << 41), st.sampled_from([0, 1, 1000]), st.sampled_from([0, 4]))
def test_only_root_with_all_capabilities_changes_users(bits: int, uid: int, securebits: int) -> None:
    can = lack_of_rights(uid, bits, securebits) == ""
    assert can == (uid == 0 and bits & ALL == ALL and not securebits)


def test_what_is_missing_is_named() -> None:
    assert "root runs, and this one has user id 1000: start it as root, or unset it" in lack_of_rights(1000, ALL, 0)
    without = ALL & ~(1 << CAPABILITIES["CAP_SETUID"]) & ~(1 << CAPABILITIES["CAP_KILL"])
    assert "needs CAP_KILL, CAP_SETUID, which this supervisor lacks" in lack_of_rights(0, without, 0)
    assert "needs a supervisor without secure bits, and this one has 0x4" in lack_of_rights(0, ALL, 4)


def test_users_must_reach_directories_and_not_replace_them() -> None:
    assert closed_level([("/a/b", PASSABLE, 0), ("/a", PASSABLE | 0o1022, 0), ("/", PASSABLE, 0)]) == ""
    assert "/a is closed: chmod o+x /a" in closed_level([("/a/b", PASSABLE, 0), ("/a", stat.S_IFDIR | 0o700, 0)])
    assert "/a belongs to user id 7: chown root /a" in closed_level([("/a", PASSABLE, 7)])
    assert "/a is open: chmod go-w /a" in closed_level([("/a", PASSABLE | 0o020, 0)])
