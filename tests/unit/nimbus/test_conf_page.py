"""The configuration of a topology over HTTP: the page, and bodies of requests that change it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree.errors import UsageError
from tupletree.nimbus.conf_changes import SetConf
from tupletree.nimbus.leader.lifecycle import ask
from tupletree.nimbus.web.conf_page import conf_page, conf_request
from tupletree.nimbus.web.requests import ApiCall
from tupletree.v1 import topology_pb2 as pb

PENDING = "topology.max.spout.pending"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_body_names_keys_to_set_and_to_unset() -> None:
    body = {"set": {PENDING: 5, "a": [1]}, "unset": ["b"], "waitSeconds": 3}
    assert conf_request(ApiCall(body=body)) == SetConf('{"topology.max.spout.pending": 5, "a": [1]}', ["b"], 3.0)
    assert conf_request(ApiCall(body={})) == SetConf("{}", [], None)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"sets": {}},
        {"set": []},
        {"set": {"a": nested(100_000)}},
        {"unset": "a"},
        {"unset": [1]},
        {"waitSeconds": "1"},
        {"waitSeconds": True},
        {"waitSeconds": 10**400},
    ],
    ids=lambda body: type(body).__name__,
)
def test_another_body_is_refused_in_a_sentence(body: Any) -> None:
    with pytest.raises(UsageError):
        conf_request(ApiCall(body=body))


def test_the_page_says_what_holds_what_was_submitted_and_what_waits() -> None:
    conf = {PENDING: None, "db.password": "hidden", "my.key": 1}
    record = pb.TopologyRecord(id="a-1-1", name="a", status=pb.TOPOLOGY_STATUS_ACTIVE, conf_json=json.dumps(conf))
    waits = ask(ask(record, SetConf(json.dumps({PENDING: 5}), [], 1), 0), SetConf('{"my.key": 2}', [], 1), 10)
    page = conf_page(waits)
    assert (page["status"], page["pendingDueUnixSeconds"]) == ("REBALANCING", 11)
    found = {one["key"]: one for one in page["settings"]}
    assert found[PENDING] == {
        "key": PENDING, "value": 5, "source": "changed", "changes": "live", "submitted": None, "pending": None,
        "isPending": False,
    }  # fmt: skip
    assert (found["my.key"]["value"], found["my.key"]["pending"], found["my.key"]["isPending"]) == (1, 2, True)
    assert "hidden" not in json.dumps(page)
