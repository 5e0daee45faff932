"""The calls of a client on one stream: each ends once, whatever happens in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.drpc.attempts import UnreadError
from tupletree.drpc.linger import MAX_S, MIN_S, Linger
from tupletree.drpc.open_calls import MAX_ARGS_BYTES, OpenCalls
from tupletree.drpc.stream_state import StreamState
from tupletree.errors import OverloadedError, UnauthenticatedError, UnavailableError, UsageError
from tupletree.v1 import drpc_pb2 as pb


def begun(count: int, calls: OpenCalls[str] | None = None) -> OpenCalls[str]:
    calls = OpenCalls(1000) if calls is None else calls
    for number in range(count):
        calls.begin("f", b"1", 0, f"caller {number}")
    return calls


def test_a_call_is_taken_once_and_ends_once() -> None:
    calls = begun(2)
    taken, cancelled = calls.take()
    assert [(one.number, one.function, one.waiting) for one in taken] == [(1, "f", "caller 0"), (2, "f", "caller 1")]
    assert cancelled == [] and calls.take() == ([], []) and not calls.has_news
    assert (calls.end(2), calls.end(2), calls.end(1), calls.end(7)) == ("caller 1", None, "caller 0", None)
    assert len(calls) == 0


def test_an_unsent_call_has_no_reply() -> None:
    assert begun(1).end(1) is None


def test_a_cancelled_call_is_told_only_if_it_was_sent() -> None:
    calls = begun(1)
    calls.take()
    begun(1, calls)
    assert calls.cancel(2) is True and calls.cancel(1) is False and calls.cancel(1) is False
    assert calls.take() == ([], [1])
    assert calls.end(1) is None and len(calls) == 0


def test_what_the_server_has_not_read_can_be_made_again() -> None:
    calls = begun(3)
    calls.take()
    begun(1, calls)
    assert calls.unread(1) == ["caller 0", "caller 1", "caller 2"]  # of the second begun, then of the first
    assert calls.broken() == ([], ["caller 0"])


def test_a_broken_stream_tells_what_was_sent() -> None:
    calls = begun(2)
    calls.take()
    calls.begin("f", b"1", 0, "late")
    assert calls.broken() == (["late"], ["caller 0", "caller 1"])
    assert calls.broken() == ([], [])


def test_bounds_of_calls_arguments_and_messages() -> None:
    calls: OpenCalls[str] = OpenCalls(3)
    begun(3, calls)
    with pytest.raises(OverloadedError, match=r"waits for 3 calls of the DRPC server: call again when some"):
        calls.begin("f", b"1", 0, "one more")
    with pytest.raises(UsageError, match=r"the arguments of 'f' have 15728641 bytes, expected at most 15728640"):
        OpenCalls[str](3).begin("f", b" " * (MAX_ARGS_BYTES + 1), 0, "long")
    large: OpenCalls[int] = OpenCalls(5000)
    for number in range(3):
        large.begin("f", b" " * 3_000_000, 0, number)
    assert [len(large.take()[0]) for _ in range(4)] == [1, 1, 1, 0]
    for number in range(2500):
        large.begin("f", b"1", 0, number)
    assert [len(large.take()[0]) for _ in range(4)] == [1000, 1000, 500, 0]


STEPS = st.lists(
    st.one_of(
        st.just(("begin", 0)),
        st.just(("take", 0)),
        st.tuples(st.sampled_from(["reply", "cancel", "unread"]), st.integers(0, 12)),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_call_ends_once(steps: list[tuple[str, int]]) -> None:
    calls: OpenCalls[int] = OpenCalls(1000)
    ended: list[int] = []
    taken: list[int] = []
    for what, number in steps:
        if what == "begin":
            calls.begin("f", b"", 0, len(ended) + len(calls) + 1)
        elif what == "take":
            taken += [one.number for one in calls.take()[0]]
        elif what == "reply":
            ended += [one for one in [calls.end(number)] if one is not None]
        elif what == "cancel":
            before = len(calls)
            calls.cancel(number)
            ended += [number] * (before - len(calls))
        else:
            ended += calls.unread(number)
    total = len(ended) + len(calls)
    unsent, sent = calls.broken()
    assert sorted([*ended, *unsent, *sent]) == list(range(1, total + 1))
    assert set(sent) <= set(taken) and not set(unsent) & set(taken)
    assert taken == sorted(set(taken))


def test_the_linger_follows_what_a_message_has_carried() -> None:
    linger = Linger()
    assert linger.pause_s(100.0) <= 0  # after an idle time a message leaves at once
    linger.wrote(1, 100.0)
    assert MIN_S < linger.pause_s(100.0) < 2 * MIN_S
    assert linger.pause_s(100.0 + 2 * MIN_S) < 0
    linger.wrote(1000, 200.0)
    assert linger.pause_s(200.0) == pytest.approx(MAX_S)


def test_a_stream_that_was_never_up_refuses_calls_for_the_reason_of_its_end() -> None:
    state = StreamState("drpc-1:3772")
    state.end(UnauthenticatedError("Call requires a token"))
    assert type(state.refusal()) is UnauthenticatedError and str(state.refusal()) == "Call requires a token"
    state = StreamState("drpc-1:3772")
    state.on_reply(pb.CallReply())
    state.end(UnavailableError("the connection broke"))
    assert type(state.refusal()) is UnreadError, "another stream can make the call"
