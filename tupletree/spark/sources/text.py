"""Text files, one row per line."""

from __future__ import annotations

from pathlib import Path

from tupletree.spark.sources.lines import LineFiles


class TextFiles(LineFiles):
    r"""The lines of files as rows of one column, ``value``, without their line ends (``\n`` or ``\r\n``).

    ``files``: a directory, of which all files are read except hidden files and files in subdirectories; a single file;
    or a pattern such as ``/data/**/*.log``. A relative path is relative to the directory in which this object is made.
    The files must have the same path for the pipeline's task and for Spark's executors.

    ``max_bytes_per_batch``: the maximum size of a batch, from all files together, in bytes or as "512KB", "4MB", "1GB".
    Files take turns, in the order of their names. A line that is longer than the maximum is a batch of its own.

    ``are_complete``: True if nothing is appended any more, so that a last line without a line end counts as a line.
    Otherwise the last line waits for its line end.

    ``encoding``: the encoding of the lines, in which a line end must be one byte. ``errors``: the treatment of bytes
    that are invalid in the encoding, as for ``bytes.decode``: "strict" fails the batch with an error that names file
    and byte, "replace" inserts U+FFFD.

    Files may grow, and new files may be added. It is an error if a file shrinks, or vanishes before a batch with its
    lines is committed; the error ends when the file is back. Do not reuse file names: a new file under an old name is
    not read from its beginning. The names of all files are stored until the transactional id is deleted, so this source
    is meant for some thousands of files.

    UsageError for invalid arguments.
    """

    def __init__(
        self,
        files: str | Path,
        max_bytes_per_batch: int | str = "4MB",
        *,
        are_complete: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        super().__init__(files, max_bytes_per_batch, are_complete=are_complete, encoding=encoding, errors=errors)
