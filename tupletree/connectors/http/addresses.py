"""URLs of servers, checked where a topology is built, and shown without their secrets."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from urllib.parse import urlsplit

from tupletree.connectors.arguments import check_text
from tupletree.errors import UsageError


def checked_url(owner: str, url: str, schemes: Sequence[str]) -> str:
    """Return a URL that has one of the schemes and a host. Raises UsageError, which does not show the URL."""
    check_text(owner, "url", url, is_secret=True)
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid or not url.isprintable():
        expected = " or ".join(f"{scheme}://" for scheme in schemes)
        raise UsageError(f"{owner}: url is not valid; {expected} with a host was expected")
    return url


def shown(url: str) -> str:
    """Return a URL without user, password and query."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
