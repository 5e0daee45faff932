"""The broker that the tests of a process share, where Kafka can be had."""

from __future__ import annotations

import pytest

from bench._kafka_broker import Broker, NoJars, shared_broker


def broker_or_skip() -> Broker:
    """The broker. Skips the test, with the reason, where there is none."""
    try:
        return shared_broker()
    except NoJars as error:
        pytest.skip(str(error))
