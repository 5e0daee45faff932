"""``tupletree certs`` and ``tupletree token``: certificates for TLS, and tokens of users."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any, Final

import click

from tupletree._extras import SERVER, imported
from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import clock, print_json
from tupletree.errors import UsageError

_DAY_S: Final = 24 * 3600.0
_UNITS: Final = {"m": 60.0, "h": 3600.0, "d": _DAY_S}


@click.command("certs")
@click.argument("directory", metavar="DIR")
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Host name or address of a machine; may be repeated."
)
@click.option(
    "--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="Validity of the certificates."
)
@click.option("--renew", is_flag=True, help="Renew the certificates, signed by the existing authority.")
@json_option
def certs(directory: str, hosts: tuple[str, ...], days: int, renew: bool, as_json: bool) -> None:
    """Create a private authority, certificates for daemons, workers and clients, and the secret that signs tokens.

    The command keeps existing files. Run it again to add hosts, or with --renew before the certificate expires. The
    certificates always include this machine's loopback addresses. The command is meant for trials and small clusters:
    if you have an authority, let it sign the same files. Keep ca.key away from the cluster.

    \b
    Examples:
      tupletree certs /etc/tupletree/tls --host node-1 --host node-2 --host 10.0.0.7
      tupletree certs /etc/tupletree/tls --renew
    """
    imported("cryptography", SERVER, "'tupletree certs'")
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
    click.echo(f"{folder}: {'created ' + ', '.join(made) if made else 'all files exist already'}")
    click.echo(f"The certificate is valid for {', '.join(authority.hosts)}.")
    click.echo("\nAdd to the tupletree.yaml of every daemon:\n")
    for key, value in settings.items():
        click.echo(f"{key}: {'true' if value is True else value}")
    click.echo("\nFor a client, set tls.ca, tls.cert (client.crt) and tls.key (client.key), and issue a token:")
    click.echo(f"  tupletree token issue --user NAME --role submit -c security.secret.file={secret}")


@click.group("token")
def token() -> None:
    """Issue and inspect tokens for users."""


@token.command("issue")
@click.option("--user", required=True, metavar="NAME", help="User of the token.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["read", "submit", "admin", "call", "metrics"]),
    help="Role of the token; may be repeated. Default: none, so the user sees only shared topologies.",
)
@click.option(
    "--for", "lifetime", default="30d", show_default=True, metavar="TIME", help="Lifetime, such as 15m, 12h or 30d."
)
@conf_options
@json_option
def issue(
    user: str, roles: tuple[str, ...], lifetime: str, conf_path: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Print a new token. The command needs the cluster's secret (security.secret.file): run it on a daemon's machine.

    \b
    read       see every topology, its logs and metrics
    submit     submit topologies, and change the user's own and those that list the user in topology.users
    admin      everything
    call       call functions of DRPC, and use namespaces of trees
    metrics    read /metrics, of workers too; for Prometheus

    A token cannot be revoked before it expires, except by a new secret: prefer short lifetimes.

    \b
    Example:
      tupletree token issue --user alice --role submit --for 7d > ~/.tupletree/token && chmod 600 ~/.tupletree/token
    """
    from tupletree._security.current import daemon_keyring
    from tupletree.config import load

    keyring = daemon_keyring(load(conf_path, overrides))
    lifetime_s = parse_lifetime_s(lifetime)
    if "metrics" in roles and len(set(roles)) > 1:
        raise UsageError("the role 'metrics' cannot be combined with other roles: issue a separate token for it")
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
    """Show a token's claims and its validity. Default: the token of the configuration (security.token).

    A token of security.oidc.issuer is shown with the user and the roles that it has in this cluster. Without the
    cluster's secret the command shows only the claims. Exit status 1 if the token is not valid.
    """
    from tupletree._security.current import Security, daemon_keyring
    from tupletree._security.oidc import OidcSettings
    from tupletree._security.oidc_tokens import OidcVerifier
    from tupletree._security.tokens import unverified
    from tupletree.config import load
    from tupletree.errors import UnauthenticatedError

    conf = load(conf_path, overrides)
    if text is None:
        source = Security.of_client(conf).token
        if source is None:
            raise UsageError("there is no token: give TOKEN, or set security.token or security.token.file")
        text = source()
    claims: dict[str, Any] = dict(unverified(text))
    verdict = "not verified: the cluster's secret is not configured here"
    oidc = OidcSettings.from_conf(conf)
    try:
        if oidc is not None and (verifier := OidcVerifier(oidc)).is_for(text):
            caller = asyncio.run(verifier.verify(text))
            claims |= {"kind": caller.kind, "sub": caller.name, "roles": sorted(caller.roles)}
            verdict = "valid"
        elif conf.get("security.secret.file"):
            daemon_keyring(conf).verify(text)
            verdict = "valid"
    except UnauthenticatedError as error:
        verdict = str(error)
    if as_json:
        print_json({**claims, "verdict": verdict})
    else:
        kind, roles = claims.get("kind", "user"), claims.get("roles", [])
        click.echo(f"{kind} {claims.get('sub')}, roles: {', '.join(map(str, roles)) or 'none'}")
        click.echo(f"for the cluster '{claims.get('aud')}', until {clock(float(claims.get('exp', 0)))}")
        click.echo(verdict)
    return 0 if verdict == "valid" or verdict.startswith("not verified") else 1


def parse_lifetime_s(text: str) -> float:
    """``12h``, ``30d``, ``15m`` in seconds. Raises UsageError."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or int(number) == 0 or unit not in _UNITS:
        raise UsageError(
            f"a token's lifetime is a number of days, hours or minutes such as 30d, 12h or 15m, not {text!r}"
        )
    return int(number) * _UNITS[unit]
