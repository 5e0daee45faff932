"""Tokens of an OpenID Connect issuer: which count, and what happens when its keys change or it is away."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from oidc_issuer import Issuer, issuing
from security_harness import in_loop

from tupletree._security.current import Security
from tupletree._security.guard import Gatekeeper
from tupletree._security.oidc import OidcSettings
from tupletree._security.oidc_tokens import KNOWN_S, MAX_AGE_S, MIN_REFRESH_S, REFRESH_S, OidcVerifier, fetch_keys
from tupletree._security.rights import Principal
from tupletree._security.tokens import Keyring
from tupletree.config import defaults
from tupletree.errors import UnauthenticatedError, UnavailableError
from tupletree.testing import wait_until

ALICE = Principal("alice", "user", frozenset({"submit"}))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


class Clock:
    """Monotonic seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def settings(issuer: Issuer) -> OidcSettings:
    found = OidcSettings.from_conf({**defaults(), "security.tokens": True, **issuer.conf})
    assert found is not None
    return found


def verify(issuer: Issuer, token: str) -> Principal:
    return asyncio.run(OidcVerifier(settings(issuer)).verify(token))


@pytest.mark.parametrize("kid", ["rsa", "ec"])
def test_a_token_of_the_issuer_counts(issuer: Issuer, kid: str) -> None:
    assert verify(issuer, issuer.token(kid)) == ALICE


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"exp": 1_000_000_000}, "the token has expired"),
        ({"exp": int(time.time()) - 60}, "the token has expired"),
        ({"exp": None}, "the token is not valid"),
        ({"exp": "never"}, "the token is not valid"),
        ({"nbf": int(time.time()) + 86_400}, "the token is not valid yet: compare the clocks"),
        ({"iat": int(time.time()) + 86_400}, "the token is not valid yet: compare the clocks"),
        ({"aud": "account"}, r"for another service \(security\.oidc\.audience\)"),
        ({"aud": None}, "the token is not valid"),
        ({"iss": "https://login.example.com"}, r"of another issuer \(security\.oidc\.issuer\)"),
        ({"iss": None}, "the token is not valid"),
        ({"preferred_username": None}, "the token names no user: its claim preferred_username is no name"),
        ({"preferred_username": "a\nb"}, "the token names no user"),
        ({"padding": "x" * 8192}, "the token is too long"),
    ],
)
def test_other_claims_are_refused(issuer: Issuer, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnauthenticatedError, match=sentence):
        verify(issuer, issuer.token(**changes))


@pytest.mark.parametrize("late_s", [-20, 20])
def test_clocks_may_differ_a_little(issuer: Issuer, late_s: int) -> None:
    now = int(time.time())
    claims = {"iat": now + 20, "nbf": now + 20} if late_s > 0 else {"exp": now - 20}
    assert verify(issuer, issuer.token(**claims)) == ALICE


def test_a_foreign_key_under_a_known_name_is_refused(issuer: Issuer) -> None:
    with pytest.raises(UnauthenticatedError, match="not signed by its issuer"):
        verify(issuer, issuer.token(key=rsa.generate_private_key(65537, 2048)))


def test_another_algorithm_than_that_of_the_key_is_refused(issuer: Issuer) -> None:
    with pytest.raises(UnauthenticatedError, match="another algorithm than its key is for"):
        verify(issuer, issuer.token(algorithm="PS256"))
    del issuer.keys["ec"]["alg"]
    with pytest.raises(UnauthenticatedError, match="a key that cannot be used here"):
        verify(issuer, issuer.token("ec", issuer.private["rsa"], "RS256"))


@in_loop
async def test_tokens_without_an_asymmetric_signature_are_the_clusters_own_or_nobodys() -> None:
    with issuing() as issuer:
        keyring = Keyring("tupletree", b"s" * 32)
        gate = Gatekeeper(Security(keyring=keyring, oidc=OidcVerifier(settings(issuer))))
        assert await gate.identify(issuer.token()) == ALICE
        assert await gate.identify(keyring.issue("bob", "user")) == Principal("bob", "user")
        public = issuer.private["rsa"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for token in (unsigned(issuer, "none"), unsigned(issuer, "HS256", public), "", "a.b.c", "é"):
            with pytest.raises(UnauthenticatedError):
                await gate.identify(token)


def unsigned(issuer: Issuer, algorithm: str, key: bytes | None = None) -> str:
    """The issuer's token, made by somebody who has only its public key."""
    _, claims, _ = issuer.token().split(".")
    header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "rsa"}).encode()).rstrip(b"=").decode()
    signature = b"" if key is None else jwt.algorithms.HMACAlgorithm("sha256").sign(f"{header}.{claims}".encode(), key)  # type: ignore[arg-type]
    return f"{header}.{claims}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_a_token_without_the_name_of_a_key_is_refused(issuer: Issuer) -> None:
    with pytest.raises(UnauthenticatedError, match=r"names no key \(kid\)"):
        verify(issuer, issuer.token(None, issuer.private["rsa"], "RS256"))


