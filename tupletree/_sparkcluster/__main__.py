"""The process of a cluster on Spark, which runs the spec of a directory.

python -m tupletree._sparkcluster DIRECTORY TIMEOUT_S
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from tupletree._devcluster.foreground import lock_directory, stopping_on_signals
from tupletree._sparkcluster.application import Application
from tupletree._sparkcluster.record import ClusterDirectory, Record
from tupletree.errors import TupletreeError, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application until SIGTERM. Exit status: 0; 1 if the cluster failed; 2 if it was asked for wrongly."""
    path, timeout = sys.argv[1:] if argv is None else argv
    directory = ClusterDirectory(path)
    record: Record | None = None

    def changed(new: Record) -> None:
        nonlocal record
        record = new
        directory.save(new)

    try:
        with lock_directory(directory.path):
            spec = directory.load_spec()
            changed(
                Record(os.getpid(), "starting", spec.master, spec.machines, spec.ackers, is_embedded=spec.is_embedded)
            )
            assert record is not None
            application = Application(directory.path, spec, record, changed, _say)
            with stopping_on_signals(application.stop):
                application.run(float(timeout))
    except TupletreeError as error:
        _say(f"tupletree: {error}")
        if record is not None:
            directory.save(_failed(record, error))
        return 2 if isinstance(error, UsageError) else 1
    return 0


def _failed(record: Record, error: TupletreeError) -> Record:
    return replace(record, phase="failed", error=str(error), is_usage=isinstance(error, UsageError))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
