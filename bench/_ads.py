"""The ads of Yahoo's streaming benchmark: events, and the components that count them by campaign and window.

Redis holds the same data as in the original: a string for each ad, its campaign; a hash for each campaign, from window
to the key of a window; and a hash for each window, with ``seen_count`` and ``time_updated``.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import redis

from bench._flow import Source
from tupletree import BasicBolt, Bolt
from tupletree.component import BasicCollector, BoltCollector, SpoutCollector, TopologyContext
from tupletree.tuples import Tuple

CAMPAIGNS, ADS_A_CAMPAIGN = 100, 10
DISTINCT_EVENTS = 10_000
EVENT_TYPES = ("view", "click", "purchase")
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
WINDOW_MS = 10_000
START_MS = 1_700_000_000_000
FLUSH_S = 1.0

Counts = Counter[tuple[str, int]]


def ads(rng: random.Random) -> dict[str, str]:
    """Return the campaign of each ad."""
    return {uuid(rng): campaign for campaign in (uuid(rng) for _ in range(CAMPAIGNS)) for _ in range(ADS_A_CAMPAIGN)}


def uuid(rng: random.Random) -> str:
    """Return a random text in the form of a UUID."""
    text = f"{rng.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def events(seed: int) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the campaign of each ad, and the events to emit in turn, without their times."""
    rng = random.Random(seed)
    campaigns = ads(rng)
    names = list(campaigns)
    return campaigns, [
        {
            "user_id": uuid(rng),
            "page_id": uuid(rng),
            "ad_id": rng.choice(names),
            "ad_type": rng.choice(AD_TYPES),
            "event_type": rng.choice(EVENT_TYPES),
            "ip_address": "1.2.3.4",
        }
        for _ in range(DISTINCT_EVENTS)
    ]


def event_time_ms(number: int, rate: float) -> int:
    """Return the event time of an event: one second per ``rate`` events, at any speed of processing."""
    return START_MS + int(1000 * number / rate)


def true_windows(count: int, rate: float, seed: int) -> Counts:
    """Return the views of each campaign in each window among the first ``count`` events."""
    campaigns, distinct = events(seed)
    found: Counts = Counter()
    for number in range(count):
        event = distinct[number % DISTINCT_EVENTS]
        if event["event_type"] == "view":
            found[campaigns[event["ad_id"]], event_time_ms(number, rate) // WINDOW_MS * WINDOW_MS] += 1
    return found


def load_ads(url: str, seed: int) -> None:
    """Write the table that the join reads."""
    with redis.Redis.from_url(url) as client:
        client.mset(events(seed)[0])


def read_windows(url: str, seed: int) -> Counts:
    """Return the windows stored in Redis."""
    found: Counts = Counter()
    with redis.Redis.from_url(url, decode_responses=True) as client:
        for campaign in sorted(set(events(seed)[0].values())):
            for window, key in client.hgetall(campaign).items():
                found[campaign, int(window)] = int(client.hget(key, "seen_count") or 0)
    return found


class Events(Source):
    """Events as JSON, as from a queue. Each of several tasks emits its share, in turn."""

    outputs = ("event",)

    def __init__(self, directory: str, count: int, rate: float, seed: int) -> None:
        super().__init__(directory, count)
        self.rate, self.seed = rate, seed

    def make_rows(self) -> list[list[Any]]:
        return [[json.dumps(event)[:-1] + ', "event_time": "'] for event in events(self.seed)[1]]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        super().open(conf, context, collector)
        self.first, self.step = context.task_index, len(context.component_tasks(context.component_id))

    def emit(self, number: int) -> None:
        event = self.first + number * self.step
        head = self.rows[event % self.distinct][0]
        self.collector.emit([f'{head}{event_time_ms(event, self.rate)}"}}'], number)


class Parse(BasicBolt):
    """Parses JSON into fields."""

    outputs = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        event = json.loads(tup[0])
        collector.emit([event[field] for field in self.outputs])


class Filter(BasicBolt):
    """Lets views pass."""

    outputs = Parse.outputs

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if tup["event_type"] == "view":
            collector.emit(tup.values)


class Project(BasicBolt):
    """Keeps the fields needed for counting."""

    outputs = ("ad_id", "event_time")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit([tup["ad_id"], tup["event_time"]])


class Join(BasicBolt):
    """Adds the campaign of an ad, from Redis if the ad is new to this task."""

    outputs = ("campaign_id", "ad_id", "event_time")

    def __init__(self, url: str) -> None:
        self.url = url

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.redis = redis.Redis.from_url(self.url, decode_responses=True)
        self.campaigns: dict[str, str] = {}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        ad, event_time = tup.values
        campaign = self.campaigns.get(ad)
        if campaign is None:
            campaign = self.campaigns[ad] = str(self.redis.get(ad))
        collector.emit([campaign, ad, event_time])


class Windows(Bolt):
    """Counts views by campaign and window; adds the new counts to Redis every second, like the original."""

    def __init__(self, url: str) -> None:
        self.url = url

    def component_configuration(self) -> Mapping[str, Any]:
        return {"topology.tick.tuple.freq.secs": FLUSH_S}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.redis = redis.Redis.from_url(self.url)
        self.views: dict[tuple[str, int], int] = {}
        self.keys: dict[tuple[str, int], str] = {}
        self.rng = random.Random(context.task_id)

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self.flush()
        else:
            window = (tup[0], int(tup[2]) // WINDOW_MS * WINDOW_MS)
            self.views[window] = self.views.get(window, 0) + 1
        self.collector.ack(tup)

    def flush(self) -> None:
        """Add the counts since the last flush to Redis."""
        if not self.views:
            return
        now_ms = int(1000 * time.time())
        with self.redis.pipeline(transaction=False) as pipeline:
            for (campaign, window), seen in self.views.items():
                key = self.keys.get((campaign, window))
                if key is None:
                    key = self.keys[campaign, window] = uuid(self.rng)
                    pipeline.hset(campaign, str(window), key)
                pipeline.hincrby(key, "seen_count", seen)
                pipeline.hset(key, "time_updated", now_ms)
            pipeline.execute()
        self.views.clear()
