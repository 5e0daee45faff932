"""What a supervisor makes of the configuration."""

from __future__ import annotations

import pytest

from tupletree.config import defaults, validate
from tupletree.errors import ConfigError
from tupletree.supervisor.config import SupervisorConfig


def config(**changes: object) -> SupervisorConfig:
    return SupervisorConfig.from_conf({**defaults(), **changes})


def test_the_defaults_are_storms() -> None:
    plain = config()
    assert plain.slots_ports == (6700, 6701, 6702, 6703)
    limits = plain.limits
    assert (limits.start_timeout_s, limits.silence_timeout_s, limits.shutdown_s) == (120, 30, 3)
    assert plain.seeds == ("127.0.0.1:6627",)


def test_the_workers_of_a_supervisor_that_listens_everywhere_reach_it_on_loopback() -> None:
    assert config(**{"bind.host": "0.0.0.0"}).local_address == "127.0.0.1"
    assert config(**{"bind.host": "10.0.0.7"}).local_address == "10.0.0.7"


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        (
            "supervisor.cgroup.use",
            True,
            r"^configuration key 'supervisor.cgroup.use' takes one of auto, required, never",
        ),
        (
            "supervisor.cgroup.root",
            "mine",
            r"must be the absolute path of a control group such as '/tupletree', not 'mine'",
        ),
        ("supervisor.cgroup.root", "/a/../b", r"must be the absolute path of a control group"),
    ],
)
def test_a_wrong_setting_of_control_groups_is_refused(key: str, value: object, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        validate({key: value})


def test_a_slot_port_given_twice_is_an_error_but_any_free_port_is_not() -> None:
    assert config(**{"supervisor.slots.ports": [0, 0]}).slots_ports == (0, 0)
    with pytest.raises(ConfigError, match="names a port twice"):
        config(**{"supervisor.slots.ports": [6700, 6700]})
