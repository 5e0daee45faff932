"""Unit tests of one bolt, without a topology: making tuples, and running the bolt on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import GeneratorType
from typing import Any

from tupletree import config
from tupletree._signatures import check_calls, check_returned
from tupletree.async_bolt import AsyncBolt
from tupletree.batching_bolt import BatchingBolt
from tupletree.component import BasicBolt, BasicStatefulBolt, Bolt, StatefulBolt, TopologyContext, configuration_of
from tupletree.config import TopologyConf
from tupletree.errors import FailedException, UsageError
from tupletree.outputs import DEFAULT_STREAM, FieldsDeclarer
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.testing.recorder import Recorder
from tupletree.tuples import SYSTEM_COMPONENT, TICK_STREAM, Origin, Tuple


def make_tuple(
    values: Mapping[str, Any] | Sequence[Any],
    fields: Sequence[str] | None = None,
    *,
    component: str = "test",
    task: int = 1,
    stream: str = DEFAULT_STREAM,
) -> Tuple:
    """Return a tuple as a bolt receives it: ``make_tuple({"word": "a"})`` or ``make_tuple(["a"], ["word"])``.

    The tuple is not part of any tree.

    Raises:
        UsageError: values are a sequence and fields are missing, or their numbers differ.
    """
    if isinstance(values, Mapping):
        fields, values = list(values), list(values.values())
    if fields is None or isinstance(values, str | bytes):
        raise UsageError("make_tuple takes a dict, or a list of values and a list of fields")
    if len(values) != len(fields):
        raise UsageError(f"make_tuple got {len(values)} values for {len(fields)} fields: {', '.join(fields)}")
    return Tuple(list(values), 0, 0, Origin(component, task, stream, fields))


def make_tick(interval_s: float = 1) -> Tuple:
    """Return a tick tuple."""
    return make_tuple([interval_s], ["interval_s"], component=SYSTEM_COMPONENT, task=-1, stream=TICK_STREAM)


def run_bolt(
    bolt: Bolt | BasicBolt,
    tuples: Iterable[Tuple | Mapping[str, Any]],
    conf: TopologyConf | Mapping[str, Any] | None = None,
) -> Recorder:
    """Run a bolt on tuples, outside a topology, and return what it emitted, acked and failed.

        assert run_bolt(Split(), [{"line": "to be"}]).rows() == [["to"], ["be"]]

    ``prepare`` and ``setup`` are called first, ``init_state`` with an empty state, then ``execute`` or
    ``execute_batch``, or ``tick`` for a tick, and ``teardown`` and ``cleanup`` at the end. A dict becomes a tuple with
    its fields. The clock stands still. A BatchingBolt gets ``max_batch`` tuples at a time, and at a tick the
    tuples gathered so far.
    ``conf``: overrides of the default configuration.

    Raises:
        UsageError: the bolt is an AsyncBolt, which needs an event loop: use complete_topology.
        UnregisteredTypeError: the bolt emits a value that cannot travel between workers.
        TopologyError: a topology refuses the bolt, or ends, for the arguments or the result of a method.
        Exception: what the bolt raises, except FailedException, which fails the tuple.
    """
    if isinstance(bolt, AsyncBolt):
        raise UsageError(f"{type(bolt).__name__} runs on an event loop: test it with complete_topology")
    if not isinstance(bolt, Bolt | BasicBolt):
        raise UsageError(f"run_bolt takes an object of a Bolt or BasicBolt, not {bolt!r}")
    check_calls("bolt 'test'", "test", bolt)
    declarer = FieldsDeclarer("test")
    bolt.declare_output_fields(declarer)
    recorder = Recorder("test", {stream.id: stream.fields for stream in declarer.streams.values()})
    context = _context({**config.defaults(), **configuration_of(bolt), **(conf or {})})
    bolt.context = context
    if isinstance(bolt, BasicBolt):
        bolt.collector = recorder.basic_collector
        bolt.prepare(context.conf, context)
    else:
        bolt.collector = recorder.bolt_collector
        bolt.prepare(context.conf, context, recorder.bolt_collector)
    bolt.setup()
    if isinstance(bolt, StatefulBolt):
        state: BufferedState[Any, Any] = BufferedState("test", MemoryBackend("test", Namespace()))
        state.default_factory = bolt.default_factory
        bolt.init_state(state)
    made = [given if isinstance(given, Tuple) else make_tuple(given) for given in tuples]
    for batch in _gathered(made, bolt.max_batch) if isinstance(bolt, BatchingBolt) else [[tup] for tup in made]:
        _execute(bolt, batch, recorder)
    bolt.teardown()
    bolt.cleanup()
    return recorder


def _context(conf: Mapping[str, Any]) -> TopologyContext:
    context = TopologyContext(
        topology_id="test", component_id="test", task_id=1, tasks={"test": [1]}, sources={}, targets={}, conf=conf
    )
    context.clock = context.unix_clock = lambda: 0.0
    return context


def _gathered(tuples: Iterable[Tuple], most: int) -> list[list[Tuple]]:
    """Return the batches of a BatchingBolt, which a tick ends."""
    batches: list[list[Tuple]] = [[]]
    for tup in tuples:
        if tup.is_tick or len(batches[-1]) == most:
            batches.append([])
        if not tup.is_tick:
            batches[-1].append(tup)
    return [batch for batch in batches if batch]


def _execute(bolt: Bolt | BasicBolt, batch: list[Tuple], recorder: Recorder) -> None:
    """Execute a tuple or a batch. For a bolt that anchors and acks automatically, anchor emits and ack the tuples."""
    tup = batch[0]
    is_basic = isinstance(bolt, BasicBolt | BasicStatefulBolt | BatchingBolt) and not tup.is_tick
    recorder.anchors = batch if is_basic else ()
    failed = len(recorder.failed)
    try:
        method, rows = _call(bolt, batch, recorder)
        if isinstance(rows, GeneratorType):
            for row in rows:
                recorder.record(row, DEFAULT_STREAM, None if is_basic or tup.is_tick else tup, None, None)
        else:
            check_returned("test", bolt, method, rows)
    except FailedException:
        recorder.failed += [one for one in batch if one not in recorder.failed[failed:]]
    if is_basic:
        recorder.acked += [one for one in batch if one not in recorder.failed[failed:]]
    recorder.anchors = ()


def _call(bolt: Bolt | BasicBolt, batch: list[Tuple], recorder: Recorder) -> tuple[str, Any]:
    """Call the bolt's method for a tuple or a batch. Return the name of the method, and what it returned."""
    if batch[0].is_tick and type(bolt).tick not in (Bolt.tick, BasicBolt.tick):
        return "tick", bolt.tick()
    if isinstance(bolt, BasicBolt):
        return "execute", bolt.execute(batch[0], recorder.basic_collector)
    execute: Any = bolt.execute
    execute_batch: Any = bolt.execute_batch
    if type(bolt).execute_batch is Bolt.execute_batch:
        return "execute", execute(batch[0])
    return "execute_batch", execute_batch(batch)
