"""An archive of Spark's classes. With the archive, a JVM starts Spark in about two thirds of the time.

The archive is the JVM's own application class-data sharing (JEP 350): classes come parsed and verified from a
memory-mapped file. A JVM that finds other jars than those in the archive ignores the archive. The file, about 160 MB,
lies in the environment that PySpark is installed in. Its name contains the PySpark version and a hash of the Java and
PySpark installations that made it. tupletree/spark/prepare.py makes the file.
"""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from pathlib import Path

import pyspark


def archive() -> Path | None:
    """Return the path of the archive for this environment's PySpark and the Java that Spark would use.

    The archive need not exist. None if there is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return None
    real = os.path.realpath(java)
    key = zlib.crc32(f"{real} {os.stat(real).st_mtime_ns} {pyspark.__file__}".encode())
    return Path(sys.prefix, "share", "tupletree", f"spark-{pyspark.__version__}-{key:08x}.jsa")


def options() -> str:
    """Return the JVM options for the archive; empty if there is none. A JVM that cannot use it logs nothing."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} -Xlog:cds*=off" if path is not None and path.exists() else ""
