"""The rows of the comparisons: the configurations of Tupletree and of each peer, and the selection for a run."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.peers.programs import chain, sliding

OURS: Final = "tupletree"
BASE: Final = "tupletree-2"
MANY_TASKS: Final = (8, 32, 128)
MANY_WORKERS: Final = (4, 8)
PENDING_IN_STATE: Final = ("--pending", "600000")


class UnknownRowError(Exception):
    """A name selects no row."""


@dataclass(frozen=True)
class Row:
    """One configuration.

    ``program``: the module of the program; of ours, the bench, with its ``arguments``. ``share``: the row counts one in
    ``share`` of the sentences, for rows that are far slower. ``counted``: how many words of a sentence the sink counts.
    """

    name: str
    program: str
    parallelism: int
    options: Mapping[str, Any] = field(default_factory=dict)
    share: int = 1
    arguments: Sequence[str] = ()
    counted: Callable[[Sequence[str]], int] = len

    @property
    def peer(self) -> str:
        """The environment that the row runs in."""
        return self.name.partition("-")[0]


@dataclass(frozen=True)
class Table:
    """Rows that are compared with each other. ``base``: the row whose speed-up is told; always measured.

    ``record``: the name under which the result is kept.
    """

    record: str
    base: str
    rows: Sequence[Row]


def _ours() -> list[Row]:
    ways = (("", "plain"), ("-yield", "yield"), ("-many", "many"), ("-combined", "combined"))
    combined = ("--held", "5000", "--pending", "30000")
    return [
        _words(f"tupletree{suffix}-{workers}", workers, "--split", way, *(combined if way == "combined" else ()))
        for suffix, way in ways
        for workers in ((1, 2) if way == "plain" else (2,))
    ]


def _words(name: str, workers: int, *arguments: str) -> Row:
    return Row(name, "word_count", workers, arguments=("--spouts", str(workers), *arguments))


def _our_streams() -> list[Row]:
    ways = (("each", "streams"), ("combined", "streams-combined"))
    guarantees = (("", "default"), ("-exactly-once", "aligned"))
    return [
        _words(
            f"tupletree-streams-{way}{suffix}-{workers}", workers, "--split", split, "--state", state, *PENDING_IN_STATE
        )
        for way, split in ways
        for suffix, state in guarantees
        for workers in ((1, 2) if state == "default" else (2,))
    ]


def _chain() -> list[Row]:
    ours = [
        Row(f"tupletree-{way}-{message}-1", "chain", 1, arguments=("--way", way, "--message", message))
        for message in ("word", "sentence")
        for way in ("bolts", "streams")
    ]
    options = {"flow": "bytewax_chain", "batch_size": 100, "recovery": False}
    return [*ours, Row("bytewax-chain-1", "bytewax_start", 1, options, counted=chain.kept)]


def _tasks() -> list[Row]:
    """Return rows with more tasks and workers than cores, as Storm's documents advise, and as many of other peers."""
    ours = [_words(f"tupletree-tasks-{tasks}", 2, "--tasks", str(tasks)) for tasks in MANY_TASKS]
    more = [_words(f"tupletree-{workers}", workers) for workers in MANY_WORKERS]
    storm = [Row(f"storm-java-{tasks}", "storm_start", tasks, {"bolts": "java"}) for tasks in MANY_TASKS]
    return [*ours, *more, *storm, *_bytewax(MANY_WORKERS, with_recovery=(False,)), *_flink(MANY_WORKERS)]


def _pystorm() -> list[Row]:
    """Return the rows with the same bolts of pystorm: hosted here, and in the processes of Storm."""
    ours = [_words(f"tupletree-pystorm-{workers}", workers, "--split", "pystorm") for workers in (1, 2)]
    return [*ours, *(row for row in _storm() if row.options["bolts"] == "python")]


def _windows() -> list[Row]:
    bytewax = {"flow": "bytewax_sliding", "batch_size": 100, "recovery": False}
    return [
        Row("tupletree-windows-1", "windows", 1),
        Row("bytewax-windows-1", "bytewax_start", 1, bytewax, 10, counted=sliding.counted),
    ]


