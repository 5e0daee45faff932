"""Verification of an OpenID Connect issuer's tokens, by the keys that the issuer publishes.

Keys are fetched in a thread when a token names an unknown key, at most once every ``MIN_REFRESH_S``, and again when
they are ``REFRESH_S`` old: beside the verification at first, before it from twice that age on. While the issuer is
away, its last keys count for ``MAX_AGE_S``.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import math
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

from tupletree._extras import SERVER, imported
from tupletree._log import event
from tupletree._security.files import read_public
from tupletree._security.oidc import ALGORITHMS, KEY_TYPES, OidcSettings, check_address
from tupletree._security.rights import Principal
from tupletree.errors import ConfigError, UnauthenticatedError, UnavailableError

log = logging.getLogger("tupletree.security")

Keys = Mapping[str, Mapping[str, Any]]
"""The public keys of an issuer, as JSON Web Keys, by key id."""

MIN_REFRESH_S: Final = 10.0
REFRESH_S: Final = 3600.0
MAX_AGE_S: Final = 24 * 3600.0
KNOWN_S: Final = 60.0
"""How long a verified token counts without another look: a key that the issuer has removed ends within that time."""

_TIMEOUT_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_MAX_TOKEN_BYTES: Final = 8192
_MAX_KNOWN: Final = 4096
_LEEWAY_S: Final = 30.0


class OidcVerifier:
    """Verifies tokens of one issuer. Use in one event loop. ``clock``: monotonic seconds."""

    def __init__(self, settings: OidcSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._jwt = imported("jwt", SERVER, "security.oidc.issuer")
        imported("cryptography", SERVER, "security.oidc.issuer")
        ssl_context(settings)  # refuses a file without certificates
        self._clock = clock
        self._keys: Keys = {}
        self._fetched_s = -math.inf
        self._attempted_s = -math.inf
        self._failure = ""
        self._refreshing: asyncio.Task[None] | None = None
        self._known: dict[str, tuple[Principal, float]] = {}

    def is_for(self, token: str) -> bool:
        """True if the token is signed in the issuer's way; the cluster's own tokens are not."""
        try:
            return self._jwt.get_unverified_header(token).get("alg") in ALGORITHMS
        except (self._jwt.InvalidTokenError, UnicodeEncodeError):
            return False

    async def verify(self, token: str) -> Principal:
        """Return the bearer of a token. Raises UnauthenticatedError."""
        known = self._known.get(token)
        if known is not None and self._clock() < known[1]:
            return known[0]
        self._known.pop(token, None)
        if len(token) > _MAX_TOKEN_BYTES:
            raise UnauthenticatedError("the token is too long")
        header = self._jwt.get_unverified_header(token)
        key = await self._key(header.get("kid"), header["alg"])
        claims = self._claims(token, key, header["alg"])
        caller = self._settings.caller(claims)
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        remaining_s = float(claims["exp"]) - time.time()
        self._known[token] = (caller, self._clock() + min(KNOWN_S, remaining_s))
        return caller

    async def _key(self, kid: Any, algorithm: str) -> Any:
        """Return the public key of that id for the algorithm. Raises UnauthenticatedError."""
        if not isinstance(kid, str):
            raise UnauthenticatedError("the token names no key (kid)")
        age_s = self._clock() - self._fetched_s
        if kid not in self._keys or age_s > 2 * REFRESH_S:
            await self._refresh()
        elif age_s > REFRESH_S:
            self._begin_refresh()
        found = self._keys.get(kid)
        if found is None or self._clock() - self._fetched_s > MAX_AGE_S:
            raise UnauthenticatedError(self._failure or "the token is signed with a key that its issuer does not have")
        if found.get("alg", algorithm) != algorithm:
            raise UnauthenticatedError("the token is signed with another algorithm than its key is for")
        try:
            return self._jwt.PyJWK(dict(found), algorithm=algorithm).key
        except (self._jwt.PyJWTError, ValueError, TypeError):
            raise UnauthenticatedError("the token is signed with a key that cannot be used here") from None

    async def _refresh(self) -> None:
        """Wait for a fetch, unless the last one was just now. It goes on if the caller leaves: others wait for it."""
        self._begin_refresh()
        if self._refreshing is not None:
            await asyncio.shield(self._refreshing)

    def _begin_refresh(self) -> None:
        is_running = self._refreshing is not None and not self._refreshing.done()
        if not is_running and self._clock() - self._attempted_s >= MIN_REFRESH_S:
            self._attempted_s = self._clock()
            self._refreshing = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            self._keys = await asyncio.to_thread(fetch_keys, self._settings)
        except (UnavailableError, ConfigError) as error:
            event(log, "oidc.keys_missing", level=logging.WARNING, cause=error)
            self._failure = f"the token cannot be verified now: {error}"
        else:
            self._fetched_s, self._failure = self._clock(), ""

    def _claims(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        jwt = self._jwt
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["iss", "aud", "exp"]},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired; get a new one") from None
        except jwt.ImmatureSignatureError:
            raise UnauthenticatedError("the token is not valid yet: compare the clocks") from None
        except jwt.InvalidAudienceError:
            raise UnauthenticatedError("the token is for another service (security.oidc.audience)") from None
        except jwt.InvalidIssuerError:
            raise UnauthenticatedError("the token is of another issuer (security.oidc.issuer)") from None
        except jwt.InvalidSignatureError:
            raise UnauthenticatedError("the token is not signed by its issuer") from None
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError):
            raise UnauthenticatedError("the token is not valid") from None
        return claims


def fetch_keys(settings: OidcSettings) -> Keys:
    """Return the keys that the issuer publishes now. Raises UnavailableError, in one sentence, if there are none."""
    try:
        opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=ssl_context(settings)))
        found = _get(opener, f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != settings.issuer:
            raise ValueError(f"it calls itself {found.get('issuer')!r}")
        address = str(found.get("jwks_uri"))
        check_address(address, "its jwks_uri")
        entries = _get(opener, address).get("keys")
    except urllib.error.URLError as error:
        reason = f"status {error.code}" if isinstance(error, urllib.error.HTTPError) else error.reason
        raise UnavailableError(f"issuer {settings.issuer} does not answer: {reason}") from None
    except (OSError, http.client.HTTPException, ValueError, RecursionError, ConfigError) as error:
        raise UnavailableError(f"issuer {settings.issuer} does not give its keys: {error}") from None
    return {
        entry["kid"]: entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
        and isinstance(entry.get("kid"), str)
        and entry.get("kty") in KEY_TYPES
        and entry.get("use", "sig") == "sig"
        and "d" not in entry  # a private key
    }


def ssl_context(settings: OidcSettings) -> ssl.SSLContext:
    """Return a context for requests to the issuer. Raises ConfigError for an invalid ``security.oidc.ca``."""
    if settings.ca is None:
        return ssl.create_default_context()
    text = read_public(settings.ca, "security.oidc.ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts only security.oidc.ca
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=text.decode("ascii"))
        return context
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the file {settings.ca} (security.oidc.ca) holds no certificate: {error}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error: only configured addresses, and those that the issuer states, are called."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _get(opener: urllib.request.OpenerDirector, address: str) -> Mapping[str, Any]:
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    with opener.open(request, timeout=_TIMEOUT_S) as answer:
        text = answer.read(_MAX_ANSWER_BYTES + 1)
    if len(text) > _MAX_ANSWER_BYTES:
        raise ValueError(f"{address} answers with more than {_MAX_ANSWER_BYTES:,} bytes")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{address} answers with something else than an object")
    return found
