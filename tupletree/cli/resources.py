"""Amounts of resources as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tupletree.client import ComponentNeeds


def amount(value: float) -> str:
    """Return a number with at most three decimals, such as ``1,500`` or ``0.5``."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


def named_text(resources: Mapping[str, float]) -> str:
    """Return named resources, such as ``gpu: 2``."""
    return ", ".join(f"{name}: {amount(value)}" for name, value in sorted(resources.items()))


def needs_line(component: str, needs: ComponentNeeds) -> str:
    """Return what each executor of a component needs, as a sentence without its end."""
    parts = [f"{amount(needs.cpu_percent)}% of a processor", f"{amount(needs.memory_mb)} MB of memory"]
    parts += [f"{amount(value)} {name}" for name, value in sorted(needs.resources.items())]
    return f"each executor of '{component}' needs {', '.join(parts[:-1])} and {parts[-1]}"
