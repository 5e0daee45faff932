"""What ``python -m examples.spark_word_count`` does: the pipeline on a whole cluster, with kill -9 all around it."""
