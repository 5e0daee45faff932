"""``tupletree doctor``: the installation, the configuration, this machine, and the way to the cluster."""

from __future__ import annotations

from dataclasses import asdict

import click

from tupletree.cli.options import conf_options, json_option, nimbus_option
from tupletree.cli.output import print_json

_LEVELS = ("ok", "warning", "problem")


@click.command("doctor")
@nimbus_option
@json_option
@conf_options
def command(seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Check this machine and the way to the cluster. Each line says what was found and, if it is not right, what to do.

    Checked are the installed packages, compiled modules, Java, the configuration, free disk space, the limit of open
    files, and the connections to nimbus, ZooKeeper and the servers of drpc.servers; with a nimbus and without TLS, the
    clock; without a nimbus, the ports of `tupletree dev`. `tupletree health` judges the cluster itself.

    \b
    Exit status:
      0  no problem; there may be warnings: what works without, or works less well
      1  a problem: something that is installed, configured or asked for cannot work

    \b
    Examples:
      tupletree doctor
      tupletree doctor --nimbus nimbus.example.com --json
    """
    from tupletree.cli.doctor_cluster import check_cluster
    from tupletree.cli.doctor_machine import check_configuration, check_installation, check_machine

    findings = check_installation()
    faults, conf = check_configuration(conf_path, overrides)
    findings += faults
    if conf is not None:
        findings += check_machine(conf)
        findings += check_cluster(seeds, conf_path, overrides)
    worst = max((finding.level for finding in findings), key=_LEVELS.index)
    if as_json:
        print_json({"level": worst, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            click.echo(f"{finding.level:<9}{finding.subject:<15}{finding.sentence}")
            if finding.advice:
                click.echo(f"{'':<9}{'':<15}→ {finding.advice}")
    return int(worst == "problem")
