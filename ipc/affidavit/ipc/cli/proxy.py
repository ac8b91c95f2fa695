"""`affidavit proxy`: the one way out for https targets, where the network asks for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import operator, output, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.escape import escape


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "The proxy through which https:// targets are reached (CONNECT). Loopback is always reached directly.\n"
        "Nothing is taken from the environment."
    )
    parser.epilog = example("affidavit proxy show")
    add = family(parser)
    part = add(
        "set",
        set_proxy,
        "use a proxy, in place of the last one",
        epilog=example("affidavit proxy set http://proxy.example.com:3128 --no-proxy '*.corp.example'"),
    )
    part.add_argument("url", metavar="URL", help="http:// or https://, host and port, and nothing else")
    part.add_argument("--credential", metavar="N", help="the credential it asks for: kind basic or bearer")
    part.add_argument(
        "--no-proxy",
        action="append",
        default=[],
        metavar="HOST",
        help="a host to reach directly; * is any text inside one label; may be repeated",
    )
    part.add_argument("--trusted", action="store_true", help="what it says of a failure (Proxy-Status) counts as proof")
    passphrase_option(part)
    passphrase_option(add("show", show, "the proxy in use", epilog=example("affidavit proxy show --json")))
    passphrase_option(add("off", off, "connect directly again", epilog=example("affidavit proxy off")))


def set_proxy(args: argparse.Namespace) -> int:
    asked: dict[str, Any] = {"url": args.url, "no_proxy": args.no_proxy, "trusted": args.trusted}
    if args.credential is not None:
        asked["credential"] = args.credential
    return answered(args, "proxy.set", asked)


def show(args: argparse.Namespace) -> int:
    return answered(args, "proxy.show", {})


def off(args: argparse.Namespace) -> int:
    return answered(args, "proxy.off", {})


def answered(args: argparse.Namespace, method: str, asked: Mapping[str, Any]) -> int:
    found = operator.call_with_passphrase(args, method, asked, offline=True)
    return output.answer(found, lines(found), as_json=args.json)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    if found["url"] is None:
        yield "No proxy: every target is reached directly."
        return
    yield f"https:// targets are reached through {escape(found['url'])}, set {words.clock(found['set_at'])} UTC."
    if found["credential"] is not None:
        yield f"Credential: {escape(found['credential'])}"
    if found["no_proxy"]:
        yield f"Reached directly: {escape(', '.join(found['no_proxy']))}"
    if found["trusted"]:
        yield "Its Proxy-Status counts as proof."
