"""OpenSSH's own files, read: public keys, `known_hosts` (sshd(8)) and `ssh_config` (ssh_config(5)). Pure.

Any text gives a result. A line that cannot be used is skipped and named, and never keeps the others from being read.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from affidavit.broker.contract.pattern import Glob
from affidavit.broker.wire.ssh.algorithms import SIGNATURES
from affidavit.broker.wire.ssh.port import HostKey

SSH_PORT = 22
RSA_BITS_MIN = 2048
_HASHED = "|1|"
"""HMAC-SHA-1 of the name under a salt: `|1|salt|hash`."""


class BadKey(ValueError):
    """A text is not a public key that is spoken here; it says why in a sentence."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not taken from a file."""

    line: int
    """From 1."""
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class KnownHost:
    """One line of `known_hosts`: a key, and whose it is."""

    line: int
    names: tuple[str, ...]
    """As they stand there, in lower case: `host`, `[host]:port`, or hashed. Of a revoked key also patterns."""
    key: HostKey
    revoked: bool
    """It must never be accepted for these names."""

    def is_of(self, address: str, port: int) -> bool:
        """Whether the line names this server. `address` is in lower case, IPv6 without brackets."""
        name = address if port == SSH_PORT else f"[{address}]:{port}"
        return any(self._names(written, name) for written in self.names)

    def _names(self, written: str, name: str) -> bool:
        if written.startswith(_HASHED):
            salt, hashed = (base64.b64decode(part) for part in written.split("|")[2:])
            return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), hashed)
        # A question mark counts as a star: in doubt a key is revoked. Only revoked keys have patterns here.
        return Glob.parse(written.replace("?", "*")).matches(name) if self.revoked else written == name


@dataclass(frozen=True, slots=True)
class ConfigHost:
    """What `ssh_config` says of one host that it names literally. Values as written; None where it says nothing."""

    line: int
    alias: str
    host_name: str | None = None
    port: str | None = None
    user: str | None = None
    identity_files: tuple[str, ...] = ()
    proxy_jump: str | None = None
    proxy_command: bool = False

    @property
    def address(self) -> str:
        """The address to connect to; `%h` in HostName stands for the alias."""
        return (self.host_name or self.alias).replace("%h", self.alias)


def public_key(text: str) -> HostKey:
    """The key in `ssh-ed25519 AAAA... [comment]`. Raises BadKey."""
    words = text.split()
    if len(words) < 2:
        raise BadKey("A public key is its kind and its base64, such as 'ssh-ed25519 AAAA...'.")
    kind, encoded = words[:2]
    if kind not in SIGNATURES:
        raise BadKey(f"Keys of this kind are not spoken; these are: {', '.join(SIGNATURES)}.")
    try:
        blob = base64.b64decode(encoded, validate=True)
        key = HostKey.of(blob)
        loaded = load_ssh_public_key(f"{kind} {encoded}".encode("ascii"))
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        raise BadKey("The key is damaged: its base64 does not hold a key of its kind.") from None
    if isinstance(loaded, RSAPublicKey) and loaded.key_size < RSA_BITS_MIN:
        raise BadKey(f"An RSA key of less than {RSA_BITS_MIN} bits proves nothing.")
    return key


def is_config(text: str) -> bool:
    """Whether a file is an `ssh_config` rather than a `known_hosts`: one of its lines opens a block or includes."""
    return any(
        words[0].lower() in ("host", "match", "include") and not (len(words) > 2 and words[1] in SIGNATURES)
        for _, line in _lines(text)
        if (words := _words(line))
    )


# -- known_hosts


def known_hosts(text: str) -> tuple[tuple[KnownHost, ...], tuple[Skipped, ...]]:
    """Its lines that name servers exactly, or revoke a key, and what was skipped."""
    found: list[KnownHost] = []
    skipped: list[Skipped] = []
    for number, line in _lines(text):
        marker, *words = line.split() if line.startswith("@") else ["", *line.split()]
        what = words[0] if words else marker
        if marker not in ("", "@revoked"):
            why = (
                "A host certificate's authority: certificates are not spoken, each host's own key is pinned."
                if marker == "@cert-authority"
                else "There is no such marker."
            )
            skipped.append(Skipped(number, what, why))
            continue
        if len(words) < 3:
            skipped.append(Skipped(number, what, "A line has names, a kind of key, and the key in base64."))
            continue
        try:
            key = public_key(" ".join(words[1:3]))
        except BadKey as bad:
            skipped.append(Skipped(number, what, str(bad)))
            continue
        revoked = bool(marker)
        names = []
        for name in words[0].lower().split(",") if not words[0].startswith(_HASHED) else [words[0]]:
            if (why_not := _unusable_name(name, revoked)) is None:
                names.append(name)
            else:
                skipped.append(Skipped(number, name, why_not))
        if names:
            found.append(KnownHost(number, tuple(names), key, revoked))
    return tuple(found), tuple(skipped)


