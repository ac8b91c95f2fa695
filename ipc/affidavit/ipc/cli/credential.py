"""`affidavit credential`: what the vault holds for agents to act with, and never shows again."""

from __future__ import annotations

import argparse
import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import operator, output, passphrase, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.methods import CREDENTIAL_KINDS, PEM_CHARS

OPTIONS = (
    "approval",
    "header",
    "format",
    "username",
    "access_key",
    "region",
    "service",
    "token_url",
    "client_id",
    "scope",
    "client_auth",
)
MODES = ("never", "session", "always", "passphrase")


def configure(parser: Parser, name: str) -> None:
    parser.description = "Credentials: added, listed, rotated, removed, imported. A secret is never shown again."
    parser.epilog = example("affidavit credential list")
    add = family(parser)
    part = add(
        "add",
        add_credential,
        "add a credential and bind it to targets",
        epilog=example("affidavit credential add example --kind bearer --target 'https://api.example.com/v1/*'"),
    )
    part.add_argument("name", metavar="NAME", help="the name agents ask for")
    part.add_argument("--kind", required=True, choices=CREDENTIAL_KINDS, help="how it is used")
    part.add_argument(
        "--target",
        required=True,
        action="append",
        metavar="PATTERN",
        help="where it may be sent; * is one path segment, ** any number; of SSH kinds a host; may be repeated",
    )
    part.add_argument("--approval", choices=MODES, help="how its use is authorised; the strictest of those set holds")
    part.add_argument("--private", action="store_true", help="its names may lead to private and loopback addresses")
    part.add_argument("--header", metavar="H", help="header: the header's name; query: the parameter's name")
    part.add_argument("--format", metavar="TEXT", help="how the value is written, such as 'token {secret}'")
    part.add_argument("--username", metavar="U", help="basic: the user name; ssh-key, ssh-password: the one user")
    part.add_argument("--access-key", metavar="ID", help="sigv4: the access key's id; the secret is the secret key")
    part.add_argument("--region", metavar="R", help="sigv4: such as eu-central-1")
    part.add_argument("--service", metavar="S", help="sigv4: such as s3")
    part.add_argument("--token-url", metavar="U", help="oauth2: the token service, which no agent can call")
    part.add_argument("--client-id", metavar="ID", help="oauth2: the client; the secret is the client's secret")
    part.add_argument("--scope", metavar="S", help="oauth2: what to ask for, separated by spaces")
    part.add_argument(
        "--refresh",
        action="store_true",
        help="oauth2: the secret is a refresh token and, on a second line, the client's secret if it has one",
    )
    part.add_argument(
        "--client-auth",
        choices=("basic", "body"),
        help="oauth2: how the token service takes the client's secret; without it in a header (basic)",
    )
    part.add_argument(
        "--cert",
        "--certificate",
        type=Path,
        metavar="FILE",
        help="mtls: the certificate in PEM; the secret is its key in PEM; ssh-key: an OpenSSH user certificate",
    )
    part.add_argument(
        "--interactive",
        action="store_true",
        help="ssh-password: the host asks for it in a prompt (keyboard-interactive)",
    )
    _key_passphrase_option(part)
    _secret_option(part)
    passphrase_option(part)
    passphrase_option(add("list", list_credentials, "names, kinds, targets and versions; never values"))
    part = add(
        "rotate",
        rotate,
        "give a credential a new secret: its next version",
        epilog=example("affidavit credential rotate example --secret-fd 3 3< token.txt"),
    )
    part.add_argument("name", metavar="NAME")
    part.add_argument(
        "--cert",
        "--certificate",
        type=Path,
        metavar="FILE",
        help="mtls, ssh-key: the certificate that the new key belongs to",
    )
    _key_passphrase_option(part)
    _secret_option(part)
    passphrase_option(part)
    part = add("remove", remove, "remove a credential", epilog=example("affidavit credential remove example"))
    part.add_argument("name", metavar="NAME")
    passphrase_option(part)
    part = add(
        "import",
        import_key,
        "take in an SSH private key from its file",
        epilog=example("affidavit credential import ~/.ssh/id_ed25519 --target '*.prod.example.com'"),
    )
    part.add_argument("file", type=Path, metavar="FILE", help="the private key, in OpenSSH's form or PEM")
    part.add_argument("--name", metavar="NAME", help="the credential's name; without it the file's")
    part.add_argument(
        "--target", required=True, action="append", metavar="HOST", help="where it may log in; may be repeated"
    )
    part.add_argument("--approval", choices=MODES, help="how its use is authorised; the strictest of those set holds")
    part.add_argument("--username", metavar="U", help="the one user that it logs in as")
    part.add_argument("--cert", "--certificate", type=Path, metavar="FILE", help="an OpenSSH user certificate for it")
    _key_passphrase_option(part)
    passphrase_option(part)


