"""Client call to nimbus that changes the configuration of a running topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tupletree._limits import shown
from tupletree.client.requests import request_of, seconds
from tupletree.client.results.topology import TopologyRecord
from tupletree.config import TopologyConf, encode_conf
from tupletree.config.changes import check_changeable
from tupletree.errors import UsageError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

_CALL_S: Final = 10.0


class ConfCalls:
    """The part of ``NimbusClient`` that changes configurations."""

    def _change(self, invoke: Callable[[nimbus_pb2_grpc.NimbusStub], nimbus_pb2.TopologyReply]) -> TopologyRecord:
        raise NotImplementedError

    def set_conf(
        self,
        name: str,
        conf: TopologyConf | Mapping[str, Any] | None = None,
        remove: Sequence[str] = (),
        wait_secs: float | None = None,
    ) -> TopologyRecord:
        """Change keys of a running topology's configuration; the keys in ``remove`` get their values at submission.

        Running workers adopt some keys within a second or two. For the other keys the workers are restarted: first,
        spouts pause until no tuple is in flight, for at most ``wait_secs`` (None: the message timeout). The record that
        is returned is then rebalancing, and ``pending.conf`` has these keys. The values outlive workers and nimbuses.

        Raises:
            ConfigError: a key is unknown or cannot be changed, or a value is invalid; nothing is changed.
            NotFoundError: there is no topology with that name.
        """
        if not isinstance(conf or {}, Mapping):
            raise UsageError(f"set_conf: conf is a mapping of keys to values, not {shown(conf)}")
        if isinstance(remove, str) or not all(isinstance(key, str) for key in remove):
            raise UsageError(f"set_conf: remove is a sequence of keys, not {shown(remove)}")
        check_changeable(conf or {}, remove)
        text, wait_s = encode_conf(conf or {}), seconds(wait_secs)
        request = request_of(nimbus_pb2.SetConfRequest, name=name, conf_json=text, remove=remove, wait_s=wait_s)
        return self._change(lambda stub: stub.SetConf(request, timeout=_CALL_S))
