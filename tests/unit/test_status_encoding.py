"""Statuses as they travel: what cannot becomes an error, and what is no status is not taken for one."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from typing import Any

import pytest

from tupletree._wire.statuses import MAX_BYTES, decode_status, encode_status, error_status, within


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[[], Any]:
    def read() -> Any:
        raise error

    return read


def endless() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["again"] = made
    return made


def deep() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(100_000):
        made = {"in": made}
    return made


@pytest.mark.parametrize(
    "status", [{}, {"a": 1, "b": [None, True, 1.5, "ä€😀"], "c": {"d": "\x1b[31m"}}, {"a": "x" * (MAX_BYTES - 9)}]
)
def test_a_small_mapping_arrives_as_it_is(status: dict[str, Any]) -> None:
    assert decode_status(encode_status(lambda: status)) == status
    assert decode_status(encode_status(lambda: types.MappingProxyType(status))) == status


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (raising(ValueError("not now")), "ValueError: not now"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (raising(Unspeakable()), "Unspeakable"),
        (raising(ValueError("x" * 100_000)), "ValueError: xxx"),
        (raising(ValueError("\ud800")), "ValueError: "),
        (lambda: None, "the status function returned NoneType; a mapping was expected"),
        (lambda: [1], "the status function returned list"),
        (lambda: {"a": object()}, "object is not JSON serializable"),
        (lambda: {(1, 2): 3}, "keys must be"),
        (lambda: {"a": float("nan")}, "not JSON compliant"),
        (lambda: {"a": "\ud800"}, "surrogates not allowed"),
        (endless, "Circular reference"),
        (deep, "RecursionError"),
        (lambda: {"a": "x" * (MAX_BYTES - 8)}, "the status has 8,193 bytes as JSON; at most 8,192 are shown"),
        (lambda: {"a": "€" * MAX_BYTES}, "bytes as JSON"),
    ],
)
def test_what_cannot_travel_is_a_short_error(read: Callable[[], Any], words: str) -> None:
    text = encode_status(read)
    assert words in json.loads(text)["error"]
    assert len(text.encode()) < 2_000
    assert decode_status(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        "[" * MAX_BYTES,
        '{"a": ' + "9" * 5_000 + "}",
        json.dumps({"a": "x" * MAX_BYTES}),
        json.dumps({"a": "€" * 3_000}, ensure_ascii=False),
    ],
)
def test_what_is_no_status_is_not_taken_for_one(text: str) -> None:
    assert decode_status(text) is None


def test_together_statuses_are_limited_and_the_large_are_left_out() -> None:
    told = [(1, "x" * (MAX_BYTES + 1)), (2, "x" * 60), (3, "x" * 60), (4, "x" * 40)]
    assert [task for task, _ in within(100, told)] == [2, 4]
    assert list(within(-1, told)) == []


def test_an_error_is_a_status() -> None:
    assert decode_status(error_status("no")) == {"error": "no"}
