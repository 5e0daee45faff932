"""Hashes of a Redis under test."""

from __future__ import annotations

from typing import Any

import redis

from tupletree.spark.sinks.redis import RedisHashes


class RedisPlace:
    """The hashes of a prefix; a Place of sink_behaviours.py."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self.prefix = prefix

    def client(self, *, decode_responses: bool = True) -> Any:
        return redis.Redis.from_url(self.url, decode_responses=decode_responses)

    def sink(self) -> RedisHashes:
        return RedisHashes(self.url, self.prefix, "word", add="n")

    def totals(self) -> dict[str, int]:
        names = [name for name in self.client().keys(f"{self.prefix}:*")]
        reads = self.client().pipeline(transaction=True)
        for name in names:
            reads.hget(name, "n")
        return {name.split(":")[1]: int(n) for name, n in zip(names, reads.execute(), strict=True)}

    def staged(self) -> list[str]:
        return list(self.client().keys(f"{self.prefix}#staged:*"))

    def wrong_columns(self) -> tuple[str, str]:
        return "word STRING, count BIGINT", "n"
