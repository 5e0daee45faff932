"""The curves: the points of each, what is measured at a point, and what they say in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench._chart import figure
from bench._processes import available_mb
from bench.growth import channels, shapes, steady
from bench.growth.steady import Shape, Times
from tupletree.testing import DevCluster

Measured = Mapping[str, Mapping[str, Any]]  # figures by point
NEAR: Final = 1.5
BYTES_A_TREE: Final = 700  # in a worker and an acker together, and some to spare


class NoRoomError(Exception):
    """A point needs more memory than there is."""


@dataclass(frozen=True)
class Curve:
    """One dimension along which a topology grows.

    ``axis`` names what there is more of, in the plural; ``cost`` is the figure that is told, of ``item``, in ``unit``.
    ``each``: the unit of the slope and how many there are in ``unit``; empty where no line fits. ``set_by`` says
    what sets the slope.
    """

    name: str
    title: str
    axis: str
    points: tuple[int, ...]
    measure: Callable[[DevCluster, int, Times], dict[str, Any]]
    workers: Callable[[int], int]
    text: str
    set_by: str
    item: str = "tuple"
    cost: str = "cpu_us_per_tuple"
    unit: str = "µs"
    each: tuple[str, str, float] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The other figures to show."""
        if self.cost.startswith("cpu_us_per_"):
            rate = f"{self.cost.removeprefix('cpu_us_per_')}s_per_s"
            return rate, "cpu_worker_s", "cpu_acker_s", "idle_cores", "p50_ms", "p99_ms", "peak_rss_mb", "others_cores"
        return "talked_bytes_per_pair", "idle_workers_mb", "talked_workers_mb"

    def words(self, measured: Measured) -> list[str]:
        """Return the sentences on the growth of the cost, computed from the figures."""
        points = sorted(map(int, measured))
        costs = [float(measured[str(point)][self.cost]) for point in points]
        if len(points) < 2 or min(costs) <= 0:
            return []
        said = [self._ends(points, costs), self._near(points, costs), self._steepest(points, costs)]
        return [*filter(None, said), *self._line(points, costs), self.set_by]

    def _ends(self, points: Sequence[int], costs: Sequence[float]) -> str:
        (first, last), (low, high) = (points[0], points[-1]), (costs[0], costs[-1])
        return (
            f"{self.item.capitalize()}: {_figure(high)} {self.unit} at {last:,} {self.axis}, {_figure(low)} "
            f"{self.unit} at {first:,}: {figure(high / low)} times the cost."
        )

    def _near(self, points: Sequence[int], costs: Sequence[float]) -> str:
        near = [point for point, cost in zip(points, costs, strict=True) if cost <= NEAR * costs[0]]
        reached = [point for point in points if all(before in near for before in points if before <= point)]
        if reached[-1] == points[-1]:
            return f"No point costs more than {NEAR:g} times the first."
        return f"Up to {reached[-1]:,} the cost stays within {NEAR:g} times that at {points[0]:,}."

    def _steepest(self, points: Sequence[int], costs: Sequence[float]) -> str:
        """Name the step with the highest power of growth: 1 is in proportion."""
        steps = range(1, len(points))
        powers = {at: math.log(costs[at] / costs[at - 1]) / math.log(points[at] / points[at - 1]) for at in steps}
        at = max(powers, key=lambda step: powers[step])
        if powers[at] < 0.1:
            return ""
        more, dearer = points[at] / points[at - 1], costs[at] / costs[at - 1]
        than = "less than" if powers[at] < 0.9 else "more than" if powers[at] > 1.1 else "about"
        return (
            f"The steepest step is from {points[at - 1]:,} to {points[at]:,}: {figure(more)} times as many, "
            f"{figure(dearer)} times the cost, {than} in proportion."
        )

    def _line(self, points: Sequence[int], costs: Sequence[float]) -> list[str]:
        if self.each is None:
            return []
        one, unit, factor = self.each
        slope = (costs[-1] - costs[0]) / (points[-1] - points[0]) * factor
        return [f"Each further {one} adds {figure(slope)} {unit}."]


def _figure(value: float) -> str:
    return figure(round(value) if value >= 1000 else value)


def _of(shape: Callable[[int], Shape]) -> Callable[[DevCluster, int, Times], dict[str, Any]]:
    return lambda cluster, point, times: steady.measure(cluster, shape(point), times)


