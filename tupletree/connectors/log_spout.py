"""LogSpout: a spout over any LogSource, which the connectors of logs derive from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree._replay import MAX_WAITING, Pending
from tupletree._source_progress import SourceProgress
from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import FOREVER, RECONNECT, Backoff
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.connectors.arguments import check_instance, check_whole, checked_names
from tupletree.connectors.formats import Format, FormatError, WithHeaders, checked_format
from tupletree.connectors.held import Held
from tupletree.connectors.log_positions import StoredPositions, check_log_id
from tupletree.connectors.log_pump import Ended, Ends, Event, LogPump, PartitionLane, Read, Trouble
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.messages import LogEmitter, LogRecord
from tupletree.connectors.source_thread import Broken, Lost, register_thread
from tupletree.errors import ReportedFailedException, UnavailableError, UsageError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.replaying_spout import REFUSED_AT_A_TIME, ReplayingSpout, is_aligned

READ_AHEAD: Final = 4000
"""The maximum number of messages that are read and not emitted."""
READ_AHEAD_BYTES: Final = 64 * 1024 * 1024
"""The number of bytes of such messages from which on no more are read."""


class LogSpout(ReplayingSpout):
    """Emits the messages of a log, and remembers for each partition up to where all are processed.

    **At least once.** A failed message is emitted again after the pauses of ``retry``. A task that starts again resumes
    behind the oldest prefix that is processed, so that messages after a gap are emitted again. The positions are kept
    by the log where it can (see the connector), otherwise in ZooKeeper, about twice a second, under ``log_id``: by
    default the names of the topology and of the component. So a topology that is submitted again under its name
    resumes; with another ``log_id`` it reads from the beginning. Messages of a partition that another task takes over
    are emitted there again, and what this task still hears of them is ignored.

    **Aligned checkpoints.** The positions are in the checkpoint, and nowhere else: after a failure, the log is read
    again from there. A log that keeps positions is told of them when the checkpoint is committed. Every task always
    reads the same partitions.

    **Giving up.** With ``set_dead_letters``, or a ``retry`` with ``max_attempts``, a message is given up after the last
    attempt: it leaves as a dead letter, or is reported. A message that cannot be decoded is given up at once, also with
    aligned checkpoints. One that cannot be decoded for now, as a service that the format asks is away, waits, and those
    that follow wait behind it; no attempt is counted.

    **Not guaranteed.** Messages that the log deletes before they are read are reported, and skipped. Failed messages
    come after later ones of their partition.

    **Back-pressure.** At most ``READ_AHEAD`` messages, and about ``READ_AHEAD_BYTES``, are read before they are
    emitted; nothing is emitted while ``max_ahead`` messages are in process or behind one that is, or while 100,000
    that failed wait to be emitted again. A deactivated topology reads none.

    Attributes:
        format: decodes messages; its fields, and then ``metadata``, are the spout's outputs.
        metadata: fields of the log's own that are added to each row, such as a message's key.
        max_ahead: the maximum number of messages per task from the oldest of each partition that is not processed.
        retry: the attempts and the pauses between them.
        reconnect: the pauses between attempts to connect.
        has_read_all: true if the log does not grow, and all its messages are read.
        at_end: true if the log does not grow, and all its messages are processed or given up.
    """

    retry: Backoff = FOREVER
    reconnect: Backoff = RECONNECT
    has_read_all = at_end = False
    tells_partitions = True  # to the progress in event time of its chain

    def __init__(
        self,
        source: LogSource,
        format: Format | None = None,
        *,
        metadata: Sequence[str] = (),
        log_id: str | None = None,
        max_ahead: int = 1_000_000,
    ) -> None:
        owner = type(self).__name__
        check_instance(owner, "source", source, LogSource, "a LogSource such as TextFileLog('/var/log/app')")
        check_whole(owner, "max_ahead", max_ahead)
        check_log_id(owner, log_id)
        self.source = source
        self.format = checked_format(self, format)
        self.metadata = check_metadata(owner, source, self.format, metadata)
        outputs = [*self.format.fields, *self.metadata] if self.metadata else self.format.outputs
        self.outputs = outputs  # type: ignore[misc]  # set per instance
        self.blocking = self.format.blocking or self.blocking
        self.log_id = log_id
        self.max_ahead = max_ahead

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self._is_aligned = is_aligned(context)
        is_stored = not self._is_aligned and not self.source.keeps_positions
        picked = [self.source.metadata_fields.index(name) for name in self.metadata]
        self._done = self._replay.done
        self._emitter = LogEmitter(self._replay, self.collector, self.format, picked)
        self._lanes: dict[str, PartitionLane] = {}
        self._restored: Mapping[str, int] = {}
        self._lane: PartitionLane | None = None  # of the messages being emitted
        self._records: Iterator[LogRecord] = iter(())
        self._next = 0  # the position after them
        self._held: Held[tuple[PartitionLane, LogRecord]] = Held(self.reconnect)
        self._refused = 0  # messages of the present call that could not be decoded
        self._pump = LogPump(
            self.source,
            context.task_index,
            len(context.component_tasks(context.component_id)),
            StoredPositions(context, self.log_id) if is_stored else None,
            min(READ_AHEAD, self.max_ahead),
            READ_AHEAD_BYTES,
            self.reconnect,
        )
        register_thread(context, self._pump, "log", self.source.title, self.source.lag_unit)
        self._progress = context.source_progress
        if self._progress is not None:
            self._pump.looks_at_ends = True
            self._progress.follow(
                self._emitted,
                self._has_emitted_all,
                is_complete=self.source.are_complete,
                are_moved=self.source.keeps_positions and not self._is_aligned,
            )
        if not self._is_aligned:  # else restore_state says where to begin
            self._pump.follow(None if self.source.keeps_positions else {})

    def close(self) -> None:
        self._pump.close()

    def activate(self) -> None:
        self._pump.pause(False)

    def deactivate(self) -> None:
        self._pump.pause(True)

    def next_tuple(self) -> None:
        replay = self._replay if self._kept is None else self._kept
        if replay.due_s < math.inf and self._send_due():
            return
        if replay.waiting >= MAX_WAITING or (self._held.message is not None and self._is_holding()):
            return
        self._refused = 0
        while self._lane is None or not self._emit_read(self._lane):
            if sum(map(len, self._lanes.values())) >= self.max_ahead:
                return
            event = self._pump.poll()
            if event is None:
                self.has_read_all, self.at_end = self._pump.has_read_all, self._pump.is_at_end
                return
            self.has_read_all = self.at_end = False
            self._apply(event)

    def _emit_read(self, lane: PartitionLane) -> bool:
        """Emit what is read, as far as there is room. Return true if the call is over, false at the end of it."""
        emitter = self._emitter
        while emitter.run(lane, self._records):
            if emitter.refused is None:
                return True
            record, error = emitter.refused
            if isinstance(error, UnavailableError):
                self._hold(lane, record, error)
                return True
            if self._refuse(lane, record, error):
                if not self.collector.has_room():
                    return True
            else:
                self._refused += 1
                if self._refused == REFUSED_AT_A_TIME:
                    return True
        lane.skip_to(self._next)
        self._lane = None
        return False

    def _is_holding(self) -> bool:
        """Return true while a message waits to be decoded, which is tried here."""
        if self._held.message is None:
            return False
        lane, record = self._held.message
        if lane.is_revoked:
            self._held.clear()
            return False
        if self._held.is_due(self.context.clock()):
            self._begin(lane, record)
        return True

    def _apply(self, event: Event) -> None:
        if self._progress is not None:
            self._tell(self._progress, event)
        match event:
            case Read(lane, records, next):
                self._lane, self._records, self._next = lane, iter(records), next
            case PartitionLane() as lane:
                self._lanes[lane.partition] = lane
            case Ended(lane):
                self._replay.end(lane)
                if self._lanes.get(lane.partition) is lane:
                    del self._lanes[lane.partition]
            case Trouble(error):
                self.collector.report_error(error)
            case Lost(error):
                self.collector.report_error(UnavailableError(f"{self.source.title}: {_trouble(error)}"))
            case Broken(error):
                raise error

    def _tell(self, progress: SourceProgress, event: Event) -> None:
        match event:
            case Read(lane):
                progress.select(lane.partition)
            case PartitionLane() as lane:
                progress.assign(lane.partition)
            case Ended(lane):
                if self._lanes.get(lane.partition) is lane:
                    progress.revoke(lane.partition)
            case Ends(ends):
                progress.set_ends(ends, int(self.context.clock() * 1000))

    def _emitted(self) -> dict[str, int]:
        """Return the position behind what was emitted of each partition."""
        return {name: lane.newest for name, lane in self._lanes.items()}

    def _has_emitted_all(self) -> bool:
        return self._lane is None and self._pump.has_read_all

    def _send(self, pending: Pending) -> tuple[int, ...]:
        progress = self._progress
        if progress is None or not isinstance(pending.lane, PartitionLane):
            return super()._send(pending)
        progress.select(pending.lane.partition)  # the row passes the chain again
        sent = super()._send(pending)
        if self._lane is not None:
            progress.select(self._lane.partition)
        return sent

    def _begin(self, lane: PartitionLane, record: LogRecord) -> None:
        """Emit a message that was held, refuse it, or keep it for later."""
        try:
            row = self._emitter.row(record)
        except FormatError as error:
            self._held.clear()
            self._refuse(lane, record, error)
        except UnavailableError as error:
            self._hold(lane, record, error)
        else:
            self._held.clear()
            self._emitter.emit(lane, record, row)

    def _hold(self, lane: PartitionLane, record: LogRecord, error: UnavailableError) -> None:
        self._held.hold((lane, record), self.context.clock())
        self.collector.report_error(error)

    def _refuse(self, lane: PartitionLane, record: LogRecord, error: Exception) -> bool:
        """Give up a message. Return true if a letter of it is emitted, false if it is reported."""
        pending = self._replay.begin([record.data], DEFAULT_STREAM, record.position, record.next, lane)
        self._replay.count_attempt(pending, FailReason.of(self.context.component_id, self.context.task_id, error))
        self._give_up(pending)
        return self.dead_letters is not None

    def _give_up(self, pending: Pending) -> None:
        assert isinstance(pending.lane, PartitionLane)
        pending.id = f"{pending.lane.partition}@{pending.id}"
        super()._give_up(pending)

    def ack(self, msg_id: Any) -> None:
        self._done(msg_id)

    def _finish(self, pending: Pending) -> None:
        """Nothing is left to do: the thread reads the positions of the lanes."""

    def checkpoint_state(self) -> dict[str, int]:
        return {**self._restored, **self._emitted()}

    def restore_state(self, state: Mapping[str, int]) -> None:
        begun = {name: lane.start for name, lane in self._lanes.items()}
        for lane in self._lanes.values():
            self._replay.end(lane)
        self._lanes = {}
        self._lane = None
        self._held.clear()
        self.has_read_all = self.at_end = False
        if self._progress is not None:
            self._progress.restart()
        self._restored = {**begun, **state}
        self._pump.follow({name: max(at, -1 - at) for name, at in self._restored.items()})  # see merge_states

    def merge_states(self, states: Sequence[Mapping[str, int]]) -> dict[str, int]:
        """Return the position of each partition at the task that read it, or else the furthest one.

        A position ``p`` is given as ``-1 - p``, which is that of no task yet: the others keep it as it is, while the
        task that reads the partition goes on, or begins again if the partition was created again.
        """
        merged: dict[str, int] = {}
        for state in states:
            for partition, position in state.items():
                known = merged.setdefault(partition, position)
                if position >= 0 or known < 0:
                    merged[partition] = max(position, known) if position >= 0 else min(position, known)
        return {partition: min(position, -1 - position) for partition, position in merged.items()}


def check_metadata(owner: str, source: LogSource, format: Format, metadata: Sequence[str]) -> list[str]:
    """Return the names of chosen metadata, checked. UsageError, naming ``owner``, for a name that is not there."""
    if isinstance(format, WithHeaders):
        raise UsageError(f"{owner}: WithHeaders is for queues; metadata names what {source.title} has of a message")
    names = [metadata] if isinstance(metadata, str) else metadata
    names = checked_names(owner, "metadata", names) if names not in ((), []) else []
    for name in names:
        if name not in source.metadata_fields:
            known = ", ".join(source.metadata_fields) or "none"
            raise UsageError(f"{owner}: metadata names {name!r}; what {source.title} has of a message is {known}")
        if name in format.fields:
            raise UsageError(f"{owner}: {name!r} is a field of the format already; rename it there")
    return names


def _trouble(error: Exception) -> str:
    """Return what is wrong with a source. The error of a file is not that of a connection."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"not available: {error}; the spout goes on trying"
    if isinstance(error, ReportedFailedException):  # of a source that answers
        return str(error)
    return f"no connection: {error}"
