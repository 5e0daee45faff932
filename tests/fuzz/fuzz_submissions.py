"""Submissions with odd values in any field, as no client of ours makes them: each is a list of changes to a sound one.

A change is the name of a place and a Python expression (fuzz_values): a failure prints the list. Pure, but for packing.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz_values import evaluate, json_text, number, text, value

from tupletree import bundle
from tupletree.config import KEYS, topology_part
from tupletree.v1 import nimbus_pb2, topology_pb2

Change = tuple[str, str]
CHUNK_BYTES = 1 << 20
MANY = (2, 100, 2000, 10_000)
MAX_TASKS = 300
"""Of a topology that is left to run: what it costs to run many is measured elsewhere."""

_CONF_KEYS = sorted(key for key in KEYS if topology_part({key: 1}))
_LIKELY = ("topology.environment", "topology.workers", "topology.tasks", "topology.acker.executors", "my.key")


def changes(rng: random.Random) -> list[Change]:
    """One to three changes."""
    return [_change(rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]


def _change(rng: random.Random) -> Change:
    place = rng.choice(sorted(PLACES) + ["conf"] * 10 + ["component"] * 4)
    if place == "conf":
        key = rng.choice(_LIKELY) if rng.random() < 0.5 else rng.choice(_CONF_KEYS)
        return f"conf {key}", environment(rng) if key == "topology.environment" else rng.choice((number, value))(rng)
    if place == "component":
        return rng.choice(("parallelism", "tasks", "workers")), number(rng)
    if place in ("conf_json", "component conf_json"):
        return place, json_text(rng)
    if place in ("components", "fields", "streams", "inputs", "executors"):
        return place, str(rng.choice((*MANY, 100_000)))
    return place, number(rng) if place in NUMERIC else text(rng, megabytes=True)


def environment(rng: random.Random) -> str:
    """A mapping of names to what may be the values of environment variables."""
    return (
        "{" + ", ".join(f"{text(rng)}: {rng.choice((text, text, value))(rng)}" for _ in range(rng.randint(1, 2))) + "}"
    )


def submission(sound: topology_pb2.TopologySpec, name: str, made: list[Change], directory: Path) -> list[bytes]:
    """The requests of one submission, encoded. Fields that cannot hold a value keep what they had."""
    spec = topology_pb2.TopologySpec()
    spec.CopyFrom(sound)
    header = nimbus_pb2.SubmitHeader(name=name, conf_json="{}", owner="fuzz")
    conf: dict[str, Any] = {}
    late: list[Callable[[], None]] = []
    for place, expression in made:
        given = evaluate(expression)
        if place.startswith("conf "):
            conf[place.removeprefix("conf ")] = given
            continue
        if isinstance(given, str):
            given = given.translate(_STAND_INS)
        with contextlib.suppress(TypeError, ValueError, OverflowError, IndexError):  # no such value, or place by now
            PLACES[place](header, spec, given)
        if place in BUNDLED_AFTER:
            late.append(lambda place=place, given=given: PLACES[place](header, spec, given))  # type: ignore[misc]
    if conf:
        with contextlib.suppress(TypeError, ValueError, OverflowError, RecursionError):
            header.conf_json = json.dumps(conf)
    packed = directory / "bundle.tar.gz"
    info = bundle.pack(spec, {}, (), None, packed)
    header.sha256, header.size = info.sha256, info.size
    header.spec.CopyFrom(_outline(spec))
    for change in late:
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            change()
    return list(_requests(header, packed.read_bytes()))


def _outline(spec: topology_pb2.TopologySpec) -> topology_pb2.TopologySpec:
    outline = topology_pb2.TopologySpec()
    outline.CopyFrom(spec)
    for component in outline.components:
        component.ClearField("object")
        for one in component.inputs:
            one.ClearField("custom")
    return outline


_STAND_INS = {0xD800 + n: 0xE000 + n for n in range(0x800)}
"""For halves of surrogate pairs, which no message of ours holds: characters that take as many bytes in UTF-8."""
_STAND_IN = re.compile(rb"\xee[\x80-\x9f][\x80-\xbf]")


def _half(found: re.Match[bytes]) -> bytes:
    return chr(ord(found[0].decode()) - 0x800).encode("utf-8", "surrogatepass")


def _requests(header: nimbus_pb2.SubmitHeader, data: bytes) -> Iterator[bytes]:
    yield _STAND_IN.sub(_half, nimbus_pb2.SubmitRequest(header=header).SerializeToString())
    for at in range(0, len(data), CHUNK_BYTES):
        yield nimbus_pb2.SubmitRequest(chunk=data[at : at + CHUNK_BYTES]).SerializeToString()


def asks_much(made: list[Change]) -> bool:
    """True if a topology with these changes has so many tasks that it is not left to run."""
    for place, expression in made:
        if place in ("conf topology.tasks", "parallelism", "tasks", "executors", "components", "conf topology.workers"):
            with contextlib.suppress(TypeError):
                if not 0 < evaluate(expression) <= MAX_TASKS:
                    return True
    return False


def _rename(spec: topology_pb2.TopologySpec, given: str) -> None:
    """The spout gets another id, and so does what subscribes to it."""
    old = spec.components[1].id
    for component in spec.components:
        component.id = given if component.id == old else component.id
        for one in component.inputs:
            one.source = given if one.source == old else one.source
    components = sorted(spec.components, key=lambda component: component.id)
    del spec.components[:]
    spec.components.extend(components)


def _stream(spec: topology_pb2.TopologySpec, given: str) -> None:
    spec.components[1].outputs[0].id = given
    spec.components[0].inputs[0].stream = given


def _fields(spec: topology_pb2.TopologySpec, count: int) -> None:
    spec.components[1].outputs[0].fields.extend(f"f{n}" for n in range(count))


def _field(spec: topology_pb2.TopologySpec, given: str) -> None:
    spec.components[1].outputs[0].fields.append(given)


def _streams(spec: topology_pb2.TopologySpec, count: int) -> None:
    spec.components[1].outputs.extend(topology_pb2.StreamSpec(id=f"s{n}", fields=["a"]) for n in range(count))


def _inputs(spec: topology_pb2.TopologySpec, count: int) -> None:
    one = spec.components[0].inputs[0]
    spec.components[0].inputs.extend(one for _ in range(min(count, 10_000)))


def _components(spec: topology_pb2.TopologySpec, count: int) -> None:
    copies = [topology_pb2.ComponentSpec() for _ in range(min(count, 10_000))]
    for n, copied in enumerate(copies):
        copied.CopyFrom(spec.components[0])
        copied.id = f"z{n:06}"
    spec.components.extend(copies)


def _set(message: Any, field: str, given: Any) -> None:
    setattr(message, field, given)


def _executors(spec: topology_pb2.TopologySpec, count: int) -> None:
    spec.components[0].tasks = spec.components[0].parallelism = count


Place = Callable[[nimbus_pb2.SubmitHeader, topology_pb2.TopologySpec, Any], None]

PLACES: dict[str, Place] = {
    "name": lambda header, spec, given: _set(header, "name", given),
    "owner": lambda header, spec, given: _set(header, "owner", given),
    "inactive": lambda header, spec, given: _set(header, "inactive", given),
    "sha256": lambda header, spec, given: _set(header, "sha256", given),
    "size": lambda header, spec, given: _set(header, "size", given),
    "conf_json": lambda header, spec, given: _set(header, "conf_json", given),
    "component id": lambda header, spec, given: _rename(spec, given),
    "component conf_json": lambda header, spec, given: _set(spec.components[0], "conf_json", given),
    "parallelism": lambda header, spec, given: _set(spec.components[0], "parallelism", given),
    "tasks": lambda header, spec, given: _set(spec.components[0], "tasks", given),
    "workers": lambda header, spec, given: _set(header, "conf_json", json.dumps({"topology.workers": given})),
    "executors": lambda header, spec, given: _executors(spec, given),
    "components": lambda header, spec, given: _components(spec, given),
    "kind": lambda header, spec, given: _set(spec.components[0], "kind", given),
    "stream": lambda header, spec, given: _stream(spec, given),
    "streams": lambda header, spec, given: _streams(spec, given),
    "field": lambda header, spec, given: _field(spec, given),
    "fields": lambda header, spec, given: _fields(spec, given),
    "input source": lambda header, spec, given: _set(spec.components[0].inputs[0], "source", given),
    "input stream": lambda header, spec, given: _set(spec.components[0].inputs[0], "stream", given),
    "input field": lambda header, spec, given: spec.components[0].inputs[0].fields.append(given),
    "inputs": lambda header, spec, given: _inputs(spec, given),
    "grouping": lambda header, spec, given: _set(spec.components[0].inputs[0], "grouping", given),
    "object": lambda header, spec, given: _set(spec.components[0], "object", given.encode(errors="replace")),
}
NUMERIC = frozenset({"inactive", "size", "kind", "grouping", "parallelism", "tasks", "workers"})
BUNDLED_AFTER = frozenset({"sha256", "size"})
