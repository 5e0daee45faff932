"""``tupletree metrics push``."""

from __future__ import annotations

import contextlib
import functools
import re
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import conf_options, json_option, nimbus_option
from tupletree.cli.output import print_json
from tupletree.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tupletree.cli.pushing.addresses import ReceiverAddress
    from tupletree.cli.pushing.notices import Notices
    from tupletree.cli.pushing.receivers import Receiver
    from tupletree.cli.pushing.rounds import Round
    from tupletree.cli.pushing.source import Source
    from tupletree.cli.pushing.statsd import Tags

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_JOB: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


@click.group("metrics")
def metrics() -> None:
    """Send the metrics of the cluster to where nothing scrapes them.

    \b
    Examples:
      tupletree metrics push --to otlp://collector:4318
    """


@metrics.command("push")
@click.option("--to", "to", required=True, metavar="ADDRESS", help="otlp://HOST:PORT, otlp+grpc://… or statsd://…")
@click.option("--every", default="10s", show_default=True, metavar="TIME", help="Time between two readings.")
@click.option("--once", is_flag=True, help="Read and send once.")
@click.option("--job", default="tupletree", show_default=True, metavar="NAME", help="Begins the name of each service.")
@click.option(
    "--tags",
    type=click.Choice(["dogstatsd", "none"]),
    help="Labels in lines of statsd: as tags (the default), or as a part of the name.",
)
@json_option
@nimbus_option
@conf_options
def push_command(
    to: str,
    every: str,
    once: bool,
    job: str,
    tags: Tags | None,
    as_json: bool,
    seeds: str | None,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> int | None:
    """Read the metrics of all processes as Prometheus does, and send them to a receiver until SIGTERM.

    otlp is OpenTelemetry's protocol over HTTP (by default port 4318), otlp+grpc the same over gRPC (4317); otlps and
    otlps+grpc are with TLS. All need tupletree[otel]. statsd (8125) is UDP, with tags as Datadog and Telegraf read
    them. Names are those of docs/metrics.md. Counters grow from the process's start with OTLP, and are sent as their
    growth to statsd, which takes two readings: with --once, statsd gets gauges only.

    Nimbus is asked at its HTTP port (the key nimbus.http.port) for all processes. With tokens, the role metrics is
    enough (security.token.file). A process or receiver that does not answer is reported once and tried again.

    Exit status 0 after SIGTERM, when all was sent a last time; with --once, 1 if nothing could be sent.

    \b
    Examples:
      tupletree metrics push --to otlp://collector:4318
      tupletree metrics push --to otlps+grpc://otlp.example.net:443
      tupletree metrics push --to statsd://127.0.0.1 --every 30s
      tupletree metrics push --to statsd://graphite:8125 --tags none --job production
      tupletree metrics push --to otlp://127.0.0.1 --once --json
    """
    from tupletree.cli.pushing.addresses import parse_address
    from tupletree.cli.pushing.notices import Notices
    from tupletree.cli.pushing.rounds import push_round
    from tupletree.config import load

    every_s, address = parse_time_s(every), parse_address(to)
    if not _JOB.fullmatch(job):
        raise UsageError(f"--job takes at most 100 letters, digits, '-' and '_', not {job!r}")
    notices = Notices(lambda sentence: click.echo(f"tupletree: {sentence}", err=True))
    source = _source(seeds, load(conf_path, overrides), notices)
    receiver = _receiver(address, job, tags, notices)
    push = functools.partial(push_round, source, receiver, notices)
    with contextlib.closing(receiver):
        if once:
            source.targets()
            _show(done := push(), address, as_json)
            return 1 if done.fault else None
        _push_until_ended(push, every, every_s, address, as_json)
        return None


def _push_until_ended(
    push: Callable[[], Round], every: str, every_s: float, address: ReceiverAddress, as_json: bool
) -> None:
    """Push until SIGTERM, and then once more."""
    from tupletree.cli.pushing.rounds import push_rounds

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    if not as_json:
        click.echo(f"sending metrics to {address} each {every}")
        sys.stdout.flush()
    for done in push_rounds(push, every_s, stop):
        if as_json:
            _show(done, address, as_json)


def _source(seeds: str | None, conf: Mapping[str, Any], notices: Notices) -> Source:
    from tupletree._security.current import Security
    from tupletree.cli.pushing.source import Source, nimbus_addresses

    return Source(nimbus_addresses(seeds, conf), Security.of_client(conf), notices, time.time)


def _receiver(address: ReceiverAddress, job: str, tags: Tags | None, notices: Notices) -> Receiver:
    from tupletree.cli.pushing.receivers import OtlpGrpcReceiver, OtlpHttpReceiver, StatsdReceiver

    if address.scheme == "statsd":
        return StatsdReceiver(address, job, tags or "dogstatsd")
    if tags is not None:
        raise UsageError("--tags is for statsd://: OTLP has attributes")
    kind = OtlpGrpcReceiver if address.scheme.endswith("+grpc") else OtlpHttpReceiver
    return kind(address, job, notices)


def _show(done: Round, address: ReceiverAddress, as_json: bool) -> None:
    if as_json:
        print_json({"processes": done.processes, "values": done.values, "fault": done.fault or None})
        sys.stdout.flush()
    elif not done.fault:
        click.echo(f"sent {done.values:,} values of {done.processes} processes to {address}")
    elif not done.processes:
        raise UnavailableError(done.fault)


def parse_time_s(text: str) -> float:
    """Return ``500ms``, ``10s``, ``2m`` or ``1h`` in seconds. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,6})(ms|s|m|h)", text)
    if found is None or int(found[1]) == 0:
        raise UsageError(f"--every takes a time such as 500ms, 10s or 2m, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]
