"""URLs of servers, checked where a topology is built, and shown without their secrets."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from urllib.parse import urlsplit

from tupletree.connectors.arguments import check


def checked_url(owner: str, url: str, schemes: Sequence[str]) -> str:
    """Return a URL that has one of the schemes and a host. Raises UsageError, which does not show the URL."""
    expected = f"{' or '.join(f'{scheme}://' for scheme in schemes)} with a host"
    check(owner, "url", url, isinstance(url, str), expected, is_secret=True)
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    check(owner, "url", url, is_valid and url.isprintable(), expected, is_secret=True)
    return url


def shown(url: str) -> str:
    """Return a URL without user, password and query."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
