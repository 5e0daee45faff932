"""``tupletree certs`` and ``tupletree token``: what TLS and tokens are made of."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any, Final

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import clock, print_json
from tupletree.errors import UsageError

_DAY_S: Final = 24 * 3600.0
_UNITS: Final = {"m": 60.0, "h": 3600.0, "d": _DAY_S}


@click.command("certs")
@click.argument("directory", metavar="DIR")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name or address of a machine; may be repeated.")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are good.")
@click.option("--renew", is_flag=True, help="Make the cluster's certificate anew, by the authority that is there.")
@json_option
def certs(directory: str, hosts: tuple[str, ...], days: int, renew: bool, as_json: bool) -> None:
    """Make a private authority, a certificate for the cluster and one for clients, and the secret that signs tokens.

    What is there already stays, so that it may be run again: for hosts that were added, or with --renew before the
    certificate ends. Certificates always count for this machine's loopback addresses too. It is meant for trials and
    small clusters: whoever has an authority already has it sign the same files. Keep ca.key away from the cluster.

    \b
    Examples:
      tupletree certs /etc/tupletree/tls --host node-1 --host node-2 --host 10.0.0.7
      tupletree certs /etc/tupletree/tls --renew
    """
    from tupletree._security.authority import Authority

    folder = Path(directory).expanduser().absolute()
    authority = Authority(folder)
    made = authority.prepare(list(hosts), days, renew)
    secret = folder / "secret"
    if not secret.exists():
        from tupletree._security.files import write_private

        write_private(secret, secrets.token_hex(32).encode() + b"\n")
        made.append("secret")
    settings = {
        "tls.ca": str(folder / "ca.crt"),
        "tls.cert": str(folder / "cluster.crt"),
        "tls.key": str(folder / "cluster.key"),
        "security.tokens": True,
        "security.secret.file": str(secret),
    }
    if as_json:
        print_json({"directory": str(folder), "made": made, "hosts": authority.hosts, "configuration": settings})
        return
    click.echo(f"{folder}: {'made ' + ', '.join(made) if made else 'everything is there'}")
    click.echo(f"The certificate counts for {', '.join(authority.hosts)}.")
    click.echo("\nFor the tupletree.yaml of every daemon:\n")
    for key, value in settings.items():
        click.echo(f"{key}: {'true' if value is True else value}")
    click.echo("\nFor a client: tls.ca, client.crt and client.key as tls.cert and tls.key, and a token from")
    click.echo(f"  tupletree token issue --user NAME --role submit -c security.secret.file={secret}")


@click.group("token")
def token() -> None:
    """Issue tokens for users, and look at them."""


@token.command("issue")
@click.option("--user", required=True, metavar="NAME", help="Whom the token names.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["read", "submit", "admin", "metrics"]),
    help="What the token can be used for at most; may be repeated. Without: to see what others share with its user.",
)
@click.option("--for", "lifetime", default="30d", show_default=True, metavar="TIME", help="Such as 12h, 30d, 15m.")
@conf_options
@json_option
def issue(
    user: str, roles: tuple[str, ...], lifetime: str, conf_path: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Print a token. It takes the cluster's secret (security.secret.file), so run it where a daemon runs.

    \b
    read       see every topology, its logs and metrics
    submit     submit topologies, change one's own and those that name the user in topology.users
    admin      everything
    metrics    read /metrics, of workers too; for Prometheus

    A token cannot be called back before it ends, other than by a new secret: rather issue short ones.

    \b
    Example:
      tupletree token issue --user alice --role submit --for 7d > ~/.tupletree/token && chmod 600 ~/.tupletree/token
    """
    from tupletree._security.current import daemon_keyring
    from tupletree.config import load

    keyring = daemon_keyring(load(conf_path, overrides))
    lifetime_s = parse_lifetime_s(lifetime)
    if "metrics" in roles and len(set(roles)) > 1:
        raise UsageError("the role metrics stands alone: workers hold the key that signs it, and know no other role")
    made = keyring.issue(user, "user", roles=frozenset(roles), lifetime_s=lifetime_s)
    if as_json:
        print_json(
            {"token": made, "user": user, "roles": sorted(set(roles)), "expires_unix_s": time.time() + lifetime_s}
        )
    else:
        click.echo(made)


@token.command("show")
@click.argument("text", metavar="[TOKEN]", required=False)
@conf_options
@json_option
def show(text: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Say what a token says, and whether it counts: that of the configuration (security.token), or the one given.

    Without the cluster's secret at hand it says only what is written in the token. Exit status 1: it does not count.
    """
    from tupletree._security.current import Security, daemon_keyring
    from tupletree._security.tokens import unverified
    from tupletree.config import load
    from tupletree.errors import UnauthenticatedError

    conf = load(conf_path, overrides)
    if text is None:
        source = Security.of_client(conf).token
        if source is None:
            raise UsageError("there is no token: name one, or set security.token or security.token.file")
        text = source()
    claims: dict[str, Any] = dict(unverified(text))
    verdict = "not verified: the cluster's secret is not configured here"
    if conf.get("security.secret.file"):
        try:
            daemon_keyring(conf).verify(text)
            verdict = "counts"
        except UnauthenticatedError as error:
            verdict = str(error)
    if as_json:
        print_json({**claims, "verdict": verdict})
    else:
        click.echo(f"{claims.get('kind')} {claims.get('sub')}, roles: {', '.join(claims.get('roles', [])) or 'none'}")
        click.echo(f"for the cluster '{claims.get('aud')}', until {clock(float(claims.get('exp', 0)))}")
        click.echo(verdict)
    return 0 if verdict == "counts" or verdict.startswith("not verified") else 1


def parse_lifetime_s(text: str) -> float:
    """``12h``, ``30d``, ``15m`` in seconds. Raises UsageError."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or int(number) == 0 or unit not in _UNITS:
        raise UsageError(f"a token's life is a number of days, hours or minutes such as 30d, 12h or 15m, not {text!r}")
    return int(number) * _UNITS[unit]