def _unusable_name(name: str, revoked: bool) -> str | None:
    if name.startswith(_HASHED):
        parts = name.split("|")[2:]
        try:
            decoded = [base64.b64decode(part, validate=True) for part in parts]
        except (binascii.Error, ValueError):
            decoded = []
        return None if len(decoded) == 2 and len(decoded[1]) == 20 else "The hashed name is damaged."
    if not name or name == "!":
        return "The name is empty."
    if name.startswith("!"):
        return "A name that is left out: only exact names are pinned."
    if not revoked and ("*" in name or "?" in name):
        return "A pattern: a key is pinned for exact names alone."
    return None


# -- ssh_config

_KEYWORD = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+|$)(.*)", re.DOTALL)
_WORD = re.compile(r'"([^"]*)"|(#.*)|([^\s"]+)', re.DOTALL)
_KNOWN = frozenset({"hostname", "port", "user", "identityfile", "proxyjump", "proxycommand"})


def ssh_config(text: str) -> tuple[tuple[ConfigHost, ...], tuple[Skipped, ...]]:
    """The hosts that it names literally, in order, and what was skipped.

    Read are Host, HostName, Port, User, IdentityFile and ProxyJump; ProxyCommand is noticed. `Match`, `Include`,
    patterns and options for all hosts are skipped. Other options mean nothing here.
    """
    hosts: dict[str, ConfigHost] = {}
    skipped: list[Skipped] = []
    block: tuple[str, ...] | None = None
    """The aliases that the options are for; empty in a block that is skipped; None before the first."""
    for number, line in _lines(text):
        words = _words(line)
        if not words:
            skipped.append(Skipped(number, _cut(line), "Its quotes or its keyword cannot be read."))
            continue
        keyword, *values = words
        match keyword.lower():
            case "host":
                literal = [value for value in values if not any(sign in value for sign in "*?!")]
                for value in values:
                    if value not in literal:
                        skipped.append(Skipped(number, f"Host {value}", "A pattern: only literal names are taken."))
                if not values:
                    skipped.append(Skipped(number, "Host", "It names no host."))
                for alias in literal:
                    hosts.setdefault(alias, ConfigHost(number, alias))
                block = tuple(dict.fromkeys(literal))
            case "match":
                skipped.append(Skipped(number, _cut(line), "What it holds for depends on the moment."))
                block = ()
            case "include":
                skipped.append(Skipped(number, _cut(line), "Other files are not read; import them by themselves."))
            case known if known in _KNOWN and block is None:
                skipped.append(Skipped(number, _cut(line), "For all hosts: give it to each."))
            case known if known in _KNOWN and not values:
                skipped.append(Skipped(number, keyword, "It has no value."))
            case known if known in _KNOWN:
                for alias in block or ():
                    hosts[alias] = _with(hosts[alias], known, values[0])
    return tuple(hosts.values()), tuple(skipped)


def _with(host: ConfigHost, keyword: str, value: str) -> ConfigHost:
    """The first value of an option holds; of IdentityFile all do."""
    match keyword:
        case "hostname":
            return replace(host, host_name=host.host_name or value)
        case "port":
            return replace(host, port=host.port or value)
        case "user":
            return replace(host, user=host.user or value)
        case "proxyjump":
            return replace(host, proxy_jump=host.proxy_jump or value)
        case "proxycommand":
            return replace(host, proxy_command=host.proxy_command or value.lower() != "none")
        case _:
            return replace(host, identity_files=(*host.identity_files, value))


def _words(line: str) -> list[str]:
    """Keyword and values of a line of `ssh_config`; empty where it cannot be read."""
    found = _KEYWORD.fullmatch(line)
    if found is None or found[2].count('"') % 2:
        return []
    return [found[1], *_values(_WORD.finditer(found[2]))]


def _values(words: Iterable[re.Match[str]]) -> Iterator[str]:
    for word in words:
        if word[2] is not None:  # a comment
            return
        yield word[1] if word[3] is None else word[3]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered from 1, stripped; without empty lines and comments."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _cut(line: str) -> str:
    return line if len(line) <= 80 else f"{line[:79]}…"
