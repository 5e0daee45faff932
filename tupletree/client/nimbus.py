"""Client of nimbus: finding the leader, submitting topologies, and every call on topologies and the cluster."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from tupletree._checkpoints.settings import SAVEPOINT, check_needs
from tupletree._limits import MAX_NAME, shown
from tupletree._rpc.status import from_rpc_error
from tupletree.client.blob_calls import BlobCalls
from tupletree.client.conf_calls import ConfCalls
from tupletree.client.requests import request_of, seconds
from tupletree.client.results.changes import Autoscaling
from tupletree.client.results.cluster import ClusterDescription, ClusterHealth, LedgerDescription
from tupletree.client.results.history import PastTopology
from tupletree.client.results.statistics import TopologyDescription
from tupletree.client.results.topology import LogLevel, TopologyRecord, TopologySummary
from tupletree.client.savepoints import SavepointCalls, carried
from tupletree.client.supervisors import SupervisorCalls
from tupletree.client.update_calls import UpdateCalls
from tupletree.client.upload import AnyPath, Progress, packed, warn_of_spouts
from tupletree.config import TopologyConf, defaults, merge, topology_part, validate
from tupletree.errors import ConfigError, UsageError
from tupletree.topology import Topology, check_topology_name
from tupletree.v1 import acker_pb2, acker_pb2_grpc, nimbus_pb2, nimbus_pb2_grpc, topology_pb2

_CALL_S: Final = 10.0
_RESTART_S: Final = 15.0


class NimbusClient(BlobCalls, ConfCalls, UpdateCalls, SavepointCalls, SupervisorCalls):
    """A connection to the cluster's leader.

    Args:
        seeds: addresses of nimbuses (``host`` or ``host:port``), as a comma-separated string or a list;
            None: ``nimbus.seeds`` of the configuration.
        conf: the configuration; None: the result of ``tupletree.config.load()``.
        leader_timeout_s: the time that a call waits while nimbuses answer but none leads, as after the loss of a
            leader. If no nimbus answers, a call raises UnavailableError at once.
    """

    def submit(
        self,
        name: str,
        topology: Topology,
        conf: TopologyConf | Mapping[str, Any] | None = None,
        code: Sequence[AnyPath] = (),
        *,
        requirements: AnyPath | None = None,
        inactive: bool = False,
        progress: Progress | None = None,
        from_savepoint: AnyPath | None = None,
        allow_lost_state: bool = False,
    ) -> str:
        """Upload a topology, start it, and return its topology id.

        Returns once the leader has the bundle on disk and the topology recorded; workers start after that. Warns of a
        spout that drops failed tuples: a spout that emits with ``msg_id`` and does not override ``fail``. Settings of
        ``conf`` override ``topology.conf``.

        Args:
            code: files and packages that the workers import. Classes of other local modules are pickled by value.
            requirements: a requirements.txt; the workers then run in a virtual environment with these packages.
            inactive: do not call ``next_tuple`` on any spout until ``activate``.
            from_savepoint: the directory or address of a savepoint: states and positions begin with it, instead of what
                is stored under the state id.
            allow_lost_state: the savepoint may have states that the topology does not have; they are left behind.

        Raises:
            NameInUseError: a topology with that name is alive.
            ConfigError: a key is unknown, has an invalid value, or belongs to the cluster; or a sink that writes with
                checkpoints needs a durable state provider, and neither the topology nor the cluster has one.
            TopologyError: a component cannot be pickled.
            UsageError: the name is invalid, a path does not exist, or the topology cannot begin with the savepoint.
            UnavailableError: there is no leader, or the leader was lost during the call. In the second case, ``list``
                shows whether the topology was accepted.
        """
        check_topology_name(name)
        settings = self._checked_settings(topology, conf or {})
        with contextlib.ExitStack() as stack:
            carried = None
            if from_savepoint is not None:
                carried = stack.enter_context(
                    self._carried(os.fspath(from_savepoint), topology, settings, allow_lost_state)
                )
            upload = stack.enter_context(packed(name, topology, settings, code, requirements, carried))
            upload.header.inactive = inactive
            requests = upload.requests(progress)
            reply = self._call(lambda stub: stub.Submit(requests, timeout=upload.timeout_s), retry=False)
        warn_of_spouts(topology)
        return reply.topology_id

    @contextlib.contextmanager
    def _carried(
        self, address: str, topology: Topology, settings: dict[str, Any], allow_lost_state: bool
    ) -> Iterator[Path]:
        """Yield a folder with the rows of a savepoint, and add it to the settings. Raises UsageError."""
        conf = {**merge(defaults(), self.configuration()), **settings}
        with carried(address, topology.outline(), conf, allow_lost=allow_lost_state) as (folder, id):
            settings[SAVEPOINT] = id
            yield folder

    def _checked_settings(self, topology: Topology, conf: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings to submit a topology with. Raises UsageError; ConfigError if one is wrong or missing."""
        if not isinstance(topology, Topology):
            raise UsageError(f"submit takes a Topology (from create_topology), not {type(topology).__name__}")
        settings = _checked_conf({**topology.conf, **conf})
        components = {one.id: one.component for one in topology.components.values()}
        try:
            check_needs(components, merge(defaults(), settings))
        except ConfigError:  # unless the cluster has what is missing
            check_needs(components, merge(self.configuration(), settings))
        return settings

    def kill(self, name: str, wait_secs: float | None = None) -> TopologyRecord:
        """Stop the spouts at once, and the topology when no tuple is in flight.

        The topology is stopped after ``wait_secs`` at the latest (None: the topology's message timeout).
        """
        request = request_of(nimbus_pb2.KillRequest, name=name, wait_s=seconds(wait_secs))
        return self._change(lambda stub: stub.Kill(request, timeout=_CALL_S))

    def activate(self, name: str) -> TopologyRecord:
        """Resume the spouts of a deactivated topology."""
        request = request_of(nimbus_pb2.ActivateRequest, name=name)
        return self._change(lambda stub: stub.Activate(request, timeout=_CALL_S))

    def deactivate(self, name: str) -> TopologyRecord:
        """Stop calling ``next_tuple``. Tuples in flight are still processed."""
        request = request_of(nimbus_pb2.DeactivateRequest, name=name)
        return self._change(lambda stub: stub.Deactivate(request, timeout=_CALL_S))

    def rebalance(
        self,
        name: str,
        wait_secs: float | None = None,
        workers: int | None = None,
        executors: Mapping[str, int] | None = None,
        tasks: Mapping[str, int] | None = None,
    ) -> TopologyRecord:
        """Change the workers, or the executors or tasks of components, and reassign the executors.

        First, spouts pause until no tuple is in flight, for at most ``wait_secs`` (None: the message timeout). A change
        of tasks replaces every worker, and divides the component's state anew (docs/guides/state.md).
        """
        for what, number in (("workers", workers), *(executors or {}).items(), *(tasks or {}).items()):
            if number is not None and (not isinstance(number, int) or number < 1):
                named = what if isinstance(what, str) and len(what) <= MAX_NAME else shown(what)
                raise UsageError(f"rebalance: {named} must be at least 1 and a whole number, not {shown(number)}")
        request = request_of(
            nimbus_pb2.RebalanceRequest,
            name=name,
            wait_s=seconds(wait_secs),
            workers=workers or 0,
            executors=executors or {},
            tasks=tasks or {},
        )
        return self._change(lambda stub: stub.Rebalance(request, timeout=_CALL_S))

    def autoscaling(self, name: str) -> Autoscaling:
        """Return what ``topology.autoscale`` comes to now, the next change and why. Changes nothing."""
        request = request_of(nimbus_pb2.DescribeAutoscalingRequest, name=name)
        return Autoscaling.of(self._call(lambda stub: stub.DescribeAutoscaling(request, timeout=_CALL_S)))

    def set_log_levels(
        self, name: str, levels: Mapping[str, LogLevel | topology_pb2.LogLevel], remove: Sequence[str] = ()
    ) -> TopologyRecord:
        """Set levels of loggers in a topology's workers, and restore the loggers in ``remove``.

        "" is the root logger. A level with ``until_unix_s`` expires at that time.
        """
        if not isinstance(levels, Mapping):
            raise UsageError(f"set_log_levels: levels is a mapping of loggers to LogLevel, not {shown(levels)}")
        messages = {logger: _level_message(level) for logger, level in levels.items()}
        request = request_of(nimbus_pb2.SetLogLevelsRequest, name=name, levels=messages, remove=remove)
        return self._change(lambda stub: stub.SetLogLevels(request, timeout=_CALL_S))

    def set_sampling(self, name: str, component: str, percent: float, until_unix_s: float = 0.0) -> TopologyRecord:
        """Log a percentage of the tuples that a component ("": every component) emits in its workers' events.jsonl."""
        request = request_of(
            nimbus_pb2.SetSamplingRequest, name=name, component=component, percent=percent, until_unix_s=until_unix_s
        )
        return self._change(lambda stub: stub.SetSampling(request, timeout=_CALL_S))

    def set_tracing(self, name: str, one_in: int, until_unix_s: float = 0.0) -> TopologyRecord:
        """Trace one in ``one_in`` tuple trees hop by hop in the workers' events.jsonl; 0: none."""
        request = request_of(nimbus_pb2.SetTracingRequest, name=name, one_in=one_in, until_unix_s=until_unix_s)
        return self._change(lambda stub: stub.SetTracing(request, timeout=_CALL_S))

    def restart_worker(self, name: str, host: str, port: int) -> None:
        """Kill the process of one worker of a topology; the supervisor starts a new process."""
        request = request_of(nimbus_pb2.RestartTopologyWorkerRequest, name=name, host=host, port=port)
        self._call(lambda stub: stub.RestartWorker(request, timeout=_RESTART_S), retry=False)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of the leading nimbus, with secrets replaced by asterisks."""
        request = nimbus_pb2.GetConfigurationRequest()
        reply = self._call(lambda stub: stub.GetConfiguration(request, timeout=_CALL_S))
        return dict(json.loads(reply.conf_json))

    def list(self) -> tuple[TopologySummary, ...]:
        """Return all topologies that still exist, sorted by name."""
        request = nimbus_pb2.ListTopologiesRequest()
        reply = self._call(lambda stub: stub.ListTopologies(request, timeout=_CALL_S))
        return tuple(sorted(map(TopologySummary.of, reply.topologies), key=lambda summary: summary.record.name))

    def describe(self, name: str) -> TopologyDescription:
        """Return everything the leader knows about one topology. Raises NotFoundError."""
        request = request_of(nimbus_pb2.DescribeTopologyRequest, name=name)
        return TopologyDescription.of(self._call(lambda stub: stub.DescribeTopology(request, timeout=_CALL_S)))

    def history(self, name: str | None = None) -> tuple[PastTopology, ...]:
        """Return the topologies that were removed and are remembered, the last one first.

        Without a name, all of them, without errors, components and workers. With a name or id: those that have it, in
        full, the last 20 at most. Raises NotFoundError if none has the name.
        """
        request = request_of(nimbus_pb2.ListPastTopologiesRequest, name=name or "")
        reply = self._call(lambda stub: stub.ListPastTopologies(request, timeout=_CALL_S))
        return tuple(map(PastTopology.of, reply.topologies))

    def cluster(self) -> ClusterDescription:
        """Return the daemons of the cluster and its used slots."""
        request = nimbus_pb2.DescribeClusterRequest()
        return ClusterDescription.of(self._call(lambda stub: stub.DescribeCluster(request, timeout=_CALL_S)))

    def health(self) -> ClusterHealth:
        """Return the leader's verdict on the cluster's health, with reasons."""
        request = nimbus_pb2.DescribeHealthRequest()
        return ClusterHealth.of(self._call(lambda stub: stub.DescribeHealth(request, timeout=_CALL_S)))

    def ledger(self, address: str) -> LedgerDescription:
        """Return the ledger contents of one acker service, by shard. Raises UnavailableError."""
        stub = acker_pb2_grpc.AckerStub(self._channel(address))
        try:
            return LedgerDescription.of(stub.DescribeLedger(acker_pb2.DescribeLedgerRequest(), timeout=5.0))
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"acker at {address}") from None

    def _change(self, invoke: Callable[[nimbus_pb2_grpc.NimbusStub], nimbus_pb2.TopologyReply]) -> TopologyRecord:
        return TopologyRecord.of(self._call(invoke).record)


def _checked_conf(conf: Mapping[str, Any]) -> dict[str, Any]:
    validate(conf)
    own = topology_part(conf)
    for name in conf:
        if name not in own:
            raise ConfigError(f"configuration key '{name}' belongs to the cluster; a topology cannot set it")
    return own


def _level_message(level: LogLevel | topology_pb2.LogLevel) -> topology_pb2.LogLevel:
    if not isinstance(level, LogLevel):
        return level
    return request_of(
        topology_pb2.LogLevel, level=level.level, reset_level=level.reset_level, until_unix_s=level.until_unix_s
    )
