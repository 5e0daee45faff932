"""Names of files of namespaces."""

from __future__ import annotations  # pure

import hashlib
import re


def readable_name(namespace: str) -> str:
    """Return a readable file name that every file system accepts. The digest makes it unique to the namespace."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", namespace).strip(".-")[:80]
    digest = hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{readable}-{digest}"
