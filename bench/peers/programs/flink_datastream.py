"""Word count on PyFlink's DataStream API: every step is a Python function, and counts are in Flink's keyed state."""

# pyflink is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call"

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.functions import FlatMapFunction, KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

from bench.peers.programs import marks
from bench.peers.programs.files import WarmedUp


class Split(FlatMapFunction):
    """Emits a record for each word."""

    def flat_map(self, value: str) -> Iterator[str]:
        yield from value.split()


class Count(KeyedProcessFunction):
    """Emits the running count of each word."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterator[tuple[str, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


class Counting(FlatMapFunction):
    """A sink that counts its records, one per word."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, runtime_context: RuntimeContext) -> None:
        self.words = 0
        self.at_s = 0.0
        marks.tell(self.directory, lambda: (self.words, self.at_s))

    def flat_map(self, value: tuple[str, int]) -> Iterator[str]:
        self.words += 1
        self.at_s = time.monotonic()
        return iter(())


def main() -> int:
    """Run until stopped from outside."""
    settings = marks.settings()
    configuration = Configuration()
    for key, value in {"python.executable": sys.executable, **settings.options["configuration"]}.items():
        configuration.set_string(key, value)
    flink = StreamExecutionEnvironment.get_execution_environment(configuration)
    flink.set_parallelism(settings.parallelism)
    files = WarmedUp(settings, settings.parallelism)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), files.directory)
    source.monitor_continuously(Duration.of_millis(100))
    sentences = flink.from_source(source.build(), WatermarkStrategy.no_watermarks(), "sentences")
    words = sentences.flat_map(Split(), output_type=Types.STRING())
    counts = words.key_by(lambda word: word, key_type=Types.STRING()).process(
        Count(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()])
    )
    counts.flat_map(Counting(settings.marks), output_type=Types.STRING()).print()
    files.start()
    flink.execute("word count")
    return 0


if __name__ == "__main__":
    sys.exit(main())
