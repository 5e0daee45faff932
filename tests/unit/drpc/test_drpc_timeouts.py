"""The time of a call: a number of seconds, and anything else is refused before a server is called."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tupletree._limits import check_timeout
from tupletree.drpc import DRPCClient
from tupletree.errors import UsageError


@pytest.mark.parametrize("value", ["x", 0, -1, float("nan"), float("inf"), 10**400, True, [1], timedelta(seconds=1)])
def test_what_is_no_time_is_refused(value: float) -> None:
    sentence = r"^timeout_s is .*, expected a number of seconds, more than 0 and at most 1000000000$"
    client = DRPCClient("127.0.0.1:1", {})
    with pytest.raises(UsageError, match=sentence):
        client.execute("f", timeout_s=value)
    with pytest.raises(UsageError, match=sentence):
        asyncio.run(client.execute_async("f", timeout_s=value))


def test_nothing_is_waited_for_where_that_makes_sense() -> None:
    check_timeout(0, may_be_zero=True)
    check_timeout(1e9)
    with pytest.raises(UsageError, match=r"timeout_s is -1, expected a number of seconds, at least 0"):
        check_timeout(-1, may_be_zero=True)