@in_loop
async def test_a_new_key_counts_at_once_and_unknown_ones_do_not_flood_the_issuer() -> None:
    with issuing() as issuer:
        clock = Clock()
        verifier = OidcVerifier(settings(issuer), clock=clock)
        assert await verifier.verify(issuer.token()) == ALICE
        clock.now_s += MIN_REFRESH_S
        issuer.add("new", "ES256")
        assert await verifier.verify(issuer.token("new")) == ALICE
        assert issuer.requests == 2
        unknown = [issuer.token(f"unknown-{number}", issuer.private["rsa"]) for number in range(20)]
        results = await asyncio.gather(*(verifier.verify(token) for token in unknown), return_exceptions=True)
        assert {str(one) for one in results} == {"the token is signed with a key that its issuer does not have"}
        assert issuer.requests == 2
        clock.now_s += MIN_REFRESH_S
        await asyncio.gather(*(verifier.verify(token) for token in unknown), return_exceptions=True)
        assert issuer.requests == 3


@in_loop
async def test_a_caller_who_leaves_does_not_end_the_fetch_that_others_wait_for() -> None:
    with issuing() as issuer:
        issuer.may_answer.clear()
        verifier = OidcVerifier(settings(issuer), clock=Clock())
        leaves = asyncio.create_task(verifier.verify(issuer.token("unknown", issuer.private["rsa"])))
        await asyncio.to_thread(wait_until, lambda: issuer.requests == 1, 30, what="the keys are fetched")
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        stays = asyncio.create_task(verifier.verify(issuer.token()))
        issuer.may_answer.set()
        assert await stays == ALICE
        assert issuer.requests == 1


@in_loop
async def test_a_removed_key_stops_counting_after_the_next_refresh() -> None:
    with issuing() as issuer:
        clock = Clock()
        verifier = OidcVerifier(settings(issuer), clock=clock)
        token = issuer.token()
        assert await verifier.verify(token) == ALICE
        del issuer.keys["rsa"]
        clock.now_s += REFRESH_S + 1
        assert await verifier.verify(token) == ALICE  # and the keys are fetched meanwhile
        await asyncio.wait_for(verifier._refreshing, 30)  # type: ignore[arg-type]
        clock.now_s += KNOWN_S + 1
        with pytest.raises(UnauthenticatedError, match="a key that its issuer does not have"):
            await verifier.verify(token)


@in_loop
async def test_a_removed_key_does_not_count_after_a_long_silence() -> None:
    with issuing() as issuer:
        clock = Clock()
        verifier = OidcVerifier(settings(issuer), clock=clock)
        assert await verifier.verify(issuer.token()) == ALICE
        del issuer.keys["rsa"]
        clock.now_s += 2 * REFRESH_S + 1
        with pytest.raises(UnauthenticatedError, match="a key that its issuer does not have"):
            await verifier.verify(issuer.token())


@in_loop
async def test_an_issuer_that_is_away_at_first_is_asked_again() -> None:
    with issuing() as issuer:
        clock = Clock()
        verifier = OidcVerifier(settings(issuer), clock=clock)
        token = issuer.token()
        issuer.stop()
        with pytest.raises(UnauthenticatedError, match=r"cannot be verified now: issuer .* does not answer: "):
            await verifier.verify(token)
        issuer.start()
        with pytest.raises(UnauthenticatedError, match="cannot be verified now"):
            await verifier.verify(token)
        clock.now_s += MIN_REFRESH_S
        assert await verifier.verify(token) == ALICE


@in_loop
async def test_the_last_keys_of_an_issuer_that_is_away_count_for_a_day() -> None:
    with issuing() as issuer:
        clock = Clock()
        verifier = OidcVerifier(settings(issuer), clock=clock)
        await verifier.verify(issuer.token())
        issuer.stop()
        clock.now_s += MAX_AGE_S - 1
        assert await verifier.verify(issuer.token(jti="late")) == ALICE
        clock.now_s += MIN_REFRESH_S
        with pytest.raises(UnauthenticatedError, match=r"cannot be verified now: issuer .* does not answer"):
            await verifier.verify(issuer.token(jti="too late"))


@pytest.mark.parametrize(
    ("path", "answer", "sentence"),
    [
        ("openid-configuration", 404, "does not answer: status 404"),
        ("openid-configuration", 302, "does not answer: status 302"),
        ("openid-configuration", {"issuer": "https://other"}, "calls itself 'https://other'"),
        ("openid-configuration", b"[]", "something else than an object"),
        ("openid-configuration", b"\xff", "does not give its keys"),
        ("openid-configuration", b"[" * 100_000, "does not give its keys"),
        ("certs", b"x" * (1024 * 1024 + 1), "answers with more than 1,048,576 bytes"),
    ],
)
def test_odd_answers_of_an_issuer_are_refused(issuer: Issuer, path: str, answer: Any, sentence: str) -> None:
    issuer.answers[path] = answer
    with pytest.raises(UnavailableError, match=sentence):
        fetch_keys(settings(issuer))


def test_keys_from_an_address_without_tls_are_refused(issuer: Issuer) -> None:
    issuer.answers["openid-configuration"] = {"issuer": issuer.url, "jwks_uri": "http://keys.example.com/"}
    with pytest.raises(
        UnavailableError, match=r"its jwks_uri is 'http://keys\.example\.com/': keys that come without TLS"
    ):
        fetch_keys(settings(issuer))


def test_only_public_keys_for_signatures_are_taken(issuer: Issuer) -> None:
    good = issuer.keys["rsa"]
    odd = [
        {**good, "kid": 1},
        {**good, "use": "enc"},
        {"kid": "hmac", "kty": "oct", "k": "AAAA"},
        {**good, "d": "AA"},
        7,
    ]
    issuer.answers["certs"] = {"keys": [*odd, good]}
    assert fetch_keys(settings(issuer)) == {"rsa": good}
    issuer.answers["certs"] = {"keys": "none"}
    assert fetch_keys(settings(issuer)) == {}
