"""Calls to the leading nimbus: the leader is found through any seed, and found again when it is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc

from tupletree._address import is_address, with_port
from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree._security.current import Security
from tupletree.config import load
from tupletree.errors import AuthorityError, ConfigError, ForbiddenError, NoNimbusError, UnavailableError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

_Reply = TypeVar("_Reply")

_GET_LEADER_S: Final = 2.0
_PAUSE_S: Final = 0.2


class LeaderCalls:
    """A connection to the cluster's leader. The arguments are those of NimbusClient. Thread-safe."""

    def __init__(
        self,
        seeds: str | Sequence[str] | None = None,
        conf: Mapping[str, Any] | None = None,
        *,
        leader_timeout_s: float = 30.0,
    ) -> None:
        if conf is None or "nimbus.seeds" not in conf:
            conf = {**load(), **(conf or {})}
        named = conf["nimbus.seeds"] if seeds is None else seeds
        if isinstance(named, str):
            named = [part.strip() for part in named.split(",") if part.strip()]
        if not named:
            raise ConfigError("there is no nimbus to connect to: pass seeds, or set nimbus.seeds")
        for seed in named:
            if not is_address(seed):
                raise ConfigError(
                    f"'{seed}' is not the address of a nimbus: HOST or HOST:PORT was expected, such as node7:6627"
                )
        port = int(conf.get("nimbus.port") or 6627)
        self.seeds = [with_port(seed, port) for seed in named]
        self._security = Security.of_client(conf)
        self._leader_timeout_s = leader_timeout_s
        self._leader: str | None = None
        self._channels: dict[str, grpc.Channel] = {}
        self._lock = threading.Lock()

    @property
    def security(self) -> Security:
        """The encryption and the identity that this client uses towards the cluster."""
        return self._security

    def leader(self) -> str:
        """Return the address of the leading nimbus, without using the cached address. Raises UnavailableError."""
        self._leader = None
        return self._find_leader(time.monotonic() + self._leader_timeout_s)

    def close(self) -> None:
        """Close all connections. A later call opens new connections."""
        with self._lock:
            channels, self._channels = self._channels, {}
        for open_channel in channels.values():
            open_channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            if address not in self._channels:
                self._channels[address] = channel(address, self._security)
            return self._channels[address]

    def _call(self, invoke: Callable[[nimbus_pb2_grpc.NimbusStub], _Reply], retry: bool = True) -> _Reply:
        """Call the leader. If the leader is gone or deposed, find the next and retry, until the leader timeout."""
        deadline = time.monotonic() + self._leader_timeout_s
        while True:
            address = self._find_leader(deadline)
            try:
                return invoke(nimbus_pb2_grpc.NimbusStub(self._channel(address)))
            except grpc.RpcError as rpc_error:
                error = from_rpc_error(rpc_error, f"nimbus at {address}")
            self._leader = None
            passing = isinstance(error, UnavailableError | AuthorityError)
            if not retry or not passing or time.monotonic() >= deadline:
                raise error
            time.sleep(_PAUSE_S)

    def _find_leader(self, deadline: float) -> str:
        if self._leader is not None:
            return self._leader
        while True:
            reasons: list[str] = []
            answered = False
            for seed in self.seeds:
                address = seed
                try:
                    leader = self._get_leader(seed)
                    answered = True
                    if leader.address and not leader.is_me:
                        # The seed may name a leader that has just died: ask the leader itself.
                        address = leader.address
                        leader = self._get_leader(address)
                except grpc.RpcError as error:
                    fault = from_rpc_error(error, f"nimbus at {address}")
                    if isinstance(fault, ForbiddenError):
                        raise fault from None
                    reasons.append(str(fault))
                    continue
                if leader.is_me:
                    self._leader = address
                    return address
                reasons.append(f"nimbus at {address} answers and does not lead (GET /readyz of its HTTP port says why)")
            why = "; ".join(dict.fromkeys(reasons))
            if not answered:
                raise NoNimbusError(why)
            if time.monotonic() >= deadline:
                raise UnavailableError(f"no nimbus leads; see 'tupletree health': {why}")
            time.sleep(_PAUSE_S)

    def _get_leader(self, address: str) -> nimbus_pb2.GetLeaderReply:
        stub = nimbus_pb2_grpc.NimbusStub(self._channel(address))
        return stub.GetLeader(nimbus_pb2.GetLeaderRequest(), timeout=_GET_LEADER_S)
