"""An archive of Spark's classes: with it, a JVM starts Spark in about two thirds of the time.

The file, about 160 MB, is described in tupletree/_class_archive.py. tupletree/spark/prepare.py makes the file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyspark

from tupletree import _class_archive


def archive() -> Path | None:
    """Return the path of the archive for this environment's PySpark and the Java that Spark would use.

    The archive need not exist. None if there is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return None
    return _class_archive.path_of(f"spark-{pyspark.__version__}", java, pyspark.__file__)


def options() -> str:
    """Return the JVM options for the archive; empty if there is none. A JVM that cannot use it logs nothing."""
    path = archive()
    return " ".join(_class_archive.options(path)) if path is not None else ""
