"""The table between errors and gRPC status codes."""

from __future__ import annotations

import errno

import grpc
import grpc.aio
import pytest

from tupletree import errors
from tupletree._rpc.status import from_rpc_error, to_status, transport_failure


def failed_call(code: grpc.StatusCode, details: str) -> grpc.RpcError:
    """What a stub raises."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("a"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.NotFoundError("a"), grpc.StatusCode.NOT_FOUND),
        (errors.NameInUseError("a"), grpc.StatusCode.ALREADY_EXISTS),
        (errors.ConflictError("a"), grpc.StatusCode.ABORTED),
        (errors.AuthorityError("a"), grpc.StatusCode.FAILED_PRECONDITION),
        (errors.UnavailableError("a"), grpc.StatusCode.UNAVAILABLE),
        (errors.ProtocolError("a"), grpc.StatusCode.OUT_OF_RANGE),
        (errors.InternalError("a"), grpc.StatusCode.INTERNAL),
    ],
)
def test_an_error_comes_back_as_the_type_it_was(error: errors.TupletreeError, code: grpc.StatusCode) -> None:
    assert to_status(error) == (code, "a")
    back = from_rpc_error(failed_call(code, "a"))
    assert type(back) is type(error)
    assert str(back) == "a"


def test_a_subclass_arrives_as_the_type_that_says_what_to_do() -> None:
    code, sentence = to_status(errors.TopologyError("bolt 'x' has no source", component="x"))
    assert type(from_rpc_error(failed_call(code, sentence))) is errors.UsageError


def test_an_unknown_error_reveals_nothing() -> None:
    assert to_status(ValueError("secret")) == (grpc.StatusCode.INTERNAL, "internal error")


def test_a_full_disk_is_a_sentence_and_can_be_retried() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/blobs/x")
    code, sentence = to_status(full)
    assert (code, sentence) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "the disk is full at /blobs/x")
    wrapped = errors.UnavailableError("nimbus cannot store the bundle: its disk is full")
    wrapped.__cause__ = full
    assert to_status(wrapped)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert isinstance(from_rpc_error(failed_call(code, sentence)), errors.UnavailableError)


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused", "refused"),
        ("errors resolving nohost.invalid:33: [address lookup failed: Domain name not found]", "does not resolve"),
        ("Socket closed", "connection was lost"),
        ("recvmsg:Connection reset by peer", "connection was lost"),
    ],
)
def test_what_grpc_says_about_the_transport_becomes_plain_words(details: str, reason: str) -> None:
    error = from_rpc_error(failed_call(grpc.StatusCode.UNAVAILABLE, details), "nimbus at 10.0.0.1:6627")
    assert str(error).startswith("nimbus at 10.0.0.1:6627 cannot be reached: ")
    assert reason in str(error)


def test_what_a_server_says_is_passed_on() -> None:
    sentence = "the leader is at 10.0.0.2:6627"
    assert transport_failure(sentence) == ""
    assert str(from_rpc_error(failed_call(grpc.StatusCode.UNAVAILABLE, sentence), "nimbus")) == sentence


def test_a_missed_deadline_names_the_peer() -> None:
    error = from_rpc_error(failed_call(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"), "acker at 127.0.0.1:9")
    assert isinstance(error, errors.UnavailableError)
    assert str(error) == "acker at 127.0.0.1:9 did not answer in time"


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\u4e2d" * 1_000_000, "\n" * 5000, "a\ud800"], ids=range(4))
def test_a_sentence_of_any_size_fits_into_a_trailer(text: str) -> None:
    _, sentence = to_status(errors.UsageError(text))
    encoded = sentence.encode()
    assert 0 < sum(1 if 0x20 <= byte < 0x7F else 3 for byte in encoded) <= 8000
    assert to_status(errors.UsageError("short \u4e2d"))[1] == "short \u4e2d"
