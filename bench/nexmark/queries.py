"""The queries of the Nexmark benchmark as programs of streams: from the stream of events to the results.

The results are those of ``reference``. Queries 9, 10 and those from 13 on, of later suites, are left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from bench.nexmark.events import Auction, Bid, Event, Person
from tupletree import KeyedProcess
from tupletree.keyed import KeyState, Session, Sliding, Timers, Tumbling
from tupletree.streams import KeyedStream, Stream
from tupletree.tuples import Tuple

MAX_LAG: Final = dt.timedelta(seconds=1)
WINDOW: Final = dt.timedelta(seconds=10)
SLIDE: Final = dt.timedelta(seconds=2)
GAP: Final = dt.timedelta(seconds=10)
LAST_SALES: Final = 10


def bids_of(event: Event) -> tuple[Bid, ...]:
    """Return the event if it is a bid."""
    return (event,) if isinstance(event, Bid) else ()


def persons_and_auctions_of(event: Event) -> tuple[Person | Auction, ...]:
    """Return the event unless it is a bid."""
    return () if isinstance(event, Bid) else (event,)


def auctions_and_bids_of(event: Event) -> tuple[Auction | Bid, ...]:
    """Return the event unless it is a person."""
    return () if isinstance(event, Person) else (event,)


def timed(events: Stream[Event]) -> Stream[Event]:
    """Give events their event times."""
    return events.event_time(lambda event: event.time, max_lag=MAX_LAG)


def q0(events: Stream[Event]) -> Stream[Bid]:
    """All bids."""
    return events.flat_map(bids_of)


def q1(events: Stream[Event]) -> Stream[Bid]:
    """Bids, with prices in euros."""
    return events.flat_map(bids_of).map(in_euros)


def in_euros(bid: Bid) -> Bid:
    """Convert a price."""
    return bid._replace(price=bid.price * 908 // 1000)


def q2(events: Stream[Event]) -> Stream[tuple[int, int]]:
    """Bids for some auctions."""
    return events.flat_map(bids_of).filter(lambda bid: bid.auction % 123 == 0).map(lambda bid: (bid.auction, bid.price))


def q3(events: Stream[Event]) -> KeyedStream[int, tuple[str, str, str, int]]:
    """Sellers of one category in three states, with each of their auctions."""
    wanted = events.flat_map(persons_and_auctions_of).filter(is_wanted)
    return wanted.key_by(seller_of).update_state(offered).flat_map(lambda offers: offers)


def is_wanted(event: Person | Auction) -> bool:
    """True for persons of three states, and for auctions of one category."""
    if isinstance(event, Person):
        return event.state in ("OR", "ID", "CA")
    return event.category == 10


def seller_of(event: Person | Auction) -> int:
    """Return the id of a person, or of the seller of an auction."""
    return event.seller if isinstance(event, Auction) else event.id


def offered(
    state: tuple[Person | None, list[int]] | None, event: Person | Auction
) -> tuple[tuple[Person | None, list[int]], list[tuple[str, str, str, int]]]:
    """Keep the seller, and the auctions that come before the seller; return the offers."""
    seller, early = state or (None, [])
    if isinstance(event, Person):
        seller, auctions, early = event, early, []
    elif seller is None:
        auctions, early = [], [*early, event.id]
    else:
        auctions = [event.id]
    offers = [] if seller is None else [(seller.name, seller.city, seller.state, auction) for auction in auctions]
    return (seller, early), offers


class Sale(NamedTuple):
    """An auction that has closed with a bid."""

    auction: int
    seller: int
    category: int
    expires: int
    price: int


class Sales(KeyedProcess):
    """Emits a Sale when an auction expires, unless there was no bid from its beginning to its end.

    The value of a key is the auction and the highest price. Bids that come before their auction wait for it.
    """

    key, event_time, max_lag = "key", "time", MAX_LAG
    outputs = Sale

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
        event: Auction | Bid = tup["value"]
        auction, price, waiting = state.value or (None, 0, [])
        bids: list[Bid]
        if isinstance(event, Auction):
            auction, bids, waiting = event, waiting, []
            timers.set(event.expires + 1)
        elif auction is None:
            bids, waiting = [], [*waiting, event]
            timers.set(event.time + 1)
        else:
            bids = [event]
        if auction is not None:
            price = max([price, *(bid.price for bid in bids if auction.time <= bid.time <= auction.expires)])
        state.value = (auction, price, waiting)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Iterator[Sale]:
        auction, price, waiting = state.value or (None, 0, [])
        if auction is None:  # whose bids until now are older than any auction that is still to come
            waiting = [bid for bid in waiting if bid.time >= time]
        elif auction.expires < time:
            if price:
                yield Sale(auction.id, auction.seller, auction.category, auction.expires, price)
            auction = None
        if auction is None and not waiting:
            state.clear()
        else:
            state.value = (auction, price, waiting)


def sales(events: Stream[Event]) -> Stream[Sale]:
    """Return the sales of all auctions."""
    return timed(events).flat_map(auctions_and_bids_of).key_by(auction_of).process(Sales())


def auction_of(event: Auction | Bid) -> int:
    """Return the id of an auction, or of the auction of a bid."""
    return event.auction if isinstance(event, Bid) else event.id


def q4(events: Stream[Event]) -> KeyedStream[int, int]:
    """The average highest price of closed auctions, by category: a table."""
    prices = sales(events).key_by(lambda sale: sale.category).map(lambda sale: (sale.price, 1))
    return prices.reduce(lambda one, other: (one[0] + other[0], one[1] + other[1])).map(lambda sums: sums[0] // sums[1])


def q6(events: Stream[Event]) -> KeyedStream[int, int]:
    """The average price of the ten auctions of each seller that closed last: a table."""
    of_seller = sales(events).key_by(lambda sale: sale.seller)
    last = of_seller.map(lambda sale: [(sale.expires, sale.auction, sale.price)]).reduce(newest_sales)
    return last.map(lambda sales: sum(price for *_, price in sales) // len(sales))


def newest_sales(some: list[tuple[int, int, int]], others: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the newest ten of two lists of sales."""
    return sorted(some + others)[-LAST_SALES:]


