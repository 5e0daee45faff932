"""A topology whose spout emits what a seed says, and what became of each emission, in a file.

Odd values alternate with plain ones, each in a tuple of its own. A plain one that fails is emitted again: in the end
all of them must be acked, whatever went with them in a batch. An odd one that fails does not come again, and a value
of a type that nobody registered is not emitted: it would end its worker.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz_values import evaluate, json_text, text, value

from tupletree import Bolt, Spout, TopologyBuilder, direct
from tupletree._wire.codec import encode_columns
from tupletree.errors import UnregisteredTypeError, UnwritableValueError

AT_ONCE = 200
"""Tuples pending; few, so that a lost batch does not repeat much."""


class OddValues(Spout):
    """Emits ``count`` values: input N is the expression ``odd(seed, N)``. Emission 2N is odd, 2N + 1 plain."""

    outputs = {
        "default": ["number", "value"],
        "keyed": ["number", "value"],
        "direct": direct(["number", "value"]),
        "both": ["number", "value"],
    }

    def __init__(self, seed: str, expressions: list[str] | None, count: int, path: Path) -> None:
        self.seed, self.expressions, self.count, self.path = seed, expressions, count, path

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        told = Outcomes.read(self.path)
        self.at = max(told.began, default=-1) + 1
        self.again = [n for n in told.began if n % 2 and n not in told.acked]
        for number in told.began - told.acked - told.failed - told.refused - told.lost:
            self._note("lost", number)  # its worker ended: nobody hears what became of it
        self._note("worker", os.getpid())
        self.targets = context.component_tasks("take")
        self.text = ""
        context.register_status(lambda: {"value": self.text})
        self.gauge = context.register_gauge("odd")

    def next_tuple(self) -> None:
        while self.collector.pending < AT_ONCE:
            if self.again:
                self._emit(self.again.pop(), 0)
            elif self.at < 2 * self.count:
                self.at += 1
                self._emit(self.at - 1, evaluate(self._expression((self.at - 1) // 2)) if self.at % 2 else 0)
            else:
                return

    def ack(self, msg_id: Any) -> None:
        self._note("acked", msg_id)

    def fail(self, msg_id: Any) -> None:
        self._note("failed", msg_id)
        if msg_id % 2:
            self.again.append(msg_id)

    def _expression(self, number: int) -> str:
        return odd(self.seed, number) if self.expressions is None else self.expressions[number]

    def _emit(self, number: int, given: Any) -> None:
        self._note("began", number)
        if number % 2 == 0 and self.expressions is None and what_of(given) == "unregistered":
            self._note("refused", number)
            return
        rng = random.Random(f"stream {self.seed} {number}")
        stream = rng.choice(("default", "default", "keyed", "direct")) if self.expressions is None else "both"
        try:
            if stream == "direct":
                self.collector.emit_direct(rng.choice(self.targets), [number, given], number, stream)
            else:
                self.collector.emit([number, given], number, stream)
        except Exception:
            self._note("refused", number)
        if number % 50 == 0:
            self._say(rng)

    def _say(self, rng: random.Random) -> None:
        """What a task says beside its tuples: an error, a status, a metric, a line in the log."""
        self.text = evaluate(text(rng, megabytes=True))
        self.collector.report_error(ValueError(self.text))
        self.gauge.set(rng.choice((float("nan"), float("inf"), -1, 10**400, "x", None)))  # type: ignore[arg-type]
        print(self.text[:5000].encode(errors="replace"))

    def _note(self, what: str, number: int) -> None:
        os.write(self.file, f"{what} {number}\n".encode())


def what_of(given: Any) -> str:
    """True if a value can leave its worker: "writable", "unwritable" or "unregistered"."""
    try:
        encode_columns([[given]], "odd", ["value"])
    except UnwritableValueError:
        return "unwritable"
    except UnregisteredTypeError:
        return "unregistered"
    return "writable"


class Take(Bolt):
    """Acks each tuple after passing its value on."""

    outputs = ("number", "value")

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, f"worker {os.getpid()}\n".encode())
        os.close(file)

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup[0], tup[1]], tup)
        self.collector.ack(tup)


class End(Bolt):
    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


@dataclass
class Outcomes:
    """What the spout noted, by number of emission."""

    began: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    worker: set[int] = field(default_factory=set)  # the processes that ran it

    @staticmethod
    def read(path: Path) -> Outcomes:
        found = Outcomes()
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for line in lines:
            what, number = line.decode().split()
            getattr(found, what).add(int(number))
        return found

    def unsettled(self, count: int) -> list[int]:
        """The emissions of which nothing is known yet, and the plain ones that were not acked."""
        settled = self.acked | self.failed | self.refused | self.lost
        return [n for n in range(2 * count) if n not in (self.acked if n % 2 else settled)]

    def counts(self) -> Counter[str]:
        odd_only = {
            name: sum(n % 2 == 0 for n in getattr(self, name)) for name in ("acked", "failed", "refused", "lost")
        }
        return Counter({**odd_only, "plain acked": sum(n % 2 for n in self.acked)})


def odd(seed: str, number: int) -> str:
    """The expression of one odd input."""
    rng = random.Random(f"{seed} {number}")
    return json_text(rng) if rng.random() < 0.05 else value(rng)


def emitting(spout: OddValues) -> Any:
    """The spout, a bolt on both workers that passes values on, and one that takes them."""
    builder = TopologyBuilder()
    builder.set_spout("odd", spout)
    take = builder.set_bolt("take", Take(spout.path), parallelism=2).shuffle_grouping("odd")
    take.fields_grouping("odd", ["value"], stream="keyed").direct_grouping("odd", stream="direct")
    take.all_grouping("odd", stream="both")  # to this worker and to the other
    builder.set_bolt("end", End(), parallelism=2).shuffle_grouping("take")
    return builder.create_topology()
