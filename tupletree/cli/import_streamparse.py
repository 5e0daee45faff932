"""``tupletree import-streamparse``: a project of streamparse, to be submitted here."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tupletree.cli.options import json_option
from tupletree.cli.output import print_json


@click.command("import-streamparse")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--to", "target", metavar="DIR", type=click.Path(path_type=Path), help="Write here; default: into the project."
)
@click.option(
    "-e", "--environment", metavar="NAME", help="The environment of config.json whose options count, if several."
)
@click.option("--force", "is_forced", is_flag=True, help="Overwrite files that differ from what is to be written.")
@json_option
def command(directory: Path, target: Path | None, environment: str | None, is_forced: bool, as_json: bool) -> int:
    """Turn the streamparse project in DIR into one that is submitted here.

    Each topology in topologies/ becomes a Python file that names its components, groupings, parallelism and options.
    The components stay as they are, and run in the workers. IMPORTED.md has the commands to run and submit each
    topology, and all that could not be taken, with what to do instead. Topologies are read by importing them, so
    streamparse must be installed: the components import it anyhow. With --to, src/ is copied along.

    The exit status is 1 if a topology could not be imported; the others are written.

    \b
    Examples:
      tupletree import-streamparse wordcount
      tupletree import-streamparse wordcount --to wordcount-here --environment prod
    """
    from tupletree.cli.from_streamparse import report
    from tupletree.cli.from_streamparse.project import Project, plan, write

    project = Project.find(directory, environment)
    place = target or directory
    planned = plan(project, place.resolve() != directory.resolve())
    written = write(planned.files, place, is_forced)
    status = 1 if any(one.error for one in planned.topologies) else 0
    if as_json:
        print_json(
            {"directory": str(place), "written": written, **report.document(planned.topologies, planned.remarks)}
        )
        return status
    click.echo(f"wrote {', '.join(written)} to {place}" if written else f"{place} is up to date")
    for one in planned.topologies:
        if one.error:
            click.echo(f"\n{one.name}: not imported: {one.error}")
            continue
        click.echo(f"\n{one.name}: {one.components} components\n  cd {shlex.quote(str(place))}")
        click.echo(f"  {shlex.join(one.local)}\n  {shlex.join(one.submit)}")
        for remark in one.remarks:
            click.echo(f"  {'to do' if remark.is_open else 'note'}: {remark.subject}: {report.sentence(remark)}")
    for number, remark in enumerate(planned.remarks):
        click.echo(f"{'' if number else chr(10)}note: {remark.subject}: {report.sentence(remark)}")
    return status
