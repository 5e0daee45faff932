"""Who may call in whose name, from where, and that nobody becomes an administrator by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._security.current import Security
from tupletree._security.impersonation import HEADER, encoded, host_of, impersonated, proxies_of
from tupletree._security.rights import CALLS, ROLES, Acl, Principal, is_admin, refusal
from tupletree.errors import ConfigError, ForbiddenError

PROXIES = proxies_of({
    "nimbus.impersonation.acl": {
        "portal": {"users": ["alice", "bob", "root"], "hosts": ["10.0.0.7", "10.1.0.0/16", "fd00::/8"]},
        "gateway": {"users": ["*"], "hosts": ["*"]},
    }
})  # fmt: skip
PORTAL = Principal("portal", "user", frozenset({"submit", "admin"}))
HERE = "ipv4:10.0.0.7:5555"


def test_a_program_calls_in_the_name_of_a_user_with_its_own_roles_but_admin() -> None:
    expected = Principal("alice", "user", frozenset({"submit"}), through="portal")
    assert impersonated(PORTAL, "alice", HERE, PROXIES) == expected
    assert expected.sentence == "user 'alice' through 'portal'"
    assert impersonated(PORTAL, None, "anywhere", PROXIES) is PORTAL
    assert impersonated(None, None, "", PROXIES) is None


def test_an_administrator_by_name_is_none_through_a_program() -> None:
    root = impersonated(PORTAL, "root", HERE, PROXIES)
    assert root is not None
    assert not is_admin(root, ["root"])
    kill = CALLS["/tupletree.v1.Nimbus/Kill"]
    assert refusal(root, kill, "Kill", ["root"], Acl("'words'", "alice")) is not None
    assert refusal(root, kill, "Kill", ["root"], Acl("'words'", "root")) is None


@pytest.mark.parametrize(
    ("who", "name", "peer", "sentence"),
    [
        (None, "alice", HERE, "requires the token of a program"),
        (
            Principal("eve", "user", frozenset({"submit"})),
            "alice",
            HERE,
            "user 'eve' may not call in the name of 'alice'",
        ),
        (Principal("portal", "daemon"), "alice", HERE, "may not call in the name"),
        (Principal("portal", "worker", topology="t-1"), "alice", HERE, "may not call in the name"),
        (PORTAL, "carol", HERE, "may not call in the name of 'carol'"),
        (PORTAL, "", HERE, "holds no name of a user"),
        (PORTAL, "%0A", HERE, "holds no name of a user"),
        (PORTAL, "x" * 201, HERE, "holds no name of a user"),
        (PORTAL, "alice", "ipv4:10.0.0.8:1", "from this address"),
        (PORTAL, "alice", "unix:", "from this address"),
        (PORTAL, "alice", "", "from this address"),
    ],
)
def test_refusals(who: Principal | None, name: str, peer: str, sentence: str) -> None:
    with pytest.raises(ForbiddenError, match=sentence):
        impersonated(who, name, peer, PROXIES)


@pytest.mark.parametrize(
    "peer", ["10.0.0.7", "10.1.255.1", "ipv6:[fd00::1]:80", "::ffff:10.0.0.7", "ipv6:[::ffff:10.1.2.3]:9"]
)
def test_addresses_in_the_forms_of_grpc_and_http(peer: str) -> None:
    assert impersonated(PORTAL, "bob", peer, PROXIES) is not None


def test_hosts_of_peers() -> None:
    assert [host_of(one) for one in ("ipv4:10.0.0.7:1", "ipv6:[::1]:1", "::1", "unix:/x")] == [
        "10.0.0.7",
        "::1",
        "::1",
        "unix:/x",
    ]


@given(st.text(min_size=1, max_size=200), st.frozensets(st.sampled_from(ROLES)))
def test_whatever_the_name_it_arrives_whole_and_never_as_an_administrator(name: str, roles: frozenset[str]) -> None:
    gateway = Principal("gateway", "user", roles)
    try:
        header = encoded(name)
        found = impersonated(gateway, header, "", PROXIES)
    except (ForbiddenError, UnicodeEncodeError):  # the latter: an unpaired surrogate, which no configuration holds
        return
    assert found is not None
    assert header.isascii()
    assert (found.name, found.through, found.kind) == (name, "gateway", "user")
    assert found.roles <= roles
    assert not is_admin(found, [name])


@pytest.mark.parametrize(
    "entry",
    [
        {"users": ["alice"]},
        {"users": ["alice"], "hosts": ["*"], "groups": ["x"]},
        {"users": [], "hosts": ["*"]},
        {"users": "alice", "hosts": ["*"]},
        {"users": ["alice"], "hosts": ["portal.example.com"]},
        {"users": ["alice"], "hosts": ["10.1.0.7/16"]},
        ["alice"],
    ],
)
def test_an_entry_that_says_too_little_or_too_much_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigError, match=r"nimbus\.impersonation\.acl.* 'portal'"):
        proxies_of({"nimbus.impersonation.acl": {"portal": entry}})


def test_a_client_sends_the_name_with_its_token() -> None:
    sent = Security.of_client({"security.token": "t", "security.as.user": "Zoë K"}).metadata()
    assert sent == (("authorization", "Bearer t"), (HEADER, "Zo%C3%AB%20K"))
    with pytest.raises(ConfigError, match=r"security\.as\.user needs the token of a program"):
        Security.of_client({"security.as.user": "alice"})
