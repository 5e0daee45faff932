"""``tupletree logs``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tupletree.cli.options import client_options, complete_components, json_option, name_argument
from tupletree.cli.output import clock, count, message_dict, print_json, print_table
from tupletree.cli.statuses import printable
from tupletree.cli.workers import (
    Following,
    Position,
    Source,
    gone_sources,
    in_order,
    last_lines,
    past_sources,
    sources,
    worker_option,
)
from tupletree.errors import ForbiddenError, NotFoundError, ProtocolError, TupletreeError, UnavailableError, UsageError

if TYPE_CHECKING:
    from tupletree.client import LogFile, LogMatch, NimbusClient, SearchEnd

_Answer = TypeVar("_Answer")

_BYTES_A_LINE: Final = 400  # a generous guess: more is read than is shown
_MIN_BYTES: Final = 64 * 1024
_LONGEST: Final = 20_000  # characters of a line
_MAX_WORKERS: Final = 16  # asked at the same time


@click.command("logs")
@name_argument
@worker_option
@click.option(
    "-m", "--component", shell_complete=complete_components, help="Show only workers that run this component."
)
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Lines to show of the end of each log.",
)
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until interrupted.")
@click.option(
    "--file",
    default="worker.log",
    show_default=True,
    metavar="FILE",
    help="File to read: worker.log, worker.out (standard output), events.jsonl, or a name from --list.",
)
@click.option("--past", is_flag=True, help="Show stored logs of slots that the topology no longer uses.")
@click.option("--list", "as_list", is_flag=True, help="List the log files.")
@click.option("--search", "pattern", metavar="TEXT", help="Search for this text, also in rotated files.")
@click.option("--regex", "is_regex", is_flag=True, help="Treat TEXT as a regular expression (RE2 syntax).")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case in --search.")
@click.option(
    "-C",
    "--context",
    type=click.IntRange(0, 20),
    default=0,
    show_default=True,
    metavar="LINES",
    help="Lines to show before and after each match of --search.",
)
@click.option(
    "--most",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    metavar="N",
    help="Maximum matches of --search per worker.",
)
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    worker: str | None,
    component: str | None,
    lines: int,
    follow: bool,
    file: str,
    past: bool,
    as_list: bool,
    pattern: str | None,
    is_regex: bool,
    ignore_case: bool,
    context: int,
    most: int,
    as_json: bool,
) -> None:
    """Show, follow or search the logs of a topology's workers, through the supervisors of their machines.

    With several workers, each line starts with its worker, and the lines are sorted by time. --follow continues across
    rotated logs, restarted or moved workers, and supervisors that are temporarily unavailable. With --json, each line
    is an object. NAME may be that of a topology that was removed, or its id: see 'tupletree history'.

    Exit status 0 even if --search finds no match; 2 for a wrong name, pattern or file.

    \b
    Examples:
      tupletree logs word_count --follow
      tupletree logs word_count --worker 6700 --lines 200
      tupletree logs word_count --search ERROR -C 3
      tupletree logs word_count --search 'timed? ?out' --regex -i --json
      tupletree logs word_count --file worker.out
      tupletree logs word_count --past --list
    """
    _check_options(pattern, is_regex or ignore_case or bool(context), follow, past, component)

    def select() -> list[Source]:
        return _past(client, name, worker) if past else sources(client, name, worker, component)

    try:
        found = select()
    except (NotFoundError, ForbiddenError) as error:  # the latter says as well that there is no such topology
        found = _gone(client, name, worker, follow or component is not None, error)
    if as_list:
        _list(client, found, as_json)
    elif pattern is not None:
        around = {"before": context, "after": context, "max_matches": most}
        query = {"file": file, "is_regex": is_regex, "ignore_case": ignore_case, **around}
        _search(client, found, pattern, query, as_json)
    else:
        _show(client, name, found, file, lines, follow, as_json, select)


def _check_options(
    pattern: str | None, has_search_options: bool, follow: bool, past: bool, component: str | None
) -> None:
    if pattern is None and has_search_options:
        raise UsageError("--regex, --ignore-case and --context require --search")
    if pattern is not None and follow:
        raise UsageError("--search reads existing lines and --follow new lines: use only one of them")
    if past and (follow or component is not None):
        raise UsageError(
            "--past shows finished logs of former slots, components unknown: omit --follow and --component"
        )


def _past(client: NimbusClient, name: str, worker: str | None) -> list[Source]:
    found, away = past_sources(client, name, worker)
    if not found and away:
        raise away[0]
    _tell_away(away)
    if not found:
        raise UsageError(f"topology '{name}' has no stored logs of former slots")
    return found


def _gone(
    client: NimbusClient, name: str, worker: str | None, is_of_running: bool, error: TupletreeError
) -> list[Source]:
    """Return the slots with stored logs of a topology that was removed. Raises ``error`` if none is remembered."""
    try:
        topology, found, away = gone_sources(client, name, worker)
    except (NotFoundError, ProtocolError):  # the latter of a nimbus of an earlier version
        raise error from None
    if is_of_running:
        raise UsageError(f"topology '{name}' was removed: omit --follow and --component")
    if not found and away:
        raise away[0]
    _tell_away(away)
    if not found and worker is not None:
        raise NotFoundError(f"no supervisor has logs of a worker {worker} of topology {topology.id}")
    if not found:
        raise NotFoundError(
            f"no supervisor has logs of topology {topology.id} any more (supervisor.logs.retention.secs)"
        )
    return found


def _ask_each(found: Sequence[Source], ask: Callable[[Source], _Answer]) -> list[tuple[Source, _Answer]]:
    """Return the reply of each worker's supervisor. Unavailable supervisors are named on standard error.

    Raises:
        UnavailableError: all supervisors are unavailable.
    """

    def answer(source: Source) -> tuple[Source, _Answer] | UnavailableError:
        try:
            return source, ask(source)
        except UnavailableError as error:
            return error

    with ThreadPoolExecutor(_MAX_WORKERS) as pool:
        answers = list(pool.map(answer, found))
    away = [one for one in answers if isinstance(one, UnavailableError)]
    if len(away) == len(answers):
        raise away[0]
    _tell_away(away)
    return [one for one in answers if not isinstance(one, UnavailableError)]


def _tell_away(away: Sequence[UnavailableError]) -> None:
    for sentence in sorted({str(error) for error in away}):
        click.echo(f"tupletree: some workers are missing: {sentence}", err=True)


def _show(
    client: NimbusClient,
    name: str,
    found: Sequence[Source],
    file: str,
    lines: int,
    follow: bool,
    as_json: bool,
    select: Any,
) -> None:
    width = max(len(source.worker) for source in found)
    is_named = len(found) > 1 or follow

    def show(source: Source, line: str) -> None:
        if as_json:
            print_json({"worker": source.worker, "line": line})
        else:
            shown = printable(line.expandtabs(), _LONGEST)
            click.echo(f"{source.worker:{width}} | {shown}" if is_named else shown)

    def last(source: Source) -> tuple[Sequence[str], Position]:
        some, end = last_lines(client, source, file, max(_MIN_BYTES, lines * _BYTES_A_LINE))
        return some[-lines:] if lines else [], end

    answers = _ask_each(found, last)
    ends = {source: end for source, (_, end) in answers}
    if not follow and not any(end.file_id for end in ends.values()):
        raise NotFoundError(f"no worker of topology '{name}' has written to {file} yet")
    for source, line in in_order((source, some) for source, (some, _) in answers):
        show(source, line)
    if not follow:
        return
    away = [source for source in found if source not in ends]
    following = Following(client, name, file, ends, select, away, last)
    try:
        for arrived in following.lines():
            if arrived is not None:
                show(*arrived)
                sys.stdout.flush()
        click.echo(f"topology '{name}' was removed", err=True)
    except KeyboardInterrupt:
        return
    finally:
        following.close()


def _list(client: NimbusClient, found: Sequence[Source], as_json: bool) -> None:
    def ask(source: Source) -> Sequence[LogFile]:
        return client.list_logs(source.supervisor, source.topology_id, source.port)

    files = [(source, file) for source, listed in _ask_each(found, ask) for file in listed]
    if as_json:
        print_json(
            [
                {"worker": source.worker, "file": f.name, "bytes": f.size, "modified_unix_s": f.modified_unix_s}
                for source, f in files
            ]
        )
        return
    rows = [(source.worker, f.name, count(f.size), clock(f.modified_unix_s)) for source, f in files]
    print_table(["worker", "file", "bytes>", "modified"], rows)


def _search(client: NimbusClient, found: Sequence[Source], pattern: str, query: dict[str, Any], as_json: bool) -> None:
    from tupletree.client import LogMatch, SearchEnd

    def ask(source: Source) -> list[LogMatch | SearchEnd] | NotFoundError:
        try:
            return list(client.search_log(source.supervisor, source.topology_id, source.port, pattern, **query))
        except NotFoundError as error:  # this worker has no such file
            return error

    answers = _ask_each(found, ask)
    if all(isinstance(answer, NotFoundError) for _, answer in answers):
        raise NotFoundError(f"no worker of the topology has a {query['file']} yet")
    total = 0
    for source, answer in answers:
        found_there = [] if isinstance(answer, NotFoundError) else answer
        matches = [one for one in found_there if isinstance(one, LogMatch)]
        total += len(matches)
        if as_json:
            for match in matches:
                print_json({"worker": source.worker, **message_dict(match.raw)})
        else:
            _show_matches(source, matches, bool(query["before"]))
        for one in found_there:
            if isinstance(one, SearchEnd):
                _show_end(source, one, as_json)
    if not as_json and not total:
        click.echo("no matches")


def _show_matches(source: Source, matches: Sequence[LogMatch], has_context: bool) -> None:
    """Print one worker's matches in their order, and each context line once."""
    shown: dict[tuple[str, int], tuple[str, bool]] = {}  # by file and offset
    ends: dict[tuple[str, int], tuple[str, int]] = {}  # where the next line is
    for match in matches:
        for number, (offset, line) in enumerate(
            zip(_offsets(match), [*match.before, match.line, *match.after], strict=True)
        ):
            place = (match.file, offset)
            is_match = number == len(match.before) or shown.get(place, ("", False))[1]
            shown[place] = (line, is_match)
            ends[place] = (match.file, offset + len(line.encode()) + 1)
    files = {match.file: number for number, match in enumerate(reversed(matches))}
    expected = None
    for place in sorted(shown, key=lambda place: (-files[place[0]], place[1])):
        line, is_match = shown[place]
        if has_context and expected not in (None, place):
            click.echo("--")
        mark = "|" if not has_context else ">" if is_match else " "
        click.echo(f"{source.worker} {place[0]} {mark} {printable(line.expandtabs(), _LONGEST)}")
        expected = ends[place]


def _offsets(match: LogMatch) -> list[int]:
    """Return the offsets of a match and of the lines around it, assuming text."""
    before = [len(line.encode()) + 1 for line in match.before]
    after = [len(line.encode()) + 1 for line in (match.line, *match.after)]
    found = [match.offset - sum(before)]
    for length in (*before, *after[:-1]):
        found.append(found[-1] + length)
    return found


def _show_end(source: Source, end: SearchEnd, as_json: bool) -> None:
    if as_json:
        print_json({"worker": source.worker, "searched_bytes": end.searched_bytes, "incomplete": end.incomplete})
    elif end.incomplete:
        click.echo(f"{source.worker}: {end.incomplete}", err=True)
