"""A private certificate authority in a directory, with certificates for the cluster, for workers and for clients.

    ca.key  ca.crt               signs the others; the key is needed only for signing
    cluster.key  cluster.crt     presented by every daemon, and by workers of the same user, valid for all hosts
    worker.key  worker.crt       presented by workers that run as their users, valid for all hosts
    client.key  client.crt       presented by the command line and programs

Existing files are kept, with two exceptions: certificates with hosts are reissued for new ones, and all are renewed on
demand. The keys stay when certificates are renewed.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tupletree._security.files import read_private, write_private
from tupletree.errors import UsageError

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_AUTHORITY_DAYS: Final = 3650
_CLOCKS_DIFFER: Final = datetime.timedelta(minutes=10)


class Authority:
    """The authority's directory. ``hosts``: the hosts in the cluster's certificate, after ``prepare``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hosts: list[str] = []

    def prepare(self, hosts: list[str], days: int, renew: bool) -> list[str]:
        """Create the missing files and return the names of the created files. Raises UsageError."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = self._authority()
            named = self._named_hosts()
            self.hosts = list(dict.fromkeys([*LOOPBACK, *named, *hosts]))
            is_new = renew or not set(self.hosts) <= set(named)
            if is_new:
                made += self._leaf("cluster", self.hosts, days)
            if is_new or (not (self.directory / "worker.crt").exists() and (self.directory / "ca.key").exists()):
                made += self._leaf("worker", self.hosts, days)
            if renew or not (self.directory / "client.crt").exists():
                made += self._leaf("client", [], days)
        except OSError as error:
            raise UsageError(f"cannot write {error.filename or self.directory}: {error.strerror}") from error
        return made

    def _authority(self) -> list[str]:
        if (self.directory / "ca.crt").exists():
            return []
        key, made = self._key("ca")
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tupletree private authority")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _begun(name, name, key, _AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        self._write("ca", builder.add_extension(own, critical=False).sign(key, hashes.SHA256()))
        return [*made, "ca.crt"]

    def _leaf(self, name: str, hosts: list[str], days: int) -> list[str]:
        if not (self.directory / "ca.key").exists():
            raise UsageError(f"signing requires the authority's key, but {self.directory / 'ca.key'} is missing")
        signer, _ = self._key("ca")
        authority = self._certificate("ca")
        key, made = self._key(name)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tupletree {name}")])
        days = min(days, (authority.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days)
        builder = _begun(subject, authority.subject, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False
            )
        self._write(name, builder.sign(signer, hashes.SHA256()))
        return [*made, f"{name}.crt"]

    def _key(self, name: str) -> tuple[ec.EllipticCurvePrivateKey, list[str]]:
        path = self.directory / f"{name}.key"
        if path.exists():
            loaded = serialization.load_pem_private_key(read_private(str(path), f"{name}.key"), password=None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise UsageError(f"{path} is not a key that 'tupletree certs' made")
            return loaded, []
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.PKCS8
        write_private(path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return key, [f"{name}.key"]

    def _certificate(self, name: str) -> x509.Certificate:
        path = self.directory / f"{name}.crt"
        try:
            return x509.load_pem_x509_certificate(path.read_bytes())
        except ValueError:
            raise UsageError(f"{path} is not a certificate") from None

    def _named_hosts(self) -> list[str]:
        if not (self.directory / "cluster.crt").exists():
            return []
        extension = self._certificate("cluster").extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return [str(name.value) for name in extension.value]

    def _write(self, name: str, certificate: x509.Certificate) -> None:
        write_private(self.directory / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _CLOCKS_DIFFER)
    return builder.not_valid_after(now + datetime.timedelta(days=days))


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise UsageError(f"{host!r} is neither a host name nor an address") from None
