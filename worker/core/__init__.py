"""The hot path: all compiled modules of a worker, each with its ``.pxd``. Measure changes here (bench/word_count)."""
