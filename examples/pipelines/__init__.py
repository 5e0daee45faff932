"""What ``python -m examples.spark_word_count`` does: the pipeline on a whole cluster, with kill -9 all around it."""

BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Halves the processor time of a JVM that ends within minutes: what takes long to pay off is left out."""
