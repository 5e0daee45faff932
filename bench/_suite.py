"""Every bench and its configurations.

A case is the arguments of one run of ``python -m bench.<bench>``. They include every relevant setting, so that a
recorded case can be repeated unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree.errors import UsageError


@dataclass(frozen=True)
class Bench:
    """A bench. ``headline`` is the metric shown during the run and in the chart."""

    name: str
    about: str
    headline: str
    cases: Mapping[str, str]


WORDS: Final = "--ackers 1 --sentences 600000 --pending 6000"
HELD: Final = "--held 5000 --pending 30000"
IN_STATE: Final = "--pending 200000"
PERF: Final = "--ackers 1 --tuples 500000 --pending 5000"
ADS: Final = "--events 200000 --event-rate 10000 --workers 2 --ackers 1 --pending 2000"
NEXMARK: Final = ("q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q11", "q12")
AT_RATE: Final = "--seconds 15 --warm 3 --workers 2 --ackers 1"

SUITE: Final = (
    Bench(
        "word_count",
        "sentences, split and counted by word",
        "words_per_s",
        {
            "two-workers": f"--workers 2 --spouts 2 --split plain {WORDS}",
            "one-spout": f"--workers 2 --spouts 1 --split plain {WORDS}",
            "one-worker": f"--workers 1 --spouts 1 --split plain {WORDS}",
            "untracked": f"--workers 2 --spouts 2 --split plain {WORDS.replace('--ackers 1', '--ackers 0')}",
            "yield": f"--workers 2 --spouts 2 --split yield {WORDS}",
            "emit-many": f"--workers 2 --spouts 2 --split many {WORDS}",
            "plain-python": f"--workers 2 --spouts 2 --split plain --pure {WORDS}",
            "state": f"--workers 2 --spouts 2 --split plain {WORDS} {IN_STATE} --state default",
            "state-aligned": f"--workers 2 --spouts 2 --split plain {WORDS} {IN_STATE} --state aligned",
            "combined": f"--workers 2 --spouts 2 --split combined {WORDS} {HELD}",
            "streams": f"--workers 2 --spouts 2 --split streams {WORDS} {IN_STATE} --state default",
            "streams-combined": f"--workers 2 --spouts 2 --split streams-combined {WORDS} {IN_STATE} --state default",
            "streams-aligned": f"--workers 2 --spouts 2 --split streams {WORDS} {IN_STATE} --state aligned",
        },
    ),
    Bench(
        "chain",
        "map, filter and map, as three bolts and fused by streams",
        "words_per_s",
        {
            f"{way}-{message}": f"--way {way} --message {message} --workers 1 --ackers 1 --sentences 300000"
            for message in ("word", "sentence")
            for way in ("bolts", "streams")
        },
    ),
    Bench("windows", "words in keyed sliding windows", "words_per_s", {"default": "--workers 1 --sentences 100000"}),
    Bench(
        "storm_perf",
        "three of Storm's perf suite: const, null, identity",
        "tuples_per_s",
        {
            f"{topology}-{workers}": f"--topology {topology} --workers {workers} {PERF}"
            for topology in ("const", "null", "identity")
            for workers in (1, 2)
        },
    ),
    Bench(
        "latency",
        "word count at a fixed rate, from the scheduled emit",
        "p99_ms",
        {"rate-1000": f"--rate 1000 {AT_RATE}", "rate-10000": f"--rate 10000 {AT_RATE}"},
    ),
    Bench(
        "yahoo",
        "ad events joined and counted by window in Redis",
        "events_per_s",
        {"shuffle": ADS, "local-or-shuffle": f"{ADS} --local"},
    ),
    Bench(
        "nexmark",
        "Nexmark's queries as programs of streams, and in Flink SQL",
        "events_per_s",
        {query: f"--query {query} --events 200000 --workers 2 --ackers 1 --pending 50000" for query in NEXMARK},
    ),
    Bench(
        "async_http",
        "calls of an HTTP service of 50 ms by an AsyncBolt, and by the client alone",
        "calls_per_s",
        {
            "full": "--calls 200000 --in-flight 1000 --delay-ms 50 --rate 0",
            "rate-10000": "--calls 120000 --in-flight 1000 --delay-ms 50 --rate 10000",
        },
    ),
    Bench(
        "drpc",
        "DRPC calls at fixed rates, from the time when each is due, and the highest rate kept",
        "p99_ms_at_1000",
        {
            way: f"--way {way} --rates 100 300 1000 --seconds 15 --warm 3 --workers 1 --limit-ms 100{options}"
            for way, options in (("stream", " --highest --start 1000"), ("threads", ""), ("unary", ""))
        },
    ),
    Bench(
        "trees",
        "trees of client processes, which hand their children to each other",
        "trees_per_s",
        {"all-live": "--trees 99999 --children 10 --clients 3", "one-killed": "--trees 99999 --clients 3 --kill"},
    ),
    Bench(
        "dead_letters",
        "numbers a second beside those that cannot be processed and leave as dead letters",
        "ratio",
        {"default": "--numbers 400000 --poison-every 100 --attempts 3 --pending 10000 --rounds 3"},
    ),
    Bench(
        "connectors",
        "messages from place to place by a spout and a bolt, by the bare client, and by bytewax",
        "ratio",
        {
            "kafka": "--system kafka --messages 500000 --pending 20000 --workers 1 --turns 5",
            "kafka-2-workers": "--system kafka --messages 500000 --pending 20000 --workers 2 --turns 5",
            "rabbitmq": "--system rabbitmq --messages 60000 --pending 20000 --prefetch 1000 --turns 3",
        },
    ),
    Bench(
        "webhooks",
        "HTTP requests answered when their tuple trees are complete",
        "requests_per_s",
        {
            "full": "--requests 40000 --clients 64 --rate 0 --warm 2000",
            "rate-2000": "--requests 40000 --clients 64 --rate 2000 --warm 2000",
        },
    ),
    Bench("codec", "rows to bytes and back", "words_encoded_rows_per_s", {"default": "--rows 1000 --repeats 300"}),
    Bench("routing", "groupings alone", "fields_per_s", {"default": "--rows 100000 --targets 8 --repeats 7"}),
    Bench(
        "ledger",
        "the acker's ledger alone",
        "updates_per_s",
        {"default": "--batch 8192 --rounds 200 --window 50000 --pending 1000000,10000000"},
    ),
    Bench(
        "acker",
        "one acker process, over gRPC and without",
        "trees_per_s",
        {
            name: f"--clients {clients} --batch 1000 --acks 2 --trees 2000000 --window 50000"
            for name, clients in (("grpc", 2), ("no-grpc", 0))
        },
    ),
    Bench(
        "start",
        "from submit to the first word",
        "first_word_ms",
        {f"workers-{workers}": f"--workers {workers} --times 5" for workers in (1, 2)},
    ),
    Bench(
        "cluster_size",
        "nimbus and ZooKeeper with simulated supervisors and workers",
        "nimbus_cores",
        {
            f"workers-{supervisors * 4}": f"--supervisors {supervisors} --slots 5 --topologies {supervisors // 2} "
            "--workers 8 --executors 2 --busy 1.0 --large 2000 --large-workers 40 --seconds 20 --processes 4"
            for supervisors in (250, 1000)
        },
    ),
    Bench("recovery", "from kill -9 until the tuples are replayed", "worker_s", {"default": "--pending 200"}),
    Bench("memory", "a bolt that is far too slow", "full_after_s", {"tracked": "--seconds 60 --ackers 1"}),
    Bench("transactions", "transactional topologies", "tiny_batches_per_s", {"default": "--pending 8"}),
    Bench(
        "state_checkpoint",
        "checkpoints of a large state of which little changes",
        "checkpoint_ms",
        {
            provider: f"--provider {provider} --keys 1000000 --changed 1000 --checkpoints 50"
            for provider in ("memory", "sqlite", "rocksdb", "postgres", "redis")
        },
    ),
    Bench(
        "state_recovery",
        "a state in a shared directory, its checkpoints and its recovery by size",
        "here_s",
        {f"keys-{keys}": f"--keys {keys} --changed 0.01" for keys in (100_000, 1_000_000, 10_000_000)},
    ),
    Bench(
        "state_division",
        "another number of tasks for a state in a shared directory, by its size",
        "move_s",
        {f"keys-{keys}": f"--keys {keys}" for keys in (100_000, 1_000_000, 10_000_000)},
    ),
    Bench(
        "state_queries",
        "questions to a state under full load",
        "ratio",
        {
            "committed": "--rate 100 --pairs 100",
            "live": "--rate 100 --pairs 100 --live",
            "stored": "--rate 100 --pairs 100 --stored",
            "echo": "--rate 100 --pairs 100 --echo",
            "committed-800": "--rate 800 --pairs 50",
            "live-800": "--rate 800 --pairs 50 --live",
            "echo-800": "--rate 800 --pairs 50 --echo",
        },
    ),
    Bench(
        "task_change",
        "another number of tasks for a large state",
        "pause_s",
        {
            provider: f"--provider {provider} --keys 1000000 --rate 5000 --workers 2"
            for provider in ("sqlite", "rocksdb", "redis")
        },
    ),
    Bench(
        "savepoint",
        "a savepoint of a large state, and a topology that begins with it",
        "savepoint_s",
        {provider: f"--provider {provider} --keys 1000000 --rate 5000 --workers 2" for provider in ("sqlite", "redis")},
    ),
    Bench(
        "spark_start",
        "the start of Spark for a pipeline, and jobs in the steady state",
        "first_result_cpu_s",
        {jvm: f"--jvm {jvm} --jobs 40 --lines 100000 --cores 2" for jvm in ("ours", "plain")},
    ),
    Bench("spark_word_count", "a pipeline against Spark's own streaming", "ratio", {"default": "--rounds 1"}),
)


def chosen(names: Sequence[str]) -> list[tuple[Bench, list[str]]]:
    """Return benches with the names of their cases, selected by ``bench`` or ``bench:case``, in the given order.

    Raises:
        UsageError: there is no such bench or case.
    """
    found: dict[str, list[str]] = {}
    benches = {bench.name: bench for bench in SUITE}
    for name in names:
        bench, _, case = name.partition(":")
        if bench not in benches:
            raise UsageError(f"there is no bench {bench!r}; there are {', '.join(benches)}")
        cases = benches[bench].cases
        if case and case not in cases:
            raise UsageError(f"bench {bench!r} has no case {case!r}; it has {', '.join(cases)}")
        found.setdefault(bench, []).extend([case] if case else cases)
    return [(benches[bench], list(dict.fromkeys(cases))) for bench, cases in found.items()]


def config_of(arguments: Sequence[str]) -> dict[str, Any]:
    """Convert arguments such as ``--workers 2 --local`` to {"workers": 2, "local": True}."""
    config: dict[str, Any] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name = argument[2:].replace("-", "_")
            config[name] = True
        else:
            config[name] = float(argument) if "." in argument else int(argument) if argument.isdigit() else argument
    return config
