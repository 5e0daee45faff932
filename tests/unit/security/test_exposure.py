"""A daemon does not listen beyond its machine without TLS and tokens, unless it is told to in so many words."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree._security.exposure import is_loopback, refusal, warning

SECURE: dict[str, Any] = {"tls.ca": "ca", "tls.cert": "cert", "tls.key": "key", "security.tokens": True}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_on_the_loopback_interface_nothing_is_asked_for(host: str) -> None:
    assert is_loopback(host)
    assert refusal({"bind.host": host}) is None
    assert warning({"bind.host": host}) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "node-1", "localhost.example"])
def test_beyond_it_a_daemon_refuses_to_start(host: str) -> None:
    said = refusal({"bind.host": host})
    assert said is not None
    assert said.startswith(f"refusing to listen on bind.host {host}, beyond this machine, without TLS")
    assert "tokens (security.tokens, security.secret.file)" in said
    assert refusal({"bind.host": host, **SECURE}) is None


@pytest.mark.parametrize("lacks", ["tls.ca", "tls.cert", "security.tokens"])
def test_one_of_the_two_is_not_enough(lacks: str) -> None:
    assert refusal({"bind.host": "0.0.0.0", **SECURE, lacks: None}) is not None


def test_told_to_it_starts_and_says_so_loudly() -> None:
    conf = {"bind.host": "0.0.0.0", "security.insecure": True}
    assert refusal(conf) is None
    assert (warning(conf) or "").startswith("INSECURE: listening on 0.0.0.0 without TLS")
    assert warning({**conf, **SECURE}) is None