def _held(cluster: DevCluster, trees: int, times: Times) -> dict[str, Any]:
    """Measure so many pending trees. Raises NoRoomError."""
    free_mb, needed_mb = available_mb(), trees * BYTES_A_TREE / 1024**2
    if needed_mb > free_mb:
        raise NoRoomError(f"{trees:,} pending trees need about {needed_mb:,.0f} MB, and {free_mb:,.0f} MB are free")
    return steady.measure(cluster, shapes.held(trees), times)


def _two(point: int) -> int:
    return 2


CURVES: Final = (
    Curve(
        "tasks",
        "Tasks",
        "split and count tasks",
        (2, 8, 32, 128, 512),
        _of(partial(shapes.word_count, workers=2)),
        _two,
        "The tracked word count with one spout, 6,000 sentences pending, on two workers, with more and more tasks of "
        "split and of count.",
        "Set by the rows of a batch that are for another task than the row before: each is a call of its own, of a "
        "task whose objects have left the processor's cache. Batches do not get smaller, since all tasks of a "
        "component in a worker share them.",
        "a word",
        "cpu_us_per_word",
    ),
    Curve(
        "workers",
        "Workers",
        "workers",
        (1, 2, 4, 8, 16, 32),
        lambda cluster, point, times: steady.measure(cluster, shapes.word_count(point, point), times),
        lambda point: point,
        "The same with more and more workers on the same two cores, a task of split and of count in each.",
        "Set by messages: each pair of workers has its own, however few rows these have, and a process that waits for "
        "a core is woken for each. Workers gather longer the later they are, which halves the slope and more.",
        "a word",
        "cpu_us_per_word",
    ),
    Curve(
        "components",
        "Components in a chain",
        "components",
        (1, 2, 5, 10, 20, 50),
        _of(shapes.chain),
        lambda point: 1,
        "A spout and a chain of bolts that pass a short text on, in one worker. Every tuple is tracked.",
        "Set by the calls of a bolt, an emit and an ack per component; nothing is encoded within a worker.",
        "a tuple",
        each=("component", "µs", 1),
    ),
    Curve(
        "copies",
        "Copies by all-grouping",
        "copies",
        (1, 10, 100, 1000),
        _of(shapes.fan_out),
        _two,
        "A spout whose tuples go to every task of a bolt by an all grouping, half of them in the other worker.",
        "Set by the receiving call and the ack of each copy; what a tuple costs once is shared by its copies.",
        "an arrival",
        "cpu_us_per_arrival",
    ),
    Curve(
        "bytes",
        "Bytes a tuple",
        "bytes",
        (10, 100, 1_000, 10_000, 100_000, 1_000_000),
        _of(shapes.payload),
        _two,
        "Values of type bytes, one hop from a worker to another; as many tuples pending as have 32 MB together, at "
        "least 32 and at most 6,000.",
        "Set by the copies of a value on its way through encoding, gRPC, the kernel, gRPC again and decoding.",
        "a tuple",
        each=("byte", "ns", 1000),
    ),
    Curve(
        "keys",
        "Distinct keys",
        "keys",
        (10, 1_000, 100_000, 10_000_000),
        _of(shapes.distinct),
        _two,
        "Keys that come equally often, counted in dictionaries by a fields grouping in two workers. The measurement "
        "begins when each key has come once.",
        "Set by hashing: the tasks of 65,536 keys are remembered, a new key is hashed; and by the processor's cache, "
        "which holds a small dictionary and not a large one.",
        "a tuple",
    ),
    Curve(
        "pending",
        "Pending trees",
        "pending trees",
        (100, 10_000, 1_000_000, 10_000_000),
        _held,
        _two,
        "A bolt that acks a tuple when so many more have come, in the worker beside the spout's. The measurement "
        "begins with the first ack. A point for which there is no memory is left out.",
        "Set by the size of the acker's and the spout's tables, which leave the processor's cache.",
        "a tuple",
    ),
    Curve(
        "channels",
        "Idle pairs of tasks",
        "sending and receiving tasks",
        (32, 128, 512),
        channels.measure,
        _two,
        "Memory of a pair of tasks that never exchanged a tuple: the difference between topologies with and without "
        "the pairs, of as many tasks, in two workers, before the spout emits. `talked_` is what a pair takes in "
        "addition once each sender has sent four tuples to each receiver.",
        "Set by what a sender keeps for each task that it may send to.",
        "an idle pair",
        "idle_bytes_per_pair",
        "bytes",
    ),
)
BY_NAME: Final = {curve.name: curve for curve in CURVES}
