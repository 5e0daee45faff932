"""The pages of the Python API: one for each public module or group of modules, of which mkdocstrings makes the text."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from tupletree import errors

ROOT: Final = Path(__file__).resolve().parents[2]
# Modules with an ``__all__`` for other modules of Tupletree: what users need of them, tupletree exports.
INTERNAL: Final = frozenset({"tupletree.component", "tupletree.streams.chained_spout", "tupletree.topology"})


class Shown(NamedTuple):
    """A module on a page, with the names that are shown; without names, those of its ``__all__``."""

    module: str
    names: Sequence[str] = ()


FORMATS: Final = ("Format", "FormatError", "Json", "MsgPack", "Protobuf", "Raw", "Text", "WithHeaders")
COMPONENTS: Final = (
    *("AsyncBolt", "Backoff", "BasicBolt", "BasicStatefulBolt", "BatchingBolt", "Bolt", "CombinerBolt"),
    *("CustomGrouping", "Message", "ReliableSpout", "Spout", "StatefulBolt", "Topology", "TopologyBuilder"),
    *("TopologyContext", "Tuple", "bolt", "direct", "register_type", "spout", "value"),
)
LOG_NAMES: Final = (
    *("Assigned", "Bounds", "DeletedError", "LogFollower", "LogSource", "Records", "Revoked", "Rewound"),
)
ERRORS: Final = tuple(name for name, found in vars(errors).items() if isinstance(found, type))
# Name, title and modules of each page below reference/api/.
PAGES: Final[Sequence[tuple[str, str, Sequence[Shown]]]] = (
    ("tupletree", "tupletree", [Shown("tupletree", COMPONENTS)]),
    (
        "declaring",
        "Declaring and emitting",
        [
            Shown("tupletree.declarer", ["BoltDeclarer", "ComponentDeclarer", "SpoutDeclarer"]),
            Shown("tupletree.outputs", ["FieldsDeclarer"]),
            Shown("tupletree.collector", ["BasicCollector", "BoltCollector", "SpoutCollector"]),
        ],
    ),
    ("metrics", "tupletree.metrics", [Shown("tupletree.metrics")]),
    ("hooks", "tupletree.hooks", [Shown("tupletree.hooks")]),
    ("streams", "tupletree.streams", [Shown("tupletree.streams")]),
    ("flux", "tupletree.flux", [Shown("tupletree.flux")]),
    ("multilang", "tupletree.multilang", [Shown("tupletree.multilang")]),
    ("state", "tupletree.state", [Shown("tupletree.state")]),
    ("keyed", "tupletree.keyed", [Shown("tupletree.keyed")]),
    ("joins", "tupletree.joins", [Shown("tupletree.joins")]),
    ("windows", "tupletree.windows", [Shown("tupletree.windows")]),
    (
        "transactional",
        "tupletree.transactional",
        [
            Shown("tupletree.transactional"),
            Shown("tupletree.transactional.kafka", ["OpaqueKafkaSpout", "TransactionalKafkaSpout"]),
        ],
    ),
    ("drpc", "tupletree.drpc", [Shown("tupletree.drpc")]),
    ("trees", "tupletree.trees", [Shown("tupletree.trees")]),
    ("spark", "tupletree.spark", [Shown("tupletree.spark")]),
    ("dead-letters", "tupletree.dead_letters", [Shown("tupletree.dead_letters")]),
    ("notebook", "tupletree.notebook", [Shown("tupletree.notebook")]),
    ("testing", "tupletree.testing", [Shown("tupletree.testing")]),
    ("client", "tupletree.client", [Shown("tupletree.client")]),
    ("config", "tupletree.config", [Shown("tupletree.config")]),
    (
        "errors",
        "tupletree.errors",
        [Shown("tupletree.errors", ERRORS)],
    ),
    (
        "connectors-formats",
        "Connectors: formats",
        [
            Shown("tupletree.connectors.formats", FORMATS),
            Shown("tupletree.connectors.csv_format", ["Csv"]),
            Shown("tupletree.connectors.avro", ["Avro"]),
            Shown("tupletree.connectors.registry", ["Registered", "SchemaRegistry"]),
        ],
    ),
    (
        "connectors-files",
        "Connectors: files and tables",
        [
            Shown("tupletree.connectors.files", ["FileLog", "FileSpout", "TextFileLog"]),
            Shown("tupletree.connectors.parquet", ["ParquetLog", "ParquetSpout", "RowGroupLog"]),
            Shown("tupletree.connectors.file_sinks", ["DirectorySink", "FileSink", "ParquetSink"]),
            Shown("tupletree.connectors.delta", ["DeltaSink"]),
            Shown("tupletree.connectors.iceberg", ["IcebergSink"]),
        ],
    ),
    (
        "connectors-queues",
        "Connectors: queues and logs",
        [
            Shown("tupletree.connectors.kafka"),
            Shown("tupletree.connectors.rabbitmq", ["RabbitBolt", "RabbitQueue", "RabbitSpout"]),
            Shown("tupletree.connectors.mqtt", ["MqttBolt", "MqttSpout"]),
            Shown("tupletree.connectors.nats", ["NatsBolt", "NatsSpout"]),
            Shown("tupletree.connectors.redis_streams", ["RedisStreamBolt", "RedisStreamSpout"]),
            Shown("tupletree.connectors.beanstalkd", ["BeanstalkBolt", "BeanstalkSpout"]),
            Shown("tupletree.connectors.http"),
        ],
    ),
    (
        "connectors-databases",
        "Connectors: databases",
        [
            Shown("tupletree.connectors.postgres", ["PostgresSink"]),
            Shown("tupletree.connectors.postgres_changes", ["ChangeRow", "PostgresChanges", "PostgresChangesSpout"]),
            Shown("tupletree.connectors.postgres_outbox", ["OutboxBolt", "OutboxSpout"]),
            Shown("tupletree.connectors.sqlite", ["SqliteSink"]),
            Shown("tupletree.connectors.redis_hashes", ["RedisHashSink"]),
        ],
    ),
    (
        "connectors-own",
        "Connectors of your own",
        [
            Shown("tupletree.connectors.log_source", LOG_NAMES),
            Shown("tupletree.connectors.messages", ["LogRecord", "SinkMessage"]),
            Shown("tupletree.connectors.log_spout", ["LogSpout"]),
            Shown("tupletree.connectors.queue_source", ["Delivery", "QueueSource"]),
            Shown("tupletree.connectors.queue_spout", ["QueueSpout"]),
            Shown("tupletree.connectors.sinks", ["Sink", "SinkBolt"]),
            Shown("tupletree.connectors.transactional_sink", ["TransactionalSink"]),
            Shown("tupletree.connectors.row_sinks", ["RowSinkBolt"]),
            Shown("tupletree.connectors.exactly_once", ["ExactlyOnceSinkBolt"]),
        ],
    ),
)


def names_of(shown: Shown) -> list[str]:
    """Return the names that are shown of a module. Raises ValueError if the module has not all of them."""
    module = import_module(shown.module)
    names = list(shown.names or module.__all__)
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        raise ValueError(f"{shown.module} has no {', '.join(missing)}: correct .ci/site/api.py")
    return names


def page(title: str, modules: Sequence[Shown]) -> str:
    """Return the Markdown of a page: a block of mkdocstrings for each module."""
    parts = [f"# {title}"]
    for shown in modules:
        members = "\n".join(f"        - {name}" for name in names_of(shown))
        if len(modules) > 1:
            parts.append(f"## {shown.module}")
        level = 3 if len(modules) > 1 else 2
        parts.append(f"::: {shown.module}\n    options:\n      heading_level: {level}\n      members:\n{members}")
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """Return the Markdown of the overview: each page with its modules and names. Raises ValueError as names_of."""
    rows = []
    for name, title, modules in PAGES:
        for shown in modules:
            links = ", ".join(f"[{one}][{shown.module}.{one}]" for one in names_of(shown))
            rows.append(f"## [{shown.module}]({name}.md)\n\n{links}" if shown.module else title)
    head = (
        "# Python API\n\nThe public names by module. A name that begins with an underscore, and a module that is not "
        "listed here, may change in any release."
    )
    return "\n\n".join([head, *rows]) + "\n"


def exporting() -> list[str]:
    """Return the public modules of tupletree/ that have an ``__all__``."""
    names = []
    for path in sorted((ROOT / "tupletree").rglob("*.py")):
        parts = [part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__init__"]
        if not any(part.startswith("_") for part in parts) and "\n__all__ = " in path.read_text():
            names.append(".".join(parts))
    return names


def uncovered() -> list[str]:
    """Return the public names that no page shows. A name counts as shown where its parent exports the same object."""
    shown = [
        (getattr(import_module(one.module), name), name)
        for _, _, modules in PAGES
        for one in modules
        for name in names_of(one)
    ]
    objects = {(id(found), name) for found, name in shown}
    lost = []
    for module in exporting():
        if module not in INTERNAL:
            found = import_module(module)
            lost += [f"{module}.{name}" for name in found.__all__ if (id(getattr(found, name)), name) not in objects]
    return lost


def api_pages() -> dict[str, str]:
    """Return the generated pages by path. Raises ValueError if a public name is on none of them."""
    if lost := uncovered():
        raise ValueError(f"no page of the API shows {', '.join(lost)}: add it to .ci/site/api.py")
    pages = {f"reference/api/{name}.md": page(title, modules) for name, title, modules in PAGES}
    return {"reference/api/index.md": index(), **pages}
