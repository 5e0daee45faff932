"""Topologies made of Flux files: spouts, bolts and streams, or a builder that the file names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tupletree.component import BasicBolt, Bolt, Spout
from tupletree.config import encode_conf, validate
from tupletree.declarer import BoltDeclarer, ComponentDeclarer
from tupletree.errors import ConfigError, TopologyError, UsageError
from tupletree.flux.documents import Document, Values, read_document
from tupletree.flux.items import Item
from tupletree.flux.objects import OBJECT_KEYS, Objects
from tupletree.outputs import DEFAULT_STREAM
from tupletree.topology import Topology, TopologyBuilder

_LOADS: Final = ("onHeapMemoryLoad", "offHeapMemoryLoad", "cpuLoad")
_PART_KEYS: Final = (*OBJECT_KEYS, "parallelism", "numTasks", *_LOADS)
GROUPINGS: Final[Mapping[str, Callable[..., Any]]] = {
    "SHUFFLE": BoltDeclarer.shuffle_grouping,
    "FIELDS": BoltDeclarer.fields_grouping,
    "PARTIAL_KEY": BoltDeclarer.partial_key_grouping,
    "ALL": BoltDeclarer.all_grouping,
    "GLOBAL": BoltDeclarer.global_grouping,
    "NONE": BoltDeclarer.none_grouping,
    "DIRECT": BoltDeclarer.direct_grouping,
    "LOCAL_OR_SHUFFLE": BoltDeclarer.local_or_shuffle_grouping,
    "CUSTOM": BoltDeclarer.custom_grouping,
}
BY_FIELDS: Final = ("FIELDS", "PARTIAL_KEY")


@dataclass(frozen=True)
class FluxTopology:
    """The topology of a Flux file, its configuration, and its name."""

    topology: Topology
    conf: dict[str, Any]
    name: str


def load_flux(
    path: str | Path, properties: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> FluxTopology:
    """Make the topology of a Flux file. Its directory is put first on ``sys.path``, where its classes are looked for.

    ``properties``: the values of ``${name}``. ``environment``: those of ``${ENV-NAME}``; None refuses them.

    Raises:
        UsageError: with file and line: the file is missing, is not YAML, names a class that cannot be imported, or
            describes no topology.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"there is no topology file {path}")
    document = read_document(path, Values(properties, environment))
    if document.name is None:
        raise UsageError(f"{path} lacks 'name', the name of the topology")
    name = document.name.text("name")
    directory = str(path.resolve().parent)
    if sys.path[:1] != [directory]:
        sys.path.insert(0, directory)
    conf = {key: _conf_value(key, item) for key, item in document.config.items()}
    objects = Objects(document.components, Path(directory))
    if document.source is None:
        made: Any = _assembled(document, objects)
    else:
        made = _made_by(document, document.source, objects, conf)
    objects.check_all()
    return FluxTopology(made, conf, name)


def _conf_value(key: str, item: Item) -> Any:
    value = item.value()
    try:
        encode_conf({key: value})
        validate({key: value})
    except ConfigError as error:
        raise item.fault(str(error)) from None
    return value


def _assembled(document: Document, objects: Objects) -> Topology:
    builder = TopologyBuilder()
    bolts: dict[str, BoltDeclarer] = {}
    places = {**document.spouts, **document.bolts}
    if not document.spouts:
        raise UsageError(f"{document.path} has no spout: it needs spouts, bolts and streams, or a topologySource")
    for id, item in document.spouts.items():
        part = _Part.of("spout", id, item, objects, Spout)
        part.settle(builder.set_spout, places)
    for id, item in document.bolts.items():
        if id in document.spouts:
            raise item.fault(f"bolt '{id}' has the id of a spout")
        part = _Part.of("bolt", id, item, objects, (Bolt, BasicBolt))
        declarer = part.settle(builder.set_bolt, places)
        assert isinstance(declarer, BoltDeclarer)
        bolts[id] = declarer
    for item in document.streams:
        _connect(item, bolts, places, objects)
    try:
        return builder.create_topology()
    except TopologyError as error:
        raise _placed(error, places, str(document.path)) from error


def _placed(error: TopologyError, places: Mapping[str, Item], file: str) -> UsageError:
    """Return a fault that the builder has found, with the line of the component."""
    place = places.get(error.component)
    return place.fault(str(error)) if place is not None else UsageError(f"{file}: {error}")


