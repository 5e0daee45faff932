"""Secrets in a configuration that is shown to others."""

from __future__ import annotations

import json

import pytest

from tupletree.config import defaults
from tupletree.nimbus.masking import MASK, masked


def test_nothing_is_hidden_in_the_defaults() -> None:
    shown = masked(defaults())
    assert [name for name in shown if shown[name] == MASK != defaults()[name]] == []


@pytest.mark.parametrize(
    "name",
    [
        "zookeeper.auth.password",
        "security.token",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "AWS_SECRET_ACCESS_KEY",
        "topology.api_key",
        "storm.zookeeper.auth.payload",
        "tls.passphrase",
        "account_key",
        "sas_key",
        "service_account_key",
    ],
)
def test_what_is_called_a_secret_is_hidden_at_any_depth(name: str) -> None:
    assert masked({name: "hunter2"}) == {name: MASK}
    assert masked({"topology.environment": {"PATH": "/bin", name: "hunter2"}}) == {
        "topology.environment": {"PATH": "/bin", name: MASK}
    }
    assert "hunter2" not in str(masked({"any": [{name: {"deep": "hunter2"}}]}))


def test_passwords_within_values_are_hidden() -> None:
    assert masked({"url": "postgresql://ada:hunter2@db:5432/words"}) == {
        "url": f"postgresql://ada:{MASK}@db:5432/words"
    }
    assert masked({"url": "redis://:hunt@er2@db/0"}) == {"url": f"redis://:{MASK}@db/0"}
    several = json.dumps({"url": "redis://:hunt@er2@db", "contact": "ada@db"})
    assert masked({"config": several}) == {"config": several.replace("hunt@er2", MASK)}
    assert masked({"dsn": "host=db password=hunter2 user=ada"}) == {"dsn": f"host=db password={MASK} user=ada"}
    given = json.dumps({"jedisPoolConfig": {"password": 'hunter2"\\', "host": "db"}})
    assert masked({"config": given}) == {"config": json.dumps({"jedisPoolConfig": {"password": MASK, "host": "db"}})}
    options = {name: "hunter2" for name in ("access_key_id", "account_key", "sas_key", "service_account_key")}
    shown = masked({"config": json.dumps({"storage_options": options})})["config"]
    assert json.loads(shown)["storage_options"] == dict.fromkeys(options, MASK)


def test_places_times_and_what_is_unset_are_shown() -> None:
    given = {"tls.private.key.file": "/etc/key.pem", "token.ttl": 5, "tokens.secs": 3, "security.token": None, "a": 1}
    assert masked(given) == given


def test_what_is_nested_deeper_than_a_submission_may_be_is_hidden() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    shown: object = masked({"deep": deep})["deep"]
    for _ in range(50):
        assert isinstance(shown, list)
        (shown,) = shown
    assert shown == MASK
