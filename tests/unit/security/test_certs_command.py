"""``tupletree certs`` and ``tupletree token``, and the files that they make."""

from __future__ import annotations

import json
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tupletree._security.current import Security, daemon_keyring, worker_conf
from tupletree._security.files import read_secret
from tupletree._security.rights import ROLES
from tupletree._security.tls import Tls
from tupletree.cli.main import main
from tupletree.errors import ConfigError


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_the_keys_and_the_secret_are_their_owner_s_alone(run: Any, tmp_path: Path) -> None:
    status, said, _ = run("certs", str(tmp_path / "tls"), "--host", "node-1", "--host", "10.0.0.7")
    assert status == 0
    assert "security.secret.file:" in said
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {
        "ca.key": 0o600, "ca.crt": 0o644, "cluster.key": 0o600, "cluster.crt": 0o644,
        "client.key": 0o600, "client.crt": 0o644, "secret": 0o600,
        "worker.key": 0o600, "worker.crt": 0o644,
    }  # fmt: skip


def test_what_is_there_stays_and_hosts_are_added(run: Any, tmp_path: Path) -> None:
    directory = str(tmp_path)
    made = [json.loads(run("certs", directory, "--json", *more)[1])["made"] for more in ((), (), ("--host", "n2"))]
    assert made[0] and made[1] == [] and made[2] == ["cluster.crt", "worker.crt"]
    last = json.loads(run("certs", directory, "--json")[1])
    assert (last["made"], last["hosts"]) == ([], ["localhost", "127.0.0.1", "::1", "n2"])


def test_renewed_certificates_keep_their_keys(run: Any, tmp_path: Path) -> None:
    run("certs", str(tmp_path), "--days", "5")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    run("certs", str(tmp_path), "--renew", "--days", "90")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"cluster.crt", "worker.crt", "client.crt"}
    ends = x509.load_pem_x509_certificate(after["cluster.crt"]).not_valid_after_utc
    assert 89 <= (ends - datetime.now(UTC)).days <= 90


def test_a_certificate_of_the_set_is_one_for_its_key(run: Any, tmp_path: Path) -> None:
    run("certs", str(tmp_path))
    conf = {"tls.ca": str(tmp_path / "ca.crt"), "tls.cert": str(tmp_path / "cluster.crt")}
    tls = Tls.from_conf({**conf, "tls.key": str(tmp_path / "cluster.key")})
    assert tls is not None
    assert (tls.expires_unix_s() or 0) > time.time()
    with pytest.raises(ConfigError, match="are not a certificate and its key"):
        Tls.from_conf({**conf, "tls.key": str(tmp_path / "client.key")})
    with pytest.raises(ConfigError, match="must be set together"):
        Tls.from_conf(conf)
    with pytest.raises(ConfigError, match=r"need tls\.ca"):
        Tls.from_conf({"tls.cert": conf["tls.cert"]})
    with pytest.raises(ConfigError, match="holds no certificate"):
        Tls.from_conf({"tls.ca": str(tmp_path / "secret")})
    with pytest.raises(ConfigError, match=r"cannot read the file .*nowhere"):
        Tls.from_conf({"tls.ca": str(tmp_path / "nowhere")})
    with pytest.raises(ConfigError, match=r"needs tls\.cert and tls\.key"):
        Security.of_daemon({"tls.ca": conf["tls.ca"]}, "acker")


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("s" * 40)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="is open to every user of this machine: chmod 600"):
        read_secret(str(path), "security.secret.file")
    path.chmod(0o640)
    assert read_secret(str(path), "security.secret.file") == b"s" * 40
    path.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        read_secret(str(path), "security.secret.file")


def test_a_token_is_issued_with_the_secret_and_shown(run: Any, tmp_path: Path) -> None:
    run("certs", str(tmp_path))
    secret = ("-c", f"security.secret.file={tmp_path}/secret")
    status, text, _ = run("token", "issue", "--user", "alice", "--role", "submit", "--for", "12h", *secret)
    assert status == 0
    token = text.strip()
    shown = json.loads(run("token", "show", token, "--json", *secret)[1])
    assert (shown["sub"], shown["roles"], shown["verdict"]) == ("alice", ["submit"], "valid")
    assert abs(shown["exp"] - time.time() - 12 * 3600) < 60
    status, text, _ = run("token", "show", token)
    assert status == 0 and "not verified" in text
    (tmp_path / "secret").write_text("x" * 64)
    status, text, _ = run("token", "show", token, *secret)
    assert status == 1 and "not signed with this cluster's secret" in text


@pytest.mark.parametrize("role", ROLES)
def test_every_role_can_be_issued(run: Any, tmp_path: Path, role: str) -> None:
    run("certs", str(tmp_path))
    secret = ("-c", f"security.secret.file={tmp_path}/secret")
    status, text, _ = run("token", "issue", "--user", "web", "--role", role, *secret)
    assert status == 0
    assert json.loads(run("token", "show", text.strip(), "--json", *secret)[1])["roles"] == [role]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("issue", "--user", "a"), "security.tokens needs security.secret.file"),
        (("issue", "--user", "a", "--for", "soon", "SECRET"), "such as 30d, 12h or 15m, not 'soon'"),
        (
            ("issue", "--user", "a", "--role", "metrics", "--role", "admin", "SECRET"),
            "the role 'metrics' cannot be combined",
        ),
        (("show",), "there is no token"),
        (("show", "rubbish"), "this is not a token: a JSON Web Token is expected"),
    ],
)
def test_mistakes_get_one_sentence(run: Any, tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    run("certs", str(tmp_path))
    told = [
        part
        for one in arguments
        for part in (("-c", f"security.secret.file={tmp_path}/secret") if one == "SECRET" else (one,))
    ]
    status, _, said = run("token", *told)
    assert status in (1, 2)
    assert sentence in said and said.count("\n") == 1


def test_a_worker_is_told_its_keys_and_not_the_secret(run: Any, tmp_path: Path) -> None:
    run("certs", str(tmp_path))
    conf = {
        "security.tokens": True, "security.audience": "tupletree", "security.secret.file": f"{tmp_path}/secret",
        "security.token": "a token of somebody", "topology.workers": 2,
    }  # fmt: skip
    told = worker_conf(conf, Security(keyring=daemon_keyring(conf)), "wc-1-1")
    assert told["topology.workers"] == 2
    text = json.dumps(told)
    assert (tmp_path / "secret").read_text().strip() not in text
    assert "a token of somebody" not in text and "/secret" not in text
    worker = Security.of_worker(told, "wc-1-1", "w1")
    assert worker.token is not None
    assert daemon_keyring(conf).verify(worker.token()).topology == "wc-1-1"
