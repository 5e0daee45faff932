"""Docstrings as Markdown: an extension of griffe, which reads them for mkdocstrings."""

from __future__ import annotations

import ast
import re
from textwrap import dedent
from typing import Any

import griffe

DOCUMENT = re.compile(r"(?<!\]\()(?<![\w/])docs/([a-z0-9/-]+\.md)(#[\w-]+)?")
BLOCK = re.compile(r"(?<=\n\n)((?: {4}.*\n|\n)*? {4}.*)(?=\n\n(?! {4})|\n*\Z)")


def fenced(match: re.Match[str]) -> str:
    """Return an indented block with the colours of Python, if the block is Python."""
    code = dedent(match[1])
    try:
        ast.parse(code)
    except SyntaxError:
        return match[0]
    return f"```python\n{code}\n```"


def as_markdown(text: str) -> str:
    """Return a docstring with single colons before blocks, fences around Python, and links to the documents."""
    text = re.sub(r"::[ ]*$", ":", text, flags=re.MULTILINE)
    return DOCUMENT.sub(lambda found: f"[{found[1]}](../../{found[1]}{found[2] or ''})", BLOCK.sub(fenced, text))


class MarkdownDocstrings(griffe.Extension):
    """Makes Markdown of each docstring when it is found."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
