"""Word count on PyFlink's Table API: split by a Python table function, counted and summed by SQL in the JVM.

The sink is SQL as well: it sums the counts, and the client reads the changing sum. So only the sentences and their
words pass through Python.
"""

# pyflink is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call, untyped-decorator"

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from pyflink.common import Configuration, RowKind
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import TableFunction, udtf

from bench.peers.programs import marks
from bench.peers.programs.files import WarmedUp

SENTENCES = """
CREATE TABLE sentences (sentence STRING)
WITH ('connector' = 'filesystem', 'path' = 'file://{files}', 'format' = 'raw', 'source.monitor-interval' = '100 ms')
"""
TOTAL = """
SELECT SUM(words) FROM (
    SELECT word, COUNT(*) AS words FROM sentences, LATERAL TABLE(words_of(sentence)) AS pieces(word) GROUP BY word
)
"""


class Split(TableFunction):
    """Emits a row for each word."""

    def eval(self, sentence: str) -> Iterator[str]:
        yield from sentence.split()


def main() -> int:
    """Run until stopped from outside."""
    settings = marks.settings()
    configuration = Configuration()
    own = {"python.executable": sys.executable, "parallelism.default": str(settings.parallelism)}
    for key, value in {**own, **settings.options["configuration"]}.items():
        configuration.set_string(key, value)
    flink = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    flink.create_temporary_function("words_of", udtf(Split(), result_types=[DataTypes.STRING()]))
    files = WarmedUp(settings, settings.parallelism)
    flink.execute_sql(SENTENCES.format(files=files.directory))
    files.start()
    with flink.execute_sql(TOTAL).collect() as totals:
        for row in totals:
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                marks.counted(settings.marks, "total", row[0], time.monotonic())
    return 0


if __name__ == "__main__":
    sys.exit(main())