def _key_passphrase_option(part: Parser) -> None:
    part.add_argument(
        "--key-passphrase-fd",
        type=int,
        metavar="N",
        help="ssh-key: read the passphrase of the key's file from descriptor N; without it the terminal asks",
    )


def _secret_option(part: Parser) -> None:
    part.add_argument(
        "--secret-fd", type=int, metavar="N", help="read the secret from descriptor N; without it the terminal asks"
    )


def add_credential(args: argparse.Namespace) -> int:
    asked: dict[str, Any] = {"name": args.name, "kind": args.kind, "targets": args.target, "private": args.private}
    asked |= {option: value for option in OPTIONS if (value := getattr(args, option)) is not None}
    if args.refresh:
        asked["refresh"] = True
    if args.interactive:
        asked["interactive"] = True
    if args.kind in ("mtls", "ssh-key") and args.secret_fd is None:
        raise usage("A key does not fit on one line.", field="--secret-fd", remedy="Give it by: --secret-fd 3 3< KEY")
    return with_secret(args, "credential.add", asked | certificate(args.cert), "is added")


def import_key(args: argparse.Namespace) -> int:
    name = args.name or args.file.name
    asked: dict[str, Any] = {"name": name, "kind": "ssh-key", "targets": args.target, **certificate(args.cert)}
    asked |= {option: value for option in ("approval", "username") if (value := getattr(args, option)) is not None}
    with operator.opened(args, offline=True) as open_call:
        key_passphrase = _key_passphrase(args)
        secret, others_may_read = read_key(args.file)
        found = _sealed(args, open_call, "credential.add", asked, secret, key_passphrase)
    status = told(args, found, f"{escape(name)} is added")
    if others_may_read:
        output.note(f"Note: {escape(str(args.file))} can be read by other users: chmod 600")
    output.note(f"Note: {escape(str(args.file))} is left as it is; any program of yours can still use it.")
    return status


def read_key(file: Path) -> tuple[bytearray, bool]:
    """A private key's file, and whether other users can read it."""
    content = bytearray(PEM_CHARS + 1)
    try:
        with open(file, "rb", buffering=0) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            size = opened.readinto(content)
    except OSError as error:
        raise usage(f"{file} cannot be read: {os.strerror(error.errno or 0)}.", field="FILE") from None
    if not 0 < size <= PEM_CHARS:
        passphrase.wipe(content)
        raise usage(f"{file} is no private key: it is empty or over {PEM_CHARS // 1024} KiB.", field="FILE")
    del content[size:]
    return content, bool(mode & 0o077)


def rotate(args: argparse.Namespace) -> int:
    asked = {"name": args.name, **certificate(args.cert)}
    return with_secret(args, "credential.rotate", asked, "has a new secret")


def certificate(file: Path | None) -> dict[str, str]:
    """The param `certificate`, where a file is named."""
    return {} if file is None else {"certificate": read_pem(file, "--cert")}


