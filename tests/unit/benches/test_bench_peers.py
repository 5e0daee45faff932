"""The comparison with peers: rows by name, environments that are not there, runs of a program, medians and ratios."""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench.peers import __main__ as command
from bench.peers import environments, report, trial
from bench.peers.environments import UnavailableError
from bench.peers.programs import marks
from bench.peers.programs.files import WarmedUp
from bench.peers.programs.marks import Settings
from bench.peers.rows import BASE, PEERS, ROWS, TABLES, Table, UnknownRowError, chosen
from tupletree.testing import wait_until

COUNT = """
import subprocess, sys, time
from bench.peers.programs import marks
settings = marks.settings()
marks.first_record(settings.marks)
words = sum(len(sentence.split()) for sentence in settings.sentences())
"""
TELL = "marks.counted(settings.marks, 'a', words, time.monotonic())\n"


def names(*only: str) -> list[str]:
    return [row.name for row in chosen(only)]


def program(code: str, file: Path, timeout_s: float = 60) -> trial.Program:
    file.write_text("one two\nthree\n")
    return trial.Program([sys.executable, "-c", code], {}, Settings(str(file), 3, 1, "", {}), 5, 5, timeout_s)


def test_rows_are_chosen_by_peer_or_by_the_beginning_of_a_name() -> None:
    assert names() == [row.name for row in ROWS]
    assert names("bytewax-batched-2") == [BASE, "bytewax-batched-2"]
    assert names("pathway") == [BASE, *(row.name for row in ROWS if row.peer == "pathway")]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_base_of_a_table_is_always_measured(table: Table) -> None:
    assert table.base in [row.name for row in chosen([table.rows[-1].name], table)]
    assert len({row.name for row in table.rows}) == len(table.rows)


def test_a_name_that_nothing_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownRowError, match=r"bytewacks; did you mean bytewax\?"):
        chosen(["bytewacks"])
    with pytest.raises(UnknownRowError, match=r"called qqq$"):
        chosen(["qqq"])


def test_the_command_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "bytewacks"])
    assert ended.value.code == 2
    assert "did you mean bytewax?" in capsys.readouterr().err


@pytest.mark.parametrize("peer", PEERS)
def test_an_environment_that_is_not_set_up_says_how_to(peer: str, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=f"bench.peers setup --only {peer}"):
        environments.find(tmp_path, peer)


def test_why_an_environment_could_not_be_set_up_is_kept(tmp_path: Path) -> None:
    (tmp_path / "bytewax").mkdir()
    (tmp_path / "bytewax" / "reason").write_text("no wheel for this machine")
    with pytest.raises(UnavailableError, match="no wheel for this machine"):
        environments.find(tmp_path, "bytewax")


def test_an_environment_with_other_versions_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "bytewax").mkdir()
    (tmp_path / "bytewax" / "installed").write_text("bytewax==0.1\n")
    with pytest.raises(UnavailableError, match="not set up"):
        environments.find(tmp_path, "bytewax")


def test_a_program_that_counts_right_has_figures(tmp_path: Path) -> None:
    figures = trial.measure(program(COUNT + TELL, tmp_path / "sentences"))
    assert figures["words"] == 5
    assert figures["words_per_s"] > 0
    assert figures["cpu_us_per_word"] >= 0


def test_sinks_may_get_fewer_words_than_there_are(tmp_path: Path) -> None:
    code = COUNT + "words -= 2\n" + TELL
    figures = trial.measure(dataclasses.replace(program(code, tmp_path / "sentences"), counted=3))
    assert figures["words"] == 5


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (COUNT + "words += 1\n" + TELL, "counted 6 words, not 5"),
        (COUNT + "words -= 1\n" + TELL, "ended after 4 of 5 words"),
        ("raise SystemExit('no such engine')", "ended after 0 of 5 words: no such engine"),
    ],
)
def test_a_program_that_counts_wrong_has_none(tmp_path: Path, code: str, reason: str) -> None:
    with pytest.raises(trial.FailedError, match=reason):
        trial.measure(program(code, tmp_path / "sentences"))


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(trial.FailedError, match=r"counted 0 of 5 words in 0\.1 s"):
        trial.measure(program("import time; time.sleep(600)", tmp_path / "sentences", timeout_s=0.1))


def test_no_process_of_a_program_outlives_it(tmp_path: Path) -> None:
    child = "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    told = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
    figures = trial.measure(program(COUNT + child + told + TELL, tmp_path / "sentences"))
    assert figures["peak_rss_mb"] > 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_medians_and_ratios() -> None:
    def one(words_per_s: int) -> dict[str, Any]:
        return {"words": 10, "words_per_s": words_per_s, "cpu_us_per_word": 2.0, "peak_rss_mb": 100}

    rows = {
        BASE: report.summary([one(900), one(1000), one(3000)]),
        "bytewax-batched-1": report.summary([one(500), one(400), one(100)]),
        "pathway-files-1": {"exact": False, "reason": "it counted 9 words, not 10"},
    }
    assert rows[BASE]["words_per_s"] == 1000
    assert rows[BASE]["words_per_s_by_round"] == [900, 1000, 3000]
    assert report.ratios(rows, BASE) == {"bytewax-batched-1": 2.5}
    result = {"base": BASE, "rows": rows, "ratios": report.ratios(rows, BASE), "unavailable": {"storm": "no mvn"}}
    lines = report.table(result).splitlines()
    assert lines[1].startswith(BASE)
    assert "2.50 times that" in lines[2]
    assert lines[3:] == [
        "pathway-files-1: wrong: it counted 9 words, not 10",
        "storm: not available: no mvn",
    ]


def test_files_come_when_the_warm_up_came_through_and_its_words_are_taken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    marked = tmp_path / "marks"
    marked.mkdir()
    (tmp_path / "sentences").write_text("one two\nthree\n")
    files = WarmedUp(Settings(str(tmp_path / "sentences"), 3, 1, str(marked), {}), 2)
    files.start()
    (warm_up,) = Path(files.directory).iterdir()
    words = len(warm_up.read_text().split())
    told = marks.read(marked)
    assert (told.words, told.first_s) == (-words, None)
    marks.counted(str(marked), "sink", words, 1.0)
    wait_until(lambda: len(list(Path(files.directory).iterdir())) == 3, 30, what="the other files")
    lines = [line for file in Path(files.directory).glob("[0-9]*") for line in file.read_text().splitlines()]
    assert sorted(lines) == ["one two", "one two", "three"]
    assert marks.read(marked).first_s is not None
