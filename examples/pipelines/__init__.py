"""The program ``python -m examples.spark_word_count``: the pipeline on a whole cluster, with random kill -9."""

BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""JVM options for short runs: they halve the CPU time of a JVM that runs for minutes, by disabling slow optimisations.
"""
