"""LinearDRPCTopologyBuilder: a chain of bolts that answers requests.

spout --> bolt-0 --> bolt-1 --> … --> return        each bolt reports the tuples of a request that it has sent
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

from tupletree._signatures import check_calls
from tupletree.component import BasicBolt
from tupletree.declarer import BoltDeclarer
from tupletree.drpc.local import LocalDRPC
from tupletree.drpc.request_bolt import REPORT, REQUEST, RequestBolt
from tupletree.drpc.return_results import ReturnResults
from tupletree.drpc.spout import DRPCSpout
from tupletree.errors import TopologyError
from tupletree.grouping import CustomGrouping
from tupletree.outputs import DEFAULT_STREAM
from tupletree.topology import Topology, TopologyBuilder
from tupletree.transactional.attempt_field import GroupingWithoutAttempt
from tupletree.transactional.bolts import BatchBolt

_SPOUT, _RETURN = "spout", "return"


class _LinearSpout(DRPCSpout):
    outputs = [REQUEST, "args"]

    def _row(self, args: Any, info: str) -> list[Any]:
        return [info, args]


class _LinearReturn(ReturnResults):
    _result, _info = 1, 0


class LinearDeclarer:
    """Settings and input of one bolt; its input comes from the bolt before it. Without a grouping: shuffled."""

    def __init__(self, bolt: BatchBolt | BasicBolt, parallelism: int) -> None:
        self.bolt = bolt
        self.parallelism = parallelism
        self.conf: dict[str, Any] = {}
        self.groupings: list[tuple[str, tuple[Any, ...], str]] = []

    def shuffle_grouping(self, stream: str = DEFAULT_STREAM) -> Self:
        """Distribute tuples evenly."""
        return self._add("shuffle_grouping", (), stream)

    def local_or_shuffle_grouping(self, stream: str = DEFAULT_STREAM) -> Self:
        """Distribute tuples evenly, among tasks of the same worker if there are any."""
        return self._add("local_or_shuffle_grouping", (), stream)

    def fields_grouping(self, fields: str | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send tuples with equal values of these fields to one task. By "request": all tuples of a request."""
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        return self._add("fields_grouping", (list(names),), stream)

    def partial_key_grouping(self, fields: str | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send tuples with equal values of these fields to one of two tasks."""
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        return self._add("partial_key_grouping", (list(names),), stream)

    def all_grouping(self, stream: str = DEFAULT_STREAM) -> Self:
        """Send each tuple to all tasks."""
        return self._add("all_grouping", (), stream)

    def global_grouping(self, stream: str = DEFAULT_STREAM) -> Self:
        """Send all tuples to one task."""
        return self._add("global_grouping", (), stream)

    def none_grouping(self, stream: str = DEFAULT_STREAM) -> Self:
        """Distribute tuples evenly, as ``shuffle_grouping``."""
        return self._add("none_grouping", (), stream)

    def custom_grouping(self, grouping: CustomGrouping, stream: str = DEFAULT_STREAM) -> Self:
        """Send tuples to the tasks that a grouping of yours chooses."""
        return self._add("custom_grouping", (GroupingWithoutAttempt(grouping),), stream)

    def set_num_tasks(self, tasks: int) -> Self:
        """Set the number of tasks."""
        return self.add_configuration("topology.tasks", tasks)

    def add_configuration(self, key: str, value: Any) -> Self:
        """Set one key of the bolt's own configuration."""
        self.conf[key] = value
        return self

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.conf.get("topology.tasks") or self.parallelism)

    @property
    def report_grouping(self) -> tuple[str, tuple[Any, ...]]:
        """The grouping by which reports come: to all tasks, or to the only one that gets tuples of a request."""
        kinds = [(name, arguments) for name, arguments, _ in self.groupings]
        for one in (("global_grouping", ()), ("fields_grouping", ([REQUEST],))):
            if kinds and all(kind == one for kind in kinds):
                return one
        return "all_grouping", ()

    def _add(self, name: str, arguments: tuple[Any, ...], stream: str) -> Self:
        self.groupings.append((name, arguments, stream))
        return self


