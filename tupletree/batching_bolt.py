"""BatchingBolt: tuples are gathered, and processed many at a time."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any

from tupletree.component import RAISE_FAILED_FOR_BATCH, Bolt, Yielded
from tupletree.errors import UsageError
from tupletree.tuples import Tuple


class BatchingBolt(Bolt):
    """A bolt that processes tuples in batches: for models, GPUs and bulk writes.

        class Classify(BatchingBolt):
            outputs = ["image", "label"]
            max_batch, max_wait_s = 64, 0.05

            def setup(self):
                self.model = load_model()

            def execute_batch(self, tuples):
                for tup, label in zip(tuples, self.model([tup["pixels"] for tup in tuples])):
                    self.collector.emit([tup["image"], label], tup)

    ``execute_batch`` gets ``max_batch`` tuples as soon as that many have arrived, and fewer at a tick, every
    ``max_wait_s`` seconds. The tuples of a batch can be of any source task and stream. They are acked when
    ``execute_batch`` returns, except those that it fails with ``self.collector.fail(tup, error)``. FailedException
    fails all of them; any other exception ends the worker, and all are replayed.

    An emit without anchors, and a row that ``execute_batch`` yields, is anchored to all tuples of the batch; anchoring
    to one of them is cheaper, and replays less after a failure.

    **Back-pressure.** ``topology.max.spout.pending``, where it is set, must leave room for the gathered tuples: over
    all spout tasks, at least ``max_batch`` for each task of the bolt. Otherwise every batch waits for ``max_wait_s``.

    **Checkpoints.** A checkpoint passes the bolt when the tuples before it are processed.

    Attributes:
        max_batch: the maximum number of tuples in a batch.
        max_wait_s: the maximum time for which a tuple is held, in seconds: the component's tick interval.
    """

    _remedy = RAISE_FAILED_FOR_BATCH
    holds_tuples = True
    max_batch: int = 100
    max_wait_s: float = 0.1

    def component_configuration(self) -> Mapping[str, Any]:
        name = type(self).__name__
        if not isinstance(self.max_batch, int) or self.max_batch < 1 or self.max_wait_s <= 0:
            raise UsageError(f"{name}: max_batch must be a whole number of at least 1, and max_wait_s more than 0")
        return {"topology.tick.tuple.freq.secs": self.max_wait_s}

    def execute_batch(self, tuples: list[Tuple]) -> Yielded:
        """Process a batch. Rows may be emitted or yielded."""
        raise NotImplementedError
