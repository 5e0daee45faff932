"""The owners of topologies, as nimbus knows them: a worker's token names its topology and no user.

Asked only for a topology that is not known yet. An id belongs to one topology forever, and so to one owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import grpc

from tupletree._daemon.ttl_cache import TtlCache
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import UnavailableError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1.nimbus_pb2_grpc import NimbusStub

_CALL_S: Final = 5.0
_LIST_S: Final = 1.0
"""Nimbus is asked for its list at most this often, whatever unknown topologies connect."""


class TopologyOwners:
    """The owners of all topologies, read from the leader, which is found through any of ``seeds``."""

    def __init__(self, seeds: Sequence[str]) -> None:
        self._seeds = seeds
        self._owners: Mapping[str, str] = {}
        self._lists: TtlCache[None, Mapping[str, str]] = TtlCache(_LIST_S)

    async def owner(self, topology_id: str) -> str | None:
        """Return the owner of a topology; None if nimbus knows none. Raises UnavailableError if nimbus is away."""
        if topology_id not in self._owners:
            self._owners = await self._lists.get(None, self._list)
        return self._owners.get(topology_id)

    async def _list(self) -> Mapping[str, str]:
        reasons: list[str] = []
        for seed in self._seeds:
            try:
                leader = await self._leader(seed)
                if leader:
                    return await self._list_of(leader)
                reasons.append(f"nimbus at {seed} knows no leader")
            except grpc.aio.AioRpcError as error:
                reasons.append(str(from_rpc_error(error, f"nimbus at {seed}")))
        raise UnavailableError(f"the owners of topologies are unknown: {'; '.join(reasons) or 'set nimbus.seeds'}")

    async def _leader(self, seed: str) -> str:
        async with aio_channel(seed) as channel:
            return (await NimbusStub(channel).GetLeader(rpc.GetLeaderRequest(), timeout=_CALL_S)).address

    async def _list_of(self, leader: str) -> Mapping[str, str]:
        async with aio_channel(leader) as channel:
            reply = await NimbusStub(channel).ListTopologies(rpc.ListTopologiesRequest(), timeout=_CALL_S)
        return {one.record.id: one.record.owner for one in reply.topologies}
