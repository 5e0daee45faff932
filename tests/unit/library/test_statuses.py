"""What tasks say of themselves, as the command line shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree._wire.statuses import committed_by
from tupletree.cli.describe import describe_dict
from tupletree.cli.monitor import view_dict
from tupletree.cli.output import print_json
from tupletree.cli.statuses import printable, status_dicts, status_lines
from tupletree.client import TopologyDescription
from tupletree.v1.nimbus_pb2 import ComponentStats, DescribeTopologyReply, TaskStatus

PIPELINE = {
    "kind": "pipeline",
    "state": "running",
    "reason": "",
    "committed_txid": 42,
    "batches": [
        {"txid": 43, "phase": "committing", "age_s": 12.34, "rows": 5000, "failures": 0, "retry_in_s": None, "job": ""},
        {
            "txid": 44,
            "phase": "running",
            "age_s": 0.41,
            "rows": None,
            "failures": 2,
            "retry_in_s": 1.5,
            "job": "http://127.0.0.1:4040/jobs/job/?id=7",
        },
    ],
    "rows_total": 1_234_567,
    "rows_per_s": 12_345.6,
    "batches_total": 42,
    "batch_s": {"p50": 0.8, "p99": 11.9},
    "spark": {"master": "local[2]", "ui": "http://127.0.0.1:4040", "app_id": "local-1"},
}
COORDINATOR = {
    "kind": "coordinator",
    "transactional_id": "counts",
    "state": "running",
    "committed": 42,
    "active": [{"txid": 43, "attempt": (1 << 32) + 7, "phase": "processing", "age_s": 1.2}],
    "failures": 3,
    "lag": {"bytes": 123_456_789, "files": 2},
}


def reply(*statuses: Any, age_s: float = 0.0) -> TopologyDescription:
    """Of a component c with a task for each status; texts are taken as they are."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in statuses]
    said = [TaskStatus(task_id=number, status_json=text, age_s=age_s) for number, text in enumerate(texts, 1)]
    return TopologyDescription.of(DescribeTopologyReply(components=[ComponentStats(component_id="c", statuses=said)]))


def lines(status: Any, age_s: float = 0.0) -> list[str]:
    return status_lines(status_dicts(reply(status, age_s=age_s)))


def test_describe_and_monitor_give_the_statuses_in_json() -> None:
    told = reply(PIPELINE, {})
    expected = [
        {"component": "c", "task": 1, "age_s": 0.0, "status": PIPELINE},
        {"component": "c", "task": 2, "age_s": 0.0, "status": {}},
    ]
    assert describe_dict(told)["statuses"] == expected
    assert view_dict(told, told, 1.0)["statuses"] == expected
    assert view_dict(told, told, 1.0, "another")["statuses"] == []


def test_a_pipeline_is_shown_with_its_batches() -> None:
    assert lines(PIPELINE) == [
        "c[1]: pipeline running, transaction 42 committed, 12,346 rows/s, 1,234,567 rows in 42 batches, "
        "arrival to commit 0.80 s (p50), 11.9 s (p99)",
        "    spark: local[2]  local-1  http://127.0.0.1:4040",
        "    txid  phase          age   rows  failures  retry in  job",
        "      43  committing  12.3 s  5,000         0         -  -",
        "      44  running     0.41 s      -         2    1.50 s  http://127.0.0.1:4040/jobs/job/?id=7",
    ]


def test_a_pipeline_that_has_committed_nothing_took_no_time() -> None:
    assert lines({**PIPELINE, "batch_s": {"p50": None, "p99": None}})[0].endswith("rows in 42 batches")


def test_a_pipeline_that_stopped_says_why() -> None:
    shown = lines({**PIPELINE, "state": "stopped", "reason": "poison batch 43\nsplits: [0, 4096]\x1b[2J"})
    assert "pipeline stopped" in shown[0]
    assert shown[1:3] == ["    reason: poison batch 43", "    splits: [0, 4096]\\x1b[2J"]
    shown = lines({**PIPELINE, "state": "stopped", "reason": "failed " * 50 + "the batch is [0, 4096]"})
    assert "".join(shown[1:4]).endswith("failed the batch is [0, 4096]")


def test_a_coordinator_is_shown_with_its_transactions_and_the_lag_of_its_source() -> None:
    assert lines(COORDINATOR) == [
        "c[1]: coordinator of counts running, transaction 42 committed, 3 failures since then, "
        "lag: bytes 123,456,789 files 2",
        "    txid  attempt  phase          age",
        "      43      1.7  processing  1.20 s",
    ]
    assert lines({**COORDINATOR, "active": [], "failures": 0, "lag": None}) == [
        "c[1]: coordinator of counts running, transaction 42 committed"
    ]


