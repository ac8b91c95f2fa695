"""`affidavit credential`: what the vault holds for agents to act with, and never shows again."""

from __future__ import annotations

import argparse
import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import exits, operator, output, passphrase, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import usage
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
    parser.description = "Credentials: added, listed, rotated, removed. A secret is never shown again."
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
        help="where it may be sent; * is one path segment, ** any number; may be repeated",
    )
    part.add_argument("--approval", choices=MODES, help="how its use is authorised; the strictest of those set holds")
    part.add_argument("--private", action="store_true", help="its names may lead to private and loopback addresses")
    part.add_argument("--header", metavar="H", help="header: the header's name; query: the parameter's name")
    part.add_argument("--format", metavar="TEXT", help="how the value is written, such as 'token {secret}'")
    part.add_argument("--username", metavar="U", help="basic: the user name")
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
        "--cert", type=Path, metavar="FILE", help="mtls: the certificate in PEM; the secret is its key in PEM"
    )
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
    part.add_argument("--cert", type=Path, metavar="FILE", help="mtls: the certificate that the new key belongs to")
    _secret_option(part)
    passphrase_option(part)
    part = add("remove", remove, "remove a credential", epilog=example("affidavit credential remove example"))
    part.add_argument("name", metavar="NAME")
    passphrase_option(part)


def _secret_option(part: Parser) -> None:
    part.add_argument(
        "--secret-fd", type=int, metavar="N", help="read the secret from descriptor N; without it the terminal asks"
    )


def add_credential(args: argparse.Namespace) -> int:
    asked: dict[str, Any] = {"name": args.name, "kind": args.kind, "targets": args.target, "private": args.private}
    asked |= {option: value for option in OPTIONS if (value := getattr(args, option)) is not None}
    if args.refresh:
        asked["refresh"] = True
    if args.kind == "mtls" and args.secret_fd is None:
        raise usage("A key does not fit on one line.", field="--secret-fd", remedy="Give it by: --secret-fd 3 3< KEY")
    return with_secret(args, "credential.add", asked | certificate(args.cert), "is added")


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
        if args.secret_fd is not None:
            secret = passphrase.secret_from_fd(args.secret_fd, "--secret-fd")
        else:
            secret = passphrase.from_terminal(f"Secret of {escape(args.name)}:", "--secret-fd")
        try:
            found = open_call(method, {**asked, "secret_base64": base64.b64encode(secret).decode()})
        finally:
            passphrase.wipe(secret)
    return told(args, found, f"{escape(args.name)} {what}")


def remove(args: argparse.Namespace) -> int:
    with operator.opened(args, offline=True) as open_call:
        found = open_call("credential.remove", {"name": args.name})
    return told(args, found, f"{escape(args.name)} is removed")


def told(args: argparse.Namespace, found: Mapping[str, Any], sentence: str) -> int:
    if args.json:
        output.say_json(found)
        return exits.DONE
    version = f", version {found['version']}" if "version" in found else ""
    output.say(f"{sentence}{version}.")
    expires = (found.get("options") or {}).get("expires_at")
    if expires is not None:
        output.say(f"Its certificate expires {words.clock(expires)} UTC.")
    for warning in found.get("warnings") or ():
        output.note(f"Note: {escape(str(warning))}")
    return exits.DONE


def list_credentials(args: argparse.Namespace) -> int:
    with operator.opened(args, offline=True) as open_call:
        found = open_call("credential.list", {})
    if args.json:
        output.say_json(found)
    else:
        for line in lines(found):
            output.say(line)
    return exits.DONE


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
