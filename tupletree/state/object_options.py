"""Addresses of object stores, the options that they take, and the causes that their errors give."""

from __future__ import annotations  # pure

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree.errors import ConfigError

EXAMPLE: Final = "s3://bucket/states"

_S3: Final = (
    "access_key_id, secret_access_key, session_token, region, endpoint, virtual_hosted_style_request, skip_signature, "
    "unsigned_payload, checksum_algorithm, request_payer, s3_express"
)
_GS: Final = "service_account, service_account_key"
_AZ: Final = (
    "account_name, account_key, sas_key, token, client_id, client_secret, tenant_id, authority_host, endpoint, "
    "msi_endpoint, federated_token_file, use_azure_cli, use_emulator"
)
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "s3": _S3.split(", "),
    "gs": _GS.split(", "),
    "az": _AZ.split(", "),
}
"""Options of obstore by the scheme of the address: those that choose a place or an identity, in all of its versions."""

_URLS: Final = frozenset({"endpoint", "authority_host", "msi_endpoint"})
_ADDRESS: Final = re.compile(rf"({'|'.join(OPTIONS)})://[^/?#@:\s]+(/[^?#]*)?")
_URL: Final = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/[^\s?#@]*)?")
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_CAUSES: Final = (
    re.compile(r"Error performing \w+ (?P<cause>http://(169\.254\.|metadata)\S+/latest/|http://metadata\.google)"),
    re.compile(r"<Message>(?P<cause>[^<]+)</Message>"),
    re.compile(r'(message|error): "(?P<cause>[^"]+)"'),
    re.compile(r"(?P<cause>TimedOut|IncompleteMessage|InvalidMessage|InvalidCertificate|MissingAccount)"),
    re.compile(r"status code: (?P<cause>\d+ [A-Z][A-Za-z ]+)"),
)
_WORDS: Final = {
    "TimedOut": "it did not answer in time",
    "IncompleteMessage": "the connection was lost",
    "InvalidMessage": "it does not speak TLS",
    "InvalidCertificate": "its certificate is not trusted",
    "MissingAccount": "no account_name is given",
}
_NO_CREDENTIALS: Final = "no credentials were found, neither in storage_options nor in the environment"


def is_address(shared: str) -> bool:
    """True for the address of an object store rather than a directory."""
    return "://" in shared and not shared.startswith("/")


def is_valid_address(shared: str) -> bool:
    """True for an address of a scheme that is supported, with a bucket."""
    return _ADDRESS.fullmatch(shared) is not None


def check_options(where: str, address: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a store does not have. ``where``: what the options are called. Raises ConfigError."""
    known = OPTIONS[address.partition("://")[0]]
    for name, value in options.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{where} of {address} have no {name!r}; did you mean {nearest!r}?")
        if not (isinstance(value, str) and value) and not isinstance(value, bool):
            raise ConfigError(f"{where}: {name!r} takes a string that is not empty, or true or false")
        if name in _URLS and _URL.fullmatch(str(value)) is None:
            raise ConfigError(f"{where}: {name!r} takes a URL such as https://s3.example.com:9000")


def is_of_bucket(text: str) -> bool:
    """True if an error of obstore for an object that is not found says that there is no such bucket."""
    return _NO_BUCKET.search(text) is not None


def cause_of(text: str) -> str:
    """Return the cause in the text of an error of obstore, which has many lines, as a few words."""
    for pattern in _CAUSES:
        found = pattern.search(text)
        if found is not None:
            cause = " ".join(found.group("cause").split()).rstrip(".")
            return _NO_CREDENTIALS if cause.startswith("http://") else _WORDS.get(cause, cause)
    line = text.strip().partition("\n")[0].rpartition(" - ")[2]
    return re.sub(r"^Generic \w+ error: ", "", line) or "an unknown error"
