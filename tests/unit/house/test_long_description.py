"""The long description of a package: README.md, whose links work on the page of a package index."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
REPOSITORY = "https://github.com/tupletree/tupletree"


@pytest.fixture(scope="module")
def setup_file() -> Any:
    """The functions of setup.py, which builds nothing when it is imported."""
    spec = importlib.util.spec_from_file_location("setup_file", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](texts/a.md)", "[a](https://host.example/p/blob/main/texts/a.md)"),
        ("[a\nb](texts/a.md#part)", "[a\nb](https://host.example/p/blob/main/texts/a.md#part)"),
        ("![a](texts/a.png)", "![a](https://host.example/p/raw/main/texts/a.png)"),
        ("[a](examples/)", "[a](https://host.example/p/tree/main/examples/)"),
        ("[a](https://other.example/a.md)", "[a](https://other.example/a.md)"),
        ("[a](#part), [b](mailto:b@host.example)", "[a](#part), [b](mailto:b@host.example)"),
        ("```python\nx[0](y)\n```", "```python\nx[0](y)\n```"),
        ("`x[0](y)`", "`x[0](y)`"),
    ],
)
def test_relative_links_are_made_absolute_and_nothing_else(setup_file: Any, text: str, shown: str) -> None:
    assert setup_file.with_absolute_links(text, "https://host.example/p/") == shown


def test_every_link_and_picture_of_the_readme_leads_to_a_file_of_the_repository(setup_file: Any) -> None:
    text = setup_file.long_description()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) >= 30
    assert [one for one in targets if not one.startswith("https://")] == []
    own = [one.removeprefix(f"{REPOSITORY}/").partition("#")[0] for one in targets if one.startswith(REPOSITORY)]
    assert "raw/main/docs/images/ui/topology.png" in own
    for one in own:
        kind, branch, path = one.split("/", 2)
        assert branch == "main"
        assert kind == ("tree" if (ROOT / path).is_dir() else "raw" if path.endswith(".png") else "blob")
        assert (ROOT / path).exists()
    assert text.count("](") == (ROOT / "README.md").read_text().count("](")
