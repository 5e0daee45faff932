"""The acker's part of the configuration."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from tupletree.acker.config import AckerConfig
from tupletree.config import defaults


def test_the_defaults_are_those_of_the_keys() -> None:
    assert AckerConfig.from_conf(defaults()) == replace(AckerConfig(), log_dir="tupletree-local/logs")


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ({}, "127.0.0.1"),
        ({"bind.host": "10.0.0.7"}, "10.0.0.7"),
        ({"bind.host": "0.0.0.0"}, socket.gethostname()),
        ({"bind.host": "0.0.0.0", "advertise.host": "acker.example"}, "acker.example"),
    ],
)
def test_the_advertised_host(settings: dict[str, str], advertised: str) -> None:
    assert AckerConfig.from_conf({**defaults(), **settings}).advertise_host == advertised
