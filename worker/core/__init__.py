"""The hot path: all compiled modules of a worker, each with its ``.pxd``. Measure a change here (bench/word_count)."""
