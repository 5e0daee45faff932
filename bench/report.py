"""Write docs/performance.md and its charts from the newest record of each bench.

    python -m bench.report            write them
    python -m bench.report --check    only say whether they are up to date: exit status 1 if not

The page holds the figures of bench/results/*.json and the texts of bench/_sections.py, so it can be generated again
and compared at any time.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import _chart
from bench._record import RESULTS
from bench._sections import LINGERS, SECTIONS, Section

ROOT: Final = RESULTS.parent.parent
PAGE: Final = "docs/performance.md"
IMAGES: Final = "docs/images"

HEAD: Final = """# Performance

`python -m bench.report` generates this page from [bench/results](../bench/results): do not edit it.
[bench/README.md](../bench/README.md) describes what each bench measures and how to run it. The figures of one section
come from one run, which alternates between the cases; each figure is a median over the rounds. Different sections may
come from different machines and commits, so do not compare them. `others_cores` is the number of processors that other
programs used during the run. If it is not near 0, rates are too low; compare the processor time per item instead.
"""

Record = Mapping[str, Any]


def newest(directory: Path) -> dict[str, Record]:
    """Return one record of each bench: the newest of several rounds; if there is none, the newest of all."""
    found: dict[str, Record] = {}
    for path in sorted(directory.glob("*.json")):
        record: Record = json.loads(path.read_text())
        name = str(record["benchmark"])
        if name not in found or _rank(record) > _rank(found[name]):
            found[name] = record
    return found


def _rank(record: Record) -> tuple[bool, str]:
    return "rounds" in record, str(record["at"])


def pages(records: Mapping[str, Record]) -> dict[str, str]:
    """Return every file to write, by path: the page and its charts."""
    files: dict[str, str] = {}
    known = {section.name: section for section in SECTIONS}
    others = [Section(name, name.replace("_", " ").capitalize(), "") for name in sorted(set(records) - set(known))]
    parts = [HEAD]
    for section in (*SECTIONS, *others):
        record = records.get(section.name)
        if record is not None:
            parts.append(_section(section, record, files))
        if section.name == "latency":
            parts.append(LINGERS)
    files[PAGE] = "\n".join(parts)
    return files


def _section(section: Section, record: Record, files: dict[str, str]) -> str:
    result = record["result"]
    lines = [
        f"## {section.title}",
        "",
        *([textwrap.fill(section.text, 120), ""] if section.text else []),
        _origin(record),
        "",
    ]
    charted = {case: figures[section.chart] for case, figures in _cases(result).items() if section.chart in figures}
    if len(charted) > 1:
        name = f"{section.name.replace('_', '-')}.svg"
        files[f"{IMAGES}/{name}"] = _drawn(section, charted)
        lines += [f"![{section.chart_title or section.chart}](images/{name})", ""]
    lines += comparison(result) if "rows" in result else tables(result, section.columns, section.axis)
    lines += [f"* {sentence}" for sentence in section.words(_cases(result))]
    for text, above, below in section.ratios:
        ratio = _ratio(_cases(result), section.chart, above, below)
        if ratio is not None:
            lines.append(f"* {text}: {ratio:.2f}")
    return "\n".join(lines).rstrip() + "\n"


def _drawn(section: Section, charted: Mapping[str, float]) -> str:
    title = section.chart_title or section.chart
    if section.axis and min(charted.values()) > 0:
        return _chart.curve(title, section.axis, {int(point): value for point, value in charted.items()})
    return _chart.bars(title, charted)


def _origin(record: Record) -> str:
    machine, commit = record["machine"], record["commit"]
    rounds = record["config"].get("rounds")
    changed = " and changes" if commit["is_changed"] else ""
    of_rounds = f", {rounds} round{'s' if rounds != 1 else ''}" if rounds else ""
    hot_path = f", {record['hot_path']}" if "hot_path" in record else ""
    nice = f", niceness {record['niceness']}" if record.get("niceness") else ""
    return (
        f"*{str(record['at'])[:10]}, commit {str(commit['id'])[:7]}{changed}{hot_path}{of_rounds}{nice}; "
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_mb'] / 1024:.0f} GB, {machine['python']}*"
    )


def _cases(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the cases of a result, or the rows of a comparison, for a chart."""
    rows = result.get("rows", result)
    return {name: figures for name, figures in rows.items() if isinstance(figures, dict)}


