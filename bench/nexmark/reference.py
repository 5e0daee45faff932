"""The results of each query, computed in plain Python over all events at once.

Each function returns the list of the results that a program must have, in any order. Of a table, that is the newest
update of each key, as pairs of key and value. A result of a window begins with the start of the window.
"""

from __future__ import annotations  # pure

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bench.nexmark.events import Auction, Bid, Event, Person

WINDOW_MS: Final = 10_000
SLIDE_MS: Final = 2_000
GAP_MS: Final = 10_000
LAST_SALES: Final = 10


def _bids(events: Iterable[Event]) -> list[Bid]:
    return [event for event in events if isinstance(event, Bid)]


def _auctions(events: Iterable[Event]) -> list[Auction]:
    return [event for event in events if isinstance(event, Auction)]


def _persons(events: Iterable[Event]) -> list[Person]:
    return [event for event in events if isinstance(event, Person)]


def q0(events: Sequence[Event]) -> list[Any]:
    """All bids."""
    return _bids(events)


def q1(events: Sequence[Event]) -> list[Any]:
    """Bids, with prices in euros."""
    return [bid._replace(price=bid.price * 908 // 1000) for bid in _bids(events)]


def q2(events: Sequence[Event]) -> list[Any]:
    """Bids for some auctions."""
    return [(bid.auction, bid.price) for bid in _bids(events) if bid.auction % 123 == 0]


def q3(events: Sequence[Event]) -> list[Any]:
    """Sellers of one category in three states, with each of their auctions."""
    sellers = {person.id: person for person in _persons(events) if person.state in ("OR", "ID", "CA")}
    return [
        (seller.name, seller.city, seller.state, auction.id)
        for auction in _auctions(events)
        if auction.category == 10 and (seller := sellers.get(auction.seller)) is not None
    ]


def _sales(events: Sequence[Event]) -> list[tuple[Auction, int]]:
    """Return the auctions with a bid that have expired before the last event, each with its highest price."""
    prices: dict[int, list[Bid]] = defaultdict(list)
    for bid in _bids(events):
        prices[bid.auction].append(bid)
    now_ms = max((event.time for event in events), default=0)
    found = []
    for auction in _auctions(events):
        valid = [bid.price for bid in prices[auction.id] if auction.time <= bid.time <= auction.expires]
        if valid and auction.expires < now_ms:
            found.append((auction, max(valid)))
    return found


def q4(events: Sequence[Event]) -> list[Any]:
    """The average highest price of closed auctions, by category: a table."""
    by_category: dict[int, list[int]] = defaultdict(list)
    for auction, price in _sales(events):
        by_category[auction.category].append(price)
    return [(category, sum(prices) // len(prices)) for category, prices in by_category.items()]


def q5(events: Sequence[Event]) -> list[Any]:
    """The auctions with most bids in each sliding window."""
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in _bids(events):
        last = bid.time // SLIDE_MS * SLIDE_MS
        for start in range(last, bid.time - WINDOW_MS, -SLIDE_MS):
            windows[start][bid.auction] += 1
    most = {start: max(counts.values()) for start, counts in windows.items()}
    return [
        (start, auction, count)
        for start, counts in windows.items()
        for auction, count in counts.items()
        if count == most[start]
    ]


def q6(events: Sequence[Event]) -> list[Any]:
    """The average price of the ten auctions of each seller that closed last: a table."""
    by_seller: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for auction, price in _sales(events):
        by_seller[auction.seller].append((auction.expires, auction.id, price))
    last = {seller: [price for *_, price in sorted(sales)[-LAST_SALES:]] for seller, sales in by_seller.items()}
    return [(seller, sum(prices) // len(prices)) for seller, prices in last.items()]


def q7(events: Sequence[Event]) -> list[Any]:
    """The bids of the highest price in each window."""
    windows: dict[int, list[Bid]] = defaultdict(list)
    for bid in _bids(events):
        windows[bid.time // WINDOW_MS * WINDOW_MS].append(bid)
    highest = {start: max(bid.price for bid in bids) for start, bids in windows.items()}
    return [(start, bid) for start, bids in windows.items() for bid in bids if bid.price == highest[start]]


def q8(events: Sequence[Event]) -> list[Any]:
    """Persons who are new in a window and opened an auction in it."""
    opened = {(auction.time // WINDOW_MS, auction.seller) for auction in _auctions(events)}
    return [
        (person.time // WINDOW_MS * WINDOW_MS, person.id, person.name)
        for person in _persons(events)
        if (person.time // WINDOW_MS, person.id) in opened
    ]


def q11(events: Sequence[Event]) -> list[Any]:
    """The number of bids in each session of a bidder."""
    times: dict[int, list[int]] = defaultdict(list)
    for bid in _bids(events):
        times[bid.bidder].append(bid.time)
    found = []
    for bidder, of_bidder in times.items():
        of_bidder.sort()
        start, count = of_bidder[0], 0
        for before, at in zip([start, *of_bidder], of_bidder, strict=False):
            if at - before >= GAP_MS:
                found.append((start, bidder, count))
                start, count = at, 0
            count += 1
        found.append((start, bidder, count))
    return found


def q12(events: Sequence[Event]) -> list[Any]:
    """The number of bids of each bidder: what the windows in processing time of a bidder add up to."""
    return list(Counter(bid.bidder for bid in _bids(events)).items())


REFERENCES: Final[Mapping[str, Callable[[Sequence[Event]], list[Any]]]] = {
    one.__name__: one for one in (q0, q1, q2, q3, q4, q5, q6, q7, q8, q11, q12)
}
