"""`affidavit host`: the SSH hosts that agents can run commands on, and the keys that those hosts are known by."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import operator, output, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import usage
from affidavit.ipc.methods import HOST_KEY_POLICIES, TEXT_CHARS


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "SSH hosts. Each is known by its pinned keys alone, for exactly its address and port, and has one\n"
        "credential that logs in."
    )
    parser.epilog = example("affidavit host list")
    add = family(parser)
    part = add(
        "add",
        add_host,
        "add a host",
        epilog=example(
            "affidavit host add db --address db.example.com --user deploy --credential id_ed25519 \\\n"
            "      --host-key 'ssh-ed25519 AAAA...'"
        ),
    )
    part.add_argument("name", metavar="NAME", help="the name agents ask for")
    part.add_argument("--port", type=int, default=22, metavar="P", help="its port; without it 22")
    part.add_argument("--jump", metavar="NAME", help="the host entry through which it is reached")
    part.set_defaults(host_key_policy="strict")
    _entry(part, required=True)
    part = add(
        "edit",
        edit_host,
        "change a host; what is not named stays",
        epilog=example("affidavit host edit db --host-key 'ssh-ed25519 AAAA...' --forget-key SHA256:..."),
    )
    part.add_argument("name", metavar="NAME")
    part.add_argument("--port", type=int, metavar="P", help="its port")
    way = part.add_mutually_exclusive_group()
    way.add_argument("--jump", metavar="NAME", help="the host entry through which it is reached")
    way.add_argument("--no-jump", dest="jump", action="store_const", const="", help="it is reached directly")
    part.add_argument(
        "--forget-key", action="append", default=[], metavar="SHA256:...", help="a pinned key; may be repeated"
    )
    _entry(part, required=False)
    passphrase_option(add("list", list_hosts, "names, addresses, credentials and keys"))
    part = add("remove", remove, "remove a host", epilog=example("affidavit host remove db"))
    part.add_argument("name", metavar="NAME")
    passphrase_option(part)
    part = add(
        "import",
        import_file,
        "take host keys from a known_hosts, or hosts from an ssh_config",
        epilog=example("affidavit host import ~/.ssh/known_hosts"),
    )
    part.add_argument("file", type=Path, metavar="FILE", help="a known_hosts or ssh_config; what is skipped is named")
    part.add_argument("--credential", metavar="NAME", help="ssh_config: for hosts whose IdentityFile names none")
    part.add_argument("--user", metavar="U", help="ssh_config: for hosts that name no User")
    passphrase_option(part)


_EDITED = ("address", "port", "user", "credential", "jump")
"""Options of `edit` that go as they are."""


def _entry(part: Parser, *, required: bool) -> None:
    """The options that make an entry and change it in the same words."""
    part.add_argument("--address", required=required, metavar="H", help="a name or an IP address")
    part.add_argument("--user", required=required, metavar="U", help="the user to log in as")
    part.add_argument("--credential", required=required, metavar="NAME", help="of kind ssh-key or ssh-password")
    part.add_argument(
        "--host-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a key of the host, such as 'ssh-ed25519 AAAA...'; may be repeated",
    )
    part.add_argument(
        "--host-key-policy",
        choices=HOST_KEY_POLICIES,
        help="of a host without a known key: strict (the default) refuses it, accept-new shows its key on a card",
    )
    passphrase_option(part)


def add_host(args: argparse.Namespace) -> int:
    asked: dict[str, Any] = {
        "name": args.name,
        "address": args.address,
        "port": args.port,
        "user": args.user,
        "credential": args.credential,
        "host_keys": args.host_key,
        "policy": args.host_key_policy,
    }
    if args.jump is not None:
        asked["jump"] = args.jump
    found = operator.call_with_passphrase(args, "host.add", asked, offline=True)
    return output.answer(found, added(found), as_json=args.json)


def added(found: Mapping[str, Any]) -> Iterator[str]:
    """A host that is added, and its keys."""
    yield f"{escape(found['name'])} is added: {_way(found)}."
    yield from (f"  {_key(key)}" for key in found["host_keys"])


def edit_host(args: argparse.Namespace) -> int:
    asked = {name: value for name in _EDITED if (value := getattr(args, name)) is not None}
    asked |= {"name": args.name, "host_keys": args.host_key, "forget_keys": args.forget_key}
    if args.host_key_policy is not None:
        asked["policy"] = args.host_key_policy
    found = operator.call_with_passphrase(args, "host.edit", asked, offline=True)
    return output.answer(found, edited(found), as_json=args.json)


def edited(found: Mapping[str, Any]) -> Iterator[str]:
    """What a host is now, and which keys came and went."""
    yield f"{escape(found['name'])} is now: {_way(found)}, {escape(found['policy'])}."
    yield from _keys_changed(found)


def list_hosts(args: argparse.Namespace) -> int:
    found = operator.call_with_passphrase(args, "host.list", {}, offline=True)
    return output.answer(found, lines(found), as_json=args.json)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    rows = found["hosts"]
    if not rows:
        yield "No hosts yet. Add one: affidavit host add --help"
        return
    cells = [
        (
            escape(row["name"]),
            _login(row),
            escape(row["credential"]),
            escape(row["jump"] or "-"),
            escape(row["policy"]),
            "; ".join(map(_key, row["host_keys"])) or "-",
        )
        for row in rows
    ]
    yield from words.columns(cells, ("NAME", "LOGIN", "CREDENTIAL", "JUMP", "POLICY", "KEYS"))


def remove(args: argparse.Namespace) -> int:
    found = operator.call_with_passphrase(args, "host.remove", {"name": args.name}, offline=True)
    return output.answer(found, [f"{escape(args.name)} is removed."], as_json=args.json)


def import_file(args: argparse.Namespace) -> int:
    asked: dict[str, Any] = {"text": read_text(args.file)}
    asked |= {option: value for option in ("credential", "user") if (value := getattr(args, option)) is not None}
    found = operator.call_with_passphrase(args, "host.import", asked, offline=True)
    for skipped in () if args.json else found["skipped"]:
        what = f"{escape(skipped['what'])}: {escape(skipped['why'])}"
        output.note(f"Skipped, line {skipped['line']}: {what}")
    return output.answer(found, imported(found), as_json=args.json)


def imported(found: Mapping[str, Any]) -> Iterator[str]:
    """What an import did, a line each."""
    for row in found["added"]:
        yield f"{escape(row['name'])} is added: {_way(row)}."
    for row in found["changed"]:
        yield from _keys_changed(row)
        yield from (f"{escape(row['name'])}: revoked {_key(key)}" for key in row["revoked"])
    if not found["added"] and not found["changed"]:
        yield "Nothing is changed."


def read_text(file: Path) -> str:
    """A file's text; bytes that are no UTF-8 spoil only their line."""
    try:
        with open(file, "rb") as opened:
            content = opened.read(TEXT_CHARS + 1)
    except OSError as error:
        raise usage(f"{file} cannot be read: {os.strerror(error.errno or 0)}.", field="FILE") from None
    if not 0 < len(content) <= TEXT_CHARS:
        raise usage(f"{file} is empty or over {TEXT_CHARS // 1024} KiB.", field="FILE")
    return content.decode("utf-8", "replace")


def _keys_changed(row: Mapping[str, Any]) -> Iterator[str]:
    """The keys that a change pinned and removed, a line each."""
    for what in ("pinned", "removed"):
        yield from (f"{escape(row['name'])}: {what} {_key(key)}" for key in row[what])


def _way(row: Mapping[str, Any]) -> str:
    through = f" through {escape(row['jump'])}" if row["jump"] else ""
    return f"{_login(row)}{through}, with {escape(row['credential'])}"


def _login(row: Mapping[str, Any]) -> str:
    address = f"[{row['address']}]" if ":" in row["address"] else row["address"]
    return f"{escape(row['user'])}@{escape(address)}:{row['port']}"


def _key(key: Mapping[str, Any]) -> str:
    return f"{escape(key['algorithm'])} {escape(key['fingerprint'])}"
