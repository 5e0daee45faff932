"""Totals of sales by shop, for every ten seconds of event time, in whatever order the sales arrive.

    tupletree local examples/windowed_totals.py --seconds 5
    tupletree submit examples/windowed_totals.py --name totals

Sales arrive up to four seconds late, which a lag of five seconds allows for: a total is complete when it is emitted.
One sale in a thousand arrives half a minute late. If its total has been emitted by then, the sale goes to the stream of
late tuples instead. Each sale is in a total or among the late tuples, whatever process dies; after a crash it can be in
a total twice.
"""

import random
from collections.abc import Iterator
from datetime import timedelta

from tupletree import BasicBolt, ReliableSpout, Topology, TopologyBuilder, Tuple, Window, WindowedBolt
from tupletree.collector import BasicCollector

SHOPS = ["Aachen", "Bremen", "Celle", "Dresden", "Erfurt"]
PER_SECOND = 100
WINDOW = timedelta(seconds=10)
LAG = timedelta(seconds=5)


def sale(number: int) -> list[str | float]:
    """Return the shop, the amount and the time of a sale; the same number gives the same sale."""
    rng = random.Random(number)
    behind = 30 if number % 1000 == 999 else rng.uniform(0, 4)
    return [rng.choice(SHOPS), rng.randint(1, 100), number / PER_SECOND - behind]


class Sales(ReliableSpout):
    """Reads sales 0, 1, 2, …"""

    outputs = ["shop", "amount", "at"]

    def __init__(self, sales: int) -> None:
        self.sales = sales

    def read(self) -> Iterator[list[str | float]]:
        yield from map(sale, range(self.sales))


class Totals(WindowedBolt):
    """Emits the total of each shop in a window, and the start of the window."""

    outputs = ["shop", "total", "start"]

    def execute_window(self, window: Window) -> None:
        sales: dict[str, list[Tuple]] = {}
        for tup in window:
            sales.setdefault(tup["shop"], []).append(tup)
        for shop, tuples in sales.items():
            # Anchored to its own sales: if this total is lost, other sales of the window are not replayed.
            self.collector.emit([shop, sum(tup["amount"] for tup in tuples), window.start], anchors=tuples)


class Report(BasicBolt):
    """Prints totals, and the sales that came too late."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if tup.source_stream == "late":
            print("too late:", tup["late_tuple"])
        else:
            print(f"{tup['shop']}, second {tup['start']:.0f} to {tup['start'] + WINDOW.seconds:.0f}: {tup['total']}")


def topology(sales: int = 100_000) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("sales", Sales(sales))
    totals = Totals().with_tumbling_window(WINDOW).with_timestamp_field("at").with_lag(LAG)
    totals = totals.with_watermark_interval(timedelta(seconds=0.1)).with_late_tuple_stream("late")
    builder.set_bolt("totals", totals, parallelism=2).fields_grouping("sales", ["shop"])
    report = builder.set_bolt("report", Report())
    report.global_grouping("totals").global_grouping("totals", "late")
    return builder.create_topology()
