"""An OpenID Connect issuer on a port of the loopback interface, with keys that are made for the test."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "tupletree-prod"


@functools.cache
def _rsa_key(kid: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)  # takes a second


class Issuer:
    """Publishes ``keys`` (by kid) at ``url``, and signs with all keys that it ever had.

    ``requests`` counts the fetches of keys, which wait for ``may_answer``.
    ``answers`` replaces what a path returns; a number is a status.
    """

    def __init__(self) -> None:
        self.private: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey] = {}
        self.keys: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, dict[str, Any] | bytes | int] = {}
        self.requests = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.add("rsa", "RS256")
        self.add("ec", "ES256")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/realms/main"

    @property
    def conf(self) -> dict[str, Any]:
        """What a daemon needs to accept its tokens."""
        return {
            "security.oidc.issuer": self.url,
            "security.oidc.audience": AUDIENCE,
            "security.oidc.user.claim": "preferred_username",
            "security.oidc.roles.claim": "realm_access.roles",
            "security.oidc.roles": {"ops": "admin", "builders": "submit", "all": "read call"},
        }

    def add(self, kid: str, algorithm: str) -> None:
        """Have one more key."""
        if algorithm.startswith("ES"):
            curve = ec.generate_private_key(ec.SECP256R1())
            self.private[kid] = curve
            public = ECAlgorithm.to_jwk(curve.public_key(), as_dict=True)
        else:
            self.private[kid] = key = _rsa_key(kid)
            public = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        self.keys[kid] = {**public, "kid": kid, "use": "sig", "alg": algorithm}

    def token(self, kid: str | None = "rsa", key: Any = None, algorithm: str | None = None, **changes: Any) -> str:
        """A token of alice, one of the builders; a claim that is changed to None is left out."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": [AUDIENCE, "account"],
            "iat": now,
            "exp": now + 300,
            "sub": "6ba7b810",
            "preferred_username": "alice",
            "realm_access": {"roles": ["builders", "offline_access"]},
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        signing = self.private[str(kid)] if key is None else key
        how = algorithm or self.keys.get(str(kid), {}).get("alg", "RS256")
        return jwt.encode(claims, signing, how, headers={} if kid is None else {"kid": kid})

    def start(self) -> None:
        """Serve, at the port of before if there was one."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = issuer.answer(self.path)
                status = answer if isinstance(answer, int) else 200
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{issuer.url}/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str) -> dict[str, Any] | bytes | int:
        name = path.rpartition("/")[2]
        if name == "certs":
            self.requests += 1
            self.may_answer.wait(30)
        if name in self.answers:
            return self.answers[name]
        if name == "openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/certs"}
        return {"keys": list(self.keys.values())} if name == "certs" else 404

    def stop(self) -> None:
        """Be away until ``start``."""
        self.may_answer.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that serves until the end of the context."""
    issuer = Issuer()
    issuer.start()
    try:
        yield issuer
    finally:
        issuer.stop()