def _ratio(cases: Mapping[str, Mapping[str, Any]], figure: str, above: str, below: str) -> float | None:
    if above not in cases or below not in cases:
        return None
    return float(cases[above][figure] / cases[below][figure])


def tables(result: Mapping[str, Any], columns: Sequence[str] = (), axis: str = "") -> list[str]:
    """Return a result as Markdown: a table of its single values, then a table of its cases, recursively.

    The cases are numbers of the ``axis``, if there is one.
    """
    single = {name: value for name, value in result.items() if not isinstance(value, dict)}
    cases = {name: value for name, value in result.items() if isinstance(value, dict)}
    flat = {name: _flat(case) for name, case in cases.items() if not _is_deep(case)}
    lines: list[str] = []
    if single:
        lines += _table(["figure", "value"], [[name, shown(value)] for name, value in single.items()])
    if len(flat) == 1:
        [(_, only)] = flat.items()
        lines += _table(["figure", "value"], [[name, shown(value)] for name, value in only.items()])
    elif flat:
        names = list(columns) or list(dict.fromkeys(key for case in flat.values() for key in case))
        rows = [
            [shown(int(name)) if axis else name, *(shown(case.get(column)) for column in names)]
            for name, case in flat.items()
        ]
        lines += _table([axis, *names], rows)
    for name, case in cases.items():
        if _is_deep(case):
            lines += [f"**{name}**", "", *tables(case, columns)]
    return lines


def comparison(result: Mapping[str, Any]) -> list[str]:
    """Return the result of ``bench.peers``: fastest first, with ratios, then everything that could not be measured."""
    right = {name: row for name, row in result["rows"].items() if row["exact"]}
    fastest = sorted(right, key=lambda name: -right[name]["words_per_s"])
    figures = ("words_per_s", "cpu_us_per_word", "peak_rss_mb")
    rows = [
        [name, *(shown(right[name][figure]) for figure in figures), shown(result["ratios"].get(name))]
        for name in fastest
    ]
    lines = _table(["", *figures, f"speed-up of {result['base']}"], rows)
    lines += [f"* {name}: wrong: {row['reason']}" for name, row in result["rows"].items() if not row["exact"]]
    lines += [f"* {peer}: not available: {reason}" for peer, reason in result["unavailable"].items()]
    return [*lines, ""]


def _is_deep(case: Mapping[str, Any]) -> bool:
    """True if a case consists of further cases (dicts) alone, without a figure of its own."""
    return bool(case) and all(isinstance(value, dict) for value in case.values())


def _flat(case: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested metrics into names such as ``inside.parse``."""
    found: dict[str, Any] = {}
    for name, value in case.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": one for inner, one in _flat(value).items()}
        else:
            found[name] = value
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [*("| " + " | ".join(row) + " |" for row in (head, rule, *rows)), ""]


def shown(value: Any) -> str:
    """Format one value of a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _chart.figure(value)
    if isinstance(value, list):
        return ", ".join(shown(one) for one in value)
    return str(value).replace("|", "\\|")


def stale(files: Mapping[str, str], root: Path) -> list[str]:
    """Return the outdated paths below ``root``, including charts that no page shows any more."""
    images = {str(path.relative_to(root)) for path in (root / IMAGES).glob("*.svg")}
    wrong = {path for path, text in files.items() if not (root / path).exists() or (root / path).read_text() != text}
    return sorted(wrong | (images - set(files)))


def main(argv: Sequence[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    arguments = parser.parse_args(argv)
    files = pages(newest(RESULTS))
    wrong = stale(files, ROOT)
    if arguments.check:
        if wrong:
            print(f"not up to date with bench/results: {', '.join(wrong)}. Run python -m bench.report", file=sys.stderr)
        return 1 if wrong else 0
    for path in wrong:
        if path in files:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(files[path])
        else:
            (ROOT / path).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