def _bytewax(numbers: Sequence[int] = (1, 2), with_recovery: Sequence[bool] = (False, True)) -> list[Row]:
    batch_sizes = {"idiomatic": 100, "batched": 1000, "combined": 5000}
    return [
        Row(
            f"bytewax-{way}{'-recovery' if recovery else ''}-{processes}",
            "bytewax_start",
            processes,
            {"flow": "bytewax_words", "way": way, "batch_size": batch_size, "recovery": recovery, "snapshot_s": 1},
        )
        for way, batch_size in batch_sizes.items()
        for recovery in with_recovery
        for processes in numbers
    ]


def _pathway() -> list[Row]:
    return [
        Row(f"pathway-{source}-{processes}", "pathway_start", processes, {"commit_ms": 100, "source": source})
        for source in ("python", "files")
        for processes in (1, 2)
    ]


def _flink(numbers: Sequence[int] = (1, 2)) -> list[Row]:
    object_reuse = {"pipeline.object-reuse": "true"}
    mini_batch = {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "100000",
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    }
    ways: list[tuple[str, str, dict[str, str], int]] = [
        ("default", "flink_datastream", {}, 100),
        ("tuned", "flink_datastream", {"python.execution-mode": "thread", **object_reuse}, 10),
        ("table", "flink_table", {**mini_batch, **object_reuse}, 1),
    ]
    return [
        Row(f"flink-{way}-{parallelism}", program, parallelism, {"configuration": configuration}, share)
        for way, program, configuration, share in ways
        for parallelism in numbers
    ]


def _spark() -> list[Row]:
    state_store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    configuration = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": state_store,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    return [
        Row(f"spark-{way}-2", "spark_words", 2, {"way": way, "files": files, "configuration": configuration}, share)
        for way, files, share in (("jvm", 8, 1), ("state", 2, 10))
    ]


def _storm() -> list[Row]:
    return [
        Row(f"storm-{bolts}-{tasks}", "storm_start", tasks, {"bolts": bolts}, share)
        for bolts, share in (("java", 1), ("python", 20))
        for tasks in (1, 2)
    ]


def _is_with_two(row: Row) -> bool:
    """True for the rows of two tasks or workers that those with more are compared with."""
    return row.name == BASE or (
        row.parallelism == 2 and row.peer in ("bytewax", "flink", "storm") and not _recovers(row)
    )


def _recovers(row: Row) -> bool:
    return bool(row.options.get("recovery"))


ROWS: Final[Sequence[Row]] = (*_ours(), *_bytewax(), *_pathway(), *_flink(), *_spark(), *_storm())
TABLES: Final[Mapping[str, Table]] = {
    "words": Table("peers", BASE, ROWS),
    "streams": Table(
        "peers_streams",
        BASE,
        (
            *(row for row in ROWS if row.name in (BASE, "tupletree-1", "tupletree-combined-2")),
            *_our_streams(),
            *(row for row in ROWS if row.peer == "bytewax" and not row.options["recovery"]),
        ),
    ),
    "tasks": Table("peers_tasks", BASE, (*(row for row in ROWS if _is_with_two(row)), *_tasks())),
    "chain": Table("peers_chain", "tupletree-streams-word-1", _chain()),
    "pystorm": Table("peers_pystorm", "tupletree-pystorm-2", _pystorm()),
    "windows": Table("peers_windows", "tupletree-windows-1", _windows()),
}
PEERS: Final[Sequence[str]] = tuple(dict.fromkeys(row.peer for row in ROWS if row.peer != OURS))


def chosen(only: Sequence[str], table: Table = TABLES["words"]) -> list[Row]:
    """Return the rows of a table with these names or prefixes; without names, all rows. The base is always included.

    Raises:
        UnknownRowError: no row has such a name; the message suggests the nearest name.
    """
    rows = table.rows
    for name in only:
        if not any(_selects(name, row) for row in rows):
            near = difflib.get_close_matches(name, [OURS, *PEERS, *(row.name for row in rows)], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UnknownRowError(f"no peer or row is called {name}{hint}")
    return [row for row in rows if not only or row.name == table.base or any(_selects(name, row) for name in only)]


def _selects(name: str, row: Row) -> bool:
    return row.name == name or row.name.startswith(f"{name}-")
