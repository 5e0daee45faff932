"""What a component may not emit is refused in one sentence that names the component, the stream and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree.errors import EmitError
from tupletree.tuples import Origin
from tupletree.worker.core import routing
from tupletree.worker.core.output_streams import OutStream, unknown_stream


def stream(is_direct: bool = False) -> OutStream:
    made = OutStream(Origin("split", 4, "words", ["word", "n"]), is_direct, 10)
    ports = [made.port_to(task, "here", False) for task in (8, 9)]
    if is_direct:
        made.direct_tasks = frozenset([8])
    else:
        made.choose_one = routing.global_(ports)
    return made


@pytest.mark.parametrize("values", [[], ["a"], ["a", 1, 2], ("a",), iter("a")])
def test_a_wrong_number_of_values_names_the_fields(values: object) -> None:
    with pytest.raises(EmitError, match=r"'split' emitted \d values? on stream 'words', which declares 2: word, n"):
        stream().checked(values)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", [["a", 1], ("a", 1)])
def test_a_list_or_a_tuple_of_values_is_taken_as_it_is(row: Any) -> None:
    assert stream().checked(row) is row


def test_values_may_come_as_anything_else_that_has_them_in_order() -> None:
    assert stream().checked({"a": 0, 1: 0}.keys()) == ["a", 1]  # type: ignore[arg-type]


def test_a_direct_stream_takes_no_plain_emit() -> None:
    with pytest.raises(EmitError, match=r"'split' emitted on the direct stream 'words': use emit_direct"):
        stream(is_direct=True).checked(["a", 1])


def test_a_plain_stream_takes_no_direct_emit() -> None:
    with pytest.raises(EmitError, match=r"'split' used emit_direct on stream 'words', which is not direct"):
        stream().direct_port(8, ["a", 1])


def test_a_direct_emit_reaches_subscribers_only() -> None:
    direct = stream(is_direct=True)
    assert direct.direct_port(8, ["a", 1]).task == 8
    with pytest.raises(EmitError, match=r"'split'.*'words'.*task 9.*subscribed: \[8\]"):
        direct.direct_port(9, ["a", 1])
    with pytest.raises(EmitError, match=r"emitted 1 value on stream 'words'"):
        direct.direct_port(8, ["a"])


def test_an_undeclared_stream_is_named_with_those_declared() -> None:
    assert str(unknown_stream("split", "wrods", ["words", "default"])) == (
        "component 'split' emitted on stream 'wrods', which it does not declare (declared: default, words)"
    )
    assert "declared: none" in str(unknown_stream("sink", "default", []))


def test_a_stream_without_subscribers_goes_nowhere() -> None:
    lonely = OutStream(Origin("split", 4, "words", ["word"]), False, 10)
    assert list(lonely.choose_many(["a"])) == []
