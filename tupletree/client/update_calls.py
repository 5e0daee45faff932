"""Client calls to nimbus that give a running topology other code, and its earlier code back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree.client.leader import LeaderCalls
from tupletree.client.requests import request_of, seconds
from tupletree.client.results.changes import TopologyUpdate
from tupletree.client.results.topology import TopologyRecord
from tupletree.client.upload import AnyPath, Progress, packed, warn_of_spouts
from tupletree.config import TopologyConf
from tupletree.topology import Topology, check_topology_name
from tupletree.v1 import nimbus_pb2

_CALL_S: Final = 10.0


class UpdateCalls(LeaderCalls):
    """The part of ``NimbusClient`` that updates topologies."""

    def _checked_settings(self, topology: Topology, conf: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def update(
        self,
        name: str,
        topology: Topology,
        conf: TopologyConf | Mapping[str, Any] | None = None,
        code: Sequence[AnyPath] = (),
        *,
        requirements: AnyPath | None = None,
        wait_secs: float | None = None,
        drop_states: Sequence[str] = (),
        only_check: bool = False,
        progress: Progress | None = None,
    ) -> TopologyUpdate:
        """Let a running topology go on with other code, with its states and positions.

        Returns when the leader has the bundle and the update recorded. Spouts then pause until no tuple is in flight,
        for at most ``wait_secs`` (None: the message timeout), and new workers take the place of the old ones. If one of
        them cannot start, the topology goes back to what ran before, and its errors say why. ``describe`` shows which
        version runs; its record's ``trial_began_unix_s`` is 0 when the update holds.

        Workers, executors, tasks and keys of the configuration that were changed since the submission stay as they are,
        unless the update changes them itself.

        Args:
            code, requirements: as for ``submit``.
            drop_states: stateful components that the update may leave out; their states are discarded.
            only_check: change nothing.

        Raises:
            NotFoundError: there is no topology with that name.
            UsageError: the topology cannot go on with this one, or is being updated or rebalanced; nothing is changed.
            ConfigError, TopologyError, UnavailableError: as ``submit``.
        """
        check_topology_name(name)
        settings = self._checked_settings(topology, conf or {})
        with packed(name, topology, settings, code, requirements) as upload:
            upload.header.only_check = only_check
            upload.header.drop_states.extend(drop_states)
            wait_s = seconds(wait_secs)
            if wait_s is not None:
                upload.header.wait_s = wait_s
            requests = upload.requests(progress)
            reply = self._call(lambda stub: stub.Update(requests, timeout=upload.timeout_s), retry=False)
        warn_of_spouts(topology)
        return TopologyUpdate.of(reply)

    def rollback(self, name: str, wait_secs: float | None = None) -> TopologyRecord:
        """Let a topology go back to what ran before its last update or rollback; its states and positions stay.

        An update that still waits for tuples in flight is withdrawn: nothing is pending in the record then.

        Raises:
            NotFoundError: there is no topology with that name.
            UsageError: the topology was never updated, or is being rebalanced.
            UnavailableError: there is no leader, or the leader was lost during the call. In the second case,
                ``describe`` shows whether the topology goes back.
        """
        request = request_of(nimbus_pb2.RollbackRequest, name=name, wait_s=seconds(wait_secs))
        # Not repeated: a second rollback would undo the first.
        reply = self._call(lambda stub: stub.Rollback(request, timeout=_CALL_S), retry=False)
        return TopologyRecord.of(reply.record)
