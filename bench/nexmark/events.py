"""Events of the Nexmark benchmark: persons, auctions and bids of an auction site, as many as asked for.

Of 50 events, one is a new person, three are new auctions, and 46 are bids. As in the original, half of the bids are for
a few hot auctions, three of four bids and auctions are by a few hot bidders and sellers, and some events refer to
persons and auctions that are still to come. Event time advances by a second per ``rate`` events. The events are in the
order of their arrival, in which each is at most ``max_lag_ms`` behind the newest one before it.
"""

from __future__ import annotations  # pure

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from tupletree import value

START_MS: Final = 1_700_000_000_000
FIRST_ID: Final = 1_000
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
PERSONS, AUCTIONS, EPOCH = 1, 3, 50
"""Of so many events in a row, the persons and the auctions; all others are bids."""

HOT_AUCTION, HOT_BIDDER, HOT_SELLER = 2, 4, 4
"""One bid (auction) of so many does not choose the hot auction (bidder, seller)."""

HOT_IDS: Final = 100
"""A hot auction, bidder or seller is that for so many new ids."""

LEAD: Final = 10
"""Events refer to persons and auctions up to so many ids ahead of the newest."""

ACTIVE_PERSONS: Final = 1_000
OPEN_AUCTIONS: Final = 100
CLOSING_KEYS: Final = 128

STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"
)  # fmt: skip
FIRST_NAMES: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CHANNELS: Final = ("Apple", "Google", "Facebook", "Baidu")


@value
class Person(NamedTuple):
    """A new person. ``time``: milliseconds of Unix time, as in all events."""

    id: int
    name: str
    email: str
    city: str
    state: str
    time: int


@value
class Auction(NamedTuple):
    """A new auction, which is open from ``time`` to ``expires``, both included. Prices are in cents."""

    id: int
    item: str
    initial: int
    reserve: int
    time: int
    expires: int
    seller: int
    category: int


@value
class Bid(NamedTuple):
    """A bid of a person for an auction."""

    auction: int
    bidder: int
    price: int
    channel: str
    time: int


Event = Person | Auction | Bid


def generate(count: int, *, seed: int = 1, rate: int = 1_000, max_lag_ms: int = 0) -> list[Event]:
    """Return the first ``count`` events of a seed, in the order of their arrival."""
    rng = random.Random(seed)
    events = [_event(rng, number, rate) for number in range(count)]
    arrivals = [event.time + rng.randint(0, max_lag_ms) for event in events]
    return [events[number] for number in sorted(range(count), key=arrivals.__getitem__)]


def closing(events: Sequence[Event]) -> list[Event]:
    """Return events that come after all others, so that windows and auctions of ``events`` are closed.

    They are in two waves, an hour apart: the second closes the windows of the first, whose results then close those of
    a second operator. Each wave has persons, auctions and bids of so many keys that every task of an operator gets
    some. Their auctions have no bids, and expire later.
    """
    first_ms = last_ms(events) + 3_600_000
    return [event for wave_ms in (first_ms, first_ms + 3_600_000) for event in _wave(wave_ms)]


def last_ms(events: Sequence[Event]) -> int:
    """Return the last time that the events mention; START_MS if there is none."""
    times = (event.expires if isinstance(event, Auction) else event.time for event in events)
    return max(times, default=START_MS)


def _wave(time_ms: int) -> list[Event]:
    keys = range(1_000_000_000, 1_000_000_000 + CLOSING_KEYS)
    found: list[Event] = []
    for key in keys:
        found += [
            Person(key, "", "", "", "", time_ms),
            Auction(key, "", 1, 1, time_ms, time_ms + 1_000_000_000, key, FIRST_CATEGORY),
            Bid(key + CLOSING_KEYS, key, 1, "", time_ms),
        ]
    return found


def _event(rng: random.Random, number: int, rate: int) -> Event:
    epoch, offset = divmod(number, EPOCH)
    time_ms = START_MS + 1000 * number // rate
    person = epoch * PERSONS + min(offset, PERSONS - 1)
    auction = epoch * AUCTIONS + min(max(offset - PERSONS, -1), AUCTIONS - 1)
    if offset < PERSONS:
        return _person(rng, person, time_ms)
    if offset < PERSONS + AUCTIONS:
        return _auction(rng, auction, person, time_ms, rate)
    return _bid(rng, auction, person, time_ms)


def _person(rng: random.Random, person: int, time_ms: int) -> Person:
    first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
    email = f"{first}.{last}@example.com".lower()
    return Person(FIRST_ID + person, f"{first} {last}", email, rng.choice(CITIES), rng.choice(STATES), time_ms)


def _auction(rng: random.Random, auction: int, person: int, time_ms: int, rate: int) -> Auction:
    open_ms = 1000 * OPEN_AUCTIONS * EPOCH // AUCTIONS // rate
    initial = _price(rng)
    return Auction(
        FIRST_ID + auction,
        f"item {rng.randrange(10_000)}",
        initial,
        initial + _price(rng),
        time_ms,
        time_ms + 1 + rng.randrange(2 * open_ms),
        FIRST_ID + _chosen(rng, person, HOT_SELLER, ACTIVE_PERSONS),
        FIRST_CATEGORY + rng.randrange(CATEGORIES),
    )


def _bid(rng: random.Random, auction: int, person: int, time_ms: int) -> Bid:
    return Bid(
        FIRST_ID + _chosen(rng, auction, HOT_AUCTION, OPEN_AUCTIONS),
        FIRST_ID + _chosen(rng, person, HOT_BIDDER, ACTIVE_PERSONS),
        _price(rng),
        rng.choice(CHANNELS),
        time_ms,
    )


def _chosen(rng: random.Random, newest: int, hot: int, active: int) -> int:
    """Return an id, from 0: the hot one, or else one of the ``active`` newest and of those still to come."""
    if rng.randrange(hot):
        return max(newest, 0) // HOT_IDS * HOT_IDS
    return rng.randint(max(newest - active, 0), max(newest, 0) + LEAD)


def _price(rng: random.Random) -> int:
    """Return a price in cents: its logarithm is evenly distributed."""
    return round(100 * 10 ** (6 * rng.random()))
