"""Components written with pystorm, as a project of streamparse has them: nothing in them is made for this library."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from pystorm import BatchingBolt, Bolt, ReliableSpout, TicklessBatchingBolt
from pystorm.spout import Spout


class Stream:
    """As streamparse's: an output stream with a name."""

    def __init__(self, fields: list[str], name: str, direct: bool = False) -> None:
        self.fields, self.name, self.direct = fields, name, direct


class WordSpout(ReliableSpout):
    outputs = ["word"]

    def initialize(self, conf: Any, context: Any) -> None:
        self.words = iter(conf["own.words"].split())
        self.number = 0

    def next_tuple(self) -> None:
        word = next(self.words, None)
        if word is not None:
            self.number += 1
            self.emit([word], tup_id=self.number)


class PlainSpout(Spout):
    outputs = ["number"]

    def initialize(self, conf: Any, context: Any) -> None:
        self.number = 0

    def next_tuple(self) -> None:
        if self.number < 3:
            self.number += 1
            self.emit([self.number])


class WordCountBolt(Bolt):
    outputs = ["word", "count"]

    def initialize(self, conf: Any, context: Any) -> None:
        self.counts: Counter[str] = Counter()

    def process(self, tup: Any) -> None:
        word = tup.values.word
        self.counts[word] += 1
        self.logger.info("%s: %d", word, self.counts[word])
        self.report_metric("wordCount", self.counts[word])
        self.emit([word, self.counts[word]])


class Failing(Bolt):
    outputs = ["word"]
    exit_on_exception = False

    def initialize(self, conf: Any, context: Any) -> None:
        self.failures = Counter[str]()

    def process(self, tup: Any) -> None:
        word = tup.values[0]
        if word.startswith("bad") and self.failures[word] < 5:
            self.failures[word] += 1
            raise ValueError(f"no {word}")
        self.emit([word])


class Exiting(Failing):
    exit_on_exception = True


class Batches(BatchingBolt):
    outputs = ["key", "count"]
    config = {"topology.tick.tuple.freq.secs": 1}
    ticks_between_batches = 1

    def group_key(self, tup: Any) -> Any:
        return tup.values[0]

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        self.emit([key, len(tups)])


class Tickless(TicklessBatchingBolt):
    outputs = ["key", "count"]
    secs_between_batches = 0.2

    def group_key(self, tup: Any) -> Any:
        return tup.values[0]

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        self.emit([key, len(tups)])


class TicklessWithInit(Tickless):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Routing(Bolt):
    """Names the tasks that get its tuples, sends some to a task, and answers from a thread of its own."""

    outputs = ["word", Stream(["word", "tasks"], "named"), Stream(["word"], "told", direct=True)]
    auto_ack = auto_anchor = False

    def process(self, tup: Any) -> None:
        word = tup.values[0]
        tasks = self.emit([word], anchors=[tup], need_task_ids=True)
        self.emit([word, len(tasks)], stream="named", anchors=[tup.id])
        self.emit([word], stream="told", direct_task=tasks[0], anchors=[tup])
        threading.Thread(target=self.ack, args=[tup]).start()
