"""Starts Storm's word count: one JVM with a LocalCluster, and processes for bolts in Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from bench.peers.programs import marks


def main() -> NoReturn:
    """Become the JVM."""
    settings = marks.settings()
    place = Path(sys.prefix)
    arguments = [settings.file, str(settings.count), settings.marks, str(settings.parallelism)]
    if settings.options["bolts"] == "python":
        arguments.append(sys.executable)
    classes = f"{place / 'classes'}:{place / 'jars'}/*"
    os.execvp("java", ["java", "-Xmx1g", "-cp", classes, "StormWords", *arguments])


if __name__ == "__main__":
    main()
