"""Errors of spouts whose rows pass a chain: those that end the worker, and those of building the topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from chained_scene import WORD, Heard, Run, lines, words
from local_chains import Through
from local_components import Log

from tupletree import Spout, TopologyBuilder
from tupletree.errors import EmitError, TaskFailedError, TopologyError, UsageError
from tupletree.streams.chained_spout import chained
from tupletree.testing import LocalCluster

# Errors that end the worker


class Catching(Heard):
    def next_tuple(self) -> None:
        try:
            super().next_tuple()
        except Exception as error:
            self.log.append(("caught", type(error).__name__))


@pytest.mark.parametrize("error", [ZeroDivisionError("oh"), ConnectionError("oh"), SystemExit("oh")])
@pytest.mark.parametrize("kind", ["catching", "reliable"])
def test_an_exception_of_the_chain_ends_the_worker_whatever_the_spout_catches(
    cluster: LocalCluster, error: BaseException, kind: str
) -> None:
    """A ReliableSpout takes a ConnectionError for one of its source, and would read again and again."""

    def fail(row: Sequence[Any]) -> list[Any]:
        raise error

    given = Catching("a", log=Log()) if kind == "catching" else lines
    with pytest.raises(
        TaskFailedError,
        match=f"of component 'spout' failed: {type(error).__name__}: oh; .*raise tupletree.FailedException",
    ):
        Run(cluster, chained(given, Through(fail), WORD))


def test_a_wrong_row_of_the_spout_or_of_its_chain_is_an_error_of_the_spout(cluster: LocalCluster) -> None:
    with pytest.raises(TaskFailedError, match="'spout' emitted 2 values on stream 'default', which declares 1: word"):
        Run(cluster, chained(Heard("a", log=Log()), Through(lambda row: [["a", "b"]]), WORD))
    cluster.kill("t")

    class Two(Heard):
        def next_tuple(self) -> None:
            self.collector.emit(["a", "b"])

    with pytest.raises(TaskFailedError, match="'spout' emitted 2 values on stream 'default', which declares 1: line"):
        Run(cluster, chained(Two(log=Log()), Through(words), WORD))
    cluster.kill("t")

    class Direct(Heard):
        def next_tuple(self) -> None:
            with pytest.raises(EmitError, match="used emit_direct on stream 'default', which is not direct"):
                self.collector.emit_direct(1, ["a"])

    Run(cluster, chained(Direct(log=Log()), Through(words), WORD))


# Mistakes that are told where the topology is built


class Directly(Spout):
    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(["line"], direct=True)


class Elsewhere(Spout):
    outputs = {"lines": ["line"]}


@pytest.mark.parametrize(
    ("given", "outputs", "why"),
    [
        (Directly(), WORD, "its chain takes the rows of stream 'default', and the spout declares it direct"),
        (Elsewhere(), WORD, "its chain takes the rows of stream 'default', and the spout declares no such stream"),
        (Heard(log=Log()), {"odd": ["word"]}, "stream 'odd' is declared twice"),
        (Heard(log=Log()), {"default": ["a", "a"]}, "'a'"),
    ],
)
def test_streams_that_do_not_fit_are_refused(given: Spout, outputs: Any, why: str) -> None:
    with pytest.raises(TopologyError, match=why) as caught:
        TopologyBuilder().set_spout("spout", chained(given, Through(words), outputs))
    assert caught.value.component == "spout"


def test_what_is_no_spout_is_refused() -> None:
    with pytest.raises(UsageError, match=r"chained takes a Spout object, not the class Heard; write Heard\(…\)"):
        chained(Heard, Through(words), WORD)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="chained takes a Spout object, not 7"):
        chained(7, Through(words), WORD)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="chained takes a spout without a chain"):
        chained(chained(lines, Through(words), WORD), Through(words), WORD)


def test_a_chain_that_cannot_be_copied_is_refused_by_its_attribute() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", chained(lines, Through((one for one in ()).send), WORD))  # type: ignore[arg-type]
    with pytest.raises(
        TopologyError, match=r"spout 'spout' cannot be copied to its tasks: Through.function .* cannot be"
    ):
        builder.create_topology()