def read_pem(file: Path, option: str) -> str:
    """A PEM file's text."""
    try:
        with open(file, "rb") as opened:
            content = opened.read(PEM_CHARS + 1)
    except OSError as error:
        raise usage(f"{file} cannot be read: {os.strerror(error.errno or 0)}.", field=option) from None
    if len(content) > PEM_CHARS or not content.isascii():
        raise usage(f"{file} is no PEM file of at most {PEM_CHARS // 1024} KiB.", field=option)
    return content.decode("ascii")


def with_secret(args: argparse.Namespace, method: str, asked: Mapping[str, Any], what: str) -> int:
    """A call that takes a secret beside the passphrase; the passphrase is asked for first."""
    with operator.opened(args, offline=True) as open_call:
        key_passphrase = _key_passphrase(args)
        if args.secret_fd is not None:
            secret = passphrase.secret_from_fd(args.secret_fd, "--secret-fd")
        else:
            secret = passphrase.from_terminal(f"Secret of {escape(args.name)}:", "--secret-fd")
        found = _sealed(args, open_call, method, asked, secret, key_passphrase)
    return told(args, found, f"{escape(args.name)} {what}")


def _key_passphrase(args: argparse.Namespace) -> bytearray | None:
    """From its descriptor, where one is named."""
    fd = args.key_passphrase_fd
    return None if fd is None else passphrase.from_fd(fd, "--key-passphrase-fd")


def _sealed(
    args: argparse.Namespace,
    open_call: operator.Call,
    method: str,
    asked: Mapping[str, Any],
    secret: bytearray,
    key_passphrase: bytearray | None,
) -> dict[str, Any]:
    """The call with its secrets, which are overwritten. Where only the passphrase of a key's file is missing, the
    terminal is asked for it."""

    def call() -> dict[str, Any]:
        secrets = {"secret_base64": base64.b64encode(secret).decode()}
        if key_passphrase is not None:
            secrets["key_passphrase_base64"] = base64.b64encode(key_passphrase).decode()
        return open_call(method, {**asked, **secrets})

    try:
        try:
            return call()
        except Refusal as refusal:
            if refusal.field != "key_passphrase" or key_passphrase is not None:
                raise
            key_passphrase = passphrase.from_terminal("Passphrase of the key's file:", "--key-passphrase-fd")
        return call()
    finally:
        passphrase.wipe(secret)
        if key_passphrase is not None:
            passphrase.wipe(key_passphrase)


def remove(args: argparse.Namespace) -> int:
    found = operator.call_with_passphrase(args, "credential.remove", {"name": args.name}, offline=True)
    return told(args, found, f"{escape(args.name)} is removed")


def told(args: argparse.Namespace, found: Mapping[str, Any], sentence: str) -> int:
    return output.answer(found, credential_lines(found, sentence), as_json=args.json)


def credential_lines(found: Mapping[str, Any], sentence: str) -> Iterator[str]:
    version = f", version {found['version']}" if "version" in found else ""
    yield f"{sentence}{version}."
    options = found.get("options") or {}
    if options.get("public_key"):
        yield f"Its public key: {escape(options['public_key'])}"
        yield f"Its fingerprint: {escape(options['fingerprint'])}"
    expires = options.get("expires_at")
    if expires is not None:
        yield f"Its certificate expires {words.clock(expires)} UTC."


def list_credentials(args: argparse.Namespace) -> int:
    found = operator.call_with_passphrase(args, "credential.list", {}, offline=True)
    return output.answer(found, lines(found), as_json=args.json)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    rows = found["credentials"]
    if not rows:
        yield "No credentials yet. Add one: affidavit credential add --help"
        return
    cells = [
        (
            escape(row["name"]),
            escape(str(row["version"])),
            escape(row["kind"]),
            escape(row.get("approval") or "-"),
            words.clock((row.get("options") or {}).get("expires_at")),
            escape(" ".join(row["targets"])),
        )
        for row in rows
    ]
    yield from words.columns(cells, ("NAME", "VERSION", "KIND", "APPROVAL", "EXPIRES", "TARGETS"))
