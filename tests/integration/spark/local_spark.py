"""What pipelines in these tests are configured with, so that they share the session of their process."""

from __future__ import annotations

LOCAL = {"spark.master": "local[2]", "spark.ui.enabled": False, "spark.driver.memory": "1g"}
