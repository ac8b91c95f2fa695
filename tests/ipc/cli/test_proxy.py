"""`affidavit proxy`: what it sends, and what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

NONE: dict[str, Any] = {"url": None, "credential": None, "no_proxy": [], "trusted": False, "set_at": None}
PROXY: dict[str, Any] = {
    "url": "http://proxy.example.com:3128",
    "credential": "corp",
    "no_proxy": ["*.corp.example", "10.0.0.1"],
    "trusted": True,
    "set_at": "2026-11-30T14:32:07.000Z",
}
LINES = [
    "https:// targets are reached through http://proxy.example.com:3128, set 2026-11-30 14:32:07 UTC.",
    "Credential: corp",
    "Reached directly: *.corp.example, 10.0.0.1",
    "Its Proxy-Status counts as proof.",
]


def test_set_show_off(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("proxy.set", {"result": {**PROXY, "warnings": ["In clear\x1b."]}}, {"result": {**NONE, "url": "u"}})
    broker.answers("proxy.show", {"result": PROXY})
    broker.answers("proxy.off", {"result": NONE})
    hosts = ("--no-proxy", "*.corp.example", "--no-proxy", "10.0.0.1")
    ran = cli(
        "proxy", "set", PROXY["url"], "--credential", "corp", *hosts, "--trusted", "--passphrase-fd", cli.fd(b"pw")
    )
    assert (ran.status, ran.text.splitlines(), ran.err) == (0, LINES, "Note: In clear<U+001B>.\n")
    cli("proxy", "set", "http://p:1", "--passphrase-fd", cli.fd(b"pw"))
    assert broker.asked("proxy.set") == [
        {
            "url": PROXY["url"],
            "credential": "corp",
            "no_proxy": ["*.corp.example", "10.0.0.1"],
            "trusted": True,
            "passphrase": "pw",
        },
        {"url": "http://p:1", "no_proxy": [], "trusted": False, "passphrase": "pw"},
    ]
    assert cli("proxy", "show", "--passphrase-fd", cli.fd(b"pw")).text.splitlines() == LINES
    off = cli("proxy", "off", "--passphrase-fd", cli.fd(b"pw"))
    assert off.text == "No proxy: every target is reached directly.\n"


def test_json_is_the_brokers_answer(cli: Cli, broker: ScriptedBroker) -> None:
    for method, words in (("proxy.set", ("set", "http://p:1")), ("proxy.show", ("show",)), ("proxy.off", ("off",))):
        broker.answers(method, {"result": {"answer": method}})
        assert cli("proxy", *words, "--json", "--passphrase-fd", cli.fd(b"pw")).json == {"answer": method}
