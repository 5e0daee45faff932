"""What pipelines in these tests are configured with, so that they share the session of their process."""

from __future__ import annotations

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options that halve the processor time of a JVM that ends within minutes."""

LOCAL = {
    "spark.master": "local[2]", "spark.ui.enabled": False, "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
}  # fmt: skip
