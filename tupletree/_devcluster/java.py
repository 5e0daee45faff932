"""Finding the requirements of the embedded ZooKeeper: Java 17 or newer, and the jars in PySpark."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

from tupletree._extras import PYSPARK
from tupletree.errors import UsageError

MINIMUM_JAVA: Final = 17
REMEDY: Final = f"Java {MINIMUM_JAVA} or newer is needed: on Debian, run `apt-get install openjdk-17-jre-headless`"

_INSTALLED: Final = "/usr/lib/jvm/*/bin/java"

# The few of PySpark's 300 jars that a standalone server loads; with all jars, it starts half a second later.
_SERVER_JARS: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-[0-9]*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j*-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
    "audience-annotations-*.jar",
    "netty-*.jar",
)


def find_java(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of ``java`` 17 or newer: from JAVA_HOME, then PATH, then /usr/lib/jvm.

    Raises UsageError, with installation advice in one sentence, if there is none.
    """
    too_old = ""
    for path in _java_candidates(environ):
        version = java_version(path)
        if version is not None and version >= MINIMUM_JAVA:
            return path
        if version is not None and not too_old:
            too_old = f" ({path} is Java {version})"
    raise UsageError(REMEDY + too_old)


def _java_candidates(environ: Mapping[str, str]) -> Iterator[str]:
    homes = [environ["JAVA_HOME"]] if environ.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    paths = [os.path.join(home, "bin", "java") for home in homes]
    paths += [on_path] if on_path else []
    paths += sorted(glob.glob(_INSTALLED), reverse=True)
    for path in paths:
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            yield path


def java_version(path: str) -> int | None:
    """Return the feature version (8, 11, 17, …) of ``java``, from its ``release`` file or by running it; else None."""
    release = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(path))), "release")
    try:
        with open(release, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        text = ""
    match = re.search(r'JAVA_VERSION="([^"]+)"', text)
    if match is None:
        try:
            asked = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    if match is None:
        return None
    numbers = re.findall(r"\d+", match.group(1))
    if not numbers:
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def zookeeper_class_path() -> str:
    """Return the class path of a standalone ZooKeeper server, from PySpark's jars. PySpark is located, not imported.

    Raises UsageError if PySpark is not installed or contains no ZooKeeper.
    """
    spec = importlib.util.find_spec("pyspark")
    for home in (spec.submodule_search_locations or []) if spec is not None else []:
        jars = os.path.join(home, "jars")
        found = [
            path for pattern in _SERVER_JARS for path in sorted(glob.glob(os.path.join(glob.escape(jars), pattern)))
        ]
        if any(os.path.basename(path).startswith("zookeeper-") for path in found):
            return os.pathsep.join(found)
    raise UsageError(f"the embedded ZooKeeper comes with PySpark's jars: {PYSPARK}")
