"""Text files, a row for each line."""

from __future__ import annotations

from pathlib import Path

from tupletree.spark.sources.lines import LineFiles


class TextFiles(LineFiles):
    r"""The lines of files as rows of one column, ``value``, without their line ends (``\n`` or ``\r\n``).

    ``files``: a directory, of which all files are read but hidden ones and those in folders; a single file; or a
    pattern such as ``/data/**/*.log``. A relative path is one of the directory that this object is made in. The files
    must be there at the same path for the pipeline's task and for Spark's executors.

    ``max_bytes_per_batch``: of all files together, in bytes or as "512KB", "4MB", "1GB"; files take turns, in the order
    of their names. A longer line is a batch of its own.

    ``are_complete``: nothing is appended any more, so a last line without a line end is one as well. Otherwise it waits
    for its end.

    ``encoding``: of the lines; one in which a line end is one byte. ``errors``: what becomes of bytes that are none in
    that encoding, as for ``bytes.decode``: "strict" fails the batch with an error that names file and byte, "replace"
    puts U+FFFD.

    Files may grow, and more may come; they join in. One that shrinks or, while a batch of it is not committed,
    vanishes, is an error, which goes away when the file is back. A name is used once: another file under the name of
    one that was read is not read from its beginning. Names are kept as long as the transactional id is: it is meant for
    some thousands of files.

    UsageError for arguments that are not that.
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
