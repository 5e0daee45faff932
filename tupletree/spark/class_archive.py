"""An archive of Spark's classes, from which a JVM starts Spark in about two thirds of the time.

It is the JVM's own application class-data sharing (JEP 350): classes come parsed and verified out of a file that is
mapped into memory. A JVM that finds other jars than those of the archive does without it. The file, about 160 MB, lies
in the environment that PySpark is installed in; its name says which PySpark and which Java it was made with.
tupletree/spark/prepare.py makes it.
"""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from pathlib import Path

import pyspark


def archive() -> Path | None:
    """Where the archive of this environment's PySpark and of the Java that Spark would use is or would be.

    None if there is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return None
    real = os.path.realpath(java)
    key = zlib.crc32(f"{real} {os.stat(real).st_mtime_ns} {pyspark.__file__}".encode())
    return Path(sys.prefix, "share", "tupletree", f"spark-{pyspark.__version__}-{key:08x}.jsa")


def options() -> str:
    """What a JVM is started with so that it uses the archive, if there is one. Nothing is said if it cannot."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} -Xlog:cds*=off" if path is not None and path.exists() else ""