@dataclass(frozen=True)
class _Part:
    """A spout or bolt of the file."""

    id: str
    item: Item
    entry: Mapping[str, Item]
    component: Any

    @staticmethod
    def of(kind: str, id: str, item: Item, objects: Objects, base: Any) -> _Part:
        what = f"{kind} '{id}'"
        entry = item.mapping(what, ["id", "className"], _PART_KEYS)
        for load in _LOADS:
            if load in entry:
                raise entry[load].fault(f"{what}: {load} has no effect: workers are placed by their number of tasks")
        component = objects.make(what, item, entry)
        if not isinstance(component, base):
            raise entry["className"].fault(f"{what}: {type(component).__name__} is no {kind}")
        return _Part(id, item, entry, component)

    def settle(self, add: Callable[..., ComponentDeclarer], places: Mapping[str, Item]) -> ComponentDeclarer:
        """Add the component to the builder that ``add`` belongs to."""
        entry = self.entry
        parallelism = entry["parallelism"].whole("parallelism") if "parallelism" in entry else 1
        try:
            declarer = add(self.id, self.component, parallelism)
            if "numTasks" in entry:
                declarer.set_num_tasks(entry["numTasks"].whole("numTasks"))
        except TopologyError as error:
            raise _placed(error, places, self.item.file) from error
        return declarer


def _connect(item: Item, bolts: Mapping[str, BoltDeclarer], places: Mapping[str, Item], objects: Objects) -> None:
    entry = item.mapping("a stream", ["from", "to", "grouping"], ["name", "id"])
    source, target = entry["from"].text("from"), entry["to"].text("to")
    if source not in places:
        raise entry["from"].fault(f"there is no spout or bolt '{source}'")
    if target not in bolts:
        what = (
            f"'{target}' is a spout, and no stream leads to one" if target in places else f"there is no bolt '{target}'"
        )
        raise entry["to"].fault(what)
    keys = ["args", "streamId", "customClass"]
    grouping = entry["grouping"].mapping("a grouping", ["type"], keys, "type: SHUFFLE")
    kind = grouping["type"].text("type").upper()
    if kind not in GROUPINGS:
        raise grouping["type"].fault(f"there is no grouping {kind}; there are {', '.join(sorted(GROUPINGS))}")
    arguments = _arguments(kind, entry["grouping"], grouping, objects)
    stream = grouping["streamId"].text("streamId") if "streamId" in grouping else DEFAULT_STREAM
    try:
        GROUPINGS[kind](bolts[target], source, *arguments, stream=stream)
    except TopologyError as error:
        raise item.fault(str(error)) from error


def _arguments(kind: str, item: Item, grouping: Mapping[str, Item], objects: Objects) -> list[Any]:
    """Return what a grouping of a kind is called with, after the source. Raises UsageError."""
    for name, kinds in (("args", BY_FIELDS), ("customClass", ("CUSTOM",))):
        if kind not in kinds and name in grouping and not grouping[name].is_nothing:
            raise grouping[name].fault(f"a grouping of type {kind} takes no {name}")
        if kind in kinds and name not in grouping:
            what = "the names of the fields, such as [word]" if name == "args" else "a mapping with a className"
            raise item.fault(f"a grouping of type {kind} needs {name}: {what}")
    if kind in BY_FIELDS:
        return [[one.text("a field") for one in grouping["args"].sequence("args")]]
    if kind == "CUSTOM":
        custom = grouping["customClass"]
        return [objects.make("customClass", custom, custom.mapping("customClass", ["className"], OBJECT_KEYS))]
    return []


def _made_by(document: Document, item: Item, objects: Objects, conf: Mapping[str, Any]) -> Topology:
    """Return what the method of a topologySource makes of the configuration."""
    for name in ("spouts", "bolts", "streams"):
        if getattr(document, name):
            raise item.fault(f"a topologySource makes the topology: leave out {name}")
    entry = item.mapping("topologySource", ["className"], (*OBJECT_KEYS, "methodName"))
    source = objects.make("topologySource", item, entry)
    method = entry["methodName"].text("methodName") if "methodName" in entry else "get_topology"
    make = objects.attribute("topologySource", entry.get("methodName", item), source, method)
    made = objects.called("topologySource", item, make, dict(conf))
    if hasattr(made, "create_topology"):
        made = objects.called("topologySource", item, made.create_topology)
    if not isinstance(made, Topology):
        raise item.fault(f"topologySource: {method} must return a Topology, not {type(made).__name__}")
    return made
