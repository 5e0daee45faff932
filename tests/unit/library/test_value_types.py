"""Marked classes: objects travel by the name of their class, to workers that know it from their components."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import pytest

from tupletree import TopologyBuilder, bolt, value
from tupletree._wire.codec import decode_value, encode_value
from tupletree._wire.value_hash import hash_values
from tupletree._wire.value_types import _by_name, _names
from tupletree.errors import ProtocolError, UnregisteredTypeError, UsageError
from tupletree.testing import FeederSpout, complete_topology


@value
class Color(Enum):
    RED = "r"
    GREEN = ("g", 2)


@value
class Size(IntEnum):
    SMALL = 1


@value
class Name(StrEnum):
    ANN = "ann"


@value
class Right(Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


@value
class Open(IntFlag):
    READ = 1
    WRITE = 2


@value
class Point(NamedTuple):
    x: int
    y: float


@value
@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"
    shown: str = field(init=False, default="", compare=False)


@value
@dataclass(frozen=True)
class Place:
    id: int
    note: str = field(compare=False)


@dataclass
class Unmarked:
    n: int


VALUES = [
    Color.RED,
    Color.GREEN,
    Size.SMALL,
    Name.ANN,
    Right.READ,
    Right.READ | Right.WRITE,
    Open.READ | Open.WRITE,
    Open(0),
    Open.READ | 64,
    Point(1, 2.5),
    Money(Decimal("1.10")),
    [Money(Decimal(2), "USD"), {"at": Point(2**80, 0)}],
    (Point(1, 1), frozenset([Color.RED])),
]


@pytest.mark.parametrize("item", VALUES)
def test_objects_of_marked_classes_arrive_as_they_were(item: Any) -> None:
    came = decode_value(encode_value(item))
    assert came == item and type(came) is type(item)


def test_equal_objects_go_to_the_same_task() -> None:
    def hashed(item: Any) -> int:
        return hash_values([item], "c", ["f"])

    assert hashed(Point(1, 2)) == hashed(Point(1, 2.0)) != hashed(Point(2, 2))
    assert hashed(Money(Decimal("1.10"))) == hashed(Money(Decimal("1.1")))
    assert hashed(Color.RED) != hashed(Color.GREEN)
    assert hashed(Point(1, 2)) == hashed((1, 2)), "they are equal"
    assert hashed(Place(1, "here")) == hashed(Place(1, "there")) != hashed(Place(2, "here")), "they are compared by id"
    assert hashed(Size.SMALL) == hashed(1) and hashed(Name.ANN) == hashed("ann"), "they are equal"


def test_others_are_refused_with_what_to_do() -> None:
    with pytest.raises(UnregisteredTypeError, match="a value of type Unmarked cannot be written"):
        encode_value(Unmarked(1))
    for wrong in (int, type("Plain", (), {}), lambda: None):
        with pytest.raises(
            UsageError, match=r"@value marks a dataclass, a NamedTuple or an Enum, but .* is none of them"
        ):
            value(wrong)


def test_a_class_whose_fields_do_not_make_an_object_is_refused() -> None:
    @dataclass
    class Scaled:
        n: int
        scale: InitVar[int]

    with pytest.raises(UsageError, match=r"made by Scaled\(n=…\), which cannot be called: missing .* 'scale'"):
        value(Scaled)


def test_an_object_that_its_class_does_not_take_is_named() -> None:
    @value
    @dataclass
    class Positive:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise ValueError("below zero")

    item = Positive(1)
    item.n = -1
    with pytest.raises(ProtocolError, match=r"of class .*Positive cannot be made: ValueError: below zero"):
        decode_value(encode_value(item))


def test_a_class_that_is_not_known_here_is_no_class() -> None:
    data = encode_value(Point(1, 2))
    name = _names.pop(Point)
    try:
        del _by_name[name]
        with pytest.raises(ProtocolError, match=r"class test_value_types\.Point is not known here: mark it with"):
            decode_value(data)
    finally:
        value(Point)
    assert decode_value(data) == Point(1, 2)


@bolt(outputs=["price"])
def price(tup: Any) -> Any:
    yield [Money(Decimal(tup["n"]))]


def test_they_pass_a_topology_that_only_hands_them_on() -> None:
    @bolt(outputs=["price"])
    def hand_on(tup: Any) -> Any:
        yield [tup["price"]]

    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["n"]))
    builder.set_bolt("price", price).shuffle_grouping("numbers")
    builder.set_bolt("hand-on", hand_on, 2).fields_grouping("price", "price")
    found = complete_topology(builder.create_topology(), {"numbers": [[1], [2]]})
    assert sorted(row[0].amount for row in found["hand-on"]) == [1, 2]


PROGRAM = """
from dataclasses import dataclass
from tupletree import TopologyBuilder, bolt, spout, value

@value
@dataclass
class Word:
    text: str

@spout(outputs=["word"])
def words():
    yield [Word("a")]

@bolt
def sink(tup):
    pass

topology = TopologyBuilder()
topology.set_spout("words", words)
topology.set_bolt("sink", sink).shuffle_grouping("words")
"""


def test_a_worker_knows_the_classes_of_a_submitted_file(tmp_path: Path) -> None:
    (tmp_path / "worded.py").write_text(PROGRAM)
    code = (
        "import sys, cloudpickle; sys.path.insert(0, sys.argv[1]); import worded\n"
        "cloudpickle.register_pickle_by_value(worded)\n"
        "from tupletree._wire.codec import encode_value\n"
        "spec = worded.topology.create_topology().spec()\n"
        "objects = [component.object for component in spec.components if component.id == 'sink']\n"
        "sys.stdout.buffer.write(cloudpickle.dumps((objects, encode_value(worded.Word('a')))))"
    )
    sent = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True).stdout
    objects, data = cloudpickle.loads(sent)
    with pytest.raises(ProtocolError, match=r"class worded\.Word is not known here"):
        decode_value(data)
    cloudpickle.loads(objects[0])  # as a worker does that runs the sink alone
    assert decode_value(data).text == "a"


RECORDS = """
from typing import NamedTuple
from tupletree.streams import StreamBuilder

class Reading(NamedTuple):
    sensor: str
    value: int

builder = StreamBuilder(parallelism=2)
readings = builder.source([Reading("a", 1)], name="readings")
readings.key_by(lambda reading: reading.sensor).latest().print()
"""


def test_a_worker_knows_the_records_of_a_program_whose_module_it_imports(tmp_path: Path) -> None:
    (tmp_path / "recorded.py").write_text(RECORDS)
    take = (
        "import sys, cloudpickle; sys.path.insert(0, sys.argv[1])\n"
        "cloudpickle.loads(sys.stdin.buffer.read())\n"
        "import recorded\n"
        "from tupletree._wire.codec import decode_value, encode_value\n"
        "print(decode_value(encode_value([recorded.Reading('a', 1)])))"
    )
    make = (
        "import sys; sys.path.insert(0, sys.argv[1]); import recorded\n"
        "spec = recorded.builder.topology().spec()\n"
        "sys.stdout.buffer.write(next(one.object for one in spec.components if one.id == 'readings-latest'))"
    )
    made = subprocess.run([sys.executable, "-c", make, str(tmp_path)], capture_output=True, check=True).stdout
    told = subprocess.run([sys.executable, "-c", take, str(tmp_path)], input=made, capture_output=True, check=True)
    assert told.stdout.decode() == "[Reading(sensor='a', value=1)]\n"