class LinearDRPCTopologyBuilder:
    """Builds a topology that answers the requests of one function by a chain of bolts.

        builder = LinearDRPCTopologyBuilder("reach")
        builder.add_bolt(GetTweeters(), 4)                                      # gets a tuple with the field "args"
        builder.add_bolt(GetFollowers(), 12).shuffle_grouping()
        builder.add_bolt(PartialUniquer(), 6).fields_grouping("follower")
        builder.add_bolt(CountAggregator(), 3).fields_grouping("request")       # one task for all tuples of a request
        topology = builder.create_topology()

    A bolt is a BasicBolt, or a BatchBolt: one instance per request and task, whose ``finish_batch`` is called when all
    tuples of the request have arrived at the task, and whose ``batch_id`` is the text that names the request. Unlike in
    Storm, rows do not begin with the request's id: it is carried for them. The last bolt declares one field, the
    result, and emits one row for each request. A ``FailedException`` fails the request; its text reaches the caller.

    Args:
        function: the name under which callers execute the function.
        settings: those of DRPCSpout: ``answers``, ``max_in_flight``, ``servers``.
    """

    def __init__(self, function: str, **settings: Any) -> None:
        self.function = function
        self._settings = settings
        self._bolts: list[LinearDeclarer] = []
        DRPCSpout(function, **settings)  # raises UsageError now

    def add_bolt(self, bolt: BatchBolt | BasicBolt, parallelism: int = 1) -> LinearDeclarer:
        """Add the next bolt of the chain.

        Raises:
            TopologyError: the bolt is neither a BatchBolt nor a BasicBolt, or a method has a wrong signature.
        """
        id = f"bolt-{len(self._bolts)}"
        if not isinstance(bolt, BatchBolt | BasicBolt):
            what = f"the class {bolt.__name__}" if isinstance(bolt, type) else type(bolt).__name__
            fault = f"a bolt of a linear DRPC topology must be a BatchBolt or a BasicBolt, not {what}"
            raise TopologyError(f"component '{id}': {fault}", component=id, field="component")
        check_calls(f"bolt '{id}'", id, bolt)
        declarer = LinearDeclarer(bolt, parallelism)
        self._bolts.append(declarer)
        return declarer

    def create_local_topology(self, drpc: LocalDRPC) -> Topology:
        """Create a topology whose requests come from a LocalDRPC."""
        return self.create_topology(drpc)

    def create_topology(self, drpc: LocalDRPC | None = None) -> Topology:
        """Create the topology. Raises TopologyError as ``TopologyBuilder.create_topology``."""
        if not self._bolts:
            raise TopologyError("the linear DRPC topology has no bolt; add one with add_bolt")
        builder = TopologyBuilder()
        builder.set_spout(_SPOUT, _LinearSpout(self.function, drpc=drpc, **self._settings))
        upstream, is_one = _SPOUT, True
        for number, declarer in enumerate(self._bolts):
            id = f"bolt-{number}"
            bolt = RequestBolt(copy.copy(declarer.bolt), is_first=number == 0, upstream=upstream)
            bolt.is_last = number == len(self._bolts) - 1
            bolt.expects_one = is_one
            placed = builder.set_bolt(id, bolt, declarer.parallelism).add_configurations(declarer.conf)
            is_one = self._connect(placed, declarer, upstream, number)
            upstream = id
        fields = builder._components[upstream].outputs.get(DEFAULT_STREAM)
        if fields is None or len(fields.fields) != 2:
            fault = "the last bolt of a linear DRPC topology must declare one field on its default stream: the result"
            raise TopologyError(f"component '{upstream}': {fault}", component=upstream, field="outputs")
        builder.set_bolt(_RETURN, _LinearReturn()).local_or_shuffle_grouping(upstream)
        return builder.create_topology()

    def _connect(self, placed: BoltDeclarer, declarer: LinearDeclarer, upstream: str, number: int) -> bool:
        """Subscribe a bolt to the bolt before it; return true if one task alone takes part in each request."""
        groupings = declarer.groupings or [("shuffle_grouping", (), DEFAULT_STREAM)]
        for name, arguments, stream in groupings:
            getattr(placed, name)(upstream, *arguments, stream=stream)
        if number == 0:
            if len(groupings) > 1:
                fault = "the first bolt of a linear DRPC topology gets its requests by one grouping"
                raise TopologyError(f"component 'bolt-0': {fault}", component="bolt-0", field="inputs")
            return groupings[0][0] != "all_grouping" or declarer.tasks == 1
        name, arguments = declarer.report_grouping
        getattr(placed, name)(upstream, *arguments, stream=REPORT.id)
        return name != "all_grouping" or declarer.tasks == 1
