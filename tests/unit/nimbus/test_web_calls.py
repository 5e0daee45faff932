"""What a client may say over HTTP, and how it is answered."""

from __future__ import annotations

import pytest

from tupletree.errors import AuthorityError, ConflictError, NotFoundError, UnavailableError, UsageError
from tupletree.nimbus.leader.lifecycle import Kill, Rebalance
from tupletree.nimbus.web import actions, formatting, requests
from tupletree.nimbus.web.requests import ApiCall


def test_a_number_in_a_query_has_its_bounds() -> None:
    assert ApiCall(query={"n": "5"}).whole("n", 1, 0, 10) == 5
    assert ApiCall().whole("n", 1, 0, 10) == 1
    for text in ("11", "-1", "x", "1.5", "1" * 30, "٣"):
        with pytest.raises(UsageError, match=r"^n is a whole number from 0 to 10"):
            ApiCall(query={"n": text}).whole("n", 1, 0, 10)


def test_windows_and_system_streams() -> None:
    assert (ApiCall().window, ApiCall().sys) == (":all-time", False)
    assert ApiCall(query={"window": "600", "sys": "1"}).window == "600"
    assert ApiCall(query={"sys": "true"}).sys
    with pytest.raises(UsageError, match="the window is one of 600, 10800, 86400, :all-time, not '60'"):
        _ = ApiCall(query={"window": "60"}).window


def test_a_callback_is_a_name_and_what_it_is_given_is_javascript() -> None:
    assert requests.encode({"a": "ä\u2028"}, "my.fn") == (
        "application/javascript",
        b'/**/my.fn({"a":"' + "ä".encode() + b'\\u2028"});',
    )
    for name in ("a b", "a(", "1a", "a.", "a" * 101, "a;b"):
        with pytest.raises(UsageError):
            requests.encode({}, name)


def test_errors_have_the_status_that_says_what_to_do() -> None:
    found = [
        requests.failure(kind("why"))[0]
        for kind in (NotFoundError, UsageError, ConflictError, AuthorityError, UnavailableError)
    ]
    assert found == [404, 400, 409, 403, 503]
    assert requests.failure(ValueError("a secret")) == (
        500,
        {"error": "500 Internal Server Error", "errorMessage": "internal error"},
    )


def test_a_body_is_json_or_nothing() -> None:
    assert requests.decode_body(b" ") is None
    assert requests.decode_body(b"[1]") == [1]
    for data in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(UsageError, match=r"^the body is not JSON$"):
            requests.decode_body(data)


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({"content-type": "application/json"}, False),
        ({"content-type": "application/json; charset=utf-8"}, False),
        ({"x-requested-with": "curl"}, False),
        ({"host": "h:1", "origin": "http://h:1"}, False),
        ({"host": "h:1", "origin": "https://H:1"}, False),
        ({}, True),
        ({"content-type": "text/plain"}, True),
        ({"content-type": "application/x-www-form-urlencoded"}, True),
        ({"host": "h:1", "origin": "http://h:2", "content-type": "application/json"}, True),
        ({"host": "h:1", "origin": "http://evil", "x-requested-with": "x"}, True),
        ({"host": "h:1", "origin": "null", "content-type": "application/json"}, True),
        ({"host": "h:1", "origin": "h:1"}, True),
        ({"host": "h:1", "origin": "http://[", "content-type": "application/json"}, True),
    ],
)
def test_which_posts_may_come_from_a_foreign_page(headers: dict[str, str], is_refused: bool) -> None:
    assert (requests.forbidden_post(headers) is not None) == is_refused


def test_this_nimbus_as_the_client_calls_it() -> None:
    assert requests.base_of("http", "proxy.example:80", "own:1") == "http://proxy.example:80"
    assert requests.base_of("http", "[::1]:80", "own:1") == "http://[::1]:80"
    for host in ("", "a/b", 'a"b', "a b", "x" * 301):
        assert requests.base_of("https", host, "own:1") == "https://own:1"


def rebalance(body: object, wait: str = "5") -> object:
    return actions.rebalance(ApiCall(path={"wait": wait}, body=body))


def test_a_rebalance_as_storms_clients_ask_for_it() -> None:
    assert rebalance(None) == Rebalance(5.0, 0, {})
    assert rebalance({"rebalanceOptions": {}}) == Rebalance(5.0, 0, {})
    options = {"numWorkers": "2", "executors": {"split": 4, "count": "3"}}
    assert rebalance({"rebalanceOptions": options}) == Rebalance(5.0, 2, {"split": 4, "count": 3})
    assert rebalance({"rebalanceOptions": {"tasks": {"count": "6"}}}) == Rebalance(5.0, 0, {}, {"count": 6})
    for body in (
        [],
        {"rebalanceOptions": []},
        {"rebalanceOptions": {"workers": 1}},
        {"rebalanceOptions": {"numWorkers": -1}},
        {"rebalanceOptions": {"numWorkers": True}},
        {"rebalanceOptions": {"numWorkers": 2**40}},
        {"rebalanceOptions": {"executors": {"split": 0}}},
        {"rebalanceOptions": {"executors": {"split": "many"}}},
    ):
        with pytest.raises(UsageError):
            rebalance(body)
    with pytest.raises(UsageError, match="wait is a number of seconds, not 'soon'"):
        rebalance(None, "soon")


def test_a_kill_takes_its_wait_from_the_path() -> None:
    assert actions.kill(ApiCall(path={"wait": "0"})) == Kill(0.0)


def test_levels_of_loggers_as_storms_clients_ask_for_them() -> None:
    body = {"namedLoggerLevels": {"ROOT": {"target_level": "DEBUG", "timeout": 60}, "a.b": {"target_level": None}}}
    found = actions.log_levels(ApiCall(body=body), 1000.0)
    assert found.levels["ROOT"].level == "DEBUG" and found.levels["ROOT"].until_unix_s == 1060.0  # type: ignore[union-attr]
    assert found.remove == ["a.b"]  # type: ignore[union-attr]
    for wrong in (None, {}, {"namedLoggerLevels": {"a": "DEBUG"}}, {"namedLoggerLevels": {"a": {"target_level": 1}}}):
        with pytest.raises(UsageError):
            actions.log_levels(ApiCall(body=wrong), 0.0)


def test_a_worker_is_named_by_host_and_port() -> None:
    assert actions.host_port(ApiCall(path={"hostPort": "[::1]:6700"})) == ("[::1]", 6700)
    for text in ("6700", ":6700", "h:", "h:0", "h:70000", "h:x", "h:٣"):
        with pytest.raises(UsageError, match=r"^a worker is named host:port, not"):
            actions.host_port(ApiCall(path={"hostPort": text}))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (600, "10m 0s"), (10_800, "3h 0m 0s"), (90_061, "1d 1h 1m 1s")]
)
def test_a_time_as_storm_writes_it(seconds: float, text: str) -> None:
    assert formatting.uptime_text(seconds) == text


def test_a_link_to_a_log_can_be_asked_for() -> None:
    link = formatting.worker_log_link("http://n:8080", "a b-1", "h", 6700)
    assert link == "http://n:8080/api/v1/log?file=a%20b-1%2F6700%2Fworker.log&host=h"
