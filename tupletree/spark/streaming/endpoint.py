"""The topology's end of an exchange: how a component publishes its exchange directory, and how Spark finds it.

A component that exports or ingests has the key ``tupletree-exchange`` in its own configuration. Nimbus returns this
configuration when it describes the topology, so Spark needs only the topology's name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.types import StructType

from tupletree.errors import UsageError
from tupletree.spark.streaming.ddl import parse_schema

CONF_KEY = "tupletree-exchange"
EXPORT = "export"
INGEST = "ingest"
_VERBS = {EXPORT: "exports", INGEST: "ingests"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of an exchange.

    ``side``: EXPORT or INGEST. ``schema``: as JSON. ``stream``: the topology's public name for the stream.
    """

    side: str
    directory: str
    schema: str
    stream: str = "default"

    @staticmethod
    def of(side: str, directory: str | os.PathLike[str], schema: str | StructType, stream: str) -> Endpoint:
        """Return an endpoint from checked arguments. Raises UsageError."""
        if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
            raise UsageError(f"the directory of an exchange is {directory!r}; a path was expected")
        if not isinstance(stream, str) or not stream:
            raise UsageError(f"the stream of an exchange is {stream!r}; a name was expected")
        return Endpoint(side, os.path.abspath(directory), parse_schema(schema).json(), stream)

    def configuration(self) -> dict[str, Any]:
        """Return the endpoint as an entry of the component's configuration."""
        return {CONF_KEY: asdict(self)}

    def columns(self) -> StructType:
        """Return the columns."""
        return StructType.fromJson(json.loads(self.schema))


def endpoint(topology: str, components: Iterable[Mapping[str, Any]], side: str, stream: str | None) -> Endpoint:
    """Find an endpoint in the configurations of a topology's components.

    Raises:
        UsageError: no endpoint matches, or several do.
    """
    found = [Endpoint(**conf[CONF_KEY]) for conf in components if CONF_KEY in conf]
    found = [end for end in found if end.side == side]
    verb = _VERBS[side]
    if not found:
        raise UsageError(f"topology '{topology}' {verb} no stream")
    named = [end for end in found if stream is None or end.stream == stream]
    streams = ", ".join(sorted(f"'{end.stream}'" for end in found))
    if not named:
        raise UsageError(f"topology '{topology}' {verb} no stream '{stream}'; it {verb} {streams}")
    if len(named) > 1:
        raise UsageError(f"topology '{topology}' {verb} {streams}: option 'stream' must name exactly one of them")
    return named[0]
