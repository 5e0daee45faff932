"""The examples of docs/guides/core.md run, and each mistake in its table has the message that the table shows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from document_blocks import DOCS, run_python

from tupletree import BasicBolt, Bolt, Spout, Topology, TopologyBuilder, bolt
from tupletree._silent_spouts import warnings_of
from tupletree.declarer import BoltDeclarer
from tupletree.testing import FeederSpout, complete_topology

GUIDE = DOCS / "guides" / "core.md"


def test_every_block_of_the_guide_on_the_core_runs() -> None:
    names = run_python(GUIDE)
    assert {"lines", "parse", "note", "book"} == set(names["builder"].create_topology().components)


class Forgets(Bolt):
    outputs = ["word"]

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup["line"]], tup)


class S(BasicBolt):
    def execute(self, tup: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


class Awaits(BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


class Returns(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Any, collector: Any) -> Any:
        return [tup["line"]]


class Locks(BasicBolt):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def execute(self, tup: Any, collector: Any) -> None:
        raise NotImplementedError


class Thing:
    """A class that no tuple may carry."""


def emitting(value: Callable[[Any], Any]) -> Any:
    """Return a bolt that emits what ``value`` returns for a tuple."""

    @bolt(outputs=["word"])
    def split(tup: Any) -> Iterator[Any]:
        yield value(tup)

    return split


def shuffled(declarer: BoltDeclarer) -> None:
    declarer.shuffle_grouping("lines")


def topology(component: Any, group: Callable[[BoltDeclarer], object] = shuffled, *, is_read: bool = False) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"]))
    group(builder.set_bolt("split", component))
    if is_read:
        builder.set_bolt("next", emitting(lambda tup: ["x"])).shuffle_grouping("split")
    return builder.create_topology()


def run(component: Any, *, is_read: bool = False) -> object:
    return complete_topology(topology(component, is_read=is_read), {"lines": [["ab"]]})


WORDS = emitting(lambda tup: [tup["line"]])
MISTAKES: dict[str, Callable[[], object]] = {
    "a field that is not there": lambda: run(emitting(lambda tup: [tup["lin"]])),
    "a wrong field in a grouping": lambda: topology(WORDS, lambda one: one.fields_grouping("lines", "word")),
    "a stream that is not declared": lambda: topology(WORDS, lambda one: one.shuffle_grouping("lines", "bad")),
    "an unknown source": lambda: topology(WORDS, lambda one: one.shuffle_grouping("line")),
    "no ack in a `Bolt`": lambda: run(Forgets()),
    "a value instead of a row": lambda: run(emitting(lambda tup: tup["line"])),
    "too many values": lambda: run(emitting(lambda tup: [1, 2])),
    "`async def` in a BasicBolt": lambda: topology(Awaits()),
    "the signature of the other base class": lambda: topology(S()),
    "`return` instead of `yield`": lambda: run(Returns()),
    "a lock, a socket or a file made in `__init__`": lambda: topology(Locks()),
    "an object of a class of yours in a tuple": lambda: run(emitting(lambda tup: [Thing()]), is_read=True),
    "an exception for a bad row": lambda: run(emitting(lambda tup: [1 / 0])),
    "a typing error in a key": lambda: topology(
        WORDS, lambda one: one.shuffle_grouping("lines").add_configuration("topology.tick.tuple.freq.sec", 1)
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_has_the_message_that_the_guide_shows(mistake: str) -> None:
    [cell] = re.findall(rf"^\| {re.escape(mistake)} \| (.*?) \| ", GUIDE.read_text(), re.MULTILINE)
    shown = max(re.findall(r"`([^`]+)`", cell), key=len)
    with pytest.raises(Exception) as caught:
        MISTAKES[mistake]()
    assert shown in str(caught.value)


class WithoutFail(Spout):
    outputs = ["line"]

    def next_tuple(self) -> None:
        self.collector.emit(["ab"], msg_id=1)


def test_a_spout_without_fail_is_named_as_the_guide_shows() -> None:
    [warning] = warnings_of({"lines": WithoutFail()})
    [shown] = re.findall(r"`submit` warns: `([^`]+)`", GUIDE.read_text())
    assert shown in warning