def q5(events: Stream[Event]) -> Stream[tuple[int, int, int]]:
    """The auctions with most bids in each sliding window."""
    bids = timed(events).flat_map(bids_of).key_by(lambda bid: bid.auction)
    counts = bids.window(Sliding(WINDOW, every=SLIDE)).count().items()
    windows = counts.map(lambda pair: [(pair[1].start, pair[0], pair[1].value)]).key_by(lambda _: 0)
    return windows.window(Tumbling(SLIDE)).reduce(most_bids, parallelism=1).flat_map(lambda window: window.value)


def most_bids(some: list[tuple[int, int, int]], others: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return those of two lists of windows whose count is the highest."""
    most, other = some[0][2], others[0][2]
    return some + others if most == other else some if most > other else others


def q7(events: Stream[Event]) -> Stream[tuple[int, Bid]]:
    """The bids of the highest price in each window."""
    bids = timed(events).flat_map(bids_of).map(lambda bid: [bid]).key_by(lambda _: 0)
    highest = bids.window(Tumbling(WINDOW)).reduce(highest_bids, parallelism=1)
    return highest.flat_map(lambda window: [(window.start, bid) for bid in window.value])


def highest_bids(some: list[Bid], others: list[Bid]) -> list[Bid]:
    """Return those of two lists of bids whose price is the highest."""
    highest, other = some[0].price, others[0].price
    return some + others if highest == other else some if highest > other else others


def q8(events: Stream[Event]) -> Stream[tuple[int, int, str]]:
    """Persons who are new in a window and opened an auction in it."""
    keyed = timed(events).flat_map(persons_and_auctions_of).key_by(seller_of).map(name_and_auction)
    windows = keyed.window(Tumbling(WINDOW)).reduce(lambda one, other: (one[0] or other[0], one[1] or other[1]))
    newcomers = windows.filter(lambda window: all(window.value)).items()
    return newcomers.map(lambda pair: (pair[1].start, pair[0], pair[1].value[0]))


def name_and_auction(event: Person | Auction) -> tuple[str, bool]:
    """Return the name of a person, or that there is an auction."""
    return (event.name, False) if isinstance(event, Person) else ("", True)


def q11(events: Stream[Event]) -> Stream[tuple[int, int, int]]:
    """The number of bids in each session of a bidder."""
    bids = timed(events).flat_map(bids_of).key_by(lambda bid: bid.bidder)
    return bids.window(Session(GAP)).count().items().map(lambda pair: (pair[1].start, pair[0], pair[1].value))


def q12(events: Stream[Event], size: dt.timedelta = WINDOW) -> KeyedStream[int, int]:
    """The number of bids of each bidder in windows of processing time."""
    bids = events.flat_map(bids_of).key_by(lambda bid: bid.bidder)
    return bids.window(Tumbling(size), processing_time=True).count().map(lambda window: window.value)


QUERIES: Final[Mapping[str, Callable[[Stream[Event]], Stream[Any]]]] = {
    one.__name__: one for one in (q0, q1, q2, q3, q4, q5, q6, q7, q8, q11, q12)
}
