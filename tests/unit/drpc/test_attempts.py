"""The attempts of one call: each server in turn, and one time for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.drpc.attempts import SLACK_S, Attempts, UnreadError
from tupletree.errors import DRPCTimeoutError, UnavailableError

REFUSALS = st.sampled_from([UnavailableError("refused"), UnreadError("unread")])


def attempts(timeout_s: float = 0.0, ends_s: float = 10.0) -> Attempts:
    return Attempts("f", b"1", timeout_s, ends_s)


@given(st.lists(REFUSALS, min_size=6, max_size=6))
def test_a_server_is_called_again_only_if_it_has_not_read_the_call(refusals: list[UnavailableError]) -> None:
    call = attempts()
    called = []
    remaining = iter(refusals)
    for server in call.at(["a", "b", "c"]):
        call.refused = next(remaining)
        called.append((server, type(call.refused) is UnreadError))
    for server in ("a", "b", "c"):
        first, *again = [is_unread for name, is_unread in called if name == server]
        assert len(again) == first
    assert [name for name, _ in called] == sorted(name for name, _ in called)


@given(st.lists(st.floats(0, 30), min_size=1, max_size=5), st.floats(0.1, 30))
def test_all_attempts_together_take_the_time_of_one(pauses_s: list[float], timeout_s: float) -> None:
    call, now_s = attempts(timeout_s, timeout_s), 0.0
    for pause_s in pauses_s:
        if call.refused is not None and now_s >= timeout_s:
            with pytest.raises(DRPCTimeoutError):
                call.call(now_s)
            return
        _, _, server_s, client_s = call.call(now_s)
        assert now_s + server_s <= timeout_s * (1 + 1e-9) + 1e-9
        assert client_s == timeout_s - now_s + SLACK_S
        call.refused = UnavailableError("refused")
        now_s += pause_s


def test_the_first_attempt_leaves_the_time_to_the_server() -> None:
    call = attempts()
    assert call.call(0.0) == ("f", b"1", 0.0, 20.0)
    call.refused = UnavailableError("refused")
    assert call.call(4.0) == ("f", b"1", 6.0, 16.0)


def test_no_attempt_begins_after_the_time() -> None:
    call = attempts(5.0, 5.0)
    call.refused = UnavailableError("the DRPC server at a:1 cannot be reached")
    sentence = r"no DRPC server has accepted the call of function 'f' in time: the DRPC server at a:1 cannot be reached"
    with pytest.raises(DRPCTimeoutError, match=sentence) as raised:
        call.call(5.0)
    assert raised.value.kind == "timeout"