def test_a_queue_is_shown_with_its_connection() -> None:
    status = {"kind": "queue", "queue": "RabbitMQ", "connected": True, "outstanding": 3, "lag": 12345}
    assert lines(status) == ["c[1]: RabbitMQ, connected, 3 outstanding, lag 12,345"]
    log = {"kind": "log", "log": "Kafka", "connected": True, "outstanding": 3, "lag": 5}
    assert lines(log) == ["c[1]: Kafka, connected, 3 outstanding, lag 5"]
    assert lines({**log, "lag_unit": "bytes"}) == ["c[1]: Kafka, connected, 3 outstanding, lag 5 bytes"]
    away = {**status, "connected": False, "outstanding": 0, "lag": None, "error": "OSError: no\x1broute"}
    assert lines(away) == ["c[1]: RabbitMQ, not connected, 0 outstanding, lag -", "    reason: OSError: no\\x1broute"]


def test_a_checkpoint_spout_is_shown_with_what_it_is_doing() -> None:
    status = {"kind": "checkpoint", "state_id": "words", "state": "running", "txid": 42, "phase": "preparing"}
    status |= {"is_recovering": True, "step": "rollback", "step_age_s": 0.25, "last_checkpoint_s": 0.02, "failures": 3}
    assert lines(status) == [
        "c[1]: checkpoints of words, running, checkpoint 42 preparing, recovering, rollback for 0.25 s, last duration "
        "0.02 s, 3 failures since the last checkpoint"
    ]
    assert lines({**status, "is_recovering": False, "step": None, "failures": 0}) == [
        "c[1]: checkpoints of words, running, checkpoint 42 preparing, last duration 0.02 s"
    ]


def test_any_other_status_is_shown_key_by_key() -> None:
    assert lines({"waits for": "rain", "since": [1, {"a": None}], "much": 5}) == [
        "c[1]:",
        "    waits for: rain",
        '    since: [1, {"a": null}]',
        "    much: 5",
    ]


def test_a_status_that_is_not_of_this_moment_says_so() -> None:
    assert lines({}, age_s=4.2) == ["c[1], 4.20 s ago:"]


def test_what_is_long_is_cut() -> None:
    shown = lines({"text": "x" * 1000, **{str(number): number for number in range(100)}})
    assert max(map(len, shown)) < 220
    assert (len(shown), shown[-1]) == (22, "    … 81 more")
    batches = [{"txid": number} for number in range(50)]
    shown = lines({"kind": "pipeline", "batches": batches})
    assert (len(shown), shown[-1]) == (23, "    … 30 more")


def test_what_a_terminal_would_obey_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[31m\r\nb\x9b\x7f\u202e\u2028é😀") == "a\\x1b[31m\\r\\nb\\x9b\\x7f\\u202e\\u2028é😀"
    evil = "\x1b]0;owned\x07\x9b2J\x7f"
    for status in ({evil: evil}, {**PIPELINE, "state": evil, "batches": [{"phase": evil, "txid": evil}]}):
        assert all(line.isprintable() for line in lines(status))
        print_json(status)
        printed = capsys.readouterr().out
        assert printed.removesuffix("\n").isprintable()
        assert json.loads(printed) == status


@pytest.mark.parametrize("value", [None, True, -1, 2.5, 10**400, 1e300, "text", [], [1], ["a", {}], {}, {"p50": []}])
@pytest.mark.parametrize("status", [PIPELINE, COORDINATOR], ids=["pipeline", "coordinator"])
def test_a_field_may_be_missing_or_anything(status: dict[str, Any], value: Any) -> None:
    for field in status:
        if field != "kind":
            assert lines({**status, field: value})[0].startswith("c[1]: ")
            assert lines({key: one for key, one in status.items() if key != field})
    for several in ("batches", "active"):
        for field in {key for one in status.get(several, []) for key in one}:
            assert lines({**status, several: [{**status[several][0], field: value}]})


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 8000, '{"a": 1e999}', '{"a": "\\ud800"}', "x" * 10_000])
def test_what_is_no_status_is_an_error_in_its_place(text: str) -> None:
    assert lines(text) == ["c[1]:", "    error: the status that nimbus returned is not a small JSON object"]


def test_a_pipeline_that_was_started_again_shows_what_its_coordinator_knows_to_be_committed() -> None:
    idle = {**PIPELINE, "committed_txid": 0, "batches": []}
    asked = DescribeTopologyReply(
        components=[
            ComponentStats(component_id="pipeline", statuses=[TaskStatus(task_id=1, status_json=json.dumps(idle))]),
            ComponentStats(
                component_id="pipeline:coordinator",
                statuses=[TaskStatus(task_id=2, status_json=json.dumps({**COORDINATOR, "committed": 29}))],
            ),
        ]
    )
    assert status_lines(status_dicts(TopologyDescription.of(asked)))[0].startswith(
        "pipeline[1]: pipeline running, transaction 29 committed"
    )
    assert committed_by("pipeline", {"committed_txid": 31}, {"pipeline:coordinator": 29}) == 31
    assert committed_by("pipeline", {"committed_txid": 31}, {"pipeline:coordinator": "x"}) == 31
    assert committed_by("pipeline", {}, {"pipeline:coordinator": 29}) == 29
