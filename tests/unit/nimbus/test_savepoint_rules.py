"""Savepoints that nimbus takes: where they go, and what becomes of an attempt."""

from __future__ import annotations

import json

import pytest

from tupletree import config
from tupletree.errors import ConfigError, UsageError
from tupletree.nimbus.config import NimbusConfig
from tupletree.nimbus.savepoint_rules import Attempt, address_of, ended

ATTEMPT = Attempt("/s/words/monday", 100.0)
AZURE = "abfs://container@account.dfs.core.windows.net/folder"


def test_a_caller_names_a_savepoint_below_its_topology() -> None:
    assert address_of("/s/", "words", "monday", 5.0) == "/s/words/monday"
    assert address_of("s3://bucket/folder", "words", None, 1_700_000_000.4) == "s3://bucket/folder/words/1700000000"
    options = "region=eu-central-1&endpoint_override=minio:9000"
    assert address_of(f"s3://bucket/folder/?{options}", "words", "a", 5.0) == f"s3://bucket/folder/words/a?{options}"
    assert address_of("/s?x", "words", "monday", 5.0) == "/s?x/words/monday"


@pytest.mark.parametrize("to", ["", ".", "..", "../x", "a/b", "/etc", "-a", "a" * 101, 5, ["a"], "s3://x", "a\n"])
def test_what_is_no_name_is_refused(to: object) -> None:
    with pytest.raises(UsageError, match=r"^to is a name of 1 to 100 letters, digits, '\.', '_' and '-', the first"):
        address_of("/s", "words", to, 5.0)


def test_without_the_key_there_are_none() -> None:
    sentence = (
        r"^this cluster takes no savepoints over REST, since nimbus\.savepoints\.address is not set: run 'tupletree"
    )
    with pytest.raises(UsageError, match=sentence):
        address_of(None, "words", "monday", 5.0)


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("states", r"must be an absolute path or an address such as s3://bucket/folder, not 'states'$"),
        ("s3://", r"must be an absolute path or an address"),
        ("s3://key:secret@bucket/folder", r"must have no user or password, which callers would see: credentials come"),
        ("s3://key@bucket/folder", r"must have no user or password"),
        ("abfs://container:secret@account.dfs.core.windows.net/folder", r"must have no user or password"),
    ],
)
def test_an_address_that_is_none_stops_nimbus(address: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"^configuration key 'nimbus\.savepoints\.address' {fault}"):
        NimbusConfig.from_conf({**config.defaults(), "nimbus.savepoints.address": address})


@pytest.mark.parametrize("address", [None, "/var/savepoints", "s3://bucket/a@b", AZURE])
def test_an_address_is_kept(address: str | None) -> None:
    found = NimbusConfig.from_conf({**config.defaults(), "nimbus.savepoints.address": address})
    assert found.savepoints_root == address


def test_an_attempt_is_done_with_what_the_command_says() -> None:
    out = json.dumps({"checkpoint": 12, "entries": {"count": 3}, "savepoint": "x"})
    done = ended(ATTEMPT, 0, out, "", 104.0)
    assert (done.state, done.checkpoint, done.entries, done.error) == ("done", 12, {"count": 3}, "")
    assert (done.began_unix_s, done.ended_unix_s) == (100.0, 104.0)


@pytest.mark.parametrize(
    ("status", "out", "err", "reason"),
    [
        (1, "", "a warning\ntupletree: there is a savepoint at /s already\n\n", "there is a savepoint at /s already"),
        (-9, "", "", "the command ended with exit status -9"),
        (0, "", "", "the command said nothing that is known here"),
        (0, '{"checkpoint": "x", "entries": {}}', "", "the command said nothing that is known here"),
        (0, "[]", "", "the command said nothing that is known here"),
        (2, "", "x" * 1000, "x" * 500),
    ],
)
def test_an_attempt_that_has_failed_says_why(status: int, out: str, err: str, reason: str) -> None:
    found = ended(ATTEMPT, status, out, err, 104.0)
    assert (found.state, found.error, found.ended_unix_s, found.checkpoint) == ("failed", reason, 104.0, None)
