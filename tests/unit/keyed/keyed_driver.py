"""A KeyedProcess driven by hand: tuples, ticks, checkpoints, crashes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree import KeyedProcess, TopologyContext, config
from tupletree.outputs import FieldsDeclarer
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.testing.recorder import Recorder
from tupletree.tuples import Tuple


class Driver:
    """One task of a bolt, with the store of its state.

    ``senders``: the number of tasks that send to it, from 1; or the tasks of each component that does.
    """

    def __init__(self, bolt: KeyedProcess, senders: int | Mapping[str, Sequence[int]] = 1) -> None:
        sources = {"source": range(1, senders + 1)} if isinstance(senders, int) else senders
        self.now_ms = 0
        self._submitted = bolt
        self._store = Namespace()
        self._txid = 0
        self._context = TopologyContext(
            topology_id="test",
            component_id="test",
            task_id=9,
            tasks={"test": [9], **{source: list(tasks) for source, tasks in sources.items()}},
            sources={(source, "default"): "fields" for source in sources},
            targets={},
            conf=config.defaults(),
        )
        self._context.clock = self._context.unix_clock = lambda: self.now_ms / 1000
        self.crash()

    def execute(self, tup: Tuple) -> None:
        self.recorder.anchors = [tup]
        self.bolt.execute(tup)

    def tick(self, now_ms: int) -> list[list[Any]]:
        """Look at the clock, and return the rows emitted."""
        self.now_ms = now_ms
        self.recorder.anchors = ()
        self.bolt.tick()
        return self.take()

    def take(self, stream: str = "default") -> list[list[Any]]:
        """Return the rows emitted since the last call, on any stream but the default one with ``stream``."""
        emitted = self.recorder.emitted[self._taken :]
        self._taken = len(self.recorder.emitted)
        self.anchors = [one.anchors for one in emitted]
        return [one.row for one in emitted if one.stream == stream]

    def checkpoint(self) -> None:
        """Take a checkpoint."""
        self.prepare()
        self.commit()

    def prepare(self) -> None:
        """Take the first half of a checkpoint."""
        self._txid += 1
        self.bolt.pre_prepare(self._txid)
        self.state.prepare_commit(self._txid)

    def commit(self) -> None:
        """Take the second half of a checkpoint."""
        self.state.commit(self._txid)

    def rollback(self) -> None:
        """Go back to the last checkpoint in the same life, as without aligned checkpoints."""
        self.bolt.pre_rollback()
        self.state.rollback()
        self.bolt.init_state(self.state)

    def crash(self, *, commits: bool = False) -> None:
        """Go back to the last checkpoint in a new life, or with ``commits`` to one that is prepared."""
        self.bolt = copy.deepcopy(self._submitted)
        declarer = FieldsDeclarer("test")
        self.bolt.declare_output_fields(declarer)
        self.recorder = Recorder("test", {stream.id: stream.fields for stream in declarer.streams.values()})
        self._taken = 0
        self.bolt.context = self._context.renewed()
        self.bolt.collector = self.recorder.bolt_collector
        self.state: BufferedState[Any, Any] = BufferedState("test", MemoryBackend("test", self._store))
        if self.state.prepared is not None:
            self.state.commit(self._txid) if commits else self.state.rollback()
        self.bolt.init_state(self.state)

    def restart(self) -> None:
        """Take a checkpoint, and go on from it in a new life."""
        self.checkpoint()
        self.crash()

    def value(self, entry: Any) -> Any:
        """Return what is stored under an entry of the state."""
        return self.state.get(entry)
