"""What a supervisor makes of the configuration."""

from __future__ import annotations

import socket

import pytest

from tupletree.config import defaults
from tupletree.errors import ConfigError
from tupletree.supervisor.config import SupervisorConfig


def config(**changes: object) -> SupervisorConfig:
    return SupervisorConfig.from_conf({**defaults(), **changes})


def test_the_defaults_are_storms() -> None:
    plain = config()
    assert plain.slots_ports == (6700, 6701, 6702, 6703)
    limits = plain.limits
    assert (limits.start_timeout_s, limits.silence_timeout_s, limits.shutdown_s) == (120, 30, 3)
    assert plain.logs_dir == f"{plain.local_dir}/logs"
    assert plain.seeds == ("127.0.0.1:6627",)


def test_a_supervisor_that_listens_everywhere_is_reached_by_name_and_by_its_workers_on_loopback() -> None:
    everywhere = config(**{"bind.host": "0.0.0.0"})
    assert (everywhere.host, everywhere.local_address) == (socket.gethostname(), "127.0.0.1")
    named = config(**{"bind.host": "0.0.0.0", "advertise.host": "node7"})
    assert named.host == "node7"


def test_a_slot_port_given_twice_is_an_error_but_any_free_port_is_not() -> None:
    assert config(**{"supervisor.slots.ports": [0, 0]}).slots_ports == (0, 0)
    with pytest.raises(ConfigError, match="names a port twice"):
        config(**{"supervisor.slots.ports": [6700, 6700]})
