"""What the claims of an issuer's token say of its bearer, and settings that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._security.current import Security
from tupletree._security.oidc import OidcSettings
from tupletree._security.rights import ROLES, Principal
from tupletree.config import defaults
from tupletree.errors import ConfigError, UnauthenticatedError

SETTINGS = OidcSettings(
    "https://login.example.com",
    "tupletree",
    roles={"ops": frozenset({"admin"}), "all": frozenset({"read", "call"}), "a b": frozenset({"submit"})},
)
WHOLE: dict[str, Any] = {
    "security.tokens": True,
    "security.oidc.issuer": "https://login.example.com/realms/main",
    "security.oidc.audience": "tupletree",
}


@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        (["all", "unknown"], {"read", "call"}),
        (["all", "ops"], {"read", "call", "admin"}),
        (["a b"], {"submit"}),
        ("openid all ops", {"read", "call", "admin"}),
        ("a b", {"submit"}),
        ([], set()),
        (None, set()),
        ({"all": True}, set()),
        ([["all"], 7], set()),
        (["admin"], set()),
    ],
)
def test_roles_are_those_of_the_groups_in_the_table_and_no_others(groups: Any, roles: set[str]) -> None:
    caller = SETTINGS.caller({"sub": "alice", "groups": groups})
    assert caller == Principal("alice", "user", frozenset(roles))


def test_a_claim_inside_of_others_is_found() -> None:
    own = OidcSettings("https://x", "y", roles_claim="realm_access.roles", roles=SETTINGS.roles)
    assert own.caller({"sub": "a", "realm_access": {"roles": ["ops"]}}).roles == {"admin"}
    assert own.caller({"sub": "a", "realm_access.roles": ["ops"]}).roles == {"admin"}
    assert own.caller({"sub": "a", "realm_access": ["roles"]}).roles == frozenset()


@pytest.mark.parametrize("name", [None, "", " ", 7, ["alice"], "a\nb", "x" * 201])
def test_a_user_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(UnauthenticatedError, match="its claim sub is no name"):
        SETTINGS.caller({"sub": name})


@pytest.mark.parametrize("verified", [None, False, "true"])
def test_an_address_counts_as_a_name_only_if_the_issuer_verified_it(verified: Any) -> None:
    own = OidcSettings("https://x", "y", user_claim="email")
    with pytest.raises(UnauthenticatedError, match="has not verified the address"):
        own.caller({"email": "a@example.com", "email_verified": verified})
    assert own.caller({"email": "a@example.com", "email_verified": True}).name == "a@example.com"


@given(
    st.dictionaries(
        st.sampled_from(["sub", "groups", "kind", "roles", "topology"]),
        st.from_type(type).flatmap(st.just) | st.text() | st.lists(st.text()),
    )
)
def test_whatever_the_claims_are_the_caller_is_a_user_with_roles_of_the_table(claims: dict[str, Any]) -> None:
    try:
        caller = SETTINGS.caller(claims)
    except UnauthenticatedError:
        return
    assert caller.kind == "user"
    assert caller.topology == ""
    assert caller.roles <= set(ROLES)


def test_the_settings_of_the_configuration() -> None:
    own = {**WHOLE, "security.oidc.roles": {"ops": "admin", "all": "read call"}}
    found = OidcSettings.from_conf({**defaults(), **own})
    assert found == OidcSettings(
        "https://login.example.com/realms/main",
        "tupletree",
        roles={"ops": frozenset({"admin"}), "all": frozenset({"read", "call"})},
    )
    assert OidcSettings.from_conf(defaults()) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"security.tokens": False}, r"security\.oidc\.issuer needs security\.tokens: true"),
        ({"security.oidc.audience": None}, r"needs security\.oidc\.audience"),
        ({"security.oidc.issuer": "login.example.com"}, "expected an address such as https://login.example.com"),
        ({"security.oidc.issuer": "https://[x"}, "expected an address such as"),
        ({"security.oidc.issuer": "http://login.example.com"}, "could be anybody's; use https"),
        ({"security.oidc.roles": {"ops": "root"}}, "gives 'root' to 'ops', expected one or several of read, submit"),
        ({"security.oidc.roles": {"ops": " "}}, "gives ' ' to 'ops'"),
    ],
)
def test_settings_that_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Security.of_daemon({**defaults(), **WHOLE, **changes}, "nimbus")


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff"])
def test_a_file_of_authorities_without_a_certificate_is_refused(content: bytes, tmp_path: Any) -> None:
    from tupletree._security.oidc_tokens import ssl_context

    path = tmp_path / "ca.crt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"\(security\.oidc\.ca\) holds no certificate"):
        ssl_context(OidcSettings("https://x", "y", ca=str(path)))
