"""What a token can say, to whom, and every way in which it does not count."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import jwt
import pytest

from tupletree._security.rights import Principal
from tupletree._security.tokens import CLUSTER, Keyring, derive, own_token, topology_key, unverified
from tupletree.errors import ConfigError, UnauthenticatedError

SECRET = b"0123456789abcdef0123456789abcdef"
OTHER = b"another secret of the same length"
DAEMON = Keyring("tupletree", SECRET)


def worker(topology: str) -> Keyring:
    keys = {kid: bytes.fromhex(key) for kid, key in DAEMON.of_worker(topology).items()}
    return Keyring("tupletree", keys=keys)


def signed(claims: dict[str, object], kid: str = CLUSTER, key: bytes | None = None, algorithm: str = "HS256") -> str:
    now = int(time.time())
    whole = {"sub": "alice", "kind": "user", "aud": "tupletree", "iat": now, "exp": now + 60} | claims
    whole = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(whole, derive(SECRET, kid) if key is None else key, algorithm, headers={"kid": kid})


def test_a_token_says_who_its_bearer_is() -> None:
    token = DAEMON.issue("alice", "user", roles=frozenset({"submit", "read"}))
    assert DAEMON.verify(token) == Principal("alice", "user", frozenset({"submit", "read"}))
    assert DAEMON.verify(token) == DAEMON.verify(token)
    assert unverified(token)["sub"] == "alice"


def test_a_worker_signs_for_its_topology_and_daemons_and_its_peers_believe_it() -> None:
    token = worker("wc-1-1").issue("w1", "worker", topology="wc-1-1")
    expected = Principal("w1", "worker", frozenset(), "wc-1-1")
    assert DAEMON.verify(token) == expected
    assert worker("wc-1-1").verify(token) == expected


def test_a_worker_of_another_topology_does_not_believe_it() -> None:
    token = DAEMON.issue("w1", "worker", topology="wc-1-1")
    with pytest.raises(UnauthenticatedError, match="a key that is not accepted here"):
        worker("other-2-2").verify(token)


@pytest.mark.parametrize(
    ("name", "kind", "roles", "topology"),
    [
        ("w", "worker", frozenset(), "other-2-2"),
        ("eve", "user", frozenset({"admin"}), ""),
        ("nimbus", "daemon", (), ""),
    ],
)
def test_a_worker_can_sign_nothing_else(name: str, kind: str, roles: tuple[str, ...], topology: str) -> None:
    with pytest.raises(ConfigError, match="requires the cluster's secret"):
        worker("wc-1-1").issue(name, kind, roles=frozenset(roles), topology=topology)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "claims",
    [
        {"kind": "user", "roles": ["admin"]},
        {"kind": "daemon", "sub": "nimbus"},
        {"kind": "worker", "topology": "other-2-2"},
        {"kind": "worker"},
    ],
)
def test_what_a_worker_forges_with_its_own_key_does_not_count(claims: dict[str, object]) -> None:
    kid = topology_key("wc-1-1")
    with pytest.raises(UnauthenticatedError, match="claims that its key may not sign"):
        DAEMON.verify(signed(claims, kid))


def test_the_key_of_metrics_signs_nothing_but_the_role_metrics() -> None:
    token = DAEMON.issue("prometheus", "user", roles=frozenset({"metrics"}))
    assert worker("wc-1-1").verify(token).roles == {"metrics"}
    for roles in (["admin"], ["metrics", "admin"], []):
        with pytest.raises(UnauthenticatedError, match="may not sign"):
            DAEMON.verify(signed({"roles": roles}, "metrics"))


def none_algorithm() -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    now = int(time.time())
    claims: dict[str, object] = {"sub": "eve", "kind": "user", "roles": ["admin"], "aud": "tupletree"}
    return f"{part({'alg': 'none', 'typ': 'JWT', 'kid': CLUSTER})}.{part(claims | {'iat': now, 'exp': now + 60})}."


def named(kid: str) -> str:
    """A token of nobody's whose header names this key."""
    header = json.dumps({"alg": "HS256", "kid": kid}).encode()
    return f"{base64.urlsafe_b64encode(header).rstrip(b'=').decode()}.e30.AA"


def tampered() -> str:
    header, payload, signature = signed({"roles": ["read"]}).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    changed = json.dumps(claims | {"roles": ["admin"]}).encode()
    return f"{header}.{base64.urlsafe_b64encode(changed).rstrip(b'=').decode()}.{signature}"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: signed({"exp": int(time.time()) - 3600}), "has expired"),
        (lambda: signed({"exp": None}), "not valid"),
        (lambda: signed({"sub": None}), "not valid"),
        (lambda: signed({"aud": "another"}), "for another cluster"),
        (lambda: signed({"aud": ["tupletree", "another"]}), "for another cluster"),
        (lambda: signed({"aud": None}), "not valid"),
        (lambda: signed({"iat": int(time.time()) + 3600}), "not valid"),
        (lambda: signed({}, key=derive(OTHER, CLUSTER)), "not signed with this cluster's secret"),
        (lambda: signed({}, key=SECRET), "not signed with this cluster's secret"),
        (lambda: signed({}, key=b"k" * 64, algorithm="HS512"), "not valid"),
        (none_algorithm, "not valid"),
        (tampered, "not signed with this cluster's secret"),
        (lambda: signed({}, kid="no such key"), "is not accepted here"),
        (lambda: signed({"kind": "god"}), "may not sign"),
        (lambda: signed({"roles": "admin"}), "may not sign"),
        (lambda: signed({"roles": ["owner"]}), "may not sign"),
        (lambda: signed({"sub": ""}), "may not sign"),
        (lambda: "not.a.token", "is malformed"),
        (lambda: "", "is malformed"),
        (lambda: "x" * 10_000, "too long"),
        (lambda: "\udc80.\u00e9.x", "is malformed"),
        (lambda: named("topology:\ud800"), "is not accepted here"),
        (lambda: named("topology:\x00"), "is not accepted here"),
    ],
)
def test_what_does_not_count(make: Callable[[], str], sentence: str) -> None:
    with pytest.raises(UnauthenticatedError, match=sentence):
        DAEMON.verify(make())


def test_a_token_of_the_secret_before_counts_while_it_is_known() -> None:
    old = DAEMON.issue("alice", "user")
    renewed = Keyring("tupletree", OTHER, previous=SECRET)
    assert renewed.verify(old).name == "alice"
    new = renewed.issue("alice", "user")
    assert Keyring("tupletree", OTHER).verify(new).name == "alice"
    with pytest.raises(UnauthenticatedError, match="not signed"):
        Keyring("tupletree", OTHER).verify(old)


def test_a_token_that_was_verified_before_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = Keyring("tupletree", SECRET)
    token = keyring.issue("alice", "user", lifetime_s=60)
    assert keyring.verify(token).name == "alice"
    ended = keyring.issue("alice", "user", lifetime_s=60, now_unix_s=time.time() - 600)
    keyring._known[ended] = (Principal("alice", "user"), time.time() - 540)  # as if verified while it was good
    with pytest.raises(UnauthenticatedError, match="has expired"):
        keyring.verify(ended)


def test_a_process_renews_its_own_token_at_half_its_life() -> None:
    now_s = time.time()
    current = own_token(DAEMON, "acker", "daemon", clock=lambda: now_s)
    first = current()
    now_s += 1700
    assert current() == first
    now_s += 200
    assert current() != first


def test_a_secret_that_is_too_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="has 3 bytes, expected at least 32"):
        derive(b"abc", CLUSTER)
    assert "abc" not in repr(Keyring("tupletree", b"abc" * 20))
