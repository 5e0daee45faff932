"""``tupletree log-level``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import duration, print_json, print_table

if TYPE_CHECKING:
    from tupletree.client import LogLevel, NimbusClient, TopologyRecord


@click.command("log-level")
@name_argument
@click.option(
    "-l",
    "--level",
    "levels",
    multiple=True,
    metavar="LOGGER=LEVEL[:SECONDS]",
    help="Set a logger's level in the workers, for SECONDS or permanently; may be repeated.",
)
@click.option(
    "-r", "--remove", multiple=True, metavar="LOGGER", help="Restore a logger's original level; may be repeated."
)
@json_option
@client_options
def command(client: NimbusClient, name: str, levels: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Change levels of loggers in the workers of a running topology; without options, show the changed loggers.

    LEVEL is ALL, DEBUG, INFO, WARNING, ERROR, CRITICAL or OFF (Storm's TRACE, WARN and FATAL are accepted). LOGGER is a
    name such as 'my_app.parsing', or 'root'. The change takes effect within a second, and in workers that start later.
    After SECONDS, or with --remove, the logger returns to its original level.

    \b
    Examples:
      tupletree log-level word_count -l my_app=DEBUG:300
      tupletree log-level word_count -l root=DEBUG -l kazoo=INFO
      tupletree log-level word_count -r root
      tupletree log-level word_count
    """
    wanted = dict(_parse(option, time.time()) for option in levels)
    removed = ["" if logger.lower() == "root" else logger for logger in remove]
    if wanted or removed:
        record = client.set_log_levels(name, wanted, removed)
    else:
        record = client.describe(name).summary.record
    shown = _shown(record, time.time())
    if as_json:
        print_json({"name": record.name, "levels": shown})
    elif not shown:
        click.echo(f"no logger level of '{record.name}' is changed")
    else:
        rows = [
            (one["logger"], one["level"], "never" if one["left_s"] is None else duration(one["left_s"]))
            for one in shown
        ]
        print_table(["logger", "level", "expires in"], rows)


def _parse(option: str, now_s: float) -> tuple[str, LogLevel]:
    from tupletree._wire.levels import level_name
    from tupletree.client import LogLevel

    logger, equals, rest = option.rpartition("=")
    level, colon, seconds = rest.partition(":")
    if not equals or not logger or (colon and not _is_positive(seconds)):
        raise click.UsageError(f"--level takes LOGGER=LEVEL or LOGGER=LEVEL:SECONDS, not '{option}'.")
    until_unix_s = now_s + float(seconds) if colon else 0.0
    name = "" if logger.lower() == "root" else logger
    return name, LogLevel(level_name(level), until_unix_s=until_unix_s)


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < 1e9
    except ValueError:
        return False


def _shown(record: TopologyRecord, now_s: float) -> list[dict[str, Any]]:
    from tupletree._wire.levels import levels_at

    return [
        {
            "logger": logger or "root",
            "level": level,
            "left_s": round(left_s, 1) if (left_s := record.log_levels[logger].until_unix_s - now_s) > 0 else None,
        }
        for logger, level in sorted(levels_at(record.raw.log_levels, now_s).items())
    ]
