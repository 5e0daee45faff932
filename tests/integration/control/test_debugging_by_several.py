"""Sampling and tracing that somebody else has asked for, or has left behind."""

from __future__ import annotations

import time

from tests.integration.control.conftest import Console
from tupletree.testing import wait_until


def test_the_sampling_of_another_ends_when_the_other_said(console: Console) -> None:
    client, until_s = console.cluster.client, time.time() + 600
    client.set_sampling("words", "split", 1, until_s)
    try:
        assert "split[" in console("debug", "words", "split", "-n", "1")
        record = client.describe("words").summary.record
        assert dict(record.sampled_percent) == {"split": 1}
        assert dict(record.sampled_until_unix_s) == {"split": until_s}
    finally:
        client.set_sampling("words", "", 0)


def test_tracing_that_is_over_does_not_keep_others_from_it(console: Console) -> None:
    client = console.cluster.client
    client.set_tracing("words", 2**32 - 1, time.time() + 1)  # of a command that was killed
    wait_until(lambda: client.describe("words").summary.record.traced_one_in == 0, 30)
    assert console.json("trace", "words")["verdict"] == "acked"
