"""Lookup of an exchange directory, by the options of a query or the name of its topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from tupletree.client import NimbusClient, TopologyStatus
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.streaming.directory import ExchangeDirectory
from tupletree.spark.streaming.endpoint import Endpoint, endpoint

PATH = "path"
TOPOLOGY = "topology"
STREAM = "stream"
NIMBUS = "nimbus"


@dataclass(frozen=True, slots=True)
class Place:
    """An exchange directory and its columns. The columns are None if nothing has been written yet."""

    directory: str
    columns: StructType | None


def find(options: Mapping[str, str], side: str) -> Place:
    """Return the exchange named by ``path``, or by ``topology`` and, if the topology has several, ``stream``.

    ``nimbus``: the address of a nimbus, if the configuration has none.

    Raises:
        UsageError: the options do not name an exchange, the topology does not exist or is being killed, or it has no
            such stream.
        UnavailableError: no nimbus answers.
    """
    path, topology = options.get(PATH), options.get(TOPOLOGY)
    if bool(path) == bool(topology):
        raise UsageError("exactly one option is needed: 'topology', the name of a topology, or 'path', a directory")
    if path:
        about = ExchangeDirectory(path).about()
        return Place(path, None if about is None else about.columns())
    key = (str(topology), side, options.get(STREAM), options.get(NIMBUS))
    try:
        found = _last[key] = _ask(*key)
    except UnavailableError:  # a running query survives an unavailable nimbus
        if key not in _last:
            raise
        found = _last[key]
    return Place(found.directory, found.columns())


_last: dict[tuple[str, str, str | None, str | None], Endpoint] = {}
"""The last answers of nimbus in this process."""


def _ask(topology: str, side: str, stream: str | None, nimbus: str | None) -> Endpoint:
    with NimbusClient(nimbus) as client:
        reply = client.describe(topology)
    if reply.summary.record.status == TopologyStatus.KILLED:
        raise UsageError(f"topology '{topology}' is being killed")
    configurations = [component.conf for component in reply.spec.components]
    return endpoint(topology, configurations, side, stream)
