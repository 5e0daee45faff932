"""The pending requests of a DRPC server: each ends once, functions share the room, tasks take turns."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.drpc.requests import MAX_ANSWER_BYTES, Ended, Kind, Requests
from tupletree.errors import OverloadedError, UsageError


def served(max_pending: int = 100, *, room: int = 10, collects: bool = False, max_bytes: int = 10**9) -> Requests:
    """Requests with one server, number 1, of function "f"."""
    requests = Requests(max_pending, max_bytes)
    requests.connect(1, "f", "t-1", room, collects)
    return requests


def test_an_answer_is_the_only_result_of_a_complete_tree() -> None:
    requests = served()
    requests.execute("a", "f", "1", 10)
    assert [(one.server, one.id, one.args) for one in requests.assign("f")] == [(1, "a", "1")]
    requests.add_result("t-1", "a", "2")
    assert requests.complete(1, "a") == Ended("a", "f", Kind.ANSWERED, "2", 1)
    assert requests.complete(1, "a") is None and len(requests) == 0


@pytest.mark.parametrize(("results", "collects", "kind", "text"), [
    ([], False, Kind.FAILED, "complete with no result, one was expected"),
    (["1", "2"], False, Kind.FAILED, "complete with 2 results, one was expected"),
    (["1", "2"], True, Kind.ANSWERED, "[1,2]"),
    ([], True, Kind.ANSWERED, "[]"),
])  # fmt: skip
def test_other_numbers_of_results(results: list[str], collects: bool, kind: Kind, text: str) -> None:
    requests = served(collects=collects)
    requests.execute("a", "f", "1", 10)
    requests.assign("f")
    for result in results:
        requests.add_result("t-1", "a", result)
    ended = requests.complete(1, "a")
    assert ended is not None and ended.kind is kind and ended.text.endswith(text)


def test_of_several_results_where_one_is_expected_only_the_first_is_held() -> None:
    requests = served()
    requests.execute("a", "f", "1", 10)
    requests.assign("f")
    requests.add_result("t-1", "a", "1")
    held = requests.held_bytes
    for _ in range(1000):
        assert requests.add_result("t-1", "a", "2" * 1000) is None
    assert requests.held_bytes == held
    ended = requests.complete(1, "a")
    assert ended is not None and "complete with 1001 results" in ended.text and requests.held_bytes == 0


def test_an_answer_that_becomes_too_large_ends_the_request() -> None:
    requests = served(collects=True)
    requests.execute("a", "f", "1", 10)
    requests.assign("f")
    part = "x" * (MAX_ANSWER_BYTES // 3)
    assert [requests.add_result("t-1", "a", part) for _ in range(2)] == [None, None]
    ended = requests.add_result("t-1", "a", part)
    assert ended is not None and ended.kind is Kind.FAILED and ended.server == 1
    assert ended.text == f"the answer of function 'f' has more than the {MAX_ANSWER_BYTES} bytes that fit"
    assert requests.held_bytes == 0 and len(requests) == 0


def test_results_without_room_in_the_server_end_their_request() -> None:
    requests = served(collects=True, max_bytes=3000)
    for id in "ab":
        requests.execute(id, "f", "1", 10)
    requests.assign("f")
    assert requests.add_result("t-1", "a", "x" * 2000) is None
    ended = requests.add_result("t-1", "b", "x" * 1000)
    assert ended is not None and ended.kind is Kind.FAILED and "drpc.max.pending.bytes is 3000" in ended.text
    assert len(requests) == 1 and 2000 < requests.held_bytes < 2200


def test_requests_are_admitted_by_the_bytes_of_their_arguments() -> None:
    requests = Requests(100, max_bytes=100_000)
    for id in "abcde":
        requests.execute(id, "f", "x" * 9_900, 10)
    with pytest.raises(OverloadedError, match=r"'f' have 49\d\d\d bytes.*drpc.max.pending.bytes is 100000.*call again"):
        requests.execute("f", "f", "x" * 9_900, 10)
    requests.execute("g", "g", "x" * 9_900, 10)  # another function has room
    requests.cancel("a")
    requests.cancel("b")
    requests.execute("h", "f", "x" * 9_900, 10)


def test_results_of_another_topology_are_ignored() -> None:
    requests = served()
    requests.execute("a", "f", "1", 10)
    requests.add_result("t-1", "a", "early")  # nobody was sent the request yet
    requests.assign("f")
    requests.add_result("t-2", "a", "2")
    ended = requests.complete(1, "a")
    assert ended is not None and "no result" in ended.text


def test_what_comes_after_the_end_is_ignored() -> None:
    requests = served()
    requests.execute("a", "f", "1", 10)
    requests.assign("f")
    assert [one.kind for one in requests.disconnect(1)] == [Kind.LOST]
    requests.add_result("t-1", "a", "2")
    assert requests.cancel("a") is None and requests.expire(100) == []


def test_queued_requests_of_a_function_without_a_server_can_be_ended() -> None:
    requests = served(room=1)
    for id in "abc":
        requests.execute(id, "f", "1", 10)
    requests.execute("d", "g", "1", 10)
    requests.assign("f")
    assert requests.end_unserved("f", Kind.LOST, "why") == []
    assert requests.disconnect(1, "it failed") == [Ended("a", "f", Kind.LOST, "it failed", 1)]
    assert requests.end_unserved("f", Kind.LOST, "why") == [Ended(id, "f", Kind.LOST, "why") for id in "bc"]
    assert requests.end_unserved("f", Kind.LOST, "why") == [] and len(requests) == 1


def test_requests_given_back_are_the_next_for_others() -> None:
    requests = served()
    for id in "abc":
        requests.execute(id, "f", "1", 10)
    requests.assign("f")
    requests.pause(1, True)
    requests.give_back(1, ["a", "b", "unknown"])
    assert requests.assign("f") == []
    requests.connect(2, "f", "t-1", 10, False)
    assert [(one.server, one.id) for one in requests.assign("f")] == [(2, "a"), (2, "b")]


def test_servers_take_turns_while_they_have_room() -> None:
    requests = served(room=3)
    requests.connect(2, "f", "t-1", 1, False)
    for number in range(6):
        requests.execute(str(number), "f", "1", 10)
    assert [one.server for one in requests.assign("f")] == [1, 2, 1, 1]
    requests.fail(2, "1", Kind.FAILED, "why")
    assert [(one.server, one.id) for one in requests.assign("f")] == [(2, "4")]


def test_deadlines_name_what_was_missing() -> None:
    requests = served(room=1)
    requests.execute("a", "f", "1", 1)
    requests.execute("b", "f", "1", 2)
    requests.execute("c", "g", "1", 3)
    requests.assign("f")
    assert requests.expire(0.5) == []
    texts = {one.id: one.text for one in requests.expire(3)}
    assert "has not answered in time" in texts["a"]
    assert "has not taken the request in time" in texts["b"]
    assert "no topology has served function 'g' in time" in texts["c"]


def test_one_function_gets_half_of_the_room_and_others_their_share() -> None:
    requests = Requests(100)
    admitted = Counter[str]()
    for function in ("greedy", "second", "third"):
        for number in range(100):
            try:
                requests.execute(f"{function}{number}", function, "1", 10)
            except OverloadedError as error:
                assert "drpc.max.pending is 100" in str(error)
                break
            admitted[function] += 1
    assert admitted == {"greedy": 50, "second": 25, "third": 13}


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-x", "x" * 101, None, "ä"])
def test_names_of_functions(name: object) -> None:
    with pytest.raises(UsageError, match=r"must be named by at most 100 letters"):
        Requests(10).execute("a", name, "1", 1)  # type: ignore[arg-type]


@given(st.integers(0, 2**32))
def test_each_request_ends_at_most_once_and_none_is_lost(seed: int) -> None:  # noqa: C901 - one branch per event
    draw = random.Random(seed)
    requests = Requests(40, max_bytes=5000)
    accepted: set[str] = set()
    ended: list[Ended] = []
    servers: dict[int, str] = {}
    now_s = 0.0
    for step in range(150):
        now_s += draw.random()
        function = draw.choice("fg")
        server = draw.choice([*servers, 0])
        id = draw.choice([*accepted, "unknown"])
        match draw.randrange(9):
            case 0 | 1:
                try:
                    requests.execute(str(step), function, "1", now_s + draw.random() * 20)
                except OverloadedError:
                    continue
                accepted.add(str(step))
            case 2:
                requests.connect(step + 1, function, "t", draw.randrange(1, 5), draw.random() < 0.5)
                servers[step + 1] = function
            case 3 if server:
                ended += requests.disconnect(server)
                del servers[server]
            case 4 if server:
                ended += filter(None, [requests.complete(server, id)])
            case 5 if server:
                ended += filter(None, [requests.fail(server, id, Kind.FAILED, "why")])
            case 6:
                ended += requests.expire(now_s)
                ended += filter(None, [requests.cancel(id)]) if draw.random() < 0.2 else []
            case 7:
                ended += filter(None, [requests.add_result("t", id, "1" * draw.choice([1, 1000]))])
            case 8 if server:
                requests.pause(server, draw.random() < 0.3)
                requests.give_back(server, [id])
        for name in "fg":
            requests.assign(name)
        queued = sum(numbers[0] + numbers[1] for numbers in requests.functions.values())
        assert queued == len(requests) == len(accepted) - len(ended) and requests.held_bytes <= 5000
    ended += requests.end_all(Kind.SHUTDOWN, "over")
    assert Counter(one.id for one in ended) == Counter(accepted) and requests.held_bytes == 0
