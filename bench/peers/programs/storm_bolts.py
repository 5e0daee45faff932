"""Python bolts that Storm runs through its multilang protocol, written with pystorm as its users write them."""

# mypy: disable-error-code="misc, no-any-return, no-untyped-call"

from __future__ import annotations

import sys
import time
from typing import Any

from pystorm.bolt import Bolt

from bench.peers.programs import marks


class Split(Bolt):
    """Emits a tuple for each word, anchored and acked by pystorm."""

    outputs = ("word",)  # Storm has them from StormWords.java

    def process(self, tup: Any) -> None:
        for word in tup.values[0].split():
            self.emit([word])


class Count(Bolt):
    """Keeps the running count of each word."""

    def begin(self) -> None:
        """Start with no word."""
        self.counts: dict[str, int] = {}
        self.words = 0
        self.at_s = 0.0

    def initialize(self, conf: Any, context: Any) -> None:
        self.begin()
        marks.tell(marks.settings().marks, lambda: (self.words, self.at_s))

    def process(self, tup: Any) -> None:
        word = tup.values[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        self.at_s = time.monotonic()
        self.words += 1


if __name__ == "__main__":
    (Split() if sys.argv[1] == "split" else Count()).run()
