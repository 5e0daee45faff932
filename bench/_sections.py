"""The sections of docs/performance.md, in order, with their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.growth.curves import CURVES, Curve


@dataclass(frozen=True)
class Section:
    """The section of one bench.

    ``columns``: the figures shown per case; empty: all. ``chart``: the figure in the chart. ``ratios``: a text and two
    cases, whose charted figures are divided. ``axis``: the cases are numbers of this, so the chart is a curve.
    ``words``: sentences on the cases.
    """

    name: str
    title: str
    text: str
    chart: str = ""
    chart_title: str = ""
    columns: Sequence[str] = ()
    ratios: Sequence[tuple[str, str, str]] = ()
    axis: str = ""
    words: Callable[[Mapping[str, Mapping[str, Any]]], Sequence[str]] = lambda cases: ()


def _growth(curve: Curve) -> Section:
    """Return the section of a curve of ``bench.growth``."""
    return Section(
        f"growth_{curve.name}",
        f"Growth: {curve.title.lower()}",
        curve.text,
        curve.cost,
        f"{curve.title}: {curve.unit} of {curve.item}",
        (curve.cost, "times", *curve.columns),
        axis=curve.axis,
        words=curve.words,
    )


COSTS: Final = ("wall_s", "cpu_worker_s", "cpu_acker_s", "peak_rss_mb", "others_cores")

LINGERS: Final = (Path(__file__).parent / "notes" / "lingers.md").read_text()  # a section of the page

SECTIONS: Final = (
    Section(
        "word_count",
        "Word count",
        "A spout in each worker emits sentences of about eight words, split emits a tuple for each word, count counts "
        "them by a fields grouping. Every sentence is tracked, except in *untracked*. In *one-spout* every other "
        "sentence travels to the other worker. *combined* counts the words of 5,000 sentences before the exchange. "
        "In *combined* and *emit-many* the spout emits sixteen sentences at a time. "
        "*state* keeps the counts in a state in memory, with a checkpoint per second, for which acks wait.",
        "words_per_s",
        "Word count: words a second",
        ("words_per_s", "cpu_us_per_word", *COSTS, "p50_ms", "p99_ms"),
        (
            ("two workers against one", "two-workers", "one-worker"),
            ("untracked against tracked", "untracked", "two-workers"),
            ("`emit_many` against `emit`", "emit-many", "two-workers"),
            ("compiled against plain Python", "two-workers", "plain-python"),
            ("combined against not", "combined", "two-workers"),
            ("a state against a dictionary", "state", "two-workers"),
            ("aligned checkpoints against default ones", "state-aligned", "state"),
        ),
    ),
    Section(
        "peers",
        "Word count against other stream processors",
        "The same sentences and the same counting. Only Tupletree tracks every tuple.",
        "words_per_s",
        "Word count: words a second",
    ),
    Section(
        "peers_tasks",
        "Word count with more tasks and workers than cores",
        "The word count with 8, 32 and 128 tasks of each bolt in Tupletree and in Storm, and with 4 and 8 workers in "
        "Tupletree, bytewax and Flink, beside the rows with two.",
        "words_per_s",
        "Word count: words a second",
    ),
    Section(
        "peers_chain",
        "Three functions in a row",
        "Sentences, or their words, pass map, filter and map: as three bolts, as one program of streams, and in "
        "bytewax. Only Tupletree tracks every tuple.",
        "words_per_s",
        "Three functions: words a second",
    ),
    Section(
        "peers_pystorm",
        "Bolts of pystorm, here and in Storm",
        "The word count with the same two bolts, written with pystorm: hosted in our workers, and as processes of "
        "Storm. The suffix is the number of our workers, or of tasks of each bolt in Storm. Both track every sentence.",
        "words_per_s",
        "Bolts of pystorm: words a second",
    ),
    Section(
        "storm_perf",
        "Minimal topologies",
        "Three of Storm's perf suite, every tuple tracked: a spout alone; a spout and a bolt that does nothing; a bolt "
        "in between that forwards tuples. The suffix is the number of workers; with two, every hop crosses from one to "
        "the other.",
        "tuples_per_s",
        "Tuples a second",
        ("tuples_per_s", "cpu_us_per_tuple", *COSTS),
    ),
    *map(_growth, CURVES),
    Section(
        "latency",
        "Latency at a fixed rate",
        "The tracked word count across two workers at a fixed number of sentences per second, each of eight words. "
        "Latency runs from the scheduled time of a sentence, even if the spout emits it later, until each of its words "
        "is counted; `ack_` until its ack at the spout.",
    ),
    Section(
        "yahoo",
        "Yahoo's streaming benchmark",
        "Ad events as JSON are parsed, filtered, projected, joined with a table in Redis, and counted by campaign and "
        "ten-second window into Redis. `inside_us_per_event` is the wall-clock time inside each component per input "
        "event, `cpu_us_per_event_of` the processor time of each process.",
        "events_per_s",
        "Ad events a second",
    ),
    Section(
        "nexmark",
        "Nexmark",
        "Queries over persons, auctions and bids of an auction site as programs of streams, every event tracked, and "
        "the same in Flink SQL, which reads the events from a file and tracks none. Joins, averages and windows keep "
        "their state in memory, with a checkpoint per second, for which acks wait.",
        "events_per_s",
        "Nexmark: events a second",
        ("events_per_s", "flink_events_per_s", "cpu_us_per_event", *COSTS, "results"),
    ),
    Section(
        "connectors",
        "Connectors against the bare client",
        "Messages of 100 bytes from topic to topic of Kafka, and from queue to queue of RabbitMQ (durable, persistent, "
        "with publisher confirms), by spout → bolt, every message tracked. `bare_`: the client library alone does the "
        "same, with the same settings; `bare_defaults_`: with its own. `bytewax_`: the source and sink of bytewax. "
        "With two workers, bytewax has two processes, and the bare client one. `ratio`, `ratio_defaults` and "
        "`speed_up_bytewax` are medians of the ratios of each turn.",
    ),
    Section(
        "drpc",
        "DRPC",
        "Calls of a function through one DRPC server, a topology of spout, bolt and results in one worker, and one "
        "acker, at fixed rates: latency runs from the time when a call is due. The client sends by a stream, by 100 "
        "threads, or by a gRPC call for each (*unary*). `highest`: the highest rate with 99 of 100 answers within "
        "100 ms.",
        columns=(
            *(f"{name}_at_{rate}" for rate in (100, 300, 1000) for name in ("p50_ms", "p99_ms")),
            "answered_at_1000",
            "unanswered_at_1000",
            "cpu_us_at_1000",
            "highest",
        ),
    ),
    Section(
        "trees",
        "Trees of programs",
        "100,000 trees of ten children, begun by three client processes, which hand the children to each other, at one "
        "acker. *one-killed*: one client is killed half-way; its trees, and those with children at it, time out.",
    ),
    Section("codec", "Codec alone", "Batches of 1,000 rows with roots and edges, as they travel between workers."),
    Section("routing", "Routing alone", "Decisions per second of processor time, for 8 receiving tasks."),
    Section("ledger", "Ledger alone", "The ledger of one shard, called directly."),
    Section("acker", "One acker process", "Inits and acks in, verdicts out, over gRPC."),
    Section("start", "From submit to the first tuple", "A word count that is submitted to a running cluster."),
    Section(
        "cluster_size",
        "Size of a cluster",
        "A real nimbus and ZooKeeper with simulated supervisors and workers, which report every second: what nimbus's "
        "work costs, and how long a large topology, a lost machine and a change of leaders take. `_ms` is processor "
        "time, except that `cycle_ms` is a duration.",
    ),
    Section(
        "recovery",
        "Recovery",
        "From kill -9 of a process until all tuples pending at that moment are acked or replayed.",
    ),
    Section("memory", "Memory under back-pressure", "A bolt far slower than its spout, for one minute."),
    Section(
        "transactions",
        "Transactions",
        "Transactional topologies: batches of one tuple, which commit one by one (*tiny*, 8 pending) or in groups "
        "(*grouped*, 64 pending), with the processor time of each, and batches of 20,000 words.",
    ),
    Section(
        "state_checkpoint",
        "Checkpoints of a state",
        "A state of a million keys, of which a thousand change before each checkpoint: the entries and bytes written, "
        "and the time of prepare and commit. The first one writes all keys. SQLite, RocksDB, PostgreSQL and Redis "
        "write to disk before they answer.",
        "checkpoint_ms",
        "Checkpoint of 1,000 changed keys among 1,000,000: milliseconds",
    ),
    Section(
        "state_recovery",
        "Recovery of a state by its size",
        "A state of the provider `rocksdb`, of which a hundredth changes before each checkpoint. After kill -9: until "
        "another process on the same machine has opened it, committed what was prepared and read a value (`here_s`), "
        "and the same on a machine without a copy (`elsewhere_s`), which is there after `copied_s`.",
        "here_s",
        "Recovery on the same machine: seconds",
    ),
    Section(
        "state_division",
        "Move of a state to other tasks by its size",
        "Four states of the provider `rocksdb` move to six tasks: the time (`move_s`), and the largest memory of the "
        "process that moves them (`peak_mb`). Then a new task on a machine without a copy opens its state and reads a "
        "value (`first_s`).",
        "move_s",
        "Move of four states to six tasks: seconds",
    ),
    Section(
        "task_change",
        "Another number of tasks, and other code",
        "A state of a million keys moves from two tasks to six (`pause_s`) and back: from the last checkpoint before "
        "the change to the first one after it. The pause contains the end of the old workers, the start of the new "
        "ones, and the move of the entries in one process (`move_s`). An update (`update_pause_s`) and its rollback "
        "move nothing.",
    ),
    Section(
        "state_queries",
        "Questions to a state",
        "The word count in a state at its full rate, with 100 questions a second and without, in turns: for committed "
        "values, for live ones, and from the store itself; `echo`: of bare sockets, to a process that sends them back. "
        "All processes, the asking one too, share the processors. `ratio`: words a second with questions to those "
        "without, the geometric mean of pairs of windows of a second, with bounds of 95%; `worker_ratio`: words for a "
        "second of the workers' processor time. At 800 questions a second, what they cost exceeds the scatter.",
    ),
    Section(
        "savepoint",
        "Savepoints",
        "A savepoint of a state of a million keys in two tasks, taken while tuples flow (`savepoint_s`); no checkpoint "
        "begins meanwhile (`held_s`). Then a topology with six tasks begins with it: the upload (`submit_s`), the "
        "writing of the states in one process (`restore_s`), and the time until its first checkpoint (`ready_s`).",
    ),
    Section(
        "spark_start",
        "The start of Spark",
        "From a fresh process to the first result of a job, on a local master. `plain`: with the JVM's own choice of "
        "when to compile. Processor time is that of the process, the JVM and the Python workers.",
    ),
    Section(
        "spark_word_count",
        "Pipelines on Spark",
        "The same words counted exactly once by a pipeline and by Spark Structured Streaming.",
    ),
)
