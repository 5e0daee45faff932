"""Each face of the public API as a typed program: ``make check`` reads it with mypy and pyright, both strict.

Nothing runs it. What a user must not have to annotate or ignore stands here without that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from tupletree import (
    AsyncBolt,
    Backoff,
    BasicBolt,
    BasicStatefulBolt,
    BatchingBolt,
    CountWindow,
    IntervalJoin,
    KeyedProcess,
    KeyedWindow,
    Message,
    NimbusClient,
    ReliableSpout,
    Sliding,
    TableJoin,
    Topology,
    TopologyBuilder,
    TopologyConf,
    TopologyDescription,
    TopologyRecord,
    TopologyStatus,
    Tuple,
    bolt,
    spout,
    value,
)
from tupletree.client import ComponentKind, LogLevel, LogMatch, SearchEnd, ShardSummary, TopologySummary
from tupletree.collector import BasicCollector
from tupletree.keyed import KeyState, Timers, WindowBounds
from tupletree.spark import Pipeline
from tupletree.streams import KeyedStream, ParquetHistory, Stream, StreamBuilder, Table, TimedStream, Windowed
from tupletree.testing import LocalCluster, Recorder, complete_topology, make_tuple, run_bolt

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class Sale(NamedTuple):
    shop: str
    amount: int


@value
@dataclass(frozen=True)
class Place:
    name: str


class Sales(ReliableSpout):
    outputs = Sale

    def read(self) -> Iterator[Message | Sale]:
        yield Sale("a", 1)
        yield Message(Sale("b", 2), id=2)


@spout(outputs=["n"])
def numbers() -> Iterator[list[int]]:
    yield [1]


@bolt(outputs=["word"])
def split(tup: Tuple) -> Iterator[list[str]]:
    for word in tup["line"].split():
        yield [word]


@bolt(outputs=["user", "city"], in_flight=200)
async def city(tup: Tuple) -> list[list[str]]:
    return [[tup["user"], "x"]]


class City(AsyncBolt):
    outputs = ["user"]
    retry = Backoff(first_s=1)

    async def execute(self, tup: Tuple) -> AsyncIterator[list[str]]:
        yield [tup["user"]]


class Town(AsyncBolt):
    outputs = ["user"]

    async def execute(self, tup: Tuple) -> list[list[str]]:
        return [[tup["user"]]]


class Batches(BatchingBolt):
    outputs = ["tuples"]
    max_batch = 10

    def execute_batch(self, tuples: list[Tuple]) -> Iterator[list[int]]:
        yield [len(tuples)]


class Count(BasicStatefulBolt):
    default_factory = int
    inputs = Sale

    def execute(self, tup: Tuple) -> None:
        sale = tup.to(Sale)
        self.state[sale.shop] += sale.amount


class Visits(KeyedProcess):
    key, event_time = "shop", "at"
    max_lag = timedelta(seconds=5)
    outputs = ["shop", "visits"]
    default_factory = int

    def on_tuple(self, tup: Tuple, state: KeyState[int], timers: Timers) -> None:
        state.value += 1
        timers.set(tup["at"] + 60_000)

    def on_timer(self, key: str, time: int, state: KeyState[int], timers: Timers) -> Iterator[list[object]]:
        yield [key, state.value]
        state.clear()


class Sold(IntervalJoin):
    key, event_time = "shop", "at"
    max_lag = timedelta(seconds=5)
    left, right = "visits", ("sales", "paid")
    before, after = timedelta(0), timedelta(minutes=5)
    kind = "left"
    outputs = ["shop", "sold"]

    def keep(self, tup: Tuple) -> str:
        return str(tup["shop"])

    def join(self, left: str, right: str | None) -> Iterator[list[object]]:
        yield [left, right is not None]


class WithShop(TableJoin):
    key = "shop"
    stream, table = "sales", "shops"
    versioned, event_time, max_lag = True, "at", timedelta(seconds=5)
    outputs = ["shop", "city"]

    def join(self, left: dict[str, str], row: dict[str, str]) -> Iterator[list[str]]:
        yield [left["shop"], row["city"]]

    def deleted(self, tup: Tuple) -> bool:
        return tup["city"] is None


class Revenue(KeyedWindow):
    key, event_time = "shop", "at"
    max_lag = timedelta(seconds=5)
    window = Sliding(timedelta(minutes=10), every=timedelta(minutes=1))
    outputs = ["shop", "start", "sum"]

    def initial(self) -> int:
        return 0

    def add(self, value: int, tup: Tuple) -> int:
        amount: int = tup["amount"]
        return value + amount

    def merge(self, first: int, second: int) -> int:
        return first + second

    def on_window(self, key: str, window: WindowBounds, value: int) -> Iterator[list[object]]:
        yield [key, window.start, value, window.timing == "late"]


class LastSales(KeyedWindow):
    key = "shop"
    window = CountWindow(100)
    outputs = ["shop", "sales"]

    def on_window(self, key: str, window: WindowBounds, value: list[list[object]]) -> Iterator[list[object]]:
        yield [key, value]


class Typed(BasicBolt):
    outputs = Sale

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[Sale]:
        yield Sale(tup["shop"], 2)


conf: TopologyConf = {"topology.workers": 2}


def topology() -> Topology:
    builder = TopologyBuilder()
    sales = builder.set_spout("sales", Sales()).set_retry(Backoff(max_attempts=2)).set_dead_letters("rejected")
    builder.set_bolt("count", Count()).fields_grouping(sales, "shop")
    builder.set_bolt("split", split).shuffle_grouping(builder.set_spout("n", numbers))
    return builder.create_topology()


def is_idle(summary: TopologySummary) -> bool:
    record: TopologyRecord = summary.record
    return record.status is TopologyStatus.INACTIVE and record.pending is None and summary.uptime_s > 60


def failed(described: TopologyDescription) -> dict[str, int]:
    return {one.component_id: one.total.failed for one in described.components if one.kind == ComponentKind.SPOUT}


def lines(client: NimbusClient, topology_id: str, port: int) -> Iterator[str]:
    for supervisor in client.cluster().supervisors:
        for found in client.search_log(supervisor.presence.address, topology_id, port, "ERROR"):
            match found:
                case LogMatch(line=line):
                    yield line
                case SearchEnd(incomplete=why):
                    yield why


def shards(client: NimbusClient) -> list[ShardSummary]:
    return [shard for one in client.cluster().ackers for shard in client.ledger(one.presence.address).shards]


def main() -> None:
    with LocalCluster() as cluster:
        cluster.submit("x", topology(), conf)
        print(cluster.state("x", "count"))
    print(complete_topology(topology(), {"sales": [["a", 1]]}).rows("count"))
    print(run_bolt(split, [make_tuple({"line": "a b"})]), Recorder())
    with NimbusClient("localhost:6627") as client:
        client.submit("x", topology(), conf)
        print(failed(client.describe("x")), [is_idle(one) for one in client.list()], shards(client))
        client.set_conf("x", {"topology.max.spout.pending": 5}, ["topology.debug"], wait_secs=2.5)
        client.set_log_levels("x", {"kazoo": LogLevel("DEBUG", until_unix_s=1e9)})
        record = client.kill("x", wait_secs=0)
        print(list(lines(client, record.id, 6700)), record.conf, record.raw.SerializeToString())
        if client.health().verdict != "healthy":
            print(*(one.sentence for one in client.health().faults))


def spoken() -> Iterator[str]:
    yield "to be"


def readings() -> Iterator[float | None]:
    yield None
    yield 1.5


def means(total: tuple[int, int], amount: int) -> tuple[int, int]:
    return total[0] + amount, total[1] + 1


def no_total() -> tuple[int, int]:
    return 0, 0


def streams() -> Topology:
    """A program of streams: element types follow from the functions."""
    builder = StreamBuilder(parallelism=2)
    words = builder.source(spoken, retry=Backoff(max_attempts=3)).flat_map(str.split).filter(lambda word: len(word) > 1)
    counts: Table[str, int] = words.key_by(lambda word: word).count()
    pairs: Stream[tuple[str, int]] = counts.filter(lambda count: count > 1).items()
    pairs.map(lambda pair: pair[0].upper() + str(pair[1])).print()
    halves: Stream[float] = builder.source(readings).map(lambda reading: reading / 2)
    halves.peek(print)
    amounts = builder.source([Sale("north", 5)]).key_by(lambda sale: sale.shop).map(lambda sale: sale.amount)
    sums: Table[str, int] = amounts.sum()
    both: KeyedStream[str, tuple[int, int]] = amounts.aggregate(no_total, means)
    both.map(lambda total: total[0] / total[1]).print()
    print(sums.collect(2)[0], builder.explain())
    numbers: Stream[int] = sums.values()
    numbers.map(lambda amount: amount + 1).print()
    results: Stream[Sale] = builder.from_pipeline(Pipeline(), rows=Sale)
    known: Table[str, Sale] = results.key_by(lambda sale: sale.shop).latest(
        history=ParquetHistory("sales", key="shop", value=Sale)
    )
    known.to_dataframe_sink("known", {"shop": "string", "amount": "bigint"})
    return builder.topology("at_least_once")


def is_sale(element: Sale | Place) -> TypeIs[Sale]:
    return isinstance(element, Sale)


def is_place(element: Sale | Place) -> TypeGuard[Place]:
    return isinstance(element, Place)


def merged_streams() -> None:
    """Streams of several types are one of their union, which a predicate narrows again."""
    builder = StreamBuilder()
    sales, places = builder.source([Sale("north", 5)]), builder.source([Place("here")])
    same: Stream[Sale] = sales.merge(sales.filter(lambda sale: sale.amount > 1))
    both: Stream[Sale | Place] = same.merge(places)
    both.filter(is_sale).map(lambda sale: sale.amount).print()
    only: Stream[Place] = both.filter(is_place)
    keyed: KeyedStream[str, Sale | Place] = sales.key_by(lambda sale: sale.shop).merge(
        only.key_by(lambda one: one.name)
    )
    narrowed: KeyedStream[str, Sale] = keyed.filter(is_sale)
    total: Table[str, int] = narrowed.map(lambda sale: sale.amount).sum()
    total.print()


def late_elements() -> None:
    """What is late is of the type that came, not of the type that the operator returns."""
    timed = StreamBuilder().source([Sale("north", 5)]).event_time(lambda sale: sale.amount, max_lag=timedelta(0))
    keyed = timed.key_by(lambda sale: sale.shop)
    counts = keyed.window(Sliding(timedelta(hours=1), every=timedelta(minutes=1)), early_count=5).count()
    results: KeyedStream[str, Windowed[int]] = counts.filter(lambda window: window.value > 1)
    results.print()
    late: KeyedStream[str, Sale] = counts.late
    late.map(lambda sale: sale.amount).sum().print()
    amounts = keyed.map(lambda sale: sale.amount)
    joined = keyed.left_join(amounts, lambda sale, n: n or 0, before=timedelta(0), after=timedelta(minutes=1))
    of_both: KeyedStream[str, Sale | int] = joined.late
    of_both.print()
    versions: TimedStream[str, str, Sale] = keyed.join_table(amounts, lambda sale, n: sale.shop * n, versioned=True)
    versions.late.print()
    rows: Stream[Sale] = timed.process(Visits()).late
    keyed_rows: KeyedStream[str, Sale] = keyed.process(Visits()).late
    rows.merge(keyed_rows.values()).print()
