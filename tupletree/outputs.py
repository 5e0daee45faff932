"""Declaration of a component's output streams.

Four ways to declare streams::

    outputs = ["word"]                                            # the fields of the default stream
    outputs = Sale                                                # a NamedTuple or dataclass: its fields
    outputs = {"default": ["word"], "commands": direct(["cmd"])}    # several streams, one of them direct
    def declare_output_fields(self, declarer):                    # in code
        declarer.declare(["word"])
        declarer.declare_stream("commands", ["cmd"], direct=True)
"""

from __future__ import annotations  # pure

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tupletree._limits import name_fault
from tupletree.errors import TopologyError
from tupletree.tuples import record_fields

Fields = Sequence[str] | type
"""The names of fields, or a NamedTuple or dataclass that has them."""

DEFAULT_STREAM = "default"
RESERVED_PREFIXES = ("__", "$")
REPORT_STREAM = "$report"
"""Internal stream on which tasks of a transactional topology report how many tuples of a batch they sent."""

PROGRESS_STREAM = "watermarks"
"""Stream on which tasks of a program of streams tell how far event time has come. Declared last, and sent last."""

CHECKPOINT_STREAM = "$checkpoint"
"""Internal stream that carries the steps of a checkpoint through a stateful topology."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One output stream of a component: its fields in order, and whether the emitter names the receiving task."""

    id: str
    fields: tuple[str, ...]
    direct: bool = False
    record: type | None = dataclasses.field(default=None, compare=False)
    """The NamedTuple or dataclass that the fields were taken from, if any."""


@dataclass(frozen=True, slots=True)
class DirectFields:
    """The fields of a direct stream, in an ``outputs`` dict. Made by ``direct``."""

    fields: Sequence[str]


def direct(fields: Sequence[str]) -> DirectFields:
    """Mark a stream in an ``outputs`` dict as direct: its tuples are emitted by ``emit_direct`` only."""
    return DirectFields(fields)


class FieldsDeclarer:
    """The argument of ``declare_output_fields``. Collects streams; every mistake raises a TopologyError at once."""

    def __init__(self, component_id: str) -> None:
        self.component_id = component_id
        self.streams: dict[str, Stream] = {}

    def declare(self, fields: Fields, direct: bool = False) -> None:
        """Declare the fields of the default stream."""
        self.declare_stream(DEFAULT_STREAM, fields, direct=direct)

    def declare_stream(self, stream: str, fields: Fields, direct: bool = False) -> None:
        """Declare a stream and its fields: a list of names, or a NamedTuple or dataclass.

        Raises:
            TopologyError: the stream is already declared or its id is reserved, or a field name is invalid or given
                twice.
        """
        if fault := name_fault(stream):
            self._refuse(f"a stream's id {fault}", "outputs")
        if stream.startswith(RESERVED_PREFIXES):
            self._refuse(f"stream id '{stream}' is reserved; ids must not start with '__' or '$'", stream)
        if stream in self.streams:
            self._refuse(f"stream '{stream}' is declared twice", stream)
        record = fields if isinstance(fields, type) else None
        self.streams[stream] = Stream(stream, self._checked(stream, fields), bool(direct), record)

    def declare_outputs(self, outputs: Fields | Mapping[str, Any]) -> None:
        """Declare the streams of an ``outputs`` attribute: fields, or a dict of streams. Empty: no stream."""
        if isinstance(outputs, Mapping):
            for stream, fields in outputs.items():
                if isinstance(fields, DirectFields):
                    self.declare_stream(stream, fields.fields, direct=True)
                else:
                    self.declare_stream(stream, fields)
        elif isinstance(outputs, DirectFields):
            self.declare(outputs.fields, direct=True)
        elif isinstance(outputs, type):
            self.declare(outputs)
        elif isinstance(outputs, str) or not isinstance(outputs, Sequence):
            self._refuse(f"outputs must be a list of field names or a dict of streams, not {outputs!r}", "outputs")
        elif outputs:
            self.declare(outputs)

    def _checked(self, stream: str, fields: Fields) -> tuple[str, ...]:
        if isinstance(fields, type):
            try:
                fields = record_fields(fields)
            except TypeError as error:
                self._refuse(f"the fields of stream '{stream}': {error}", stream)
        if isinstance(fields, str) or not isinstance(fields, Sequence):
            self._refuse(f"the fields of stream '{stream}' must be a list of names, not {fields!r}", stream)
        seen: set[str] = set()
        for field in fields:
            if fault := name_fault(field):
                self._refuse(f"a field of stream '{stream}' {fault}", stream)
            if field in seen:
                self._refuse(f"stream '{stream}' declares field '{field}' twice", field)
            seen.add(field)
        return tuple(fields)

    def _refuse(self, fault: str, field: str) -> NoReturn:
        raise TopologyError(f"component '{self.component_id}': {fault}", component=self.component_id, field=field)
